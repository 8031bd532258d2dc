// Fields of PRM structures by name, for the firmware: `get(bytes, qpc::mtu)`. Field names are those
// of the PRM, with one namespace per structure, so that a reader can look them up. Nothing is
// shared with the client's encoder (transport/nic/mlx5), so that an error of one side is visible at
// the other. Bounds are not checked here: the dispatcher has checked the length of the whole
// command.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gshmem::soft {

/// Bits high..low of the big-endian 32-bit word at `byte`.
struct Field {
  std::uint16_t byte;
  std::uint8_t high, low;
};
/// The big-endian 64-bit word at `byte`.
struct Field64 {
  std::uint16_t byte;
};

/// The meaning of input in a field to the firmware (prm_fields.def).
enum class FieldRule : std::uint8_t { kUsed, kIgnored, kZero };

#define GSHNIC_FIELD(structure, field, byte, high, low, rule) \
  namespace structure {                                       \
  inline constexpr Field field{byte, high, low};              \
  }
#define GSHNIC_FIELD64(structure, field, byte, rule) \
  namespace structure {                              \
  inline constexpr Field64 field{byte};              \
  }
#define GSHNIC_BYTES(structure, first, bytes)
#include "transport/softnic/verbs/prm_fields.def"

/// Bytes of the structures that the firmware walks as a whole.
inline constexpr std::size_t kCqcBytes = 0x40, kQpcBytes = 0xe8, kAdsBytes = 0x2c, kWqBytes = 0xc0,
                             kDctcBytes = 0x40;
/// Offsets of these structures: cqc in create_cq_in, dctc in the input of CREATE_DCT and the output
/// of QUERY_DCT. qpc is in create_qp_in, in every command that modifies a queue pair and in
/// query_qp_out. The primary path is in qpc.
inline constexpr std::size_t kCqcOffset = 0x10, kDctcOffset = 0x10, kQpcOffset = 0x18,
                             kPathOffset = 0x18;
/// Bytes of the capabilities of one type.
inline constexpr std::size_t kCapBytes = 0x1000;
inline constexpr std::size_t kRmpcOffset = 0x20, kWqInRmpc = 0x30;
/// Results of queries: capabilities, port context, RoCE address.
inline constexpr std::size_t kReplyOffset = 0x10;

constexpr std::uint32_t load_be32(const std::uint8_t* p) {
  return static_cast<std::uint32_t>(p[0]) << 24 | static_cast<std::uint32_t>(p[1]) << 16 |
         static_cast<std::uint32_t>(p[2]) << 8 | p[3];
}
constexpr void store_be32(std::uint8_t* p, std::uint32_t value) {
  p[0] = static_cast<std::uint8_t>(value >> 24);
  p[1] = static_cast<std::uint8_t>(value >> 16);
  p[2] = static_cast<std::uint8_t>(value >> 8);
  p[3] = static_cast<std::uint8_t>(value);
}
constexpr std::uint32_t field_mask(std::uint8_t high, std::uint8_t low) {
  return (high == 31 ? ~0u : (1u << (high + 1)) - 1) & ~((1u << low) - 1);
}

constexpr std::uint32_t get(const std::uint8_t* structure, Field field) {
  return (load_be32(structure + field.byte) & field_mask(field.high, field.low)) >> field.low;
}
constexpr std::uint64_t get(const std::uint8_t* structure, Field64 field) {
  return static_cast<std::uint64_t>(load_be32(structure + field.byte)) << 32 |
         load_be32(structure + field.byte + 4);
}
constexpr void set(std::uint8_t* structure, Field64 field, std::uint64_t value) {
  store_be32(structure + field.byte, static_cast<std::uint32_t>(value >> 32));
  store_be32(structure + field.byte + 4, static_cast<std::uint32_t>(value));
}
constexpr void set(std::uint8_t* structure, Field field, std::uint32_t value) {
  const std::uint32_t mask = field_mask(field.high, field.low);
  store_be32(structure + field.byte,
             (load_be32(structure + field.byte) & ~mask) | (value << field.low & mask));
}

/// A structure's name, for the checks below.
enum class Structure : std::uint8_t { kCqc, kQpc, kAds, kWq, kDctc, kOther };

/// Returns the first field of `structure` that must be zero and is not; nullptr when there is none.
[[nodiscard]] const char* nonzero_field(Structure structure, const std::uint8_t* bytes);
/// Returns the first byte (of a 32-bit word) with a reserved bit set, or -1.
[[nodiscard]] int reserved_bits(Structure structure, const std::uint8_t* bytes);

}  // namespace gshmem::soft
