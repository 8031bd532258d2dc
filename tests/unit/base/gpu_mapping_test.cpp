#include "host/base/gpu_mapping.h"

#include "host/base/fd.h"
#include "host/base/log.h"
#include "tests/capture.h"
#include "tests/doubles/gdr_fixture.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

namespace gshmem {
namespace {

using test::Gdr;
using test::StderrCapture;

constexpr std::uint64_t kBytes = 1 << 20;

std::unique_ptr<GpuMapping> map(Switch policy, std::uint8_t* base, std::uint64_t bytes = kBytes) {
  return map_gpu_memory(policy, base, bytes, GDR_DOUBLE);
}

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Counts the lines of warnings that were written to stderr.
std::size_t warnings(StderrCapture& capture) {
  const std::vector<std::string> all = capture.writes();
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const std::string& line) {
        return line.find("GDRCopy does not map") != std::string::npos;
      }));
}

TEST_CASE("mapping_is_used_if_there_is_one_and_leaves_nothing_pinned") {
  const Gdr gdr;
  std::uint8_t* const gpu = gdr.allocate(kBytes);
  for (const Switch policy : {Switch::kAuto, Switch::kOn}) {
    CAPTURE(word_of(policy));
    const auto mapping = map(policy, gpu);
    REQUIRE(mapping != nullptr);
    CHECK(gdr->sessions == 1);
    CHECK(gdr->pins == 1);
    CHECK(gdr->mappings == 1);
  }
  CHECK(gdr->mapped == 2);
  CHECK(gdr.clean());
}

TEST_CASE("all_sizes_and_alignments_are_written_and_read_by_the_mapping_only") {
  const Gdr gdr;
  std::uint8_t* const gpu = gdr.allocate(kBytes);
  const auto mapping = map(Switch::kOn, gpu);
  std::vector<std::uint8_t> data(300), back(300);
  for (std::size_t bytes = 0; bytes <= 72; ++bytes) {
    for (std::uint64_t at = 0; at <= 17; ++at) {
      CAPTURE(bytes, at);
      std::iota(data.begin(), data.end(), static_cast<std::uint8_t>(bytes * 7 + at + 1));
      std::memset(gpu, 0xee, 256);
      // An access by the address of the GPU would end the process from here on.
      REQUIRE(mprotect(gpu, kBytes, PROT_NONE) == 0);
      mapping->write(64 + at, data.data(), bytes);
      mapping->settle(64 + at);
      std::fill(back.begin(), back.end(), std::uint8_t{0});
      mapping->read(64 + at, back.data(), bytes);
      REQUIRE(mprotect(gpu, kBytes, PROT_READ | PROT_WRITE) == 0);
      REQUIRE(std::equal(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(bytes),
                         gpu + 64 + at));
      REQUIRE(std::equal(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(bytes),
                         back.begin()));
      REQUIRE(gpu[63 + at] == 0xee);
      REQUIRE(gpu[64 + at + bytes] == 0xee);
      REQUIRE(back[bytes] == 0);
    }
  }
  mapping->write(kBytes - 1, data.data(), 1);
  mapping->write(kBytes - 9, data.data(), 9);
  CHECK(gdr->violations.empty());
}

TEST_CASE("polled_words_are_stored_whole_and_not_by_the_library") {
  const Gdr gdr;
  std::uint8_t* const gpu = gdr.allocate(kBytes);
  const auto mapping = map(Switch::kOn, gpu);
  const std::uint64_t value = 0x1122334455667788;
  std::uint64_t back = 0;
  for (const std::size_t bytes : {2u, 4u, 8u}) {
    mapping->write(bytes * 8, &value, bytes);
    mapping->read(bytes * 8, &back, bytes);
    CHECK(std::memcmp(&back, &value, bytes) == 0);
  }
  CHECK(gdr->copies_to == 0);
  CHECK(gdr->copies_from == 0);
  mapping->write(9, &value, 8);  // not aligned: no thread polls it
  mapping->read(9, &back, 8);
  CHECK(gdr->copies_to == 1);
  CHECK(gdr->copies_from == 1);
  CHECK(mapping->load(64, 8) == value);
  CHECK(mapping->load(64, 4) == 0x55667788);
  CHECK(mapping->load(66, 2) == 0x5566);
  CHECK(mapping->load(71, 1) == 0x11);
}

