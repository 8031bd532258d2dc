#include "transport/p2p/peer_sockets.h"

#include "host/base/at_fork.h"
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
#include <numeric>
#include <optional>

namespace gshmem::p2p {
namespace {

using bootstrap::Deadline;
constexpr int kRetryMs = 10;        // when a mailbox is full, or too many descriptors are under way
constexpr double kGoneSeconds = 1;  // to tell all PEs of the host
constexpr std::size_t kMaxBytes = 4096;

struct Hello {
  std::uint32_t magic = 0x67736873;
  std::int32_t index = -1;
};

/// The head of a letter.
struct Sender {
  std::uint32_t magic = 0x6773686d;
  std::int32_t index = -1;
  std::uint32_t kind = 0;
};

using Name = std::array<char, 40>;

std::array<std::uint64_t, 2> random_bits() {
  std::array<std::uint64_t, 2> bits;
  check_errno(getrandom(bits.data(), sizeof(bits), 0), "getrandom");
  return bits;
}

/// Not the process id, of which containers have their own.
std::uint64_t this_process() {
  static const std::uint64_t first = random_bits()[0];
  return first + fork_count();
}

Name random_name() {
  const auto bits = random_bits();
  const std::string text = strprintf("gshmem.%016lx%016lx", bits[0], bits[1]);
  Name name{};
  std::memcpy(name.data(), text.data(), std::min(text.size(), name.size() - 1));
  return name;
}

/// Abstract address: a zero byte, then the name, with a letter more for the mailbox.
struct Address {
  sockaddr_un un{};
  socklen_t length;
  explicit Address(const Name& name, bool mailbox = false) {
    un.sun_family = AF_UNIX;
    std::size_t n = ::strnlen(name.data(), name.size());
    std::memcpy(un.sun_path + 1, name.data(), n);
    if (mailbox) un.sun_path[1 + n++] = 'm';
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&un); }
};

Fd make_socket(int type = SOCK_STREAM) {
  return Fd(static_cast<int>(check_errno(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0), "socket")));
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
      sockets_(static_cast<std::size_t>(group.size())),
      letters_(sockets_.size()),
      gone_(sockets_.size()) {
  Contact mine{.name = {}, .process = this_process()};
  Fd listener;
  std::optional<Error> failure;  // thrown when the others have what they wait for
  try {
    listener = make_socket();
    mine.name = random_name();
    const Address own(mine.name);
    check_errno(::bind(listener.get(), own.get(), own.length), "bind");
    check_errno(::listen(listener.get(), std::max(size(), 16)), "listen");
    mailbox_ = make_socket(SOCK_DGRAM);
    const Address mailbox(mine.name, true);
    check_errno(::bind(mailbox_.get(), mailbox.get(), mailbox.length), "bind");
    const int yes = 1;
    check_errno(::setsockopt(mailbox_.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)),
                "setsockopt(SO_PASSCRED)");
  } catch (const Error& error) {
    failure = error;
    mine.name = {};
  }
  const std::vector<Contact> all = bootstrap::allgather(boot, mine);
  if (failure) throw *failure;
  for (const int pe : group.pes) {
    contacts_.push_back(all[static_cast<std::size_t>(pe)]);
    require(contacts_.back().name[0] != '\0', GSHMEMX_ERROR_PEER_FAILED,
            strprintf("PE %d has no socket", pe));
  }

  try {
    connect_all();
    accept_all(listener);
  } catch (const Error&) {
    hang_up();
    throw;
  }
}

/// Everyone listens by now, so connecting to lower indices never waits for their accept.
void PeerSockets::connect_all() {
  for (int i = 0; i < group_.index; ++i) {
    if (!is_linked(i, group_.index)) continue;
    sockets_[static_cast<std::size_t>(i)] = make_socket();
    const Address address(contacts_[static_cast<std::size_t>(i)].name);
    if (::connect(socket(i), address.get(), address.length) != 0) {
      const std::string reason = std::strerror(errno);
      // Who gave up has told all before it closed its listener, and may not be the first to.
      std::vector<int> all(sockets_.size());
      std::iota(all.begin(), all.end(), 0);
      take_letters(all);
      throw Error(GSHMEMX_ERROR_PEER_FAILED, strprintf("cannot connect to PE %d on this host: %s",
                                                       group_.pe(i), reason.c_str()));
    }
    const Hello hello{.index = group_.index};
    require(::send(socket(i), &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello),
            GSHMEMX_ERROR_PEER_FAILED,
            strprintf("PE %d closed its connection during init", group_.pe(i)));
  }
}

bool PeerSockets::is_first_of_process(int i) const {
  const auto found = std::find_if(contacts_.begin(), contacts_.end(), [&](const Contact& contact) {
    return contact.process == contacts_[static_cast<std::size_t>(i)].process;
  });
  return found - contacts_.begin() == i;
}

