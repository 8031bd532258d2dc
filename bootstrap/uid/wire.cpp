#include "bootstrap/uid/wire.h"

#include <algorithm>
#include <cstring>

namespace gshmem::bootstrap {
namespace {

class Writer {
 public:
  void u16(std::uint16_t value) { integer(value, 2); }
  void u32(std::uint32_t value) { integer(value, 4); }
  void u64(std::uint64_t value) { integer(value, 8); }
  void bytes(ByteView data) { out_.insert(out_.end(), data.begin(), data.end()); }
  void text(std::string_view text) {
    bytes(std::as_bytes(std::span(text.substr(0, kMaxTextBytes))));
  }
  void reserve(std::size_t count) { out_.reserve(count); }
  [[nodiscard]] Bytes take() { return std::move(out_); }

 private:
  void integer(std::uint64_t value, int width) {
    for (int i = width - 1; i >= 0; --i)
      out_.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xFF));
  }
  Bytes out_;
};

/// Reads past the end yield zeros and make ok() false.
class Reader {
 public:
  explicit Reader(ByteView in) : in_(in) {}
  std::uint8_t u8() { return static_cast<std::uint8_t>(integer(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(integer(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(integer(4)); }
  std::uint64_t u64() { return integer(8); }
  ByteView bytes(std::size_t count) {
    if (count > in_.size()) {
      ok_ = false;
      count = in_.size();
    }
    const ByteView taken = in_.first(count);
    in_ = in_.subspan(count);
    return taken;
  }
  ByteView rest() { return bytes(in_.size()); }
  std::string text() {
    if (in_.size() > kMaxTextBytes) ok_ = false;
    std::string result;
    for (const std::byte b : bytes(std::min(in_.size(), kMaxTextBytes))) {
      const auto c = static_cast<char>(b);
      const bool printable = (c >= ' ' && c <= '~') || static_cast<unsigned char>(c) >= 0x80;
      result += printable ? c : '?';
    }
    return result;
  }
  [[nodiscard]] bool ok() const { return ok_ && in_.empty(); }

 private:
  std::uint64_t integer(std::size_t width) {
    std::uint64_t value = 0;
    if (width > in_.size()) {
      ok_ = false;
      return 0;
    }
    for (const std::byte b : bytes(width)) value = (value << 8) | static_cast<std::uint64_t>(b);
    return value;
  }
  ByteView in_;
  bool ok_ = true;
};

Writer frame(FrameType type, std::uint64_t length) {
  Writer out;
  out.reserve(FrameHeader::kBytes + length);
  out.u32(FrameHeader::kMagic);
  out.u16(FrameHeader::kVersion);
  out.u16(static_cast<std::uint16_t>(type));
  out.u64(length);
  return out;
}

constexpr std::uint32_t kHostsRoot = 1;         // Hello flags
constexpr std::uint32_t kIdMagic = 0x47554944;  // "GUID"
constexpr std::size_t kIdBytes = 4 + 1 + 16 + 2 + 16;

template <class T>
std::optional<T> accept_if(bool ok, T value) {
  return ok ? std::optional<T>(std::move(value)) : std::nullopt;
}

}  // namespace

void encode_uniqueid(const UniqueId& id, gshmemx_uniqueid* packed) {
  Writer out;
  out.reserve(kIdBytes);
  out.u32(kIdMagic);
  const std::byte family{static_cast<std::uint8_t>(id.root.family)};
  out.bytes({&family, 1});
  out.bytes(std::as_bytes(std::span(id.root.ip)));
  out.u16(id.root.port);
  out.bytes(id.cookie);
  const Bytes bytes = out.take();
  *packed = {};
  packed->version = kUniqueIdVersion;
  static_assert(kIdBytes <= sizeof packed->internal);
  std::memcpy(packed->internal, bytes.data(), bytes.size());
}

std::optional<UniqueId> decode_uniqueid(const gshmemx_uniqueid& packed) {
  if (packed.version != kUniqueIdVersion) return std::nullopt;
  Reader in(std::as_bytes(std::span(packed.internal)));
  if (in.u32() != kIdMagic) return std::nullopt;
  UniqueId id;
  const std::uint8_t family = in.u8();
  if (family != 4 && family != 6) return std::nullopt;
  id.root.family = static_cast<Endpoint::Family>(family);
  std::memcpy(id.root.ip.data(), in.bytes(16).data(), 16);
  id.root.port = in.u16();
  const ByteView cookie = in.bytes(id.cookie.size());
  std::copy(cookie.begin(), cookie.end(), id.cookie.begin());
  const ByteView padding = in.rest();
  const bool clean =
      std::all_of(padding.begin(), padding.end(), [](std::byte b) { return b == std::byte{0}; });
  return accept_if(clean && in.ok() && id.root.port != 0, id);
}

std::optional<FrameHeader> decode_header(std::span<const std::byte, 16> bytes) {
  Reader in(bytes);
  if (in.u32() != FrameHeader::kMagic) return std::nullopt;
  FrameHeader header;
  header.version = in.u16();
  header.type = static_cast<FrameType>(in.u16());
  header.length = in.u64();
  return header;
}

bool frame_length_valid(FrameType type, std::uint64_t length) {
  switch (type) {
    case FrameType::kHello:
      return length == 16 + 4 + 4 + 4;
    case FrameType::kWelcome:
      return length == 4 + 4;
    case FrameType::kGather:
      return length >= 8 + 4 && length <= 8 + 4 + kMaxGatherBytes;
    case FrameType::kResult:
      return length >= 8 && length <= std::uint64_t{1} << 40;
    case FrameType::kLeave:
      return length == 0;
    case FrameType::kAbort:
    case FrameType::kFail:
      return length >= 4 && length <= 4 + kMaxTextBytes;
    case FrameType::kExpired:
      return length == 8 + 8;
  }
  return false;
}

const char* operation_name(Operation operation) {
  return operation == Operation::kBarrier    ? "barrier"
         : operation == Operation::kAlltoall ? "alltoall"
                                             : "allgather";
}

Bytes encode(const Hello& hello) {
  Writer out = frame(FrameType::kHello, 28);
  out.bytes(hello.cookie);
  out.u32(hello.rank);
  out.u32(hello.size);
  out.u32(hello.hosts_root ? kHostsRoot : 0);
  return out.take();
}

Bytes encode(const Welcome& welcome) {
  Writer out = frame(FrameType::kWelcome, 8);
  out.u32(welcome.size);
  out.u32(static_cast<std::uint32_t>(welcome.root_rank));
  return out.take();
}

Bytes encode(const Gather& gather) {
  Writer out = frame(FrameType::kGather, 12 + gather.data.size());
  out.u64(gather.number);
  out.u32(static_cast<std::uint32_t>(gather.operation));
  out.bytes(gather.data);
  return out.take();
}

Bytes encode(const Abort& abort) {
  Writer out = frame(FrameType::kAbort, 4 + std::min(abort.reason.size(), kMaxTextBytes));
  out.u32(static_cast<std::uint32_t>(abort.code));
  out.text(abort.reason);
  return out.take();
}

Bytes encode(const Fail& fail) {
  Writer out = frame(FrameType::kFail, 4 + std::min(fail.text.size(), kMaxTextBytes));
  out.u32(fail.status);
  out.text(fail.text);
  return out.take();
}

Bytes encode(const Expired& expired) {
  Writer out = frame(FrameType::kExpired, 16);
  out.u64(expired.number);
  out.u64(expired.timeout_ms);
  return out.take();
}

Bytes encode_leave() { return frame(FrameType::kLeave, 0).take(); }

Bytes encode_result(std::uint64_t number, std::uint64_t data_bytes) {
  Writer out = frame(FrameType::kResult, 8 + data_bytes);
  out.u64(number);
  Bytes result = out.take();
  result.resize(kResultDataOffset + data_bytes);
  return result;
}

std::optional<Hello> decode_hello(ByteView payload) {
  Reader in(payload);
  Hello hello;
  const ByteView cookie = in.bytes(hello.cookie.size());
  std::copy(cookie.begin(), cookie.end(), hello.cookie.begin());
  hello.rank = in.u32();
  hello.size = in.u32();
  const std::uint32_t flags = in.u32();
  hello.hosts_root = flags == kHostsRoot;
  return accept_if(in.ok() && flags <= kHostsRoot, hello);
}

std::optional<Welcome> decode_welcome(ByteView payload) {
  Reader in(payload);
  Welcome welcome;
  welcome.size = in.u32();
  welcome.root_rank = static_cast<std::int32_t>(in.u32());
  return accept_if(in.ok(), welcome);
}

std::optional<Gather> decode_gather(ByteView payload) {
  Reader in(payload);
  Gather gather;
  gather.number = in.u64();
  const std::uint32_t operation = in.u32();
  gather.operation = static_cast<Operation>(operation);
  gather.data = in.rest();
  return accept_if(in.ok() && operation <= 2 && gather.data.size() <= kMaxGatherBytes, gather);
}

std::optional<Result> decode_result(ByteView payload) {
  Reader in(payload);
  Result result;
  result.number = in.u64();
  result.data = in.rest();
  return accept_if(in.ok(), result);
}

std::optional<Abort> decode_abort(ByteView payload) {
  Reader in(payload);
  Abort abort;
  abort.code = static_cast<std::int32_t>(in.u32());
  abort.reason = in.text();
  return accept_if(in.ok(), std::move(abort));
}

std::optional<Fail> decode_fail(ByteView payload) {
  Reader in(payload);
  Fail fail;
  fail.status = in.u32();
  fail.text = in.text();
  return accept_if(in.ok(), std::move(fail));
}

std::optional<Expired> decode_expired(ByteView payload) {
  Reader in(payload);
  Expired expired;
  expired.number = in.u64();
  expired.timeout_ms = in.u64();
  return accept_if(in.ok(), expired);
}

}  // namespace gshmem::bootstrap
