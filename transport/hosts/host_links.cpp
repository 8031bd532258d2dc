#include "transport/hosts/host_links.h"

#include "bootstrap/uid/socket.h"
#include "host/base/descriptors.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gshmem::hosts {
namespace {

using bootstrap::Cookie;
using bootstrap::Deadline;
using bootstrap::Endpoint;

/// Where a leader listens, and what proves that a caller is of this job.
struct Contact {
  Endpoint endpoint;
  Cookie cookie{};
};

struct Greeting {
  std::uint32_t magic = 0x67736867;
  std::int32_t pe = -1;
  Cookie cookie{};
};

void set_option(const Fd& fd, int level, int option, int value) {
  check_errno(::setsockopt(fd.get(), level, option, &value, sizeof(value)), "setsockopt");
}

/// Probes go out after `interval` seconds of silence and then every `interval`; the first one that
/// is due after the user timeout ends the connection instead (Linux, tcp_keepalive_timer), which is
/// before `limit`. The same option bounds data that is not acknowledged.
void watch(const Fd& fd, double limit) {
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, limit > 0 ? 1 : 0);
  const int interval = std::max(1, static_cast<int>(std::min(limit, 1e5) / 4));
  if (limit > 0) {
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, interval);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  }
  const double user_timeout = limit > 0 ? std::min(limit, 1e5) - interval : 0;
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(user_timeout * 1e3));
}

Fd connect_to_parent(const p2p::HostGroup& group, int parent, const Contact& contact,
                     const Deadline& deadline) {
  bootstrap::Attempt attempt = bootstrap::connect_to(contact.endpoint, deadline);
  if (!attempt.fd) {
    throw Error(attempt.error == ETIMEDOUT ? GSHMEMX_ERROR_TIMEOUT : GSHMEMX_ERROR_PEER_FAILED,
                strprintf("PE %d cannot connect to PE %d on host %s at %s: %s; choose the network "
                          "between the hosts with GSHMEM_UID_INTERFACE",
                          group.me(), parent, group.host_of(parent).c_str(),
                          bootstrap::endpoint_text(contact.endpoint).c_str(),
                          std::strerror(attempt.error)));
  }
  const Greeting greeting{.pe = group.me(), .cookie = contact.cookie};
  const auto sent = ::send(attempt.fd.get(), &greeting, sizeof(greeting), MSG_NOSIGNAL);
  require(sent == static_cast<ssize_t>(sizeof(greeting)), GSHMEMX_ERROR_PEER_FAILED,
          strprintf("PE %d closed its connection during init", parent));
  return std::move(attempt.fd);
}

/// Takes in the leaders that are to call, whatever else calls.
class Reception {
 public:
  Reception(const Fd& listener, const Cookie& cookie, std::vector<int> expected)
      : listener_(listener), cookie_(cookie), expected_(std::move(expected)) {}