bool PeerSockets::is_linked(int a, int b) const {
  const bool same = contacts_[static_cast<std::size_t>(a)].process ==
                    contacts_[static_cast<std::size_t>(b)].process;
  return !same || is_first_of_process(a) || is_first_of_process(b);
}

void PeerSockets::accept_all(const Fd& listener) {
  const Deadline deadline(timeout_seconds_);
  std::string refused;  // who called in vain
  std::vector<int> missing;
  for (int i = group_.index + 1; i < size(); ++i)
    if (is_linked(i, group_.index)) missing.push_back(i);
  while (!missing.empty()) {
    pollfd entries[] = {{listener.get(), POLLIN, 0}, {mailbox_.get(), POLLIN, 0}};
    const int ready = ::poll(entries, std::size(entries), deadline.poll_ms());
    if (ready < 0 && errno != EINTR) check_errno(ready, "poll");
    require(ready != 0 || !deadline.passed(), GSHMEMX_ERROR_TIMEOUT,
            strprintf("timed out waiting for %zu higher-ranked PEs to connect%s", missing.size(),
                      refused.c_str()));
    if (ready > 0 && entries[1].revents != 0) take_letters(missing);
    if (ready <= 0 || entries[0].revents == 0) continue;
    Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket && (errno == EINTR || errno == ECONNABORTED)) continue;
    // To try again would find the same connection and fail the same way, at once and for ever.
    require(bool{socket}, GSHMEMX_ERROR_SYSTEM,
            strprintf("accept4, with %zu PEs still to connect: %s; %s", missing.size(),
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
    if (hello.magic != Hello{}.magic ||
        std::find(missing.begin(), missing.end(), hello.index) == missing.end())
      continue;
    sockets_[static_cast<std::size_t>(hello.index)] = std::move(socket);
    std::erase(missing, hello.index);
  }
}

void PeerSockets::hang_up() noexcept {
  const Deadline deadline(kGoneSeconds);
  for (int i = 0; i < size(); ++i) {
    try {
      while (i != group_.index && !post(i, Kind::kGone, -1, {}) && !deadline.passed())
        (void)::poll(nullptr, 0, kRetryMs);
    } catch (const Error&) {
      // That PE has gone itself.
    }
  }
}

bool PeerSockets::lost_one() {
  if (++looks_ % 64 != 0) return false;
  std::vector<pollfd> entries;
  for (const Fd& socket : sockets_) entries.push_back({socket.get(), POLLRDHUP, 0});
  return ::poll(entries.data(), entries.size(), 0) > 0;
}

/// False when its mailbox is full for now, or too many descriptors are under way (unix(7),
/// ETOOMANYREFS).
bool PeerSockets::post(int i, Kind kind, int fd, std::span<const char> bytes) {
  Sender sender{.index = group_.index, .kind = static_cast<std::uint32_t>(kind)};
  std::vector<char> content(bytes.begin(), bytes.end());
  iovec data[2] = {{&sender, sizeof(sender)}, {content.data(), content.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  Address to(contacts_[static_cast<std::size_t>(i)].name, true);
  msghdr message{};
  message.msg_name = &to.un;
  message.msg_namelen = to.length;
  message.msg_iov = data;
  message.msg_iovlen = 2;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  if (::sendmsg(mailbox_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
  if (errno == EAGAIN || errno == ETOOMANYREFS || errno == ENOBUFS || errno == EINTR) return false;
  throw Error(GSHMEMX_ERROR_PEER_FAILED,
              strprintf("cannot pass a segment to PE %d: %s", group_.pe(i), std::strerror(errno)));
}

/// False when the mailbox is empty. Letters of strangers are dropped.
bool PeerSockets::take_letter() {
  Sender sender;
  sender.magic = 0;
  std::vector<char> content(kMaxBytes);
  iovec data[2] = {{&sender, sizeof(sender)}, {content.data(), content.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = data;
  message.msg_iovlen = 2;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t n = ::recvmsg(mailbox_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n < 0 && errno == EINTR) return true;
  if (n < 0 && errno == EAGAIN) return false;
  check_errno(n, "recvmsg");
  Letter letter;
  ucred from{};
  from.uid = geteuid() + 1;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_type == SCM_CREDENTIALS) std::memcpy(&from, CMSG_DATA(part), sizeof(from));
    if (part->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part), sizeof(int));
    letter.fd = Fd(fd);
  }
  if (n < static_cast<ssize_t>(sizeof(sender)) || sender.magic != Sender{}.magic ||
      from.uid != geteuid() || sender.index < 0 || sender.index >= size())
    return true;
  require((message.msg_flags & MSG_CTRUNC) == 0, GSHMEMX_ERROR_SYSTEM, [&] {
    return strprintf("no descriptor left for the segment of PE %d: %s", group_.pe(sender.index),
                     descriptor_limit_text().c_str());
  });
  const auto index = static_cast<std::size_t>(sender.index);
  if (static_cast<Kind>(sender.kind) == Kind::kGone) {
    gone_[index] = true;
    return true;
  }
  content.resize(static_cast<std::size_t>(n) - sizeof(sender));
  letter.bytes = std::move(content);
  letters_[index].push_back(std::move(letter));
  return true;
}

/// Takes in what has come. Errors: one of `from`, of which there is no letter, has hung up.
void PeerSockets::take_letters(const std::vector<int>& from) {
  while (take_letter()) {
  }
  check_gone(from);
}

/// Errors: one of `from`, of which there is no letter, has hung up.
void PeerSockets::check_gone(const std::vector<int>& from) const {
  for (const int i : from) {
    const auto index = static_cast<std::size_t>(i);
    require(!gone_[index] || !letters_[index].empty(), GSHMEMX_ERROR_PEER_FAILED, [&] {
      return strprintf("PE %d closed its connection before it passed its segment", group_.pe(i));
    });
  }
}

/// Waits for something to come, and takes it in. Errors: one of `from`, of which there is no
/// letter, has hung up or died.
void PeerSockets::wait_for_letters(const std::vector<int>& from, int wait_ms) {
  check_gone(from);  // its last letter may have been taken in before
  std::vector<pollfd> entries{{mailbox_.get(), POLLIN, 0}};
  for (const int i : from) entries.push_back({socket(i), POLLRDHUP, 0});
  const int ready = ::poll(entries.data(), entries.size(), wait_ms);
  if (ready < 0 && errno != EINTR) check_errno(ready, "poll");
  for (std::size_t k = 0; ready > 0 && k < from.size(); ++k) {
    if (entries[1 + k].revents != 0) gone_[static_cast<std::size_t>(from[k])] = true;
  }
  take_letters(from);
}

PeerSockets::Letter PeerSockets::read_letter(int i) {
  std::deque<Letter>& letters = letters_[static_cast<std::size_t>(i)];
  Letter letter = std::move(letters.front());
  letters.pop_front();
  return letter;
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
std::vector<PeerSockets::Letter> PeerSockets::exchange(Letter mine) {
  const Deadline deadline(timeout_seconds_);
  std::vector<Letter> all(sockets_.size());
  std::vector<int> missing;
  for (int i = 0; i < size(); ++i)
    if (i != group_.index) missing.push_back(i);
  const std::size_t others = missing.size();
  std::size_t sent = 0;
  const auto read_all = [&] {
    const std::size_t before = missing.size();
    std::erase_if(missing, [&](int i) {
      if (letters_[static_cast<std::size_t>(i)].empty()) return false;
      all[static_cast<std::size_t>(i)] = read_letter(i);
      return true;
    });
    return missing.size() < before;
  };
  (void)read_all();  // of PEs that are ahead
  while (sent < others || !missing.empty()) {
    const int to = (group_.index + 1 + static_cast<int>(sent)) % size();
    const bool may_send = sent < others && sent <= others - missing.size();
    if (may_send && post(to, Kind::kLetter, mine.fd.get(), mine.bytes)) {
      ++sent;
      continue;
    }
    wait_for_letters(missing, may_send ? kRetryMs : deadline.poll_ms());
    if (!read_all()) check_time(deadline, may_send ? to : missing.front(), may_send);
  }
  all[static_cast<std::size_t>(group_.index)] = std::move(mine);
  return all;
}

std::vector<Fd> PeerSockets::exchange(int fd) {
  std::vector<Fd> fds;
  for (Letter& letter : exchange(Letter{duplicate(fd), {}})) fds.push_back(std::move(letter.fd));
  return fds;
}

std::vector<std::vector<char>> PeerSockets::gather(const std::vector<char>& mine) {
  require(mine.size() <= kMaxBytes, GSHMEMX_ERROR_INTERNAL, "too many bytes for a letter");
  std::vector<std::vector<char>> all;
  for (Letter& letter : exchange(Letter{Fd(), mine})) all.push_back(std::move(letter.bytes));
  return all;
}

Fd PeerSockets::from_root(int fd_on_root) {
  const Deadline deadline(timeout_seconds_);
  if (group_.index != 0) {
    while (letters_[0].empty()) {
      wait_for_letters({0}, deadline.poll_ms());
      if (letters_[0].empty()) check_time(deadline, 0, false);
    }
    return read_letter(0).fd;
  }
  for (int i = 1; i < size(); ++i) {
    while (!post(i, Kind::kLetter, fd_on_root, {})) {
      check_time(deadline, i, true);
      (void)::poll(nullptr, 0, kRetryMs);
    }
  }
  return duplicate(fd_on_root);
}

}  // namespace gshmem::p2p
