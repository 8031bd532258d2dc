#include "host/base/dynamic_library.h"

#include <catch2/catch.hpp>

#include <string>
#include <utility>

namespace gshmem {
namespace {

constexpr const char* kLibrary = "libm.so.6";

TEST_CASE("library_finds_its_symbols") {
  const DynamicLibrary library(kLibrary);
  REQUIRE(library);
  REQUIRE(library.find("sqrt") != nullptr);
  auto* const root = library.function<double(double)>("sqrt");
  CHECK(root(9.0) == 3.0);
}

TEST_CASE("library_finds_symbols_of_a_version") {
  const DynamicLibrary library(kLibrary);
  CHECK(library.find("exp", "GLIBC_2.29") != nullptr);
  CHECK(library.find("exp", "GLIBC_2.29") != library.find("exp", "GLIBC_2.2.5"));
  CHECK(library.find("exp", "GLIBC_9.99") == nullptr);
  CHECK(DynamicLibrary().find("exp", "GLIBC_2.29") == nullptr);
}

TEST_CASE("folder_of_code_is_where_the_program_lies") {
  const std::string folder = folder_of_code(reinterpret_cast<const void*>(&folder_of_code));
  CHECK(folder.front() == '/');
  CHECK(folder.substr(folder.size() - 4) == "/bin");
  CHECK(folder_of_code(nullptr).empty());
}

TEST_CASE("missing_library_is_not_supported_and_names_it") {
  try {
    const DynamicLibrary library("libgshmem_of_nowhere.so.1");
    FAIL("did not throw");
  } catch (const Error& error) {
    const std::string what = error.what();
    CHECK(error.code() == GSHMEMX_ERROR_NOT_SUPPORTED);
    CHECK(what.find("cannot load libgshmem_of_nowhere.so.1: ") == 0);
    CHECK(what.find("No such file") != std::string::npos);
    CHECK(std::string(error.where().file).find("dynamic_library_test.cpp") != std::string::npos);
  }
}

TEST_CASE("missing_symbol_is_not_supported_and_names_both") {
  const DynamicLibrary library(kLibrary);
  CHECK(library.find("gshmem_no_such_symbol") == nullptr);
  try {
    (void)library.function<void()>("gshmem_no_such_symbol");
    FAIL("did not throw");
  } catch (const Error& error) {
    CHECK(error.code() == GSHMEMX_ERROR_NOT_SUPPORTED);
    CHECK(std::string(error.what()) == "libm.so.6 has no symbol gshmem_no_such_symbol");
  }
}

TEST_CASE("empty_library_has_no_symbols") {
  const DynamicLibrary none;
  CHECK_FALSE(none);
  // "malloc" is in the process: an empty library must not find it there.
  CHECK(none.find("malloc") == nullptr);
  CHECK_THROWS_AS(none.function<void()>("malloc"), Error);
}

TEST_CASE("library_moves_and_leaves_the_source_empty") {
  DynamicLibrary first(kLibrary);
  DynamicLibrary second(std::move(first));
  CHECK_FALSE(first);  // NOLINT(bugprone-use-after-move): empty is the contract
  CHECK(second.find("sqrt") != nullptr);
  first = std::move(second);
  CHECK(first.find("sqrt") != nullptr);
  CHECK_FALSE(second);  // NOLINT(bugprone-use-after-move)
}

}  // namespace
}  // namespace gshmem
