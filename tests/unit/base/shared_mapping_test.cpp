// Memory that processes share: once in a process, where it was asked for, and gone after its last
// user. What a process may have open of descriptors.
#include "host/base/fd.h"
#include "host/base/error.h"
#include "host/base/shared_mapping.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <string>

using namespace gshmem;

namespace {

constexpr std::uint64_t kBytes = 3 * 65536, kAlignment = std::uint64_t{1} << 30;

/// Of addresses that this process has in use.
std::uint64_t address_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}
bool is_mapped(void* page) { return ::msync(page, 1, MS_ASYNC) == 0 || errno != ENOMEM; }

}  // namespace

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

TEST_CASE("mappings_that_have_gone_leave_nothing_in_memory") {
  constexpr std::size_t kTimes = 2000;
  const auto map_one = [] { (void)map_shared(make_segment("gshmem-test", 4096), 4096, 4096); };
  map_one();
  const std::size_t before = ::mallinfo2().uordblks;
  for (std::size_t i = 0; i < kTimes; ++i) map_one();
  CHECK(::mallinfo2().uordblks < before + 16 * kTimes);
}

TEST_CASE("memory_in_place_of_a_part_is_there_until_its_last_user_has_gone") {
  constexpr std::uint64_t kAt = 65536;
  const Fd segment = make_segment("gshmem-test", kBytes),
           other = make_segment("gshmem-test", kBytes);
  const auto mapping = map_shared(segment, kBytes, kAlignment);
  // What can be read there: the byte that the other file has at its page 1; -1: nothing.
  const auto found = [&](std::uint64_t at) {
    char byte = 0;
    const Fd read = make_segment("gshmem-test", 1);
    if (::pwrite(read.get(), mapping->base() + at, 1, 0) != 1) return -1;
    return ::pread(read.get(), &byte, 1, 0) == 1 ? int{byte} : -2;
  };
  REQUIRE(::pwrite(other.get(), "\5", 1, kAt) == 1);
  for (int user = 0; user < 2; ++user) mapping->place(kAt, kAt, other, kAt);
  CHECK(found(kAt) == 5);
  mapping->clear(kAt);
  CHECK(found(kAt) == 5);
  mapping->clear(kAt);
  CHECK(found(kAt) == -1);
  CHECK(found(2 * kAt - 1) == -1);
  CHECK(found(kAt - 1) == 0);
  CHECK(found(2 * kAt) == 0);
  mapping->clear(kAt);  // nothing, once more
  CHECK_THROWS_WITH(mapping->place(kAt, kAt, Fd(), 0),
                    "mmap of 65536 bytes of a file: Bad file descriptor");
  mapping->place(kAt, kAt, other, kAt);  // as if nothing had been
  CHECK(found(kAt) == 5);
}

TEST_CASE("a_segment_that_cannot_be_mapped_is_an_error_and_leaves_no_address_behind") {
  const Fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::uint64_t before = address_bytes();
  CHECK_THROWS_WITH(map_shared(nothing, 65536, kAlignment),
                    "mmap of a segment of 65536 bytes: No such device");
  CHECK(address_bytes() - before < kAlignment / 2);
  const std::uint64_t many = std::uint64_t{1} << 60;
  CHECK_THROWS_WITH(map_shared(nothing, many, 65536),
                    strprintf("cannot reserve %lu bytes of addresses", many + 65536));
  CHECK_THROWS_WITH(map_shared(Fd(), 1, 1), "fstat: Bad file descriptor");
}

TEST_CASE("a_shortage_is_one_of_descriptors_or_memory") {
  std::set<int> short_of;
  for (int error = 0; error < 200; ++error)
    if (is_shortage(error)) short_of.insert(error);
  CHECK(short_of == std::set<int>{EMFILE, ENFILE, ENOBUFS, ENOMEM});
}

TEST_CASE("the_limit_of_descriptors_is_raised_to_the_hard_one_where_more_are_needed") {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto limited = [](rlim_t soft) {
      const rlimit limit{soft, 900};
      return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && descriptor_limit() == soft;
    };
    if (!limited(7) || stranger_limit() != 1) ::_exit(1);
    if (!limited(800) || stranger_limit() != 64) ::_exit(2);
    if (!limited(100) || stranger_limit() != 12) ::_exit(3);
    if (descriptor_limit_text() != "this process may have 100 descriptors open (ulimit -n)")
      ::_exit(4);
    if (raise_descriptor_limit(100) || descriptor_limit() != 100) ::_exit(5);
    if (!raise_descriptor_limit(101) || descriptor_limit() != 900) ::_exit(6);
    ::_exit(raise_descriptor_limit(901) ? 7 : 0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
