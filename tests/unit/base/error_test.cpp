#include "host/base/error.h"
#include "host/base/failure.h"

#include <catch2/catch.hpp>

#include <cerrno>
#include <cstdint>
#include <iterator>
#include <string>

namespace gshmem {
namespace {

// Written out, not generated: programs built against NVSHMEM compare with these numbers.
struct StatusLine {
  int code, value;
  const char* text;
};
constexpr StatusLine kStatusLines[] = {
    {GSHMEMX_SUCCESS, 0, "success"},
    {GSHMEMX_ERROR_INVALID_VALUE, 1, "invalid value"},
    {GSHMEMX_ERROR_OUT_OF_MEMORY, 2, "out of memory"},
    {GSHMEMX_ERROR_NOT_SUPPORTED, 3, "not supported"},
    {GSHMEMX_ERROR_SYMMETRY, 4, "arguments differ between PEs"},
    {GSHMEMX_ERROR_GPU_NOT_SELECTED, 5, "no GPU selected"},
    {GSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED, 6, "collective launch failed"},
    {GSHMEMX_ERROR_INTERNAL, 7, "internal error"},
    {GSHMEMX_ERROR_NOT_INITIALIZED, 8, "library is not initialized"},
    {GSHMEMX_ERROR_BOOTSTRAP, 9, "bootstrap failed"},
    {GSHMEMX_ERROR_CONFIG, 10, "bad configuration value"},
    {GSHMEMX_ERROR_TIMEOUT, 11, "timed out"},
    {GSHMEMX_ERROR_PEER_FAILED, 12, "another PE failed"},
    {GSHMEMX_ERROR_CUDA, 13, "CUDA driver call failed"},
    {GSHMEMX_ERROR_SYSTEM, 14, "operating system call failed"},
    {GSHMEMX_ERROR_NIC, 15, "network card reported an error"},
};

int fails_through_default_where() {
  try {
    require(false, GSHMEMX_ERROR_TIMEOUT, "late");
  } catch (const Error& error) {
    REQUIRE(std::string(error.where().file).find("error_test.cpp") != std::string::npos);
    return error.where().line;
  }
  return -1;
}

TEST_CASE("status_text_has_a_string_for_every_code") {
  for (const StatusLine& line : kStatusLines) {
    CHECK(line.code == line.value);
    CHECK(std::string(status_text(line.value)) == line.text);
  }
#define GSHMEM_COUNT(name, value, text) +1
  CHECK(std::size(kStatusLines) == 0 GSHMEM_STATUS_TABLE(GSHMEM_COUNT));
#undef GSHMEM_COUNT
}

TEST_CASE("ranks_are_named_up_to_eight_of_them") {
  CHECK(rank_list({3}) == "rank 3");
  CHECK(rank_list({1, 2}) == "ranks 1, 2");
  CHECK(rank_list({0, 1, 2, 3, 4, 5, 6, 7}) == "ranks 0, 1, 2, 3, 4, 5, 6, 7");
  CHECK(rank_list({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

TEST_CASE("a_bootstrap_that_timed_out_names_who_was_missing") {
  const JobFailure failure = failure_timeout("allgather", 2.5, {1, 3});
  CHECK(failure.code == GSHMEMX_ERROR_TIMEOUT);
  CHECK(failure.text ==
        "bootstrap allgather timed out after 2.5 s (GSHMEM_BOOTSTRAP_TIMEOUT): ranks 1, 3 did not "
        "take part");
  CHECK(failure_timeout("barrier", 2, {}).text ==
        "bootstrap barrier timed out after 2 s (GSHMEM_BOOTSTRAP_TIMEOUT): another rank did not "
        "take part");
}

TEST_CASE("status_text_of_other_numbers_is_unknown_status") {
  for (const int code : {-1, 16, 1000, INT32_MIN, INT32_MAX})
    CHECK(std::string(status_text(code)) == "unknown status");
}

TEST_CASE("error_keeps_code_text_and_place") {
  const Error error(GSHMEMX_ERROR_SYMMETRY, "sizes differ");
  const int line = __LINE__ - 1;
  CHECK(error.code() == GSHMEMX_ERROR_SYMMETRY);
  CHECK(std::string(error.what()) == "sizes differ");
  CHECK(error.where().line == line);
}

TEST_CASE("require_throws_only_when_false_and_points_at_its_caller") {
  CHECK_NOTHROW(require(true, GSHMEMX_ERROR_INTERNAL, "unused"));
  const int first = fails_through_default_where();
  CHECK(first > 0);
  CHECK(first < __LINE__);
}

TEST_CASE("require_makes_a_text_only_of_what_failed") {
  int made = 0;
  const auto text = [&] { return "text " + std::to_string(++made); };
  CHECK_NOTHROW(require(true, GSHMEMX_ERROR_INTERNAL, text));
  CHECK(made == 0);
  try {
    require(false, GSHMEMX_ERROR_INTERNAL, text);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "text 1");
    CHECK(error.where().line == __LINE__ - 4);
  }
}

TEST_CASE("check_errno_passes_results_and_throws_on_minus_one") {
  CHECK(check_errno(0, "call") == 0);
  CHECK(check_errno(7, "call") == 7);
  CHECK(check_errno(-2, "call") == -2);
  errno = ENOENT;
  try {
    check_errno(-1, "open(/nowhere)");
    FAIL("did not throw");
  } catch (const Error& error) {
    CHECK(error.code() == GSHMEMX_ERROR_SYSTEM);
    CHECK(std::string(error.what()) == "open(/nowhere): No such file or directory");
    CHECK(std::string(error.where().file).find("error_test.cpp") != std::string::npos);
  }
}

TEST_CASE("strprintf_formats_any_length") {
  CHECK(strprintf("%s", "").empty());
  CHECK(strprintf("%d of %s", 3, "seven") == "3 of seven");
  const std::string wide(100'000, 'x');
  CHECK(strprintf("<%s>", wide.c_str()) == "<" + wide + ">");
}

}  // namespace
}  // namespace gshmem
