// The two classes that torch asks of a backend of symmetric memory: what allocates, and what a
// group has of an allocation after its rendezvous. Included by backend.cpp. A block is the tensor's
// memory, the signal pad for kernels of torch and of users, the words of put_signal, wait_signal
// and barrier, and arrays of pointers for kernels.
#pragma once

#include "symmetric_pool.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryTypes.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

// It is in torch's library for CUDA, so a torch without CUDA does not have it. It is C, and the
// same in all versions since 2.6.
extern "C" __attribute__((weak)) int aoti_torch_get_current_cuda_stream(std::int32_t device,
                                                                        void** stream);

namespace gshmem_torch {

namespace symm = c10d::symmetric_memory;

inline std::size_t pad_bytes() {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR > 9
  return symm::get_signal_pad_size();
#else
  return symm::signal_pad_size;
#endif
}

/// Torch's current stream of the device; calls are made at once in CPU mode.
inline gshmemx_stream_t current_stream(c10::Device device) {
  void* stream = nullptr;
  if (device.is_cuda()) {
    TORCH_CHECK(aoti_torch_get_current_cuda_stream &&
                    aoti_torch_get_current_cuda_stream(device.index(), &stream) == 0,
                "this torch does not say what its current CUDA stream is");
  }
  return static_cast<gshmemx_stream_t>(stream);
}

/// Where the parts of a block are, relative to its beginning. All members of a group have the same.
struct Layout {
  explicit Layout(std::size_t bytes)
      : size(bytes),
        pad(round_up(bytes, Pool::kAlign)),
        pad_size(pad_bytes()),
        words(pad + round_up(pad_size, Pool::kAlign)),
        arrays(words + 2 * count() * sizeof(std::uint64_t)),
        array_bytes(static_cast<std::size_t>(gshmem_n_pes()) * (2 * sizeof(void*) + sizeof(int))),
        end(arrays + kGroups * round_up(array_bytes, 16)) {}
  /// The pad has so many words. There are as many of ours for put_signal, and again for barriers.
  std::size_t count() const { return pad_size / sizeof(std::uint32_t); }

  static constexpr std::size_t kGroups = 8;  // that a tensor may be shared in
  std::size_t size, pad, pad_size, words, arrays, array_bytes, end;
};

/// A group, and the blocks of its members for one tensor.
struct Group {
  int rank = 0;
  int size = 0;
  std::vector<int> pes;              // of the members
  std::vector<char*> symmetric;      // the block of each, as an address of this PE's heap
  std::vector<void*> buffers, pads;  // mapped addresses, null where a PE's heap is not mapped
  void** buffers_dev = nullptr;      // the same in the block
  void** pads_dev = nullptr;
  int* pes_dev = nullptr;
  bool mapped = true;  // all of them
  bool alike = true;   // all blocks have the same offset, as gshmem's collectives need
  std::vector<std::uint64_t> consumed;  // signals by a network that were waited for, for each word
};

/// A block of the pool that a tensor or a handle keeps.
struct Allocation {
  Allocation(std::size_t bytes, c10::Device where, std::optional<std::string> group)
      : layout(bytes),
        device(where),
        default_group(std::move(group)),
        base(Pool::get().take(layout.end, where)) {
    const std::vector<char> zeros(layout.arrays - layout.pad);
    gshmem_putmem(base + layout.pad, zeros.data(), zeros.size(), gshmem_my_pe());
    check_fault();
  }
  ~Allocation() { Pool::get().give(base); }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  Layout layout;
  c10::Device device;
  std::optional<std::string> default_group;
  char* base;
  std::map<std::string, std::shared_ptr<Group>> groups;
  std::map<std::pair<std::string, std::size_t>, c10::weak_intrusive_ptr<symm::SymmetricMemory>>
      handles;
};

/// How many calls of share() a group has made: a name for the next one.
inline std::uint64_t& shared(const std::string& group_name) {
  static std::map<std::string, std::uint64_t> calls;
  return calls[group_name];
}

/// Sends `mine` to all members by the store of the process group, and returns theirs by rank.
/// Members make calls in the same order.
template <class T>
std::vector<T> share(const std::string& group_name, const T& mine) {
  const auto group = c10d::resolve_process_group(group_name);
  const auto store = group->getStore();
  const std::string prefix = "gshmem/" + std::to_string(shared(group_name)++) + "/";
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&mine);
  store->set(prefix + std::to_string(group->getRank()),
             std::vector<std::uint8_t>(bytes, bytes + sizeof(T)));
  std::vector<T> all(static_cast<std::size_t>(group->getSize()));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto got = store->get(prefix + std::to_string(rank));
    TORCH_CHECK(got.size() == sizeof(T), "group ", group_name, ": rank ", rank,
                " is in another call");
    std::memcpy(&all[rank], got.data(), sizeof(T));
  }
  return all;
}

