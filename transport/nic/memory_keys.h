// The keys by which the NICs of a PE, and those of all others, access its memory. The keys of the
// heap are in the views of queues. The keys of registered memory of the program are in the rows of
// abi::RegisteredRange. Included by QueueSet. Invariant: data that a row points to stays where it
// is until this object is destroyed.
#pragma once

#include <gshmem/abi/state.h>

#include "transport/nic/rails.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

namespace gshmem::nic {

class MemoryKeys {
 public:
  /// Allocates zeroed memory that device code accesses by the same address.
  using Allocate = std::function<void*(std::size_t bytes)>;
  MemoryKeys(Rails& rails, Allocate allocate) : rails_(rails), allocate_(std::move(allocate)) {}

  /// Registers the heap with every Nic that reaches one of `peers`. A Nic that is used only for
  /// atomics gets the part of the heap where the old values are stored. Errors: those of Nic.
  void register_heap(const Region& heap, const std::vector<int>& peers,
                     const std::function<bool(int pe)>& only_atomics);
  /// Collective: exchanges the keys that register_heap has obtained.
  void exchange(Collectives& boot);
  [[nodiscard]] std::uint32_t local(const Nic& nic) const { return users_.at(&nic).key; }
  /// Returns the number for abi::QueueView::nic.
  [[nodiscard]] std::uint8_t number(const Nic& nic) const { return users_.at(&nic).number; }
  /// The keys of PE `pe`, by its rail.
  struct Remote {
    std::uint32_t payload = 0, atomic = 0;
  };
  [[nodiscard]] Remote remote(int pe, int rail) const {
    return remote_[static_cast<std::size_t>(pe)][static_cast<std::size_t>(rail)];
  }

  // For memory outside the heap, identified by its offset, which is the same on all PEs.
  /// Registers memory. The call is local. Errors: those of Nic; then nothing stays registered.
  void add(const Region& region);
  /// Collective, after `add` on all PEs: stores the keys in the row.
  void exchange(Collectives& boot, std::uint64_t offset, abi::RegisteredRange& row);
  /// Local: unregisters the memory with all NICs of this PE.
  void remove(std::uint64_t offset) noexcept;
  /// Registers memory that only this PE's NICs access, and stores its keys for device code, one for
  /// each of nics(). Errors: as of `add`. It is unregistered by `remove`.
  void add_local(const Region& region, abi::Be32* keys);
  /// Returns how many NICs this PE uses.
  [[nodiscard]] std::size_t nics() const { return users_.size(); }

 private:
  using ByRail = std::array<Remote, kMaxRails>;
  /// A Nic that this PE uses.
  struct User {
    std::uint8_t number = 0;
    bool whole = true;      ///< registers memory of the program, too
    std::uint32_t key = 0;  ///< key of the heap
  };
  /// The table where device code finds keys.
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
  void register_with_all(Memory& memory);
  [[nodiscard]] const Memory& memory_at(std::uint64_t offset);
  void remove_locked(std::uint64_t offset) noexcept;
  [[nodiscard]] Table take_table(std::size_t pes);

  Rails& rails_;
  Allocate allocate_;
  std::map<const Nic*, User> users_;
  ByRail own_{};                ///< keys of this PE's heap
  std::vector<ByRail> remote_;  ///< keys of the heaps, by PE
  /// Guards what follows, and the registration of memory outside of the heap: threads that make
  /// local calls may come at any time.
  std::mutex mutex_;
  std::map<std::uint64_t, Memory> memories_;
  std::vector<Table> free_;  ///< tables of memory that is no longer registered
};

}  // namespace gshmem::nic
