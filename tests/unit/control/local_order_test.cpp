// Tests the sockets between PEs of a host in one thread, which runs the PEs one after the other. So
// the test decides in which order their messages arrive.
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

/// Several PEs in this thread; all but the first have the given time limit, in seconds.
struct Pes {
  explicit Pes(int n, double seconds = 60) : peers(static_cast<std::size_t>(n)) {
    std::vector<control::LocalPeers::Contact> contacts;
    for (int pe = 0; pe < n; ++pe) {
      groups.push_back(one_host(n, pe));
      contacts.push_back(peers[static_cast<std::size_t>(pe)].open());
    }
    for (std::size_t pe = peers.size(); pe-- > 0;) {  // higher ones connect to lower ones
      for (control::Link& link : peers[pe].connect(groups[pe], contacts, pe > 0 ? seconds : 60))
        links.push_back(std::move(link));
    }
  }
  control::LocalPeers& operator[](std::size_t pe) { return peers[pe]; }
  std::deque<control::HostGroup> groups;
  std::deque<control::LocalPeers> peers;
  std::vector<control::Link> links;
};

}  // namespace

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

TEST_CASE("pes_of_another_process_than_the_first_are_a_chain") {
  constexpr int kPes = 4;
  std::vector<control::HostGroup> groups;
  std::deque<control::LocalPeers> pes(kPes);
  std::vector<control::LocalPeers::Contact> contacts;
  for (int pe = 0; pe < kPes; ++pe) {
    groups.push_back(one_host(kPes, pe));
    contacts.push_back(pes[static_cast<std::size_t>(pe)].open());
  }
  ++contacts[0].process;  // as if it were in another process
  std::vector<std::vector<int>> linked;
  for (std::size_t pe = kPes; pe-- > 0;) {  // higher ones connect to lower ones
    linked.emplace_back();
    for (const control::Link& link : pes[pe].connect(groups[pe], contacts, 60))
      linked.back().push_back(link.pe);
    std::ranges::sort(linked.back());
  }
  CHECK(linked == std::vector<std::vector<int>>{{0, 2}, {0, 1, 3}, {0, 2}, {1, 2, 3}});
}

TEST_CASE("a_child_that_waits_for_its_parent_s_messages_gets_an_error") {
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
