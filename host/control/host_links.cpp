#include "host/control/host_links.h"

#include "host/base/net/candidates.h"
#include "host/base/net/reception.h"
#include "host/control/tree.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

namespace gshmem::control {
namespace {

/// The addresses at which a leader listens, best first, and the cookie by which a caller proves
/// that it belongs to this job.
struct Contact {
  std::array<net::Endpoint, net::kMaxCandidates> endpoints{};
  std::uint64_t count = 0;
  net::Cookie cookie{};
};

/// Time limit for one address while there are other addresses to try. Two hosts may have a network
/// in common that drops all packets.
constexpr double kAttemptSeconds = 3;

/// Number of unanswered probes before the connection ends; silence_limit assumes it.
constexpr double kProbes = 9;

void set_option(const Fd& fd, int level, int option, int value) {
  check_errno(::setsockopt(fd.get(), level, option, &value, sizeof(value)), "setsockopt");
}

/// Probes are sent after `interval` seconds of silence and then every `interval`. The first probe
/// that is due after the user timeout ends the connection instead (Linux, tcp_keepalive_timer),
/// which is before `limit`. The same option also limits how long sent data may stay unacknowledged.
/// TCP retransmits data at intervals that double, so after an outage the data may need as long as
/// the outage lasted to arrive. Therefore the user timeout is longer than two heartbeats. Every
/// stream has probes (socket.cpp). Without a limit the stream does not get this timeout.
void watch(const Fd& fd, double limit) {
  if (limit == 0) return set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
  const double seconds = std::min(limit, 1e5);
  const int interval = std::max(1, static_cast<int>(seconds / kProbes));
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, interval);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>((seconds - interval) * 1e3));
}

/// Tries every address in turn, until one answers or the deadline has passed.
net::Attempt connect_to_any(std::span<const net::Endpoint> endpoints, const Deadline& deadline) {
  net::Attempt attempt;
  for (bool silent = true; silent && (attempt.error == 0 || !deadline.passed());) {
    silent = false;
    for (const net::Endpoint& endpoint : endpoints) {
      attempt = net::connect_to(
          endpoint, endpoints.size() == 1 ? deadline : deadline.within(kAttemptSeconds));
      if (attempt.fd) return attempt;
      silent |= attempt.error == ETIMEDOUT;
    }
    if (silent) attempt.error = ETIMEDOUT;
  }
  return attempt;
}

Fd connect_to_leader(const HostGroup& group, int leader, const Contact& contact,
                     const Deadline& deadline) {
  const std::span endpoints(contact.endpoints.data(), static_cast<std::size_t>(contact.count));
  net::Attempt attempt = connect_to_any(endpoints, deadline);
  if (!attempt.fd) {
    std::string tried;
    for (const net::Endpoint& endpoint : endpoints)
      tried += (tried.empty() ? "" : ", ") + net::endpoint_text(endpoint);
    throw Error(attempt.error == ETIMEDOUT ? GSHMEMX_ERROR_TIMEOUT : GSHMEMX_ERROR_PEER_FAILED,
                strprintf("PE %d cannot connect to PE %d on host %s at %s: %s; choose the network "
                          "between the hosts with GSHMEM_UID_INTERFACE",
                          group.me(), leader, group.host_of(leader).c_str(), tried.c_str(),
                          std::strerror(attempt.error)));
  }
  const net::Frame hello =
      net::make_frame({.kind = net::FrameKind::kHello, .rank = group.me()}, contact.cookie);
  const auto sent = ::send(attempt.fd.get(), hello->data(), hello->size(), MSG_NOSIGNAL);
  require(sent == static_cast<ssize_t>(hello->size()), GSHMEMX_ERROR_PEER_FAILED,
          strprintf("PE %d closed its connection during init", leader));
  return std::move(attempt.fd);
}