TEST_CASE("a_read_at_any_address_settles_earlier_writes") {
  const Gdr gdr;
  const auto mapping = map(Switch::kOn, gdr.allocate(kBytes));
  for (const std::uint64_t at : {64u, 65u}) {
    const pid_t child = ::fork();
    if (child == 0) {
      (void)std::signal(SIGSEGV, SIG_DFL);
      if (::mprotect(gdr->view, kBytes, PROT_NONE) == 0) mapping->settle(at);
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status != 0);  // the child has read the memory
  }
}

TEST_CASE("absence_is_silent_under_auto_and_an_error_under_on") {
  const Gdr gdr;
  std::uint8_t* const gpu = gdr.allocate(kBytes);
  StderrCapture capture;
  CHECK(map_gpu_memory(Switch::kAuto, gpu, kBytes, "libgdrapi_of_nowhere.so.2") == nullptr);
  gdr->no_driver = true;
  CHECK(map(Switch::kAuto, gpu) == nullptr);
  CHECK(capture.writes().empty());
  log_configure(LogLevel::kInfo, "");
  CHECK(map(Switch::kAuto, gpu) == nullptr);
  log_configure(LogLevel::kWarn, "");
  const std::vector<std::string> said = capture.writes();
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0],
             Catch::Contains("INFO: no GDRCopy, the copy engine serves the host: gdr_open"));
  const std::string library =
      message([&] { (void)map_gpu_memory(Switch::kOn, gpu, kBytes, "libgdrapi_of_nowhere.so.2"); });
  CHECK_THAT(library,
             Catch::StartsWith("GSHMEM_GDRCOPY=on: cannot load libgdrapi_of_nowhere.so.2") &&
                 Catch::Contains("GSHMEM_GDRCOPY=auto"));
  const bool driver = Fd(::open("/dev/gdrdrv", O_RDWR | O_CLOEXEC)).get() >= 0;
  CHECK_THAT(message([&] { (void)map(Switch::kOn, gpu); }),
             Catch::StartsWith(std::string("GSHMEM_GDRCOPY=on: gdr_open failed") +
                               (driver ? ", although /dev/gdrdrv can be" : ": /dev/gdrdrv: ")));
  CHECK(gdr.clean());
}

TEST_CASE("failures_warn_once_under_auto_name_the_call_under_on_and_undo_earlier_steps") {
  const Gdr gdr;
  std::uint8_t* const gpu = gdr.allocate(kBytes);
  StderrCapture capture;
  const auto each = [&](int& rule, int code, const char* call) {
    CAPTURE(call);
    rule = code;
    CHECK(map(Switch::kAuto, gpu) == nullptr);
    CHECK_THAT(message([&] { (void)map(Switch::kOn, gpu); }),
               Catch::StartsWith(std::string("GSHMEM_GDRCOPY=on: ") + call) &&
                   Catch::Contains("error " + std::to_string(code) + " (") &&
                   Catch::Contains("GSHMEM_SYMMETRIC_SIZE"));
    CHECK(gdr.clean());
    rule = 0;
  };
  each(gdr->pin_error, ENOMEM, "gdr_pin_buffer");
  each(gdr->info_error, EINVAL, "gdr_get_info_v2");
  each(gdr->map_error, EAGAIN, "gdr_map");
  CHECK(warnings(capture) == 1);
  CHECK(map(Switch::kAuto, gpu) != nullptr);
}

}  // namespace
}  // namespace gshmem
