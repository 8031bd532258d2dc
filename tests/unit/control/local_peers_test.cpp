// Tests the sockets between PEs of a host, where each PE is a process: they pass descriptors within
// all limits, and their errors name the reason.
#include "host/control/local_peers.h"

#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/unit/control/local_host.h"
#include "tests/sanitizers/sanitizers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// UBSan creates pipes to test whether an object is readable, so it must not run without
/// descriptors.
bool objects_need_descriptors() {
  if (kUnderAsan) std::puts("skipped: UBSan, which is built in with ASan, needs descriptors");
  return kUnderAsan;
}

/// Lets this process open `more` descriptors and no further ones.
void leave_descriptors(int more) {
  rlimit limit{};
  check_errno(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
  std::vector<Fd> taken;  // the lowest that are free, so that no gap remains
  for (int i = 0; i <= more; ++i)
    taken.emplace_back(static_cast<int>(check_errno(open("/dev/null", O_RDONLY), "open")));
  limit.rlim_cur = static_cast<rlim_t>(taken.back().get());
  check_errno(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
}

/// Returns a descriptor from which its owner's number can be read.
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

/// Makes system calls that wait end with EINTR from time to time.
void get_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) {};  // without SA_RESTART
  check_errno(sigaction(SIGALRM, &action, nullptr), "sigaction");
  const itimerval every_10_ms{{0, 10'000}, {0, 10'000}};
  check_errno(setitimer(ITIMER_REAL, &every_10_ms, nullptr), "setitimer");
}

/// Runs `body(peers, boot)` on PEs of one host.
std::string run_pes(int size, double timeout_seconds,
                    const std::function<void(control::LocalPeers&, bootstrap::Bootstrap&)>& body) {
  IdChannel channel;
  return run_processes(size, [&](int rank) {
    const auto boot = channel.join(rank, size, uid_config());
    LocalHost peers(*boot, timeout_seconds);
    body(peers.local, *boot);
    boot->barrier();
  });
}

}  // namespace

TEST_CASE("every_pe_gets_every_descriptor") {
  CHECK(run_pes(5, 60, [](control::LocalPeers& peers, bootstrap::Bootstrap& boot) {
          // A pipe holds its number once, so each PE passes five.
          std::vector<Fd> pipes;
          for (int round = 0; round < 5; ++round) {
            const Fd mine = pipe_with(boot.rank() * 10 + round);
            const std::vector<Fd> all = peers.exchange(mine.get());
            boot.barrier();
            for (int pe = 0; pe < 5; ++pe) {
              if ((boot.rank() + round) % 5 != pe) continue;  // one reader per pipe
              expect(number_in(all[static_cast<std::size_t>(pe)]) == pe * 10 + round, "exchange");
            }
          }
        }) == "");
}

TEST_CASE("pe_without_descriptors_fails_at_once") {
  if (objects_need_descriptors()) return;
  IdChannel channel;
  CHECK(run_processes(2, [&](int rank) {
          const auto boot = channel.join(rank, 2, uid_config());
          if (rank == 0) {
            leave_descriptors(2);  // for the listener and the mailbox
            expect_error(GSHMEMX_ERROR_SYSTEM, "accept4: Too many open",
                         [&] { LocalHost(*boot, 60); });
          } else {
            try {
              LocalHost(*boot, 60);
            } catch (const Error& error) {  // the PE detects it here
              expect(error.code() == GSHMEMX_ERROR_PEER_FAILED, error.what());
            }
          }
          boot->barrier();
        }) == "");
}

TEST_CASE("pe_without_descriptors_for_what_others_pass_fails_alone_and_its_next_call_works") {
  if (objects_need_descriptors()) return;
  const bool from_root = GENERATE(false, true);
  const int poor = GENERATE(1, 2);
  CHECK(run_pes(3, 60, [&](control::LocalPeers& peers, bootstrap::Bootstrap& boot) {
          const Fd mine = pipe_with(boot.rank());
          const auto pass = [&] {
            std::vector<Fd> all(1);
            if (!from_root) return peers.exchange(mine.get());
            all[0] = peers.from_root(mine.get());
            return all;
          };
          rlimit before{};
          check_errno(getrlimit(RLIMIT_NOFILE, &before), "getrlimit");
          if (boot.rank() == poor) leave_descriptors(0);
          boot.barrier();  // what arrived earlier would have its descriptor
          if (boot.rank() == poor) {
            expect_error(GSHMEMX_ERROR_SYSTEM,
                         "no descriptor left for the segment of PE 0: this process may have ",
                         [&] { (void)pass(); });
            check_errno(setrlimit(RLIMIT_NOFILE, &before), "setrlimit");
          } else {
            for (const Fd& fd : pass()) expect(bool{fd}, "a descriptor");
          }
          boot.barrier();
          const std::vector<Fd> all = pass();
          const auto of = static_cast<std::size_t>(from_root ? 0 : (boot.rank() + 1) % 3);
          const bool reads = !from_root || boot.rank() == poor;  // one reader per pipe
          expect(!reads || number_in(all[of]) == static_cast<int>(of), "the next descriptor");
        }) == "");
}

