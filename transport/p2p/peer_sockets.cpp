#include "transport/p2p/peer_sockets.h"

#include "host/base/descriptors.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace gshmem::p2p {
namespace {

using bootstrap::Deadline;
constexpr char kDescriptor = 'F';
constexpr int kRetryMs = 10;  // when too many descriptors of this user are under way

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
void wait_readable(int fd, const Deadline& deadline, const std::string& what) {
  for (;;) {
    pollfd entry{fd, POLLIN, 0};
    const int n = ::poll(&entry, 1, deadline.poll_ms());
    if (n > 0) return;
    if (n < 0 && errno != EINTR) check_errno(n, "poll");
    require(!deadline.passed(), GSHMEMX_ERROR_TIMEOUT, "timed out waiting for " + what);
  }
}

uid_t user_of(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  check_errno(getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length),
              "getsockopt(SO_PEERCRED)");
  return peer.uid;
}

Fd duplicate(int fd) {
  return Fd(static_cast<int>(check_errno(fcntl(fd, F_DUPFD_CLOEXEC, 0), "fcntl(F_DUPFD)")));
}

}  // namespace

PeerSockets::PeerSockets(bootstrap::Bootstrap& boot, const HostGroup& group, double timeout_seconds)
    : group_(group),
      timeout_seconds_(timeout_seconds),
      sockets_(static_cast<std::size_t>(group.size())) {
  SocketName name{};
  Fd listener;
  std::optional<Error> failure;  // thrown when the others have what they wait for
  try {
    listener = make_socket();
    for (int i = 0; i < group.index; ++i) sockets_[static_cast<std::size_t>(i)] = make_socket();
    name = random_name();
    const Address own(name);
    check_errno(::bind(listener.get(), own.get(), own.length), "bind");
    check_errno(::listen(listener.get(), std::max(size(), 16)), "listen");
  } catch (const Error& error) {
    failure = error;
    name = {};
  }
  const std::vector<SocketName> names = bootstrap::allgather(boot, name);
  if (failure) throw *failure;
  for (const int pe : group.pes) {
    require(names[static_cast<std::size_t>(pe)][0] != '\0', GSHMEMX_ERROR_PEER_FAILED,
            strprintf("PE %d has no socket", pe));
  }

  // Everyone listens by now, so connecting to lower indices never waits for their accept.
  for (int i = 0; i < group.index; ++i) {
    const Address address(names[static_cast<std::size_t>(group.pe(i))]);
    if (::connect(socket(i), address.get(), address.length) != 0) {
      throw Error(GSHMEMX_ERROR_PEER_FAILED, strprintf("cannot connect to PE %d on this host: %s",
                                                       group.pe(i), std::strerror(errno)));
    }
    const Hello hello{.index = group.index};
    require(::send(socket(i), &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello),
            GSHMEMX_ERROR_PEER_FAILED,
            strprintf("PE %d closed its connection during init", group.pe(i)));
  }
  accept_all(listener);
}

void PeerSockets::accept_all(const Fd& listener) {
  const Deadline deadline(timeout_seconds_);
  std::string refused;  // who called in vain
  for (int missing = size() - 1 - group_.index; missing > 0;) {
    wait_readable(listener.get(), deadline,
                  strprintf("%d higher-ranked PEs to connect", missing) + refused);
    Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket && (errno == EINTR || errno == ECONNABORTED)) continue;
    // To try again would find the same connection and fail the same way, at once and for ever.
    require(bool{socket}, GSHMEMX_ERROR_SYSTEM,
            strprintf("accept4, with %d PEs still to connect: %s; %s", missing,
                      std::strerror(errno), descriptor_limit_text().c_str()));
    const uid_t user = user_of(socket.get());
    if (user != geteuid()) {
      refused = strprintf(
          "; a process of user %u called, and this one is of user %u: all PEs of a "
          "host have to be of one user",
          unsigned{user}, unsigned{geteuid()});
      continue;
    }
    Hello hello;
    hello.magic = 0;
    // A PE greets at once, and in one piece.
    pollfd entry{socket.get(), POLLIN, 0};
    if (::poll(&entry, 1, deadline.within(kHandshakeSeconds).poll_ms()) <= 0) continue;
    if (::recv(socket.get(), &hello, sizeof(hello), MSG_DONTWAIT) != sizeof(hello)) continue;
    if (hello.magic != Hello{}.magic || hello.index <= group_.index || hello.index >= size())
      continue;
    Fd& place = sockets_[static_cast<std::size_t>(hello.index)];
    if (place) continue;
    place = std::move(socket);
    --missing;
  }
}

