// The memory of symmetric tensors: parts of the heap, from which every PE takes blocks alone.
// Included by backend.cpp. Invariant: PEs that take blocks of the same sizes in the same order get
// the same offsets, whenever each of them gives its blocks back. Python's garbage collector runs at
// another time on each PE, so a block that is given back is room again only when all PEs renew the
// pool together. They do that when a block finds no room.
#pragma once

#include <gshmem/gshmem.h>

#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace gshmem_torch {

/// Makes an exception of the fault of this PE, if there is one.
inline void check_fault() {
  gshmemx_fault_t fault;
  TORCH_CHECK(gshmemx_last_fault(&fault) == GSHMEMX_SUCCESS, fault.message);
}

inline std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

class Pool {
 public:
  static constexpr std::size_t kUnit = 512;
  static constexpr std::size_t kPart = std::size_t{64} << 20;

  /// One per process. It is never destroyed, because tensors may outlive static objects.
  static Pool& get() {
    static Pool& pool = *new Pool;
    return pool;
  }

  /// The first call is collective, and so is one that finds no room.
  char* take(std::size_t bytes, c10::Device device) {
    const std::lock_guard lock(mutex_);
    bytes = round_up(std::max<std::size_t>(bytes, 1), kUnit);
    char* base = cut(bytes);
    if (!base) {
      renew(bytes, device);
      base = cut(bytes);
    }
    TORCH_INTERNAL_ASSERT(base);
    blocks_.push_back({base, bytes, false});
    return base;
  }

  /// Local, also after the end of the job.
  void give(const char* base) {
    const std::lock_guard lock(mutex_);
    for (auto& block : blocks_) {
      if (block.base == base) block.given = true;
    }
  }

  /// Collective: adds a part with room for `bytes`, so that the next blocks need no other PE.
  void reserve(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    grow(round_up(bytes, kUnit));
  }

  /// An address that has the same offset on all PEs. Offsets of blocks are told relative to it.
  char* anchor() {
    const std::lock_guard lock(mutex_);
    begin();
    return anchor_;
  }

 private:
  struct Block {
    char* base;
    std::size_t bytes;
    bool given;
  };
  static constexpr std::size_t kWords = 4096;     // of a renewal: a bit for each block
  static constexpr std::size_t kDescription = 4;  // what they begin with

  char* cut(std::size_t bytes) {
    for (auto room = room_.begin(); room != room_.end(); ++room) {
      const auto [base, size] = *room;
      if (size < bytes) continue;
      room_.erase(room);
      if (size > bytes) room_.emplace(base + bytes, size - bytes);
      return base;
    }
    return nullptr;
  }

  void add_room(char* base, std::size_t bytes) {
    const auto next = room_.lower_bound(base);
    if (next != room_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == base) {
        before->second += bytes;
        merge(before);
        return;
      }
    }
    merge(room_.emplace(base, bytes).first);
  }
  void merge(std::map<char*, std::size_t>::iterator room) {
    const auto next = std::next(room);
    if (next == room_.end() || room->first + room->second != next->first) return;
    room->second += next->second;
    room_.erase(next);
  }

  void begin() {
    if (anchor_) return;
    anchor_ = static_cast<char*>(gshmem_malloc(2 * kWords * sizeof(std::uint64_t)));
    check_fault();
    TORCH_CHECK(anchor_, "the symmetric heap has no room; the log of gshmem says on which PE");
  }

  void grow(std::size_t bytes) {
    begin();
    bytes = std::max(bytes, kPart);
    auto* part = static_cast<char*>(gshmem_align(kUnit, bytes));
    check_fault();
    TORCH_CHECK(
        part, "the symmetric heap has no room for ", bytes,
        " more bytes; the log of gshmem says on which PE, and GSHMEM_SYMMETRIC_LIMIT is its limit");
    add_room(part, bytes);
  }

  /// Combines words of all PEs, in the memory after the anchor.
  template <class Reduce>
  void combine(std::vector<std::uint64_t>& words, Reduce reduce) {
    auto* source = reinterpret_cast<std::uint64_t*>(anchor_);
    auto* dest = source + kWords;
    const int me = gshmem_my_pe();
    gshmem_putmem(source, words.data(), words.size() * sizeof(std::uint64_t), me);
    reduce(GSHMEM_TEAM_WORLD, dest, source, words.size());
    gshmem_getmem(words.data(), dest, words.size() * sizeof(std::uint64_t), me);
    check_fault();
  }

  /// Makes room of what all PEs have given back, and grows the heap where that is not enough on any
  /// of them. Streams end first: a kernel may use a block that Python has dropped already.
  void renew(std::size_t bytes, c10::Device device) {
    begin();
    if (device.is_cuda())
      c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    std::vector<std::uint64_t> words(kWords);
    std::uint64_t sizes = 14695981039346656037U;  // FNV-1a
    for (const auto& block : blocks_) sizes = (sizes ^ block.bytes) * 1099511628211U;
    const std::uint64_t description[kDescription] = {blocks_.size(), ~blocks_.size(), sizes,
                                                     ~sizes};
    std::copy_n(description, kDescription, words.data());
    const std::size_t most = std::min(blocks_.size(), (kWords - kDescription) * 64);
    for (std::size_t i = 0; i < most; ++i) {
      if (blocks_[i].given) words[kDescription + i / 64] |= std::uint64_t{1} << i % 64;
    }
    combine(words, gshmem_uint64_and_reduce);
    if (std::equal(description, description + kDescription, words.data())) {
      std::vector<Block> rest;
      for (std::size_t i = 0; i < blocks_.size(); ++i) {
        if (i < most && words[kDescription + i / 64] >> i % 64 & 1) {
          add_room(blocks_[i].base, blocks_[i].bytes);
        } else {
          rest.push_back(blocks_[i]);
        }
      }
      blocks_ = std::move(rest);
    } else {
      TORCH_WARN_ONCE(
          "the ranks have allocated different symmetric tensors: memory that they free is not used "
          "again");
    }
    const bool fits = std::any_of(room_.begin(), room_.end(),
                                  [&](const auto& room) { return room.second >= bytes; });
    std::vector<std::uint64_t> lack(1, fits ? 0 : bytes);
    combine(lack, gshmem_uint64_max_reduce);
    if (lack[0] > 0) grow(lack[0]);
  }

  std::mutex mutex_;
  char* anchor_ = nullptr;
  std::map<char*, std::size_t> room_;  // parts that follow each other are one
  std::vector<Block> blocks_;          // in the order in which they were taken
};

}  // namespace gshmem_torch
