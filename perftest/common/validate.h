// The pattern of data is different for every size, round, PE and byte. So stale data, a neighbour's
// data and a shifted copy can be distinguished. These are pure functions over host memory; bench.h
// transfers the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace perftest {

/// Identity of a pattern.
struct PatternKey {
  std::size_t size = 0;  ///< of the message
  unsigned round = 0;    ///< number of the measurement
  int pe = 0;            ///< PE of the source
};

/// The contents of destinations before a transfer. The bytes after a message keep it.
inline constexpr std::byte kPoison{0xdb};
/// The number of bytes after a message that must stay poisoned.
inline constexpr std::size_t kGuardBytes = 64;

/// Fills `bytes` with the pattern.
void fill_pattern(std::span<std::byte> bytes, const PatternKey& key);
/// Returns the first byte that differs from the pattern, or from the poison after `size` bytes, as
/// a sentence.
[[nodiscard]] std::optional<std::string> find_mismatch(std::span<const std::byte> bytes,
                                                       std::size_t size, const PatternKey& key);

}  // namespace perftest
