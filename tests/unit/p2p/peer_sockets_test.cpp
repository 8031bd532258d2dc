// The sockets between PEs of a host, PEs being processes: that they pass descriptors whatever
// limits there are, and what they say when they cannot.
#include "transport/p2p/peer_sockets.h"

#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/sanitizers/sanitizers.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// To see whether an object may be looked at, UBSan makes pipes: without descriptors none may.
bool objects_need_descriptors() {
  if (kUnderAsan) std::puts("skipped: UBSan, which is built in with ASan, needs descriptors");
  return kUnderAsan;
}

p2p::HostGroup one_host(int size, int me) {
  return p2p::group_hosts(std::vector<std::string>(static_cast<std::size_t>(size), "host"), me);
}

/// This process may open `more` descriptors and no further ones.
void leave_descriptors(int more) {
  rlimit limit{};
  check_errno(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
  std::vector<Fd> taken;  // the lowest that are free, whatever holes there are
  for (int i = 0; i <= more; ++i)
    taken.emplace_back(static_cast<int>(check_errno(open("/dev/null", O_RDONLY), "open")));
  limit.rlim_cur = static_cast<rlim_t>(taken.back().get());
  check_errno(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
}

/// A descriptor that says whose it is.
Fd pipe_with(int number) {
  int ends[2];
  check_errno(pipe(ends), "pipe");
  const Fd in(ends[1]);
  check_errno(write(in.get(), &number, sizeof number), "write");
  return Fd(ends[0]);
}

int number_in(const Fd& fd) {
  int number = -1;
  check_errno(read(fd.get(), &number, sizeof number), "read");
  return number;
}

/// `body(sockets, rank, boot)` on PEs of one host.
std::string run_pes(int size, double timeout_seconds,
                    const std::function<void(p2p::PeerSockets&, bootstrap::Bootstrap&)>& body) {
  IdChannel channel;
  return run_processes(size, [&](int rank) {
    const auto boot = channel.join(rank, size, uid_config());
    const p2p::HostGroup group = one_host(size, rank);
    p2p::PeerSockets sockets(*boot, group, timeout_seconds);
    body(sockets, *boot);
    boot->barrier();
  });
}

}  // namespace

TEST_CASE("zero_seconds_are_no_end") {
  CHECK(run_pes(3, 0, [](p2p::PeerSockets& sockets, bootstrap::Bootstrap& boot) {
          const int me = boot.rank();
          expect(sockets.gather({static_cast<char>(me)})[2][0] == 2, "gather");
          const Fd mine = pipe_with(7);
          expect(bool{sockets.from_root(mine.get())}, "from_root");
          expect(sockets.exchange(mine.get()).size() == 3, "exchange");
        }) == "");
}

TEST_CASE("every_pe_gets_every_descriptor") {
  CHECK(run_pes(5, 60, [](p2p::PeerSockets& sockets, bootstrap::Bootstrap& boot) {
          // A pipe holds its number once, so each PE gives five.
          std::vector<Fd> pipes;
          for (int round = 0; round < 5; ++round) {
            const Fd mine = pipe_with(boot.rank() * 10 + round);
            const std::vector<Fd> all = sockets.exchange(mine.get());
            boot.barrier();
            for (int pe = 0; pe < 5; ++pe) {
              if ((boot.rank() + round) % 5 != pe) continue;  // one reader per pipe
              expect(number_in(all[static_cast<std::size_t>(pe)]) == pe * 10 + round, "exchange");
            }
          }
        }) == "");
}

TEST_CASE("descriptors_under_way_stay_below_the_user_s_limit") {
  constexpr int kPes = 16;
  IdChannel channel;
  CHECK(run_processes(kPes, [&](int rank) {
          const auto boot = channel.join(rank, kPes, uid_config());
          const p2p::HostGroup group = one_host(kPes, rank);
          p2p::PeerSockets sockets(*boot, group, 60);
          const Fd mine = pipe_with(rank);
          // Root is above the limit. Not nobody: whatever else runs as that counts, too.
          if (geteuid() == 0) check_errno(setuid(54321), "setuid");
          leave_descriptors(kPes);
          boot->barrier();
          expect(sockets.exchange(mine.get()).size() == kPes, "exchange");
          boot->barrier();
        }) == "");
}

TEST_CASE("pe_without_descriptors_says_so_at_once") {
  if (objects_need_descriptors()) return;
  IdChannel channel;
  CHECK(run_processes(2, [&](int rank) {
          const auto boot = channel.join(rank, 2, uid_config());
          const p2p::HostGroup group = one_host(2, rank);
          if (rank == 0) {
            leave_descriptors(1);  // for the listener
            expect_error(GSHMEMX_ERROR_SYSTEM,
                         "accept4, with 1 PEs still to connect: Too many open",
                         [&] { p2p::PeerSockets(*boot, group, 60); });
          } else {
            try {
              p2p::PeerSockets(*boot, group, 60);
            } catch (const Error& error) {  // where it notices
              expect(error.code() == GSHMEMX_ERROR_PEER_FAILED, error.what());
            }
          }
          boot->barrier();
        }) == "");
}

TEST_CASE("pe_without_a_descriptor_for_its_listener_is_named_to_the_others") {
  if (objects_need_descriptors()) return;
  IdChannel channel;
  CHECK(run_processes(3, [&](int rank) {
          const auto boot = channel.join(rank, 3, uid_config());
          const p2p::HostGroup group = one_host(3, rank);
          if (rank == 2) leave_descriptors(2);
          expect_error(rank == 2 ? GSHMEMX_ERROR_SYSTEM : GSHMEMX_ERROR_PEER_FAILED,
                       rank == 2 ? "socket: Too many open files" : "PE 2 has no socket",
                       [&] { p2p::PeerSockets(*boot, group, 60); });
          boot->barrier();
        }) == "");
}

TEST_CASE("pe_that_cannot_take_a_descriptor_says_so") {
  if (objects_need_descriptors()) return;
  CHECK(run_pes(2, 60, [](p2p::PeerSockets& sockets, bootstrap::Bootstrap& boot) {
          const Fd mine = pipe_with(0);
          if (boot.rank() == 1) return (void)sockets.exchange(mine.get());
          leave_descriptors(1);  // for its own
          expect_error(GSHMEMX_ERROR_SYSTEM, "no descriptor left for the segment of PE 1",
                       [&] { (void)sockets.exchange(mine.get()); });
        }) == "");
}

TEST_CASE("pe_that_hangs_up_ends_the_wait_of_the_others") {
  CHECK(run_pes(3, 0, [](p2p::PeerSockets& sockets, bootstrap::Bootstrap& boot) {
          if (boot.rank() == 0) return sockets.hang_up();
          expect_error(GSHMEMX_ERROR_PEER_FAILED, "PE 0",
                       [&] { (void)sockets.exchange(STDIN_FILENO); });
        }) == "");
}

TEST_CASE("pes_of_different_users_are_told_so") {
  if (geteuid() != 0) {
    std::puts("skipped: only root can be another user");
    std::fflush(stdout);
    std::_Exit(77);
  }
  IdChannel channel;
  CHECK(run_processes(2, [&](int rank) {
          const auto boot = channel.join(rank, 2, uid_config());
          const p2p::HostGroup group = one_host(2, rank);
          if (rank == 1) {
            check_errno(setuid(54321), "setuid");
            try {
              p2p::PeerSockets(*boot, group, 1);  // connects, and is hung up on
            } catch (const Error& error) {        // where it notices
              expect(error.code() == GSHMEMX_ERROR_PEER_FAILED, error.what());
            }
          } else {
            expect_error(GSHMEMX_ERROR_TIMEOUT, "a process of user 54321 called",
                         [&] { p2p::PeerSockets(*boot, group, 1); });
          }
          boot->barrier();
        }) == "");
}

namespace {

/// Passes on what a bootstrap gathers, after it has called where the others listen.
class Caller final : public bootstrap::Bootstrap {
 public:
  explicit Caller(bootstrap::Bootstrap& boot) : boot_(boot) {}
  int rank() const noexcept override { return boot_.rank(); }
  int size() const noexcept override { return boot_.size(); }
  const char* name() const noexcept override { return boot_.name(); }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    boot_.allgather(send, recv, bytes);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto* name = static_cast<const char*>(recv);  // of PE 0
    const std::size_t length = ::strnlen(name, bytes);
    std::memcpy(address.sun_path + 1, name, length);
    stranger_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    check_errno(::connect(stranger_.get(), reinterpret_cast<const sockaddr*>(&address),
                          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)),
                "connect");
    check_errno(::send(stranger_.get(), "h", 1, 0), "send");
  }
  void barrier() override { boot_.barrier(); }
  void abort(int, std::string_view) noexcept override {}

 private:
  bootstrap::Bootstrap& boot_;
  Fd stranger_;
};

}  // namespace

TEST_CASE("a_byte_that_is_no_greeting_holds_up_nobody") {
  IdChannel channel;
  CHECK(run_processes(2, [&](int rank) {
          const auto boot = channel.join(rank, 2, uid_config());
          const p2p::HostGroup group = one_host(2, rank);
          Caller caller(*boot);
          bootstrap::Bootstrap& way = rank == 1 ? caller : *boot;
          const p2p::PeerSockets sockets(way, group, 20 * kPatience);
          expect(sockets.socket(1 - rank) >= 0, "connected");
          boot->barrier();
        }) == "");
}