  std::vector<Link> run(const p2p::HostGroup& group, const Deadline& deadline) {
    while (!expected_.empty()) {
      // In each round: strangers may call without end.
      if (deadline.passed()) throw_timeout(group);
      std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}};
      for (const Caller& caller : callers_) entries.push_back({caller.fd.get(), POLLIN, 0});
      const Deadline until = callers_.empty() ? deadline : deadline.within(kHandshakeSeconds);
      const int ready = ::poll(entries.data(), entries.size(), until.poll_ms());
      if (ready < 0 && errno != EINTR) check_errno(-1, "poll");
      for (std::size_t i = entries.size() - 1; i > 0; --i) {
        if (ready > 0 && entries[i].revents != 0 && greet(callers_[i - 1])) erase(i - 1);
      }
      if (ready > 0 && entries[0].revents != 0) accept_one();
      std::erase_if(callers_, [](const Caller& caller) { return caller.until.passed(); });
    }
    return std::move(links_);
  }

 private:
  struct Caller {
    Fd fd;
    Deadline until{kHandshakeSeconds};
  };

  void erase(std::size_t i) { callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i)); }

  /// The oldest caller makes room for the newest.
  void accept_one() {
    Fd fd = bootstrap::accept_from(listener_);
    if (!fd && !is_shortage(errno)) return;
    if (!fd && callers_.empty()) {
      throw Error(GSHMEMX_ERROR_SYSTEM,
                  strprintf("accept4, with %zu hosts still to connect: %s; %s", expected_.size(),
                            std::strerror(errno), descriptor_limit_text().c_str()));
    }
    if (!fd) return erase(0);
    callers_.push_back({std::move(fd)});
    if (greet(callers_.back())) return callers_.pop_back();
    if (callers_.size() > stranger_limit()) erase(0);
  }

  /// True when nothing more is to be had from it.
  [[nodiscard]] bool greet(Caller& caller) {
    // A greeting is less than any segment: it comes whole, or not from one of us.
    Greeting greeting;
    greeting.magic = 0;
    const auto n = ::recv(caller.fd.get(), &greeting, sizeof(greeting), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
    const auto found = std::find(expected_.begin(), expected_.end(), greeting.pe);
    if (n == static_cast<ssize_t>(sizeof(greeting)) && greeting.magic == Greeting{}.magic &&
        greeting.cookie == cookie_ && found != expected_.end()) {
      links_.push_back({greeting.pe, std::move(caller.fd)});
      expected_.erase(found);
    }
    return true;
  }

  [[noreturn]] void throw_timeout(const p2p::HostGroup& group) const {
    throw Error(GSHMEMX_ERROR_TIMEOUT,
                strprintf("PE %d on host %s did not connect to PE %d; choose the network between "
                          "the hosts with GSHMEM_UID_INTERFACE",
                          expected_.front(), group.host_of(expected_.front()).c_str(), group.me()));
  }

  const Fd& listener_;
  Cookie cookie_;
  std::vector<int> expected_;
  std::vector<Caller> callers_;  ///< oldest first
  std::vector<Link> links_;
};

}  // namespace

double silence_limit(const Config& config) {
  double limit = config.heartbeat;
  if (config.timeout > 0 && (limit <= 0 || config.timeout < limit)) limit = config.timeout;
  return limit > 0 ? std::max(limit, 2.0) : 0;
}

std::vector<Link> connect_hosts(bootstrap::Bootstrap& boot, const p2p::HostGroup& group,
                                const Endpoint& address, const Config& config,
                                double timeout_seconds) {
  const Neighbours neighbours = tree_neighbours(group);
  std::vector<int> expected;
  std::copy_if(neighbours.children.begin(), neighbours.children.end(), std::back_inserter(expected),
               [&](int pe) { return group.host_of(pe) != group.host_of(group.me()); });
  Contact mine;
  bootstrap::Listener listener;
  std::optional<Error> failure;  // thrown when the others have what they wait for
  try {
    if (!expected.empty()) {
      listener = bootstrap::listen_on(address);
      mine = {listener.endpoint, bootstrap::random_cookie()};
    }
  } catch (const Error& error) {
    failure = error;
  }
  const std::vector<Contact> contacts = bootstrap::allgather(boot, mine);
  if (failure) throw *failure;

  const Deadline deadline(timeout_seconds);
  std::vector<Link> links;
  if (group.index == 0 && neighbours.parent >= 0) {
    const Contact& contact = contacts[static_cast<std::size_t>(neighbours.parent)];
    require(contact.endpoint.port != 0, GSHMEMX_ERROR_PEER_FAILED,
            strprintf("PE %d does not listen", neighbours.parent));
    links.push_back(
        {neighbours.parent, connect_to_parent(group, neighbours.parent, contact, deadline)});
  }
  for (Link& link : Reception(listener.fd, mine.cookie, expected).run(group, deadline))
    links.push_back(std::move(link));
  for (const Link& link : links) watch(link.fd, silence_limit(config));
  return links;
}

}  // namespace gshmem::hosts
