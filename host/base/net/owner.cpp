#include "host/base/net/owner.h"

#include "host/base/net/socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace gshmem::net {
namespace {

const char* table_of(Endpoint::Family family) {
  return family == Endpoint::Family::kIpv4 ? "/proc/net/tcp" : "/proc/net/tcp6";
}

/// Returns an address in the format of the table: the words of the address as they are in memory,
/// then the port (proc(5)).
std::string column_of(const Endpoint& endpoint) {
  std::string text;
  const std::size_t bytes = endpoint.family == Endpoint::Family::kIpv4 ? 4 : 16;
  for (std::size_t at = 0; at < bytes; at += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, endpoint.ip.data() + at, sizeof(word));
    text += strprintf("%08X", word);
  }
  return text + strprintf(":%04X", unsigned{endpoint.port});
}

template <class Call>
std::optional<Endpoint> end_of(const Fd& connection, Call call) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (call(connection.get(), any, &length) != 0) return std::nullopt;
  return endpoint_from(any);
}

}  // namespace

std::optional<uid_t> peer_user(const Fd& connection) {
  const auto here = end_of(connection, ::getsockname), there = end_of(connection, ::getpeername);
  if (!here || !there) return std::nullopt;
  const std::string local = column_of(*there), remote = column_of(*here);
  std::ifstream table(table_of(there->family));
  for (std::string line; std::getline(table, line);) {
    std::istringstream columns(line);
    std::string number, from, to, state, queues, timer, retransmits;
    uid_t user = 0;
    columns >> number >> from >> to >> state >> queues >> timer >> retransmits >> user;
    // For a connection that its process has closed, the kernel does not know the user and shows 0.
    constexpr const char* kEstablished = "01";
    if (columns && from == local && to == remote && state == kEstablished) return user;
  }
  return std::nullopt;
}

std::string peer_text(const Fd& connection) {
  const auto there = end_of(connection, ::getpeername);
  return there ? endpoint_text(*there) : "an unknown address";
}

bool peer_users_known() {
  return std::ifstream(table_of(Endpoint::Family::kIpv4)).good() &&
         std::ifstream(table_of(Endpoint::Family::kIpv6)).good();
}

}  // namespace gshmem::net
