#include "host/control/local_peers.h"

#include "host/base/at_fork.h"
#include "host/base/fd.h"
#include "host/base/layout.h"
#include "host/base/net/reception.h"
#include "host/base/random.h"
#include "host/base/system_call.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <numeric>

namespace gshmem::control {
namespace {

constexpr int kRetryMs = 10;  // when a mailbox is full, or too many descriptors are in flight
// Interval at which the function of set_stopped() is called. Its event need not wake this thread.
constexpr int kLookMs = 50;
constexpr double kGoneSeconds = 1;  // time limit for notifying all PEs of the host

constexpr std::size_t kMaxBytes = 4096;

using Name = LocalPeers::Name;

/// The header of a message.
struct Sender {
  Name word{};              ///< secret word of the receiving PE
  std::uint32_t epoch = 0;  ///< reserved: always 0
  std::int32_t index = -1;
  std::uint32_t kind = 0;
  std::uint32_t unused = 0;
};

/// Returns a random number for this process. The process id would not do, since each container has
/// its own numbering. Children of one process get different numbers, too.
std::uint64_t this_process() {
  // The low bits hold the number of forks when the number was drawn.
  static std::atomic<std::uint64_t> known{0};
  const std::uint64_t forks = (fork_count() + 1) & 0xffff;
  std::uint64_t now = known.load();
  while ((now & 0xffff) != forks) {
    const std::uint64_t made = random_bits<std::uint64_t>() << 16 | forks;
    if (known.compare_exchange_strong(now, made)) return made;
  }
  return now;
}

/// An abstract address: a zero byte, then the name. The address of the mailbox has one more
/// character.
struct Address {
  sockaddr_un un{};
  socklen_t length;
  explicit Address(const Name& name, bool mailbox = false) {
    un.sun_family = AF_UNIX;
    const std::string text =
        '\0' + strprintf("gshmem.%016lx%016lx%s", name[0], name[1], mailbox ? "m" : "");
    std::memcpy(un.sun_path, text.data(), text.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&un); }
};

Fd make_socket(int type) {
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

/// The first message from PE `index` to the PE whose word is `word`.
net::Frame hello_to(const Name& word, int index) {
  return net::make_frame({.kind = net::FrameKind::kHello, .rank = index},
                         std::as_bytes(std::span(word)));
}

/// Returns all descriptors that came with a message.
std::vector<Fd> descriptors_of(cmsghdr* part) {
  std::vector<Fd> fds;
  for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
    int fd = -1;
    std::memcpy(&fd, reinterpret_cast<const char*>(part) + at, sizeof(fd));
    fds.emplace_back(fd);
  }
  return fds;
}

}  // namespace

std::uint64_t LocalPeers::layout() {
  return layout_of({sizeof(Contact), offsetof(Contact, word), offsetof(Contact, process),
                    sizeof(Sender), offsetof(Sender, epoch), offsetof(Sender, index),
                    offsetof(Sender, kind)});
}

LocalPeers::Contact LocalPeers::open() {
  const Name name = random_bits<Name>();
  listener_ = make_socket(SOCK_STREAM | SOCK_NONBLOCK);
  const Address own(name);
  check_errno(::bind(listener_.get(), own.get(), own.length), "bind");
  constexpr int kBacklog = 4096;  // all PEs of a host may connect at the same time
  check_errno(::listen(listener_.get(), kBacklog), "listen");
  mailbox_ = make_socket(SOCK_DGRAM);
  const Address mailbox(name, true);
  check_errno(::bind(mailbox_.get(), mailbox.get(), mailbox.length), "bind");
  const int yes = 1;
  check_errno(::setsockopt(mailbox_.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)),
              "setsockopt(SO_PASSCRED)");
  contact_ = {name, random_bits<Name>(), this_process()};
  return contact_;
}

std::vector<Link> LocalPeers::connect(const HostGroup& group, const std::vector<Contact>& contacts,
                                      double timeout_seconds) {
  group_ = &group;
  timeout_seconds_ = timeout_seconds;
  messages_ = std::vector<std::queue<Message>>(static_cast<std::size_t>(group.size()));
  gone_.resize(messages_.size());
  for (const int pe : group.pes) {
    contacts_.push_back(contacts[static_cast<std::size_t>(pe)]);
    require(contacts_.back().name != Name{}, GSHMEMX_ERROR_PEER_FAILED,
            strprintf("PE %d has no socket", pe));
  }
  std::vector<Link> links;
  try {
    connect_to_lower(links);
    accept_higher(links);
  } catch (const Error&) {
    hang_up();
    throw;
  }
  return links;
}