/// Accepts the connections of the leaders in `expected`.
std::vector<Link> receive(std::vector<Fd> listeners, const net::Cookie& cookie,
                          std::vector<int> expected, const HostGroup& group,
                          const Deadline& deadline) {
  std::vector<Link> links;
  const auto judge = [&](const net::Stream&, const net::Frame& hello) -> JobFailure {
    const net::ByteView theirs = net::payload_of(hello);
    const bool knows = std::ranges::equal(theirs, cookie);
    const int pe = net::header_of(hello).rank;
    if (knows && std::ranges::find(expected, pe) != expected.end()) return {};
    return {GSHMEMX_ERROR_BOOTSTRAP, "refused: not a host of this job"};
  };
  net::Reception reception(std::move(listeners), judge,
                           [&](net::Stream caller, const net::FrameHeader& hello) {
                             std::erase(expected, hello.rank);
                             links.push_back({hello.rank, true, std::move(caller).take_fd()});
                           });
  while (!expected.empty()) {
    (void)reception.wait(deadline);
    require(reception.shortage().empty(), GSHMEMX_ERROR_SYSTEM, [&] {
      return strprintf("%s, with %zu hosts still to connect", reception.shortage().c_str(),
                       expected.size());
    });
    require(expected.empty() || !deadline.passed(), GSHMEMX_ERROR_TIMEOUT, [&] {
      return strprintf(
          "PE %d on host %s did not connect to PE %d; choose the network between the hosts with "
          "GSHMEM_UID_INTERFACE",
          expected.front(), group.host_of(expected.front()).c_str(), group.me());
    });
  }
  return links;
}

}  // namespace

double silence_limit(const Config& config) {
  // 8/9 of this limit, the user timeout, is two heartbeats and 1.7 s.
  double limit = config.heartbeat > 0 ? 2.25 * config.heartbeat + 2 : 0;
  if (config.timeout > 0 && (limit <= 0 || config.timeout < limit)) limit = config.timeout;
  return limit > 0 ? std::max(limit, 2.0) : 0;
}

std::vector<Link> connect_hosts(Collectives& ranks, const HostGroup& group,
                                const std::vector<net::Endpoint>& addresses, const Config& config,
                                double timeout_seconds) {
  const Neighbours neighbours = neighbours_of(group);
  // Leaders with higher numbers connect to leaders with lower numbers.
  std::vector<int> to_call, expected;
  for (const auto& some :
       {std::vector{neighbours.parent}, neighbours.children, neighbours.across}) {
    for (const int pe : some) {
      if (pe < 0 || group.node_of[static_cast<std::size_t>(pe)] == group.node) continue;
      (pe < group.me() ? to_call : expected).push_back(pe);
    }
  }
  Contact mine;
  std::vector<Fd> listeners;
  // It is thrown after the collective, so that the other PEs do not wait.
  std::optional<Error> failure;
  try {
    if (!expected.empty()) {
      mine.cookie = net::random_cookie();
      for (const net::Endpoint& address : addresses) {
        if (mine.count == mine.endpoints.size()) break;
        net::Listener listener = net::listen_on(address);
        mine.endpoints[mine.count++] = listener.endpoint;
        listeners.push_back(std::move(listener.fd));
      }
    }
  } catch (const Error& error) {
    failure = error;
  }
  const std::vector<Contact> contacts = allgather(ranks, mine);
  if (failure) throw *failure;

  const Deadline deadline(timeout_seconds);
  std::vector<Link> links;
  for (const int leader : to_call) {
    const Contact& contact = contacts[static_cast<std::size_t>(leader)];
    require(contact.count != 0, GSHMEMX_ERROR_PEER_FAILED,
            strprintf("PE %d does not listen", leader));
    links.push_back({leader, true, connect_to_leader(group, leader, contact, deadline)});
  }
  for (Link& link : receive(std::move(listeners), mine.cookie, expected, group, deadline))
    links.push_back(std::move(link));
  for (const Link& link : links) watch(link.fd, silence_limit(config));
  return links;
}

std::vector<net::Endpoint> confirm_addresses(Collectives& ranks, const HostGroup& group,
                                             std::vector<net::Endpoint> addresses,
                                             const std::vector<Link>& links) {
  net::Endpoint used{};
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (!links.empty() && ::getsockname(links.front().fd.get(), name, &size) == 0)
    used = net::endpoint_from(name).value_or(used);
  const std::vector<net::Endpoint> all = allgather(ranks, used);
  used = all[static_cast<std::size_t>(group.leaders[static_cast<std::size_t>(group.node)])];
  std::stable_partition(addresses.begin(), addresses.end(), [&](const net::Endpoint& one) {
    return one.family == used.family && one.ip == used.ip;
  });
  return addresses;
}

}  // namespace gshmem::control
