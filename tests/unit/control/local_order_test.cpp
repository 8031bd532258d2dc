// The sockets between PEs of a host that are this thread, one after the other: in which order what
// they pass each other comes is up to the test.
#include "host/base/error.h"
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

/// PEs that are this thread, of which all but the first have so many seconds for what they wait
/// for.
struct Pes {
  explicit Pes(int n, double seconds = 60) : peers(static_cast<std::size_t>(n)) {
    std::vector<control::LocalPeers::Contact> contacts;
    for (int pe = 0; pe < n; ++pe) {
      groups.push_back(one_host(n, pe));
      contacts.push_back(peers[static_cast<std::size_t>(pe)].open());
    }
    for (std::size_t pe = peers.size(); pe-- > 0;) {  // higher ones call lower ones
      for (control::Link& link : peers[pe].connect(groups[pe], contacts, pe > 0 ? seconds : 60))
        links.push_back(std::move(link));
    }
  }
  control::LocalPeers& operator[](std::size_t pe) { return peers[pe]; }
  std::deque<control::HostGroup> groups;
  std::deque<control::LocalPeers> peers;
  std::vector<control::Link> links;
};

ino_t file_of(const Fd& fd) {
  struct stat file;
  check_errno(::fstat(fd.get(), &file), "fstat");
  return file.st_ino;
}

}  // namespace

TEST_CASE("descriptor_0_is_passed_as_all_others_are") {
  const Fd before(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!before) return;  // it may be anybody's
  Pes pes(2);
  const Fd file = make_segment("gshmem-test", 1);
  REQUIRE(::dup2(file.get(), STDIN_FILENO) == STDIN_FILENO);
  (void)pes[0].from_root(STDIN_FILENO);
  CHECK(file_of(pes[1].from_root(-1)) == file_of(file));
  CHECK(::dup2(before.get(), STDIN_FILENO) == STDIN_FILENO);
}

TEST_CASE("sockets_between_pes_are_not_inherited_by_other_programs") {
  const auto inherited = [] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      count += ::fcntl(std::stoi(entry.path().filename()), F_GETFD) == 0 ? 1 : 0;
    return count;
  };
  const int before = inherited();
  const Pes pes(2);
  CHECK(pes.links.size() == 2);
  CHECK(inherited() == before);
}

TEST_CASE("what_has_come_counts_though_there_is_a_reason_to_give_up_or_the_time_is_over") {
  Pes pes(2, 0.05);
  const Fd file = make_segment("gshmem-test", 1);
  (void)pes[0].from_root(file.get());
  pes[1].set_stopped([] { return std::string("PE 0 died"); });
  CHECK(file_of(pes[1].from_root(-1)) == file_of(file));
  // It comes while this PE looks for a reason, and that takes its time.
  pes[1].set_stopped([&] {
    (void)pes[0].from_root(file.get());
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    return std::string();
  });
  CHECK(file_of(pes[1].from_root(-1)) == file_of(file));
}

TEST_CASE("who_is_behind_waits_for_nothing_that_has_come_before") {
  Pes pes(2);
  const Fd file = make_segment("gshmem-test", 1);
  std::promise<void> is_ahead;
  pes[0].set_stopped([&, told = false]() mutable {
    if (!std::exchange(told, true)) is_ahead.set_value();
    return std::string();
  });
  std::thread first([&] {
    (void)pes[0].from_root(file.get());
    (void)pes[0].exchange(file.get());
  });
  is_ahead.get_future().wait();
  int looks = 0;
  pes[1].set_stopped([&] {
    ++looks;
    return std::string();
  });
  (void)pes[1].from_root(-1);  // takes both letters in
  CHECK(pes[1].exchange(file.get()).size() == 2);
  CHECK(looks == 0);
  first.join();
}

TEST_CASE("a_pe_passes_one_letter_more_than_it_has_got") {
  Pes pes(3);
  const Fd file = make_segment("gshmem-test", 1);
  for (std::size_t pe : {0u, 2u}) pes[pe].set_stopped([] { return std::string("enough"); });
  CHECK_THROWS_WITH(pes[0].exchange(file.get()), "enough");
  CHECK(file_of(pes[1].from_root(-1)) == file_of(file));
  CHECK_THROWS_WITH(pes[2].from_root(-1), "enough");  // there is none for it
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
  Pes pes(2);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    try {
      (void)pes[1].from_root(-1);
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("Bad file descriptor") != std::string::npos ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