/// All PEs listen by now, so connecting to PEs with lower indices never waits for their accept.
void LocalPeers::connect_to_lower(std::vector<Link>& links) {
  for (int i = 0; i < group_->index; ++i) {
    if (!is_linked(i, group_->index)) continue;
    const Name& name = contacts_[static_cast<std::size_t>(i)].name;
    Fd socket = make_socket(SOCK_STREAM);
    const Address address(name);
    if (::connect(socket.get(), address.get(), address.length) != 0) {
      const std::string reason = std::strerror(errno);
      // A PE that gave up notified all others before it closed its listener, and may not be the
      // first PE that gave up.
      std::vector<int> all(contacts_.size());
      std::iota(all.begin(), all.end(), 0);
      take_messages(all);
      throw Error(GSHMEMX_ERROR_PEER_FAILED, strprintf("cannot connect to PE %d on this host: %s",
                                                       group_->pe(i), reason.c_str()));
    }
    const net::Frame hello = hello_to(contacts_[static_cast<std::size_t>(i)].word, group_->index);
    const auto sent = ::send(socket.get(), hello->data(), hello->size(), MSG_NOSIGNAL);
    require(sent == static_cast<ssize_t>(hello->size()), GSHMEMX_ERROR_PEER_FAILED,
            strprintf("PE %d closed its connection during init", group_->pe(i)));
    links.push_back({.pe = group_->pe(i), .fd = std::move(socket)});
  }
}

/// Are PEs a and b connected (a < b)? All PEs are connected to the first PE, which passes on news.
/// The first PE may be stopped, and then no PE of its process passes on anything. For that case the
/// rest of the host forms a chain.
bool LocalPeers::is_linked(int a, int b) const {
  return a == 0 ||
         (b - a == 1 && contacts_[static_cast<std::size_t>(b)].process != contacts_[0].process);
}

void LocalPeers::accept_higher(std::vector<Link>& links) {
  const Deadline deadline(timeout_seconds_);
  std::string refused;  // the refused caller
  std::vector<int> missing;
  for (int i = group_->index + 1; i < size(); ++i)
    if (is_linked(group_->index, i)) missing.push_back(i);
  const auto judge = [&](const net::Stream& caller, const net::Frame& hello) -> JobFailure {
    const uid_t user = user_of(caller.fd().get());
    if (user != geteuid()) {
      refused = strprintf(
          "; a process of user %u called, and this one is of user %u: all PEs of a "
          "host have to be of one user",
          unsigned{user}, unsigned{geteuid()});
    }
    const int index = net::header_of(hello).rank;
    const bool expected = std::find(missing.begin(), missing.end(), index) != missing.end();
    if (user == geteuid() && expected && *hello == *hello_to(contact_.word, index)) return {};
    return {GSHMEMX_ERROR_BOOTSTRAP, "refused: not a PE of this host" + refused};
  };
  const auto take = [&](net::Stream caller, const net::FrameHeader& hello) {
    std::erase(missing, hello.rank);
    links.push_back({.pe = group_->pe(hello.rank), .fd = std::move(caller).take_fd()});
  };
  std::vector<Fd> listeners;
  listeners.push_back(std::move(listener_));
  net::Reception reception(std::move(listeners), judge, take);
  while (!missing.empty()) {
    if (reception.wait(deadline, mailbox_)) take_messages(missing);
    require(reception.shortage().empty(), GSHMEMX_ERROR_SYSTEM, [&] {
      return strprintf("%s, with %zu PEs still to connect", reception.shortage().c_str(),
                       missing.size());
    });
    require(missing.empty() || !deadline.passed(), GSHMEMX_ERROR_TIMEOUT, [&] {
      return strprintf("timed out waiting for %zu higher-ranked PEs to connect%s", missing.size(),
                       refused.c_str());
    });
  }
}

void LocalPeers::hang_up() noexcept {
  const Deadline deadline(kGoneSeconds);
  for (int i = 0; i < size(); ++i) {
    try {
      while (i != group_->index && !post(i, Kind::kGone, -1, {}) && !deadline.passed())
        (void)::poll(nullptr, 0, kRetryMs);
    } catch (const Error&) {
      // That PE has failed itself.
    }
  }
}

