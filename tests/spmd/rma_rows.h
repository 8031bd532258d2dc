// The common code of the put and the get tests of the whole type table: the offsets of each row's
// data. A row is a type of types.def, or one of the fixed sizes and mem. Included by rma_put.cpp
// and rma_get.cpp.
#pragma once

#include "tests/spmd/spmd.h"

namespace gshmem::spmd {

inline constexpr std::size_t kBlock = 512;  ///< bytes of one call's target, including guards
inline constexpr std::size_t kOffset = 3;   ///< elements before the first one of a call
inline constexpr std::size_t kCount = 13;   ///< elements of a contiguous call
inline constexpr std::size_t kStridedCount = 5;
inline constexpr std::ptrdiff_t kDst = 3, kSrc = 2;
inline constexpr std::uint8_t kGuard = 0xee;

enum RmaOp { kPlain, kNbi, kStrided, kScalar, kRmaOps };

/// The element sizes of all rows, in the order of the tests.
inline constexpr std::size_t kRowSizes[] = {
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) sizeof(T),
#include <gshmem/types.def>
    1, 2, 4, 8, 16, 1};
inline constexpr int kRows = sizeof(kRowSizes) / sizeof(kRowSizes[0]);
inline constexpr int kMemRow = kRows - 1;     ///< has no strided form
inline constexpr int kTypedRows = kRows - 6;  ///< the first ones; only they have scalar forms

/// `source` holds pattern(seed of the PE, i), one block per (op, row); `target` one per (op, row,
/// origin).
struct RmaArea {
  std::uint8_t* target;
  std::uint8_t* source;
  std::uint64_t seed;
  int n;

  GSHMEM_FN std::size_t source_at(int op, int row) const {
    return static_cast<std::size_t>(op * kRows + row) * kBlock;
  }
  GSHMEM_FN std::size_t target_at(int op, int row, int pe) const {
    return static_cast<std::size_t>((op * kRows + row) * n + pe) * kBlock;
  }
  template <class T>
  GSHMEM_FN T* target_of(int op, int row, int pe) const {
    return reinterpret_cast<T*>(target + target_at(op, row, pe)) + kOffset;
  }
  template <class T>
  GSHMEM_FN T* source_of(int op, int row) const {
    return reinterpret_cast<T*>(source + source_at(op, row)) + kOffset;
  }
  GSHMEM_FN std::uint64_t seed_of(int pe) const {
    return mix(seed, static_cast<std::uint64_t>(pe));
  }
  /// Returns the value of PE `pe` at source_of<T>(op, row)[0].
  template <class T>
  GSHMEM_FN T scalar_of(int op, int row, int pe) const {
    std::uint8_t bytes[sizeof(T)];
    const std::size_t at = source_at(op, row) + kOffset * sizeof(T);
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes[i] = pattern(seed_of(pe), at + i);
    T value{};
    memcpy(static_cast<void*>(&value), bytes, sizeof(T));
    return value;
  }
};

/// Symmetric memory for an RmaArea, filled; and the expected contents of `target` at the end.
class RmaMemory {
 public:
  explicit RmaMemory(Pe& pe)
      : target_(area_bytes(pe.n())),
        source_(area_bytes(1)),
        area_{target_.data(), source_.data(), pe.seed(), pe.n()} {
    std::vector<std::uint8_t> data(source_.size());
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = pattern(area_.seed_of(pe.me()), i);
    pe.write(source_.data(), data);
    reset(pe);
  }
  void reset(Pe& pe) {
    pe.write(target_.data(), std::vector<std::uint8_t>(target_.size(), kGuard));
    pe.barrier();
  }
  [[nodiscard]] const RmaArea& area() const { return area_; }
  /// Checks for ops below `ops` that every block holds the data of its origin, and nothing beside
  /// it changed.
  void verify(Pe& pe, int line, int ops) const;

 private:
  static std::size_t area_bytes(int n) {
    return static_cast<std::size_t>(kRmaOps * kRows * n) * kBlock;
  }
  SymmetricArray<std::uint8_t> target_, source_;
  RmaArea area_;
};

inline void RmaMemory::verify(Pe& pe, int line, int ops) const {
  const std::vector<std::uint8_t> actual = pe.read(target_.data(), target_.size());
  std::vector<std::uint8_t> expected(actual.size(), kGuard);
  for (int op = 0; op < ops; ++op) {
    for (int row = 0; row < kRows; ++row) {
      if ((op == kStrided && row == kMemRow) || (op == kScalar && row >= kTypedRows)) continue;
      const std::size_t size = kRowSizes[row];
      const std::size_t count = op == kStrided ? kStridedCount : op == kScalar ? 1 : kCount;
      for (int origin = 0; origin < pe.n(); ++origin) {
        for (std::size_t i = 0; i < count * size; ++i) {
          const std::size_t element = i / size, byte = i % size;
          const std::size_t to = kOffset + element * (op == kStrided ? kDst : 1);
          const std::size_t from = kOffset + element * (op == kStrided ? kSrc : 1);
          expected[area_.target_at(op, row, origin) + to * size + byte] =
              pattern(area_.seed_of(origin), area_.source_at(op, row) + from * size + byte);
        }
      }
    }
  }
  pe.equal_bytes(line, actual, expected);
}

}  // namespace gshmem::spmd
