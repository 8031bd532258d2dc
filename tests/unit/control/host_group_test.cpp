#include "host/control/host_group.h"

#include "tests/bootstrap/run_ranks.h"
#include "tests/capture.h"

#include <catch2/catch.hpp>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace gshmem::control;

namespace {

using Hosts = std::vector<std::string>;
using Pes = std::vector<int>;

void check_place(const HostGroup& group, int node_rank, int node_size, int node, int n_nodes) {
  const auto mine = std::find(group.same_index.begin(), group.same_index.end(), group.me());
  CHECK(group.index == node_rank);
  CHECK(group.size() == node_size);
  CHECK(mine - group.same_index.begin() == node);
  CHECK(group.same_index.size() == static_cast<std::size_t>(n_nodes));
}

}  // namespace

TEST_CASE("block_placement_fills_host_after_host") {
  const Hosts hosts{"a", "a", "a", "b", "b", "b"};
  for (int me = 0; me < 6; ++me) {
    const HostGroup group = group_hosts(hosts, me);
    CHECK(group.pes == (me < 3 ? Pes{0, 1, 2} : Pes{3, 4, 5}));
    CHECK(group.node == me / 3);
    CHECK(group.me() == me);
    CHECK(group.leaders == Pes{0, 3});
    CHECK(group.hosts == Hosts{"a", "b"});
    CHECK(group.same_index == Pes{me % 3, me % 3 + 3});
    CHECK(group.host_of(5) == "b");
    check_place(group, me % 3, 3, me / 3, 2);
  }
}

TEST_CASE("irregular_placement_counts_only_hosts_that_have_the_index") {
  // Host b has one PE, so the second PEs of hosts a and c are neighbours in their team.
  const Hosts hosts{"a", "b", "c", "c", "a", "c"};
  const HostGroup group = group_hosts(hosts, 3);
  CHECK(group.pes == Pes{2, 3, 5});
  CHECK(group.node == 2);
  CHECK(group.same_index == Pes{4, 3});
  check_place(group, 1, 3, 1, 2);
  check_place(group_hosts(hosts, 1), 0, 1, 1, 3);
}

TEST_CASE("local_groups_are_hosts_or_parts_of_them") {
  const Hosts hosts{"x", "y", "x", "z", "y", "x"};
  for (int me = 0; me < 6; ++me) {
    const HostGroup group = group_hosts(hosts, me);
    CHECK(local_groups(group, 0) == Pes{0, 1, 0, 2, 1, 0});
    CHECK(local_groups(group, 2) == Pes{0, 1, 0, 2, 1, 3});
    CHECK(local_groups(group, 1) == Pes{0, 1, 2, 3, 4, 5});
  }
}

namespace {

void only_as_root() {
  if (geteuid() == 0) return;
  std::puts("skipped: only root can be another user, or be without /proc");
  std::fflush(stdout);
  std::_Exit(0);
}

void expect(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error(what);
}

}  // namespace

TEST_CASE("a_host_is_identified_by_its_name") {
  char name[256] = "";
  REQUIRE(gethostname(name, sizeof(name) - 1) == 0);
  CHECK(host_identity().find(std::string(name) + " (boot ") == 0);
}

TEST_CASE("host_without_proc_gets_a_warning") {
  only_as_root();
  CHECK(gshmem::test::run_processes(1, [](int) {
          gshmem::test::StderrCapture capture;
          (void)host_identity();
          expect(capture.writes().empty(), "no warning with /proc");
          if (unshare(CLONE_NEWNS) != 0 ||
              mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
              mount("none", "/proc", "tmpfs", 0, nullptr) != 0)
            return;  // no permission
          (void)host_identity();
          const auto writes = capture.writes();
          std::filesystem::create_directories("/proc/sys/kernel/random");  // without its file
          std::ofstream("/proc/sys/kernel/random/boot_id") << "0123456789";
          const std::string half = host_identity();
          const auto more = capture.writes();
          (void)umount2("/proc", MNT_DETACH);  // leak checkers read it
          expect(writes.size() == 1 && writes[0].find("/proc does not tell") != std::string::npos,
                 "a warning without /proc");
          expect(half.find("(boot 01234567, net 0,") != std::string::npos, half);
          expect(more.size() == 1, "a warning without a network namespace");
        }) == "");
}