TEST_CASE("pe_that_hangs_up_ends_the_wait_of_the_others") {
  CHECK(run_pes(3, 0, [](control::LocalPeers& peers, bootstrap::Bootstrap& boot) {
          if (boot.rank() == 0) {
            const auto begin = std::chrono::steady_clock::now();
            peers.hang_up();
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
            return expect(took.count() < 0.9, std::to_string(took.count()) + " s");
          }
          expect_error(GSHMEMX_ERROR_PEER_FAILED, "PE 0",
                       [&] { (void)peers.exchange(STDIN_FILENO); });
        }) == "");
}

TEST_CASE("pes_of_different_users_get_an_error") {
  if (geteuid() != 0) {
    std::puts("skipped: only root can be another user");
    std::fflush(stdout);
    std::_Exit(0);
  }
  IdChannel channel;
  CHECK(run_processes(2, [&](int rank) {
          const auto boot = channel.join(rank, 2, uid_config());
          if (rank == 1) {
            check_errno(setuid(54321), "setuid");
            try {
              LocalHost(*boot, 1);          // connects and loses the connection
            } catch (const Error& error) {  // the PE detects it here
              expect(error.code() == GSHMEMX_ERROR_PEER_FAILED, error.what());
            }
          } else {
            get_signals();
            expect_error(GSHMEMX_ERROR_TIMEOUT, "a process of user 54321 called",
                         [&] { LocalHost(*boot, 1); });
          }
          boot->barrier();
        }) == "");
}

namespace {

/// An abstract Unix address.
struct Address {
  sockaddr_un un{};
  socklen_t length;
  explicit Address(const std::string& name) {
    un.sun_family = AF_UNIX;
    std::memcpy(un.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&un); }
};

/// Builds the name of a socket as PEs do.
std::string socket_name(const control::LocalPeers::Contact& contact) {
  return strprintf("gshmem.%016lx%016lx", contact.name[0], contact.name[1]);
}

/// Builds a message of a PE: the word of the receiver, the sender, the kind, and the content.
std::string message_of(const control::LocalPeers::Name& word, std::int32_t index,
                       const std::string& content, std::uint32_t epoch = 0) {
  struct {
    control::LocalPeers::Name word;
    std::uint32_t epoch;
    std::int32_t index;
    std::uint32_t kind, unused;
  } const sender{word, epoch, index, 0, 0};
  return std::string(reinterpret_cast<const char*>(&sender), sizeof(sender)) + content;
}

/// Sends a datagram with the given number of descriptors.
void send_with(const Fd& socket, const Address& to, std::string text, std::size_t descriptors) {
  iovec data{text.data(), text.size()};
  std::vector<char> control(CMSG_SPACE(descriptors * sizeof(int)));
  msghdr message{};
  sockaddr_un un = to.un;
  message.msg_name = &un;
  message.msg_namelen = to.length;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
  std::memset(CMSG_DATA(part), 0, descriptors * sizeof(int));  // standard input
  check_errno(::sendmsg(socket.get(), &message, 0), "sendmsg");
}

long descriptors_here() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

}  // namespace

