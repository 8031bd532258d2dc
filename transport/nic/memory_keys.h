// The keys by which the NICs of a PE, and those of all others, reach its memory: of the heap, which
// are in the views of queues, and of memory of the program beside it, which are in the rows of
// abi::RegisteredRange. Included by QueueSet. Invariant: what device code may find in a row stays
// where it is until all of this goes.
#pragma once

#include <gshmem/abi/state.h>

#include "transport/nic/rails.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace gshmem::nic {

class MemoryKeys {
 public:
  /// Zeroed memory that device code reaches by the same address.
  using Allocate = std::function<void*(std::size_t bytes)>;
  MemoryKeys(Rails& rails, Allocate allocate) : rails_(rails), allocate_(std::move(allocate)) {}

  /// By every Nic that reaches one of `peers`. One by which only atomics go gets the part where
  /// they leave their old values. Errors: what Nic throws.
  void register_heap(const Region& heap, const std::vector<int>& peers,
                     const std::function<bool(int pe)>& only_atomics);
  /// Collective: what register_heap has got.
  void exchange(Collectives& boot);
  [[nodiscard]] std::uint32_t local(const Nic& nic) const { return users_.at(&nic).key; }
  /// abi::QueueView::nic.
  [[nodiscard]] std::uint8_t number(const Nic& nic) const { return users_.at(&nic).number; }
  /// Keys of PE `pe`, by its rail.
  struct Remote {
    std::uint32_t payload = 0, atomic = 0;
  };
  [[nodiscard]] Remote remote(int pe, int rail) const {
    return remote_[static_cast<std::size_t>(pe)][static_cast<std::size_t>(rail)];
  }

  // Memory beside the heap, by its offset, which is the same on all PEs.
  /// Local. Errors: what Nic throws; then nothing of it is left.
  void add(const Region& region);
  /// Collective, after `add` on all PEs: gives the row its keys.
  void exchange(Collectives& boot, std::uint64_t offset, abi::RegisteredRange& row);
  /// Local: no NIC of this PE reaches it any more.
  void remove(std::uint64_t offset) noexcept;

 private:
  using ByRail = std::array<Remote, kMaxRails>;
  /// A Nic that this PE uses.
  struct User {
    std::uint8_t number = 0;
    bool whole = true;      ///< memory of the program, too
    std::uint32_t key = 0;  ///< of the heap
  };
  /// Where device code finds keys.
  struct Table {
    abi::Be32* local;
    abi::RemoteKeys* remote;
  };
  struct Memory {
    Region region;
    std::map<Nic*, std::uint32_t> local;
    ByRail remote{};
    Table table{};
  };
  void note_remote(const Nic& nic, const Keys& keys, ByRail& remote) const;
  [[nodiscard]] Table take_table(std::size_t pes);

  Rails& rails_;
  Allocate allocate_;
  std::map<const Nic*, User> users_;
  ByRail own_{};                ///< of the heap here
  std::vector<ByRail> remote_;  ///< of heaps, by PE
  std::map<std::uint64_t, Memory> memories_;
  std::vector<Table> free_;  ///< of memory that is registered no more
};

}  // namespace gshmem::nic
