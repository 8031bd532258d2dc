// The sockets between PEs of a host that are this thread, one after the other: in which order what
// they pass each other comes is up to the test.
#include "host/base/fd.h"
#include "host/base/shared_mapping.h"
#include "host/control/local_peers.h"
#include "tests/unit/control/local_host.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// Two PEs that are this thread, of which the second one has so many seconds for what it waits for.
struct Two {
  explicit Two(double seconds) : first(one_host(2, 0)), second(one_host(2, 1)) {
    const std::vector<control::LocalPeers::Contact> contacts{zero.open(), one.open()};
    links = one.connect(second, contacts, seconds);
    for (control::Link& link : zero.connect(first, contacts, 60)) links.push_back(std::move(link));
  }
  control::HostGroup first, second;
  control::LocalPeers zero, one;
  std::vector<control::Link> links;
};

ino_t file_of(const Fd& fd) {
  struct stat file;
  check_errno(::fstat(fd.get(), &file), "fstat");
  return file.st_ino;
}

}  // namespace

TEST_CASE("descriptor_0_is_passed_as_all_others_are") {
  Two pes(60);
  const Fd file = make_segment("gshmem-test", 1), before(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  REQUIRE(::dup2(file.get(), STDIN_FILENO) == STDIN_FILENO);
  (void)pes.zero.from_root(STDIN_FILENO);
  CHECK(file_of(pes.one.from_root(-1)) == file_of(file));
  if (before)
    (void)::dup2(before.get(), STDIN_FILENO);
  else
    ::close(STDIN_FILENO);
}

TEST_CASE("sockets_between_pes_are_not_inherited_by_other_programs") {
  const auto inherited = [] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      count += ::fcntl(std::stoi(entry.path().filename()), F_GETFD) == 0 ? 1 : 0;
    return count;
  };
  const int before = inherited();
  const Two pes(60);
  CHECK(pes.links.size() == 2);
  CHECK(inherited() == before);
}

TEST_CASE("what_has_come_counts_though_there_is_a_reason_to_give_up_or_the_time_is_over") {
  Two pes(0.05);
  const Fd file = make_segment("gshmem-test", 1);
  (void)pes.zero.from_root(file.get());
  pes.one.set_stopped([] { return std::string("PE 0 died"); });
  CHECK(file_of(pes.one.from_root(-1)) == file_of(file));
  // It comes while this PE looks for a reason, and that takes its time.
  pes.one.set_stopped([&] {
    (void)pes.zero.from_root(file.get());
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    return std::string();
  });
  CHECK(file_of(pes.one.from_root(-1)) == file_of(file));
}

TEST_CASE("who_is_behind_waits_for_nothing_that_has_come_before") {
  Two pes(60);
  const Fd file = make_segment("gshmem-test", 1);
  std::promise<void> is_ahead;
  pes.zero.set_stopped([&, told = false]() mutable {
    if (!std::exchange(told, true)) is_ahead.set_value();
    return std::string();
  });
  std::thread first([&] {
    (void)pes.zero.from_root(file.get());
    (void)pes.zero.exchange(file.get());
  });
  is_ahead.get_future().wait();
  int looks = 0;
  pes.one.set_stopped([&] {
    ++looks;
    return std::string();
  });
  (void)pes.one.from_root(-1);  // takes both letters in
  CHECK(pes.one.exchange(file.get()).size() == 2);
  CHECK(looks == 0);
  first.join();
}

TEST_CASE("pes_of_another_process_than_the_first_are_a_chain") {
  constexpr int kPes = 4;
  std::vector<control::HostGroup> groups;
  std::deque<control::LocalPeers> pes(kPes);
  std::vector<control::LocalPeers::Contact> contacts;
  for (int pe = 0; pe < kPes; ++pe) {
    groups.push_back(one_host(kPes, pe));
    contacts.push_back(pes[static_cast<std::size_t>(pe)].open());
  }
  ++contacts[0].process;  // as if it were in another one
  std::vector<std::vector<int>> linked;
  for (std::size_t pe = kPes; pe-- > 0;) {  // higher ones call lower ones
    linked.emplace_back();
    for (const control::Link& link : pes[pe].connect(groups[pe], contacts, 60))
      linked.back().push_back(link.pe);
    std::ranges::sort(linked.back());
  }
  CHECK(linked == std::vector<std::vector<int>>{{0, 2}, {0, 1, 3}, {0, 2}, {1, 2, 3}});
}

TEST_CASE("a_child_that_waits_for_its_parent_s_letters_is_told_that_it_has_no_socket") {
  Two pes(60);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    try {
      (void)pes.one.from_root(-1);
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("Bad file descriptor") != std::string::npos ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
