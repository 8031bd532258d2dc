// The memory of symmetric tensors: parts of the heap, from which every PE takes blocks without the
// others. Included by symmetric_group.h. Invariant: PEs that take blocks of the same sizes in the
// same order get the same offsets, whenever each of them returns its blocks. Python's garbage
// collector runs at different times on the PEs. So a returned block is free again only when all PEs
// renew the pool together. They do that when there is no room for a block.
#pragma once

#include <gshmem/gshmem.h>

#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace gshmem_torch {

/// Throws the fault of this PE as an exception, if there is one.
inline void check_fault() {
  gshmemx_fault_t fault;
  TORCH_CHECK(gshmemx_last_fault(&fault) == GSHMEMX_SUCCESS, fault.message);
}

inline std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Waits until the streams of the device have ended their work.
inline void synchronize(c10::Device device) {
  if (device.is_cuda())
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

class Pool {
 public:
  static constexpr std::size_t kUnit = std::size_t{16} << 10;  // of blocks
  static constexpr std::size_t kAlign = 512;
  static constexpr std::size_t kPart = std::size_t{64} << 20;

  /// Returns the pool of the process. It is never destroyed, because tensors may outlive static
  /// objects.
  static Pool& get() {
    static Pool& pool = *new Pool;
    return pool;
  }

  /// Returns how many jobs have ended. Blocks of an earlier job have no memory.
  std::uint64_t job() const { return job_; }

  void check(std::uint64_t job) const {
    TORCH_CHECK(job == job_ && gshmemx_init_status() >= kInitialized,
                "the tensor's memory was given back by gshmem.finalize()");
  }

  /// Called when the job, and with it its heap, has ended.
  void reset() {
    const std::lock_guard lock(mutex_);
    ++job_;
    anchor_ = nullptr;
    parts_.clear();
    room_.clear();
    blocks_.clear();
  }

  /// Takes a block. The first call is collective, and so is one for which there is no room.
  char* take(std::size_t bytes, c10::Device device) {
    const std::lock_guard lock(mutex_);
    bytes = round_up(std::max<std::size_t>(bytes, 1), kUnit);
    char* base = cut(bytes);
    if (!base) {
      renew(bytes, device);
      base = cut(bytes);
    }
    TORCH_INTERNAL_ASSERT(base);
    blocks_.emplace(base, bytes);
    return base;
  }

  /// Returns a block. Local, also after the end of the block's job.
  void give(char* base, std::uint64_t job) {
    const std::lock_guard lock(mutex_);
    if (job == job_) blocks_.erase(base);
  }

  /// Collective: adds a part with room for `bytes`, so that the next blocks need no other PE. From
  /// here on PEs that take equal blocks get equal offsets, also if one has taken a block alone.
  void reserve(std::size_t bytes, c10::Device device) {
    const std::lock_guard lock(mutex_);
    renew(0, device);
    grow(round_up(bytes, kUnit));
  }

  /// Returns an address that has the same offset on all PEs. Offsets of blocks are relative to it.
  char* anchor() {
    const std::lock_guard lock(mutex_);
    begin();
    return anchor_;
  }

 private:
  using Ranges = std::map<char*, std::size_t>;  // ranges that follow each other are one

  static constexpr int kInitialized = 2;       // gshmemx_init_status
  static constexpr std::size_t kWords = 4096;  // that PEs combine at a time

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

  static void add(Ranges& ranges, char* base, std::size_t bytes) {
    auto range = ranges.emplace(base, bytes).first;
    if (range != ranges.begin()) {
      const auto before = std::prev(range);
      if (before->first + before->second == base) {
        before->second += bytes;
        ranges.erase(range);
        range = before;
      }
    }
    const auto next = std::next(range);
    if (next == ranges.end() || range->first + range->second != next->first) return;
    range->second += next->second;
    ranges.erase(next);
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
    auto* part = static_cast<char*>(gshmem_align(kAlign, bytes));
    check_fault();
    TORCH_CHECK(
        part, "the symmetric heap has no room for ", bytes,
        " more bytes; the log of gshmem says on which PE, and GSHMEM_SYMMETRIC_LIMIT is its limit");
    add(parts_, part, bytes);
    add(room_, part, bytes);
  }

  /// Combines words of all PEs, in the memory after the anchor.
  template <class Reduce>
  void combine(std::vector<std::uint64_t>& words, Reduce reduce) {
    auto* source = reinterpret_cast<std::uint64_t*>(anchor_);
    auto* dest = source + kWords;
    const int me = gshmem_my_pe();
    for (std::size_t i = 0; i < words.size(); i += kWords) {
      const std::size_t n = std::min(words.size() - i, kWords);
      gshmem_putmem(source, &words[i], n * sizeof(std::uint64_t), me);
      reduce(GSHMEM_TEAM_WORLD, dest, source, n);
      gshmem_getmem(&words[i], dest, n * sizeof(std::uint64_t), me);
      check_fault();
    }
  }

  /// Frees the memory in which no PE has a block, and grows the heap if that is not enough on some
  /// PE. Streams end first: a kernel may use a block that Python has already dropped.
  void renew(std::size_t bytes, c10::Device device) {
    begin();
    synchronize(device);
    room_.clear();
    for (const auto& [base, size] : parts_) {
      const std::size_t units = size / kUnit;
      std::vector<std::uint64_t> used((units + 63) / 64);  // a bit for each unit
      for (auto block = blocks_.lower_bound(base);
           block != blocks_.end() && block->first < base + size; ++block) {
        const auto first = static_cast<std::size_t>(block->first - base) / kUnit;
        for (std::size_t i = first; i < first + block->second / kUnit; ++i)
          used[i / 64] |= std::uint64_t{1} << i % 64;
      }
      combine(used, gshmem_uint64_or_reduce);
      for (std::size_t i = 0; i < units; ++i) {
        if (used[i / 64] >> i % 64 & 1) continue;
        const std::size_t first = i;
        while (i < units && !(used[i / 64] >> i % 64 & 1)) ++i;
        add(room_, base + first * kUnit, (i - first) * kUnit);
      }
    }
    const bool fits = std::any_of(room_.begin(), room_.end(),
                                  [&](const auto& room) { return room.second >= bytes; });
    std::vector<std::uint64_t> lack(1, fits ? 0 : bytes);
    combine(lack, gshmem_uint64_max_reduce);
    if (lack[0] > 0) grow(lack[0]);
  }

  std::mutex mutex_;
  std::atomic<std::uint64_t> job_ = 0;
  char* anchor_ = nullptr;
  Ranges parts_, room_;                  // both begin and end at whole units of a part
  std::map<char*, std::size_t> blocks_;  // that are taken
};

}  // namespace gshmem_torch