/// Collective over the group.
inline std::shared_ptr<Group> join_group(const std::string& name, Allocation& allocation) {
  struct Member {
    std::int64_t pe, offset;
    std::uint64_t size;
  };
  char* anchor = Pool::get().anchor();
  const Layout& layout = allocation.layout;
  const auto group = std::make_shared<Group>();
  group->rank = c10d::resolve_process_group(name)->getRank();
  const auto members = share(name, Member{gshmem_my_pe(), allocation.base - anchor, layout.size});
  group->size = static_cast<int>(members.size());
  for (int rank = 0; rank < group->size; ++rank) {
    const Member& member = members[static_cast<std::size_t>(rank)];
    TORCH_CHECK(member.size == layout.size, "rendezvous: the tensor of rank ", rank, " has ",
                member.size, " bytes, that of this rank ", layout.size);
    char* symmetric = anchor + member.offset;
    auto* mapped = static_cast<char*>(gshmem_ptr(symmetric, static_cast<int>(member.pe)));
    group->pes.push_back(static_cast<int>(member.pe));
    group->symmetric.push_back(symmetric);
    group->buffers.push_back(mapped);
    group->pads.push_back(mapped ? mapped + layout.pad : nullptr);
    group->mapped = group->mapped && mapped;
    group->alike = group->alike && symmetric == allocation.base;
  }
  group->consumed.resize(2 * layout.count());
  TORCH_CHECK(allocation.groups.size() < Layout::kGroups, "rendezvous: a tensor may be shared in ",
              Layout::kGroups, " groups");
  const std::size_t n = group->pes.size();
  char* arrays =
      allocation.base + layout.arrays + allocation.groups.size() * round_up(layout.array_bytes, 16);
  group->buffers_dev = reinterpret_cast<void**>(arrays);
  group->pads_dev = group->buffers_dev + n;
  group->pes_dev = reinterpret_cast<int*>(group->pads_dev + n);
  const int me = gshmem_my_pe();
  gshmem_putmem(group->buffers_dev, group->buffers.data(), n * sizeof(void*), me);
  gshmem_putmem(group->pads_dev, group->pads.data(), n * sizeof(void*), me);
  gshmem_putmem(group->pes_dev, group->pes.data(), n * sizeof(int), me);
  check_fault();
  return group;
}

class Memory : public symm::SymmetricMemory {
 public:
  Memory(std::shared_ptr<Allocation> allocation, std::shared_ptr<Group> group, std::size_t offset)
      : allocation_(std::move(allocation)), group_(std::move(group)), offset_(offset) {}

  std::vector<void*> get_buffer_ptrs() override { return group_->buffers; }
  std::vector<void*> get_signal_pad_ptrs() override { return group_->pads; }
  void** get_buffer_ptrs_dev() override { return group_->buffers_dev; }
  void** get_signal_pad_ptrs_dev() override { return group_->pads_dev; }
  std::size_t get_buffer_size() override { return allocation_->layout.size; }
  std::size_t get_signal_pad_size() { return allocation_->layout.pad_size; }
  std::size_t get_offset() override { return offset_; }
  bool has_multicast_support() override { return false; }
  void* get_multicast_ptr() override { return nullptr; }
  int get_rank() override { return group_->rank; }
  int get_world_size() override { return group_->size; }
  c10::Device get_device() override { return allocation_->device; }
  const std::vector<int>& get_rank_to_global_rank() override { return group_->pes; }
  int* get_rank_to_global_rank_dev() override { return group_->pes_dev; }
  bool world_within_direct_access() override { return group_->mapped; }