/// Returns false when the mailbox of PE i is full, or too many descriptors are in flight (unix(7),
/// ETOOMANYREFS).
bool LocalPeers::post(int i, Kind kind, int fd, std::span<const char> bytes) {
  const Contact& contact = contacts_[static_cast<std::size_t>(i)];
  Sender sender{
      .word = contact.word, .index = group_->index, .kind = static_cast<std::uint32_t>(kind)};
  std::vector<char> content(bytes.begin(), bytes.end());
  iovec data[2] = {{&sender, sizeof(sender)}, {content.data(), content.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  Address to(contact.name, true);
  msghdr datagram{};
  datagram.msg_name = &to.un;
  datagram.msg_namelen = to.length;
  datagram.msg_iov = data;
  datagram.msg_iovlen = 2;
  if (fd >= 0) {
    datagram.msg_control = control;
    datagram.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&datagram);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  if (uninterrupted(
          [&] { return ::sendmsg(mailbox_.get(), &datagram, MSG_NOSIGNAL | MSG_DONTWAIT); }) >= 0)
    return true;
  if (errno == EAGAIN || errno == ETOOMANYREFS || errno == ENOBUFS) return false;
  throw Error(GSHMEMX_ERROR_PEER_FAILED,
              strprintf("cannot pass a segment to PE %d: %s", group_->pe(i), std::strerror(errno)));
}

/// Returns false when the mailbox is empty. Messages from processes outside of the job are dropped
/// together with their descriptors: any user of the host can send such messages.
bool LocalPeers::take_message() {
  Sender sender{};
  std::vector<char> content(kMaxBytes);
  iovec data[2] = {{&sender, sizeof(sender)}, {content.data(), content.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))] = {};
  msghdr datagram{};
  datagram.msg_iov = data;
  datagram.msg_iovlen = 2;
  datagram.msg_control = control;
  datagram.msg_controllen = sizeof(control);
  const ssize_t n = uninterrupted(
      [&] { return ::recvmsg(mailbox_.get(), &datagram, MSG_CMSG_CLOEXEC | MSG_DONTWAIT); });
  if (n < 0 && errno == EAGAIN) return false;
  check_errno(n, "recvmsg");
  std::vector<Fd> fds;
  ucred from{};  // SO_PASSCRED adds the sender's credentials to every message
  for (cmsghdr* part = CMSG_FIRSTHDR(&datagram); part != nullptr;
       part = CMSG_NXTHDR(&datagram, part)) {
    if (part->cmsg_type == SCM_CREDENTIALS) std::memcpy(&from, CMSG_DATA(part), sizeof(from));
    if (part->cmsg_type == SCM_RIGHTS) fds = descriptors_of(part);
  }
  if (from.uid != geteuid() || n < static_cast<ssize_t>(sizeof(sender)) ||
      sender.word != contact_.word || sender.epoch != 0 || sender.index < 0 ||
      sender.index >= size())
    return true;
  const auto index = static_cast<std::size_t>(sender.index);
  if (static_cast<Kind>(sender.kind) == Kind::kGone) {
    gone_[index] = true;
    return true;
  }
  content.resize(static_cast<std::size_t>(n) - sizeof(sender));
  Message message;
  message.bytes = std::move(content);
  message.lost = (datagram.msg_flags & MSG_CTRUNC) != 0;
  if (!fds.empty()) message.fd = std::move(fds.front());
  messages_[index].push(std::move(message));
  return true;
}

/// Reads all messages that have arrived. Errors: a PE of `from` has hung up and left no message.
void LocalPeers::take_messages(const std::vector<int>& from) {
  while (take_message()) {
  }
  check_gone(from);
}

/// Errors: a PE of `from` has hung up and left no message.
void LocalPeers::check_gone(const std::vector<int>& from) const {
  for (const int i : from) {
    const auto index = static_cast<std::size_t>(i);
    require(!gone_[index] || !messages_[index].empty(), GSHMEMX_ERROR_PEER_FAILED, [&] {
      return strprintf("PE %d closed its connection before it passed its segment", group_->pe(i));
    });
  }
}

/// Waits for a message for a short time and reads all that have arrived. Errors: a PE of `from` has
/// hung up and left no message; `stopped_` has a reason to give up.
void LocalPeers::wait_for_messages(const std::vector<int>& from, const Deadline& deadline) {
  check_gone(from);  // an earlier call may have read that PE's last message
  pollfd entry = polled(mailbox_.get(), POLLIN);
  const int ready = poll_once({&entry, 1}, sooner_ms(deadline.poll_ms(), kLookMs));
  const std::string why = ready > 0 ? "" : stopped_();
  take_messages(from);
  require(why.empty(), GSHMEMX_ERROR_PEER_FAILED, why);
}

LocalPeers::Message LocalPeers::read_message(int i) {
  std::queue<Message>& messages = messages_[static_cast<std::size_t>(i)];
  Message message = std::move(messages.front());
  messages.pop();
  return message;
}

void LocalPeers::check_time(const Deadline& deadline, int i, bool refused) const {
  if (!deadline.passed()) return;
  throw Error(GSHMEMX_ERROR_TIMEOUT,
              refused ? strprintf("timed out passing a segment to PE %d: too many descriptors of "
                                  "this user are in flight between processes; %s",
                                  group_->pe(i), descriptor_limit_text().c_str())
                      : strprintf("timed out waiting for the segment of PE %d", group_->pe(i)));
}

/// Descriptors in flight count against a limit that all processes of a user share: as many as one
/// process may open. A PE sends at most one message more than it has received, so there is never
/// more than one message in flight per PE.
std::vector<LocalPeers::Message> LocalPeers::exchange(int fd, const std::vector<char>& bytes) {
  const Deadline deadline(timeout_seconds_);
  std::vector<Message> all(contacts_.size());
  std::vector<int> missing;
  for (int i = 0; i < size(); ++i)
    if (i != group_->index) missing.push_back(i);
  const std::size_t others = missing.size();
  std::size_t sent = 0;
  const auto read_all = [&] {
    const std::size_t before = missing.size();
    std::erase_if(missing, [&](int i) {
      if (messages_[static_cast<std::size_t>(i)].empty()) return false;
      all[static_cast<std::size_t>(i)] = read_message(i);
      return true;
    });
    return missing.size() < before;
  };
  (void)read_all();  // reads messages of PEs that are ahead
  while (sent < others || !missing.empty()) {
    const int to = (group_->index + 1 + static_cast<int>(sent)) % size();
    const bool may_send = sent < others && sent <= others - missing.size();
    if (may_send && post(to, Kind::kMessage, fd, bytes)) {
      ++sent;
      continue;
    }
    wait_for_messages(missing, may_send ? deadline.within(kRetryMs / 1e3) : deadline);
    if (!read_all()) check_time(deadline, may_send ? to : missing.front(), may_send);
  }
  all[static_cast<std::size_t>(group_->index)].bytes = bytes;
  return all;
}

Fd LocalPeers::descriptor_from(int i, Message& message) const {
  require(!message.lost, GSHMEMX_ERROR_SYSTEM, [&] {
    return strprintf("no descriptor left for the segment of PE %d: %s", group_->pe(i),
                     descriptor_limit_text().c_str());
  });
  return std::move(message.fd);
}

bool LocalPeers::is_one_process() const noexcept {
  return std::all_of(contacts_.begin(), contacts_.end(),
                     [&](const Contact& contact) { return contact.process == contact_.process; });
}

std::vector<Fd> LocalPeers::exchange(int fd) {
  std::vector<Message> messages = exchange(fd, {});
  std::vector<Fd> fds;
  for (int i = 0; i < size(); ++i) {
    fds.push_back(i == group_->index ? duplicate(fd)
                                     : descriptor_from(i, messages[static_cast<std::size_t>(i)]));
  }
  return fds;
}

std::vector<std::vector<char>> LocalPeers::gather(const std::vector<char>& mine) {
  require(mine.size() <= kMaxBytes, GSHMEMX_ERROR_INTERNAL, "too many bytes for a message");
  std::vector<std::vector<char>> all;
  for (Message& message : exchange(-1, mine)) all.push_back(std::move(message.bytes));
  return all;
}

Fd LocalPeers::from_root(int fd_on_root) {
  const Deadline deadline(timeout_seconds_);
  if (group_->index != 0) {
    while (messages_[0].empty()) {
      wait_for_messages({0}, deadline);
      if (messages_[0].empty()) check_time(deadline, 0, false);
    }
    Message message = read_message(0);
    return descriptor_from(0, message);
  }
  for (int i = 1; i < size(); ++i) {
    while (!post(i, Kind::kMessage, fd_on_root, {})) {
      check_time(deadline, i, true);
      (void)::poll(nullptr, 0, kRetryMs);
    }
  }
  return duplicate(fd_on_root);
}

}  // namespace gshmem::control
