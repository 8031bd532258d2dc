// The keys by which the NICs of a PE, and those of all others, access its memory. The keys of the
// heap are in the views of queues. Those of registered memory follow abi::RegisteredRange. Included
// by QueueSet. Invariant: a Nic has memory registered exactly as long as it is added here.
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
  explicit MemoryKeys(Rails& rails) : rails_(rails) {}

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
  /// The keys of memory in the order in which they follow an abi::RegisteredRange.
  struct OfRange {
    std::vector<abi::RemoteKeys> remote;
    std::vector<abi::Be32> local;
  };
  /// Collective, after `add` on all PEs.
  [[nodiscard]] OfRange exchange(Collectives& boot, std::uint64_t offset);
  /// Local: unregisters the memory with all NICs of this PE.
  void remove(std::uint64_t offset) noexcept;
  /// Registers memory that only this PE's NICs access, and stores its keys for device code, one for
  /// each of nics(). Errors: as of `add`. It is unregistered by `remove`.
  void add_local(const Region& region, abi::Be32* keys);
  /// Returns how many rails PEs have: DeviceState::key_rails.
  [[nodiscard]] std::size_t rails() const { return static_cast<std::size_t>(rails_.count()); }
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
  struct Memory {
    Region region;
    std::map<Nic*, std::uint32_t> local;
    ByRail remote{};
  };
  void note_remote(const Nic& nic, const Keys& keys, ByRail& remote) const;
  void register_with_all(Memory& memory);
  [[nodiscard]] const Memory& memory_at(std::uint64_t offset);
  void remove_locked(std::uint64_t offset) noexcept;

  Rails& rails_;
  std::map<const Nic*, User> users_;
  ByRail own_{};                ///< keys of this PE's heap
  std::vector<ByRail> remote_;  ///< keys of the heaps, by PE
  /// Guards what follows, and the registration of memory outside of the heap: threads that make
  /// local calls may come at any time.
  std::mutex mutex_;
  std::map<std::uint64_t, Memory> memories_;
};

}  // namespace gshmem::nic