  /// In rounds, of which each doubles how many members are known to have come.
  void barrier(int channel, std::size_t timeout_ms) override {
    const std::size_t first = allocation_->layout.count() + word(channel, 0);
    std::size_t round = 0;
    for (int step = 1; step < group_->size; step *= 2, ++round) {
      send((group_->rank + step) % group_->size, first + round);
      receive((group_->rank - step + group_->size) % group_->size, first + round, "barrier",
              channel, timeout_ms);
    }
  }

  void put_signal(int dst_rank, int channel, std::size_t) override {
    check_rank(dst_rank);
    send(dst_rank, word(channel, group_->rank));
  }

  void wait_signal(int src_rank, int channel, std::size_t timeout_ms) override {
    check_rank(src_rank);
    receive(src_rank, word(channel, src_rank), "wait_signal", channel, timeout_ms);
  }

  /// At the last reference that is no weak one: Allocation::handles has one of those.
  void release_resources() override {
    group_.reset();
    allocation_.reset();
  }

  const Group& group() const { return *group_; }
  /// An address of this tensor on another member, as one of this PE's heap.
  char* symmetric(int rank, const void* mine) const {
    check_rank(rank);
    return group_->symmetric[static_cast<std::size_t>(rank)] +
           (static_cast<const char*>(mine) - allocation_->base);
  }

 private:
  void check_rank(int rank) const {
    TORCH_CHECK(rank >= 0 && rank < group_->size, "rank ", rank, " is out of range [0, ",
                group_->size, ")");
  }

  std::size_t word(int channel, int rank) const {
    const auto n = static_cast<std::size_t>(group_->size);
    const std::size_t channels = allocation_->layout.count() / n;
    TORCH_CHECK(channel >= 0 && static_cast<std::size_t>(channel) < channels, "channel ", channel,
                " is out of range [0, ", channels, ")");
    return static_cast<std::size_t>(channel) * n + static_cast<std::size_t>(rank);
  }

  std::uint64_t* word_of(int rank, std::size_t index) const {
    return reinterpret_cast<std::uint64_t*>(group_->symmetric[static_cast<std::size_t>(rank)] +
                                            allocation_->layout.words) +
           index;
  }

  /// Adds 1 to a word of a member. An empty payload orders what the stream did before: kernels
  /// store to mapped members.
  void send(int rank, std::size_t index) {
    const auto stream = current_stream(get_device());
    auto* word = word_of(rank, index);
    if (!group_->mapped) gshmemx_quiet_on_stream(stream);
    gshmemx_putmem_signal_on_stream(word, word, 0, word, 1, GSHMEM_SIGNAL_ADD,
                                    group_->pes[static_cast<std::size_t>(rank)], stream);
    check_fault();
  }

  /// Waits for 1 in a word of this PE and takes it away, so that a graph may be launched again. A
  /// word that a NIC adds to is not changed here (GSHMEM_AMO): its value is compared with how many
  /// were waited for.
  void receive(int from, std::size_t index, const char* call, int channel, std::size_t timeout_ms) {
    const auto stream = current_stream(get_device());
    auto* word = word_of(group_->rank, index);
    const std::uint64_t wanted = group_->mapped ? 1 : group_->consumed[index] + 1;
    if (timeout_ms > 0 && get_device().is_cpu()) {  // on GPUs GSHMEM_TIMEOUT limits it
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
      while (!gshmem_uint64_test(word, GSHMEM_CMP_GE, wanted)) {
        TORCH_CHECK(std::chrono::steady_clock::now() < end, call, " on channel ", channel,
                    ": rank ", group_->rank, " has waited ", timeout_ms, " ms for rank ", from);
      }
    }
    gshmemx_signal_wait_until_on_stream(word, GSHMEM_CMP_GE, wanted, stream);
    if (group_->mapped) {
      gshmemx_signal_op_on_stream(word, ~std::uint64_t{0}, GSHMEM_SIGNAL_ADD, gshmem_my_pe(),
                                  stream);
    } else {
      group_->consumed[index] = wanted;
    }
    check_fault();
  }

  std::shared_ptr<Allocation> allocation_;
  std::shared_ptr<Group> group_;
  std::size_t offset_;
};

