#include "transport/p2p/peer_sockets.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>

namespace gshmem::p2p {
namespace {

using Clock = std::chrono::steady_clock;
constexpr char kDescriptor = 'F';

struct Hello {
  std::uint32_t magic = 0x67736873;
  std::int32_t rank = -1;
};

/// What every PE tells the others before sockets exist.
struct Contact {
  char host[192];
  char socket_name[40];
};

void copy_to(char* to, std::size_t capacity, const std::string& from) {
  const std::size_t n = std::min(from.size(), capacity - 1);
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

std::string random_name() {
  std::uint64_t bits[2];
  check_errno(getrandom(bits, sizeof(bits), 0), "getrandom");
  return strprintf("gshmem.%016lx%016lx", bits[0], bits[1]);
}

/// Abstract address: a zero byte, then the name.
struct Address {
  sockaddr_un un{};
  socklen_t length;
  explicit Address(const char* name) {
    un.sun_family = AF_UNIX;
    const std::size_t n = std::min(std::strlen(name), sizeof(un.sun_path) - 1);
    std::memcpy(un.sun_path + 1, name, n);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&un); }
};

Fd make_socket() {
  return Fd(
      static_cast<int>(check_errno(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket")));
}

/// Waits until `fd` is readable. Errors: GSHMEMX_ERROR_TIMEOUT.
void wait_readable(int fd, Clock::time_point deadline, const std::string& what) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    require(left > 0, GSHMEMX_ERROR_TIMEOUT, "timed out waiting for " + what);
    pollfd entry{fd, POLLIN, 0};
    const int n = ::poll(&entry, 1, static_cast<int>(std::min<long>(left, 1000)));
    if (n < 0 && errno == EINTR) continue;
    check_errno(n, "poll");
    if (n > 0) return;
  }
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  check_errno(getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length),
              "getsockopt(SO_PEERCRED)");
  return peer.uid == geteuid();
}

void require_one_host(const std::vector<Contact>& contacts) {
  for (std::size_t pe = 1; pe < contacts.size(); ++pe) {
    require(std::strcmp(contacts[pe].host, contacts[0].host) == 0, GSHMEMX_ERROR_NOT_SUPPORTED,
            strprintf("PE %zu is on host %s, PE 0 on host %s: only PEs of one host can reach each "
                      "other's memory, and this version has no network path",
                      pe, contacts[pe].host, contacts[0].host));
  }
}

}  // namespace

std::string host_identity() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  char host[128] = "";
  gethostname(host, sizeof(host) - 1);
  struct stat net {};
  if (::stat("/proc/self/ns/net", &net) != 0) net.st_ino = 0;
  return strprintf("%s (boot %.8s, net %lu)", host, boot_id.c_str(),
                   static_cast<unsigned long>(net.st_ino));
}

PeerSockets::PeerSockets(bootstrap::Bootstrap& boot, double timeout_seconds)
    : rank_(boot.rank()),
      timeout_seconds_(timeout_seconds),
      sockets_(static_cast<std::size_t>(boot.size())) {
  const Fd listener = make_socket();
  Contact mine{};
  copy_to(mine.host, sizeof(mine.host), host_identity());
  copy_to(mine.socket_name, sizeof(mine.socket_name), random_name());
  const Address own(mine.socket_name);
  check_errno(::bind(listener.get(), own.get(), own.length), "bind");
  check_errno(::listen(listener.get(), std::max(boot.size(), 16)), "listen");

  const std::vector<Contact> contacts = bootstrap::allgather(boot, mine);
  require_one_host(contacts);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(timeout_seconds));

  // Everyone listens by now, so connecting to lower ranks never waits for their accept.
  for (int pe = 0; pe < rank_; ++pe) {
    Fd socket = make_socket();
    const Address address(contacts[static_cast<std::size_t>(pe)].socket_name);
    if (::connect(socket.get(), address.get(), address.length) != 0) {
      throw Error(GSHMEMX_ERROR_PEER_FAILED,
                  strprintf("cannot connect to PE %d on this host: %s", pe, std::strerror(errno)));
    }
    const Hello hello{.rank = rank_};
    check_errno(::send(socket.get(), &hello, sizeof(hello), MSG_NOSIGNAL), "send");
    sockets_[static_cast<std::size_t>(pe)] = std::move(socket);
  }
  for (int missing = boot.size() - 1 - rank_; missing > 0;) {
    wait_readable(listener.get(), deadline, strprintf("%d higher-ranked PEs to connect", missing));
    Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket || !same_user(socket.get())) continue;
    Hello hello;
    hello.magic = 0;
    wait_readable(socket.get(), deadline, "a PE's greeting");
    if (::recv(socket.get(), &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello)) continue;
    if (hello.magic != Hello{}.magic || hello.rank <= rank_ || hello.rank >= boot.size()) continue;
    Fd& place = sockets_[static_cast<std::size_t>(hello.rank)];
    if (place) continue;
    place = std::move(socket);
    --missing;
  }
}

void PeerSockets::send_fd(int pe, int fd) {
  char byte = kDescriptor;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  if (::sendmsg(socket(pe), &message, MSG_NOSIGNAL) != 1) {
    throw Error(GSHMEMX_ERROR_PEER_FAILED,
                strprintf("cannot pass a segment to PE %d: %s", pe, std::strerror(errno)));
  }
}

Fd PeerSockets::receive_fd(int pe) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(timeout_seconds_));
  wait_readable(socket(pe), deadline, strprintf("the segment of PE %d", pe));
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t n = ::recvmsg(socket(pe), &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = n == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (byte != kDescriptor || !header || header->cmsg_type != SCM_RIGHTS) {
    throw Error(GSHMEMX_ERROR_PEER_FAILED,
                strprintf("PE %d closed its connection before it passed its segment", pe));
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return Fd(fd);
}

std::vector<Fd> PeerSockets::exchange(int fd) {
  for (int pe = 0; pe < size(); ++pe) {
    if (pe != rank_) send_fd(pe, fd);
  }
  std::vector<Fd> fds(sockets_.size());
  for (int pe = 0; pe < size(); ++pe) {
    fds[static_cast<std::size_t>(pe)] =
        pe == rank_
            ? Fd(static_cast<int>(check_errno(fcntl(fd, F_DUPFD_CLOEXEC, 0), "fcntl(F_DUPFD)")))
            : receive_fd(pe);
  }
  return fds;
}

Fd PeerSockets::from_root(int fd_on_root) {
  if (rank_ != 0) return receive_fd(0);
  for (int pe = 1; pe < size(); ++pe) send_fd(pe, fd_on_root);
  return Fd(static_cast<int>(check_errno(fcntl(fd_on_root, F_DUPFD_CLOEXEC, 0), "fcntl(F_DUPFD)")));
}

void PeerSockets::say_goodbye() noexcept {
  for (int pe = 0; pe < size(); ++pe) {
    if (pe != rank_) (void)!::send(socket(pe), &kGoodbye, 1, MSG_NOSIGNAL);
  }
}

}  // namespace gshmem::p2p