TEST_CASE("a_caller_without_the_word_or_out_of_turn_is_refused") {
  IdChannel channel;
  CHECK(run_processes(2, [&](int rank) {
          const auto boot = channel.join(rank, 2, uid_config());
          const control::HostGroup group = one_host(2, rank);
          control::LocalPeers local;
          const auto contacts = allgather(*boot, local.open());
          const auto call = [&](int as, net::ByteView name) {
            const Address address(socket_name(contacts[0]));
            const Fd stranger(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
            check_errno(::connect(stranger.get(), address.get(), address.length), "connect");
            const net::Frame hello =
                net::make_frame({.kind = net::FrameKind::kHello, .rank = as}, name);
            check_errno(::send(stranger.get(), hello->data(), hello->size(), 0), "send");
            char answer[40] = "";  // shorter than the data, which ends when all have connected
            expect(::recv(stranger.get(), answer, 39, MSG_WAITALL) == 39, "an answer");
            expect(std::string(answer + 32, 7) == "refused", answer + 32);
          };
          if (rank == 1) {
            call(1, std::as_bytes(std::span(contacts[0].name)));  // a name that all users can read
            call(0, std::as_bytes(std::span(contacts[0].word)));  // the PE itself
          }
          const auto links = local.connect(group, contacts, 20 * kPatience);
          expect(links.size() == 1 && links[0].pe == 1 - rank, "connected");
          boot->barrier();
        }) == "");
}

TEST_CASE("messages_of_strangers_are_dropped_with_all_descriptors") {
  IdChannel channel;
  CHECK(run_processes(2, [&](int rank) {
          const auto boot = channel.join(rank, 2, uid_config());
          const control::HostGroup group = one_host(2, rank);
          control::LocalPeers local;
          const auto contacts = allgather(*boot, local.open());
          const auto links = local.connect(group, contacts, 20 * kPatience);
          boot->barrier();
          const long before = descriptors_here();
          if (rank == 1) {
            const Address to(socket_name(contacts[0]) + "m");
            const Fd stranger(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
            const auto flood = [&](const std::string& text) {
              for (const std::size_t count : {2u, 5u}) send_with(stranger, to, text, count);
            };
            flood("h");
            flood(message_of(contacts[0].name, 1, "x"));     // a name that all users can read
            flood(message_of(contacts[0].word, 1, "x", 1));  // an epoch that has not begun
            std::thread([&] {
              if (geteuid() != 0) {
                std::puts("skipped: only root can be another user");
                return;
              }
              check_errno(::syscall(SYS_setresuid, 65534, 65534, 65534), "setresuid");
              flood(message_of(contacts[0].word, 1, "x"));
            }).join();
          }
          boot->barrier();
          const auto all = local.gather({static_cast<char>('a' + rank)});
          expect(all[0] == std::vector<char>{'a'} && all[1] == std::vector<char>{'b'}, "gather");
          expect(descriptors_here() == before,
                 strprintf("%ld descriptors, %ld before", descriptors_here(), before));
          boot->barrier();
        }) == "");
}

TEST_CASE("a_reason_to_give_up_ends_the_wait_for_a_segment") {
  CHECK(run_pes(2, 0, [](control::LocalPeers& peers, bootstrap::Bootstrap& boot) {
          if (boot.rank() == 1) return;
          peers.set_stopped([] { return std::string("PE 1 died"); });
          expect_error(GSHMEMX_ERROR_PEER_FAILED, "PE 1 died",
                       [&] { (void)peers.exchange(STDIN_FILENO); });
        }) == "");
}

TEST_CASE("messages_to_a_full_mailbox_arrive_later_or_time_out") {
  const bool in_time = GENERATE(true, false);
  constexpr int kMessages = 600;  // more than a mailbox holds
  CHECK(run_pes(2, in_time ? 20.0 * kPatience : 0.05,
                [&](control::LocalPeers& peers, bootstrap::Bootstrap& boot) {
                  if (boot.rank() == 0) {
                    const auto send = [&] {
                      for (int i = 0; i < kMessages; ++i) (void)peers.from_root(STDIN_FILENO);
                    };
                    if (in_time) return send();
                    return expect_error(GSHMEMX_ERROR_TIMEOUT,
                                        "timed out passing a segment to PE 1: too many", send);
                  }
                  if (!in_time) return;
                  std::this_thread::sleep_for(std::chrono::milliseconds(30));
                  for (int i = 0; i < kMessages; ++i)
                    expect(bool{peers.from_root(-1)}, "every descriptor");
                }) == "");
}

TEST_CASE("an_error_for_a_pe_that_is_gone_names_its_reason_or_that_of_the_system") {
  constexpr int kPes = 3;
  using Pes = std::vector<int>;
  const bool tells = GENERATE(false, true);
  const Pes givers = GENERATE(Pes{0}, Pes{1}, Pes{1, 0});  // in this order
  IdChannel channel;
  CHECK(run_processes(kPes, [&](int rank) {
          const auto boot = channel.join(rank, kPes, uid_config());
          const control::HostGroup group = one_host(kPes, rank);
          std::optional<control::LocalPeers> local(std::in_place);
          const auto contacts = allgather(*boot, local->open());
          if (rank == 1) {
            const Address mailbox(socket_name(contacts[2]) + "m");
            const Fd stranger(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
            check_errno(::sendto(stranger.get(), "h", 1, 0, mailbox.get(), mailbox.length),
                        "sendto");
          }
          boot->barrier();
          for (const int giver : givers) {
            if (rank == giver && tells) {
              expect_error(GSHMEMX_ERROR_TIMEOUT, "higher-ranked PEs to connect",
                           [&] { (void)local->connect(group, contacts, 0.01); });
            }
            if (rank == giver && !tells) local.reset();
            boot->barrier();
          }
          if (rank == 2) {
            const std::string pe = "PE " + std::to_string(givers.back());
            expect_error(GSHMEMX_ERROR_PEER_FAILED,
                         tells ? pe + " closed its connection before it passed its segment"
                               : "cannot connect to " + pe + " on this host: Connection refused",
                         [&] { (void)local->connect(group, contacts, 20 * kPatience); });
          }
          boot->barrier();
        }) == "");
}