/// Makes this process a PE, where it is none; null, or why that failed. Python sets it.
using Join = const char* (*)();

class Allocator : public symm::SymmetricMemoryAllocator {
 public:
  explicit Allocator(c10::DeviceType type) : type_(type) {}

  /// The first call is collective, and so is one that finds no room in the pool.
  void* alloc(std::size_t bytes, int device_idx,
              const std::optional<std::string>& group_name) override {
    const c10::Device device(
        type_, static_cast<c10::DeviceIndex>(type_ == c10::DeviceType::CPU ? -1 : device_idx));
    const c10::OptionalDeviceGuard guard(device.is_cuda() ? std::optional(device) : std::nullopt);
    if (const char* why = join ? join() : nullptr) TORCH_CHECK(false, "GSHMEM: ", why);
    const auto where = device.is_cuda() ? guard.current_device().value() : device;
    TORCH_CHECK(is_place(where), "symmetric memory is on ", *place_,
                ", the GPU of this rank, and not on ", where);
    auto allocation = std::make_shared<Allocation>(bytes, where, group_name);
    char* base = allocation->base;
    const std::lock_guard lock(mutex_);
    allocations_[base] = std::move(allocation);
    return base;
  }

  void free(void* ptr) override {
    std::shared_ptr<Allocation> last;  // given back outside of the lock
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(static_cast<char*>(ptr));
    if (found == allocations_.end()) return;
    last = std::move(found->second);
    allocations_.erase(found);
  }

  std::size_t get_alloc_size(void* ptr) override {
    const auto allocation = find(ptr);
    TORCH_CHECK(allocation, ptr, " is not in a tensor of symm_mem.empty()");
    return allocation->layout.size;
  }

  bool has_allocation(void* ptr) { return find(ptr) != nullptr; }  // virtual since torch 2.10

  /// Null for other memory, as torch's own backend.
  c10::intrusive_ptr<symm::SymmetricMemory> rendezvous(
      void* ptr, const std::optional<std::string>& group_name) override {
    const auto allocation = find(ptr);
    if (!allocation) return nullptr;
    const auto& name = group_name ? group_name : allocation->default_group;
    TORCH_CHECK(name, "rendezvous: the tensor was made without a group, so pass one");
    const auto offset = static_cast<std::size_t>(static_cast<char*>(ptr) - allocation->base);
    const auto known = allocation->handles.find({*name, offset});
    if (known != allocation->handles.end()) {
      if (auto handle = known->second.lock()) return handle;
      allocation->handles.erase(known);
    }
    auto& group = allocation->groups[*name];
    if (!group) {
      allocation->groups.erase(*name);
      auto joined = join_group(*name, *allocation);
      allocation->groups[*name] = std::move(joined);
    }
    c10::intrusive_ptr<symm::SymmetricMemory> handle =
        c10::make_intrusive<Memory>(allocation, allocation->groups[*name], offset);
    allocation->handles.emplace(std::pair(*name, offset),
                                c10::weak_intrusive_ptr<symm::SymmetricMemory>(handle));
    return handle;
  }

  bool has_multicast_support(int) override { return false; }
  c10::DeviceType supported_device_type() override { return type_; }
  std::string name() override { return "GSHMEM"; }

  Join join = nullptr;

 private:
  std::shared_ptr<Allocation> find(const void* ptr) {
    const std::lock_guard lock(mutex_);
    const auto* address = static_cast<const char*>(ptr);
    auto next = allocations_.upper_bound(const_cast<char*>(address));
    if (next == allocations_.begin()) return nullptr;
    const auto& [base, allocation] = *std::prev(next);
    return address < base + std::max<std::size_t>(allocation->layout.size, 1) ? allocation
                                                                              : nullptr;
  }

  /// The heap is on one device: that of the first tensor.
  bool is_place(c10::Device device) {
    const std::lock_guard lock(mutex_);
    if (!place_) place_ = device;
    return *place_ == device;
  }

  c10::DeviceType type_;
  std::mutex mutex_;
  std::optional<c10::Device> place_;
  std::map<char*, std::shared_ptr<Allocation>> allocations_;
};

}  // namespace gshmem_torch
