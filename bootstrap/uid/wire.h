// What travels in the uid bootstrap, as bytes: the unique id and the frames between a rank and the
// root service. Included by bootstrap/uid and its tests. Pure: no sockets, no state. Everything is
// big-endian; a decoder accepts exactly what its encoder can produce and never reads beyond its
// input, whoever wrote it.
#pragma once

#include <gshmem/uniqueid.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gshmem::bootstrap {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;
using Cookie = std::array<std::byte, 16>;

/// An IPv4 or IPv6 address and a TCP port.
struct Endpoint {
  enum class Family : std::uint8_t { kIpv4 = 4, kIpv6 = 6 };
  Family family = Family::kIpv4;
  std::array<std::uint8_t, 16> ip{};  ///< network order; IPv4 takes the first four
  std::uint16_t port = 0;
  std::uint32_t scope =
      0;  ///< of a link-local address: the interface of this host; not on the wire
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// What is packed in a gshmemx_uniqueid: where the root service listens, and proof of membership.
struct UniqueId {
  Endpoint root;
  Cookie cookie{};
  friend bool operator==(const UniqueId&, const UniqueId&) = default;
};

constexpr int kUniqueIdVersion = 1;
void encode_uniqueid(const UniqueId& id, gshmemx_uniqueid* packed);
/// Empty when the bytes are no id of this version (zeroed, truncated, another library's).
[[nodiscard]] std::optional<UniqueId> decode_uniqueid(const gshmemx_uniqueid& packed);

enum class FrameType : std::uint16_t {
  kHello = 1,    ///< rank to root: let me in
  kWelcome = 2,  ///< root to rank: all ranks are here
  kGather = 3,   ///< rank to root: my contribution to a collective
  kResult = 4,   ///< root to rank: all contributions
  kLeave = 5,    ///< rank to root: I go, all is well
  kAbort = 6,    ///< rank to root: the job is to fail
  kFail = 7,     ///< root to rank: the job has failed, or you are refused
  kExpired = 8,  ///< rank to root: my time is up, who is missing?
};

/// The layout of this header and of Fail stays the same in every version. So two versions can tell
/// each other why they do not work together.
struct FrameHeader {
  static constexpr std::size_t kBytes = 16;
  static constexpr std::uint32_t kMagic = 0x47534842;  // "GSHB"
  static constexpr std::uint16_t kVersion = 2;
  std::uint16_t version = kVersion;
  FrameType type = FrameType::kHello;
  std::uint64_t length = 0;  ///< bytes of payload
};
/// Empty when the magic is wrong. Says nothing about version, type and length.
[[nodiscard]] std::optional<FrameHeader> decode_header(std::span<const std::byte, 16> bytes);
/// The type is known and can have a payload of this length.
[[nodiscard]] bool frame_length_valid(FrameType type, std::uint64_t length);

constexpr std::uint64_t kMaxGatherBytes = std::uint64_t{1} << 30;  // per rank and collective
constexpr std::size_t kMaxTextBytes = 2048;                        // of Abort and Fail

enum class Operation : std::uint32_t { kAllgather = 0, kBarrier = 1, kAlltoall = 2 };
[[nodiscard]] const char* operation_name(Operation operation);

struct Hello {
  Cookie cookie{};
  std::uint32_t rank = 0, size = 0;
  bool hosts_root = false;  ///< the root service runs in this rank's process
};
struct Welcome {
  std::uint32_t size = 0;
  std::int32_t root_rank = -1;  ///< -1 = the root service runs in no rank's process
};
struct Gather {
  std::uint64_t number = 0;  ///< 1 for a job's first collective
  Operation operation = Operation::kAllgather;
  ByteView data;  ///< into the payload it was decoded from
};
struct Result {
  std::uint64_t number = 0;
  ByteView data;
};
struct Abort {
  std::int32_t code = 0;
  std::string reason;
};
struct Fail {
  std::uint32_t status = 0;  ///< a gshmemx_status
  std::string text;
};
struct Expired {
  std::uint64_t number = 0;      ///< the collective waited for; 0 = the others to join
  std::uint64_t timeout_ms = 0;  ///< how long
};

[[nodiscard]] Bytes encode(const Hello& hello);
[[nodiscard]] Bytes encode(const Welcome& welcome);
[[nodiscard]] Bytes encode(const Gather& gather);
[[nodiscard]] Bytes encode(const Abort& abort);  ///< cuts the reason at kMaxTextBytes
[[nodiscard]] Bytes encode(const Fail& fail);    ///< cuts the text at kMaxTextBytes
[[nodiscard]] Bytes encode(const Expired& expired);
[[nodiscard]] Bytes encode_leave();
/// A Result whose `data_bytes` of data are zero, to be filled in from kResultDataOffset on.
[[nodiscard]] Bytes encode_result(std::uint64_t number, std::uint64_t data_bytes);
constexpr std::size_t kResultDataOffset = FrameHeader::kBytes + 8;

[[nodiscard]] std::optional<Hello> decode_hello(ByteView payload);
[[nodiscard]] std::optional<Welcome> decode_welcome(ByteView payload);
[[nodiscard]] std::optional<Gather> decode_gather(ByteView payload);
[[nodiscard]] std::optional<Result> decode_result(ByteView payload);
/// Unprintable characters of the texts become '?': they end in messages on a terminal.
[[nodiscard]] std::optional<Abort> decode_abort(ByteView payload);
[[nodiscard]] std::optional<Fail> decode_fail(ByteView payload);
[[nodiscard]] std::optional<Expired> decode_expired(ByteView payload);

}  // namespace gshmem::bootstrap
