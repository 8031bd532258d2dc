#include "transport/softnic/verbs/prm.h"

#include <array>
#include <string_view>

namespace gshmem::soft {
namespace {

struct Row {
  std::string_view structure;
  const char* name;
  std::uint16_t byte;
  std::uint8_t high, low;
  FieldRule rule;
  std::uint16_t bytes;  ///< 4, 8, or those of an inner structure
};

#define GSHNIC_FIELD(structure, field, byte, high, low, rule) \
  Row{#structure, #structure "." #field, byte, high, low, FieldRule::k##rule, 4},
#define GSHNIC_FIELD64(structure, field, byte, rule) \
  Row{#structure, #structure "." #field, byte, 31, 0, FieldRule::k##rule, 8},
#define GSHNIC_BYTES(structure, first, bytes) \
  Row{#structure, #structure, first, 31, 0, FieldRule::kIgnored, bytes},
constexpr Row kRows[] = {
#include "transport/softnic/verbs/prm_fields.def"
};

struct Shape {
  std::string_view name;
  std::size_t bytes;
};

Shape shape_of(Structure structure) {
  switch (structure) {
    case Structure::kCqc:
      return {"cqc", kCqcBytes};
    case Structure::kQpc:
      return {"qpc", kQpcBytes};
    case Structure::kAds:
      return {"ads", kAdsBytes};
    case Structure::kWq:
      return {"wq", kWqBytes};
    case Structure::kDctc:
      return {"dctc", kDctcBytes};
    case Structure::kOther:
      break;
  }
  return {"", 0};
}

}  // namespace

const char* nonzero_field(Structure structure, const std::uint8_t* bytes) {
  const Shape shape = shape_of(structure);
  for (const Row& row : kRows) {
    if (row.structure != shape.name || row.rule != FieldRule::kZero) continue;
    for (std::uint16_t word = 0; word < row.bytes; word = static_cast<std::uint16_t>(word + 4))
      if ((load_be32(bytes + row.byte + word) & field_mask(row.high, row.low)) != 0)
        return row.name;
  }
  return nullptr;
}

int reserved_bits(Structure structure, const std::uint8_t* bytes) {
  const Shape shape = shape_of(structure);
  std::array<std::uint32_t, kQpcBytes / 4> known{};
  for (const Row& row : kRows) {
    if (row.structure != shape.name) continue;
    for (std::size_t word = 0; word < row.bytes; word += 4)
      known[(row.byte + word) / 4] |= field_mask(row.high, row.low);
  }
  for (std::size_t word = 0; word < shape.bytes / 4; ++word)
    if ((load_be32(bytes + 4 * word) & ~known[word]) != 0) return static_cast<int>(4 * word);
  return -1;
}

}  // namespace gshmem::soft
