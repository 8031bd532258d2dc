// Tests memory that processes share: it is mapped once per process, at the requested address, and
// freed after its last user. Tests the limit of open descriptors, too.
#include "host/base/fd.h"
#include "host/base/error.h"
#include "host/base/shared_mapping.h"
#include "host/base/thread.h"
#include "tests/sanitizers/sanitizers.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>

using namespace gshmem;

namespace {

constexpr std::uint64_t kBytes = 3 * 65536, kAlignment = std::uint64_t{1} << 30;

/// Returns the bytes of address space that this process has in use.
std::uint64_t address_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}
bool is_mapped(void* page) { return ::msync(page, 1, MS_ASYNC) == 0 || errno != ENOMEM; }

}  // namespace

// ftruncate(2) raised SIGXFSZ, which ended the process without a message.
TEST_CASE("a_segment_beyond_the_limit_of_file_sizes_is_an_error_that_names_it") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{kBytes - 1, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK_THROWS_WITH(make_segment("test", kBytes), Catch::Contains("RLIMIT_FSIZE (ulimit -f)"));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(make_segment("test", kBytes));
}

TEST_CASE("a_segment_is_mapped_once_and_leaves_no_address_behind") {
  const Fd segment = make_segment("gshmem-test", kBytes), other = make_segment("gshmem-test", 1);
  CHECK((::fcntl(segment.get(), F_GETFD) & FD_CLOEXEC) != 0);
  struct stat file {};
  REQUIRE(::fstat(segment.get(), &file) == 0);
  CHECK(file.st_size == kBytes);
  const std::uint64_t before = address_bytes();
  std::shared_ptr<SharedMapping> mapping = map_shared(segment, kBytes, kAlignment);
  char* const base = mapping->base();
  CHECK(reinterpret_cast<std::uintptr_t>(base) % kAlignment == 0);
  const Fd again(::fcntl(segment.get(), F_DUPFD_CLOEXEC, 0));
  CHECK(map_shared(again, kBytes, kAlignment) == mapping);
  CHECK(map_shared(other, 1, 1 << 16) != mapping);
  base[kBytes - 1] = 7;
  char byte = 0;
  CHECK(::pread(segment.get(), &byte, 1, kBytes - 1) == 1);
  CHECK(byte == 7);
  CHECK(address_bytes() - before < kAlignment + kAlignment / 2);
  mapping.reset();
  CHECK_FALSE(is_mapped(base));
  CHECK(address_bytes() - before < kAlignment / 2);
}

TEST_CASE("a_segment_that_cannot_be_mapped_is_an_error_and_leaves_no_address_behind") {
  const Fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::uint64_t before = address_bytes();
  CHECK_THROWS_WITH(map_shared(nothing, 65536, kAlignment),
                    "mmap of a segment of 65536 bytes: No such device");
  CHECK(address_bytes() - before < kAlignment / 2);
  const std::uint64_t many = std::uint64_t{1} << 60;
  CHECK_THROWS_WITH(
      map_shared(nothing, many, 65536),
      Catch::StartsWith("cannot reserve " + std::to_string(many + 65536) + " bytes") &&
          Catch::Contains(" of addresses: Cannot allocate memory"));
  CHECK_THROWS_WITH(map_shared(Fd(), 1, 1), "fstat: Bad file descriptor");
}

TEST_CASE("a_limit_of_addresses_that_is_reached_is_named_with_the_ways_out") {
  if (kSanitized) {
    std::puts("skipped: sanitizers need addresses themselves");
    return;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit few{address_bytes() + kAlignment, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_AS, &few) != 0) ::_exit(1);
    const std::string limit = size_text(few.rlim_cur);
    try {
      (void)map_shared(make_segment("test", kBytes), kBytes, 4 * kAlignment);
    } catch (const Error& error) {
      const std::string text = error.what();
      for (const std::string& part : {std::string("of addresses: Cannot allocate memory"),
                                      "RLIMIT_AS (ulimit -v) allows this process " + limit,
                                      std::string("GSHMEM_SYMMETRIC_SIZE")}) {
        if (text.find(part) == std::string::npos) ::_exit(2);
      }
      ::_exit(0);
    }
    ::_exit(3);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a_limit_of_descriptors_or_threads_that_is_reached_is_named") {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit few{100, 100}, one{1, 1};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0 || !descriptors_used_up_text().empty()) ::_exit(1);
    while (::dup(STDERR_FILENO) >= 0) {
    }
    if (descriptors_used_up_text() != "; no descriptor is left: " + descriptor_limit_text())
      ::_exit(2);
    // Sanitizers open files when a thread starts.
    for (int fd = 3; fd < 100; ++fd) ::close(fd);
    (void)::setrlimit(RLIMIT_NPROC, &one);
    if (::getuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(3);
    try {
      start_thread([] {}).join();
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("RLIMIT_NPROC") != std::string::npos ? 0 : 4);
    }
    ::_exit(5);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
