#include "transport/p2p/peer_sockets.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

namespace gshmem::p2p {
namespace {

using Clock = std::chrono::steady_clock;
constexpr char kDescriptor = 'F';

struct Hello {
  std::uint32_t magic = 0x67736873;
  std::int32_t index = -1;
};

using SocketName = std::array<char, 40>;

SocketName random_name() {
  std::uint64_t bits[2];
  check_errno(getrandom(bits, sizeof(bits), 0), "getrandom");
  const std::string text = strprintf("gshmem.%016lx%016lx", bits[0], bits[1]);
  SocketName name{};
  std::memcpy(name.data(), text.data(), std::min(text.size(), name.size() - 1));
  return name;
}

/// Abstract address: a zero byte, then the name.
struct Address {
  sockaddr_un un{};
  socklen_t length;
  explicit Address(const SocketName& name) {
    un.sun_family = AF_UNIX;
    const std::size_t n = ::strnlen(name.data(), name.size());
    std::memcpy(un.sun_path + 1, name.data(), n);
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

Clock::time_point deadline_in(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

PeerSockets::PeerSockets(bootstrap::Bootstrap& boot, const HostGroup& group, double timeout_seconds)
    : group_(group),
      timeout_seconds_(timeout_seconds),
      sockets_(static_cast<std::size_t>(group.size())) {
  const Fd listener = make_socket();
  const SocketName name = random_name();
  const Address own(name);
  check_errno(::bind(listener.get(), own.get(), own.length), "bind");
  check_errno(::listen(listener.get(), std::max(size(), 16)), "listen");
  const std::vector<SocketName> names = bootstrap::allgather(boot, name);
  const auto deadline = deadline_in(timeout_seconds);

  // Everyone listens by now, so connecting to lower indices never waits for their accept.
  for (int i = 0; i < group.index; ++i) {
    Fd socket = make_socket();
    const Address address(names[static_cast<std::size_t>(group.pe(i))]);
    if (::connect(socket.get(), address.get(), address.length) != 0) {
      throw Error(GSHMEMX_ERROR_PEER_FAILED, strprintf("cannot connect to PE %d on this host: %s",
                                                       group.pe(i), std::strerror(errno)));
    }
    const Hello hello{.index = group.index};
    check_errno(::send(socket.get(), &hello, sizeof(hello), MSG_NOSIGNAL), "send");
    sockets_[static_cast<std::size_t>(i)] = std::move(socket);
  }
  for (int missing = size() - 1 - group.index; missing > 0;) {
    wait_readable(listener.get(), deadline, strprintf("%d higher-ranked PEs to connect", missing));
    Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket || !same_user(socket.get())) continue;
    Hello hello;
    hello.magic = 0;
    wait_readable(socket.get(), deadline, "a PE's greeting");
    if (::recv(socket.get(), &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello)) continue;
    if (hello.magic != Hello{}.magic || hello.index <= group.index || hello.index >= size())
      continue;
    Fd& place = sockets_[static_cast<std::size_t>(hello.index)];
    if (place) continue;
    place = std::move(socket);
    --missing;
  }
}

void PeerSockets::send_fd(int i, int fd) {
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
  if (::sendmsg(socket(i), &message, MSG_NOSIGNAL) != 1) {
    throw Error(GSHMEMX_ERROR_PEER_FAILED, strprintf("cannot pass a segment to PE %d: %s",
                                                     group_.pe(i), std::strerror(errno)));
  }
}

Fd PeerSockets::receive_fd(int i) {
  wait_readable(socket(i), deadline_in(timeout_seconds_),
                strprintf("the segment of PE %d", group_.pe(i)));
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t n = ::recvmsg(socket(i), &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = n == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (byte != kDescriptor || !header || header->cmsg_type != SCM_RIGHTS) {
    throw Error(
        GSHMEMX_ERROR_PEER_FAILED,
        strprintf("PE %d closed its connection before it passed its segment", group_.pe(i)));
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return Fd(fd);
}

std::vector<Fd> PeerSockets::exchange(int fd) {
  for (int i = 0; i < size(); ++i) {
    if (i != group_.index) send_fd(i, fd);
  }
  std::vector<Fd> fds;
  for (int i = 0; i < size(); ++i) {
    fds.push_back(i == group_.index ? Fd(static_cast<int>(check_errno(fcntl(fd, F_DUPFD_CLOEXEC, 0),
                                                                      "fcntl(F_DUPFD)")))
                                    : receive_fd(i));
  }
  return fds;
}

Fd PeerSockets::from_root(int fd_on_root) {
  if (group_.index != 0) return receive_fd(0);
  for (int i = 1; i < size(); ++i) send_fd(i, fd_on_root);
  return Fd(static_cast<int>(check_errno(fcntl(fd_on_root, F_DUPFD_CLOEXEC, 0), "fcntl(F_DUPFD)")));
}

std::vector<std::vector<char>> PeerSockets::gather(const std::vector<char>& mine) {
  const auto whole = static_cast<ssize_t>(mine.size());
  for (int i = 0; i < size(); ++i) {
    if (i == group_.index) continue;
    require(::send(socket(i), mine.data(), mine.size(), MSG_NOSIGNAL) == whole,
            GSHMEMX_ERROR_PEER_FAILED,
            strprintf("PE %d closed its connection during init", group_.pe(i)));
  }
  std::vector<std::vector<char>> all(sockets_.size(), mine);
  for (int i = 0; i < size(); ++i) {
    if (i == group_.index) continue;
    std::vector<char>& into = all[static_cast<std::size_t>(i)];
    wait_readable(socket(i), deadline_in(timeout_seconds_), strprintf("PE %d", group_.pe(i)));
    require(::recv(socket(i), into.data(), into.size(), MSG_WAITALL) == whole,
            GSHMEMX_ERROR_PEER_FAILED,
            strprintf("PE %d closed its connection during init", group_.pe(i)));
  }
  return all;
}

}  // namespace gshmem::p2p
