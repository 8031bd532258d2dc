// The class by which torch allocates symmetric memory of a backend, and finds the allocation that
// contains a tensor. Included by backend.cpp.
#pragma once

#include "symmetric_memory.h"

#include <c10/core/DeviceGuard.h>

#include <atomic>

namespace gshmem_torch {

class Allocator : public symm::SymmetricMemoryAllocator {
 public:
  explicit Allocator(c10::DeviceType type) : type_(type) {}

  /// Allocates a block. The first call is collective, and so is one for which the pool has no room.
  void* alloc(std::size_t bytes, int device_idx,
              const std::optional<std::string>& group_name) override {
    const c10::Device device(
        type_, static_cast<c10::DeviceIndex>(type_ == c10::DeviceType::CPU ? -1 : device_idx));
    const c10::OptionalDeviceGuard guard(device.is_cuda() ? std::optional(device) : std::nullopt);
    // This is done once for a job: torch may hold a lock here, for which a thread with Python's
    // lock waits.
    if (!joined_) {
      ask_python(nullptr);
      joined_ = true;
    }
    Pool::get().check(Pool::get().job());
    const auto where = device.is_cuda() ? guard.current_device().value() : device;
    TORCH_CHECK(is_place(where), "symmetric memory is on ", *place_,
                ", the GPU of this rank, and not on ", where);
    auto allocation = std::make_shared<Allocation>(bytes, where, group_name);
    char* base = allocation->base;
    const std::lock_guard lock(mutex_);
    allocations_.emplace(base, std::move(allocation));
    return base;
  }

  void free(void* ptr) override {
    std::shared_ptr<Allocation> last;  // given back outside of the lock
    const std::lock_guard lock(mutex_);
    // A tensor of this job may have the address of a tensor of an earlier job, which is freed
    // first.
    Allocations& from = ended_.count(static_cast<char*>(ptr)) > 0 ? ended_ : allocations_;
    const auto found = from.find(static_cast<char*>(ptr));
    if (found == from.end()) return;
    last = std::move(found->second);
    from.erase(found);
  }

  std::size_t get_alloc_size(void* ptr) override {
    const auto allocation = find(ptr);
    TORCH_CHECK(allocation, ptr, " is not in a tensor of symm_mem.empty()");
    return allocation->layout.size;
  }

  bool has_allocation(void* ptr) { return find(ptr) != nullptr; }  // virtual since torch 2.10

  /// Returns null for other memory, as torch's own backend does.
  c10::intrusive_ptr<symm::SymmetricMemory> rendezvous(
      void* ptr, const std::optional<std::string>& group_name) override {
    const auto allocation = find(ptr);
    return allocation ? handle_of(allocation, ptr, group_name) : nullptr;
  }

  /// Does what rendezvous does, also for a signal pad.
  c10::intrusive_ptr<symm::SymmetricMemory> rendezvous_word(void* ptr, const std::string& group) {
    const auto allocation = find(ptr, true);
    return allocation ? handle_of(allocation, allocation->base, group) : nullptr;
  }

  void reset() {
    const std::lock_guard lock(mutex_);
    joined_ = false;
    place_.reset();
    ended_.merge(allocations_);
  }

  bool has_multicast_support(int) override { return false; }
  c10::DeviceType supported_device_type() override { return type_; }
  std::string name() override { return "GSHMEM"; }

 private:
  using Allocations = std::multimap<char*, std::shared_ptr<Allocation>>;

  static c10::intrusive_ptr<symm::SymmetricMemory> handle_of(
      const std::shared_ptr<Allocation>& allocation, const void* ptr,
      const std::optional<std::string>& group_name) {
    Pool::get().check(allocation->job);
    const auto& name = group_name ? group_name : allocation->default_group;
    TORCH_CHECK(name, "rendezvous: the tensor was made without a group, so pass one");
    const auto members = Groups::get().of(*name);
    const auto offset = static_cast<std::size_t>(static_cast<const char*>(ptr) - allocation->base);
    std::shared_ptr<Group> group;
    {
      const std::lock_guard lock(allocation->mutex);
      const auto known = allocation->handles.find({members.get(), offset});
      if (known != allocation->handles.end()) {
        if (auto handle = known->second.lock()) return handle;
        allocation->handles.erase(known);
      }
      const auto joined = allocation->groups.find(members.get());
      if (joined != allocation->groups.end()) group = joined->second;
    }
    if (!group) group = join_group(members, *allocation);
    c10::intrusive_ptr<symm::SymmetricMemory> handle =
        c10::make_intrusive<Memory>(allocation, group, offset);
    const std::lock_guard lock(allocation->mutex);
    allocation->groups.emplace(members.get(), std::move(group));
    allocation->handles.emplace(std::pair(members.get(), offset),
                                c10::weak_intrusive_ptr<symm::SymmetricMemory>(handle));
    return handle;
  }

  std::shared_ptr<Allocation> find(const void* ptr, bool with_pad = false) {
    const std::lock_guard lock(mutex_);
    auto found = find_in(allocations_, ptr, with_pad);
    return found ? found : find_in(ended_, ptr, with_pad);
  }

  static std::shared_ptr<Allocation> find_in(const Allocations& allocations, const void* ptr,
                                             bool with_pad) {
    const auto* address = static_cast<const char*>(ptr);
    const auto next = allocations.upper_bound(const_cast<char*>(address));
    if (next == allocations.begin()) return nullptr;
    const auto& [base, allocation] = *std::prev(next);
    const Layout& layout = allocation->layout;
    const std::size_t end = with_pad ? layout.words : std::max<std::size_t>(layout.size, 1);
    return address < base + end ? allocation : nullptr;
  }

  /// Is the heap on this device? It is on one device, that of the first tensor.
  bool is_place(c10::Device device) {
    const std::lock_guard lock(mutex_);
    if (!place_) place_ = device;
    return *place_ == device;
  }

  c10::DeviceType type_;
  std::mutex mutex_;
  std::atomic<bool> joined_ = false;
  std::optional<c10::Device> place_;
  Allocations allocations_, ended_;  // of this job and of earlier ones
};

}  // namespace gshmem_torch
