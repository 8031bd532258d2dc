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

}  // namespace
}  // namespace gshmem