void PeerSockets::hang_up() noexcept {
  for (const Fd& socket : sockets_) {
    if (socket) (void)::shutdown(socket.get(), SHUT_RDWR);
  }
}

/// False when too many are under way for now (unix(7), ETOOMANYREFS).
bool PeerSockets::send_fd(int i, int fd) {
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
  if (::sendmsg(socket(i), &message, MSG_NOSIGNAL) == 1) return true;
  if (errno == ETOOMANYREFS) return false;
  throw Error(GSHMEMX_ERROR_PEER_FAILED,
              strprintf("cannot pass a segment to PE %d: %s", group_.pe(i), std::strerror(errno)));
}

Fd PeerSockets::receive_fd(int i) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t n = ::recvmsg(socket(i), &message, MSG_CMSG_CLOEXEC);
  require(n != 1 || (message.msg_flags & MSG_CTRUNC) == 0, GSHMEMX_ERROR_SYSTEM,
          strprintf("no descriptor left for the segment of PE %d: %s", group_.pe(i),
                    descriptor_limit_text().c_str()));
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

void PeerSockets::check_time(const Deadline& deadline, int i, bool refused) const {
  if (!deadline.passed()) return;
  throw Error(GSHMEMX_ERROR_TIMEOUT,
              refused ? strprintf("timed out passing a segment to PE %d: too many descriptors of "
                                  "this user are under way between processes; %s",
                                  group_.pe(i), descriptor_limit_text().c_str())
                      : strprintf("timed out waiting for the segment of PE %d", group_.pe(i)));
}

/// What is under way counts against a limit that all processes of a user share, of as many as one
/// process may have open. Nobody is more than one ahead of what it has taken in: so there is never
/// more than one for every PE.
std::vector<Fd> PeerSockets::exchange(int fd) {
  const Deadline deadline(timeout_seconds_);
  std::vector<Fd> fds(sockets_.size());
  fds[static_cast<std::size_t>(group_.index)] = duplicate(fd);
  int sent = 0, taken = 0;
  while (sent < size() - 1 || taken < size() - 1) {
    const int to = (group_.index + 1 + sent) % size();
    const bool may_send = sent < size() - 1 && sent <= taken;
    if (may_send && send_fd(to, fd)) {
      ++sent;
      continue;
    }
    const int before = taken;
    taken += take_in(fds, may_send ? kRetryMs : deadline.poll_ms());
    const auto missing = std::find_if(fds.begin(), fds.end(), [](const Fd& each) { return !each; });
    if (taken == before)
      check_time(deadline, may_send ? to : static_cast<int>(missing - fds.begin()), may_send);
  }
  return fds;
}

/// Fills in those of `fds` that arrive within `wait_ms`; returns how many.
int PeerSockets::take_in(std::vector<Fd>& fds, int wait_ms) {
  std::vector<pollfd> entries;
  for (std::size_t i = 0; i < fds.size(); ++i)
    entries.push_back({fds[i] ? -1 : sockets_[i].get(), POLLIN, 0});
  const int ready = ::poll(entries.data(), entries.size(), wait_ms);
  if (ready < 0 && errno != EINTR) check_errno(ready, "poll");
  int taken = 0;
  for (std::size_t i = 0; ready > 0 && i < fds.size(); ++i) {
    if (entries[i].revents == 0) continue;
    fds[i] = receive_fd(static_cast<int>(i));
    ++taken;
  }
  return taken;
}

Fd PeerSockets::from_root(int fd_on_root) {
  const Deadline deadline(timeout_seconds_);
  if (group_.index != 0) {
    wait_readable(socket(0), deadline, strprintf("the segment of PE %d", group_.pe(0)));
    return receive_fd(0);
  }
  for (int i = 1; i < size(); ++i) {
    while (!send_fd(i, fd_on_root)) {
      check_time(deadline, i, true);
      (void)::poll(nullptr, 0, kRetryMs);
    }
  }
  return duplicate(fd_on_root);
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
    wait_readable(socket(i), Deadline(timeout_seconds_), strprintf("PE %d", group_.pe(i)));
    require(::recv(socket(i), into.data(), into.size(), MSG_WAITALL) == whole,
            GSHMEMX_ERROR_PEER_FAILED,
            strprintf("PE %d closed its connection during init", group_.pe(i)));
  }
  return all;
}

}  // namespace gshmem::p2p
