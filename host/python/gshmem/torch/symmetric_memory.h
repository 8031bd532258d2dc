// The class by which torch uses an allocation of a group after its rendezvous. Included by
// symmetric_allocator.h. A block contains the tensor's memory, and the signal pad for kernels of
// torch and of users. For each group it has the words of put_signal, wait_signal and barrier, and
// arrays of pointers for kernels.
#pragma once

#include "symmetric_group.h"

#include <ATen/ATen.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryTypes.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

// This function is in torch's library for CUDA, so a torch without CUDA does not have it. It is a C
// function, and has not changed since 2.6.
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

/// Returns torch's current stream of the device. In CPU mode calls are made at once.
inline gshmemx_stream_t current_stream(c10::Device device) {
  void* stream = nullptr;
  if (device.is_cuda()) {
    TORCH_CHECK(aoti_torch_get_current_cuda_stream &&
                    aoti_torch_get_current_cuda_stream(device.index(), &stream) == 0,
                "this torch does not say what its current CUDA stream is");
  }
  return static_cast<gshmemx_stream_t>(stream);
}

/// Offsets of the parts of a block. They are the same on all members of a group.
struct Layout {
  explicit Layout(std::size_t bytes)
      : size(bytes),
        pad(round_up(bytes, Pool::kAlign)),
        pad_size(pad_bytes()),
        words(pad + round_up(pad_size, Pool::kAlign)),
        arrays(words + kGroups * words_bytes()),
        array_bytes(static_cast<std::size_t>(gshmem_n_pes()) * (2 * sizeof(void*) + sizeof(int))),
        end(arrays + kGroups * round_up(array_bytes, 16)) {}
  /// Returns the number of words of the pad. A group has as many words for put_signal, and as many
  /// for barriers.
  std::size_t count() const { return pad_size / sizeof(std::uint32_t); }
  std::size_t words_bytes() const { return 2 * count() * sizeof(std::uint64_t); }

  static constexpr std::size_t kGroups = 8;  // that a tensor may be shared in
  std::size_t size, pad, pad_size, words, arrays, array_bytes, end;
};

/// A group, and the blocks of its members for one tensor.
struct Group {
  std::shared_ptr<Members> members;  // shared with Groups: of the objects that use it
  int rank = 0;
  int size = 0;
  std::size_t place = 0;             // of its words and arrays in this PE's block
  std::vector<int> pes;              // of the members
  std::vector<char*> symmetric;      // the block of each, as an address of this PE's heap
  std::vector<std::size_t> words;    // where this group's words are in the block of each
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
        job(Pool::get().job()),
        base(Pool::get().take(layout.end, where)) {
    const std::vector<char> zeros(layout.pad_size);
    gshmem_putmem(base + layout.pad, zeros.data(), zeros.size(), gshmem_my_pe());
    check_fault();
  }
  ~Allocation() { Pool::get().give(base, job); }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  Layout layout;
  c10::Device device;
  std::optional<std::string> default_group;
  std::uint64_t job;
  char* base;
  std::mutex mutex;          // guards the members below
  std::uint64_t places = 0;  // of words and arrays, that groups have: a bit for each
  std::map<const Members*, std::shared_ptr<Group>> groups;
  std::map<std::pair<const Members*, std::size_t>, c10::weak_intrusive_ptr<symm::SymmetricMemory>>
      handles;
};

/// Takes a place that is free, or whose group has ended. Returns Layout::kGroups if there is none.
inline std::size_t take_place(Allocation& allocation) {
  const std::lock_guard lock(allocation.mutex);
  for (auto each = allocation.groups.begin(); each != allocation.groups.end();) {
    const auto& group = each->second;
    if (group.use_count() > 1 || !group->members->group.expired()) {
      ++each;
      continue;
    }
    synchronize(allocation.device);  // its last calls may be in streams still
    allocation.places &= ~(std::uint64_t{1} << group->place);
    each = allocation.groups.erase(each);
  }
  const auto place = static_cast<std::size_t>(std::countr_one(allocation.places));
  if (place < Layout::kGroups) allocation.places |= std::uint64_t{1} << place;
  return place;
}

/// Collective over the group.
inline std::shared_ptr<Group> join_group(std::shared_ptr<Members> members_of_group,
                                         Allocation& allocation) {
  struct Member {
    std::int64_t pe, offset;
    std::uint64_t size, place;
  };
  char* anchor = Pool::get().anchor();
  const Layout& layout = allocation.layout;
  const auto group = std::make_shared<Group>();
  group->members = std::move(members_of_group);
  group->rank = group->members->rank;
  group->size = group->members->size;
  const std::size_t place = take_place(allocation);
  group->place = place;
  const int me = gshmem_my_pe();
  if (place < Layout::kGroups) {
    const std::vector<char> zeros(layout.words_bytes());
    gshmem_putmem(allocation.base + layout.words + place * zeros.size(), zeros.data(), zeros.size(),
                  me);
    check_fault();
  }
  const auto members =
      share(*group->members, Member{me, allocation.base - anchor, layout.size, place});
  const bool agreed = std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return member.size == layout.size && member.place < Layout::kGroups;
  });
  if (!agreed && place < Layout::kGroups) {
    const std::lock_guard lock(allocation.mutex);
    allocation.places &= ~(std::uint64_t{1} << place);
  }
  for (int rank = 0; rank < group->size; ++rank) {
    const Member& member = members[static_cast<std::size_t>(rank)];
    TORCH_CHECK(member.size == layout.size, "rendezvous: the tensor of rank ", rank, " has ",
                member.size, " bytes, that of this rank ", layout.size);
    TORCH_CHECK(member.place < Layout::kGroups, "rendezvous: a tensor may be shared in ",
                Layout::kGroups, " groups, and rank ", rank, " has done that");
    char* symmetric = anchor + member.offset;
    auto* mapped = static_cast<char*>(gshmem_ptr(symmetric, static_cast<int>(member.pe)));
    group->pes.push_back(static_cast<int>(member.pe));
    group->symmetric.push_back(symmetric);
    group->words.push_back(layout.words + member.place * layout.words_bytes());
    group->buffers.push_back(mapped);
    group->pads.push_back(mapped ? mapped + layout.pad : nullptr);
    group->mapped = group->mapped && mapped;
    group->alike = group->alike && symmetric == allocation.base;
  }
  group->consumed.resize(2 * layout.count());
  const std::size_t n = group->pes.size();
  char* arrays = allocation.base + layout.arrays + place * round_up(layout.array_bytes, 16);
  group->buffers_dev = reinterpret_cast<void**>(arrays);
  group->pads_dev = group->buffers_dev + n;
  group->pes_dev = reinterpret_cast<int*>(group->pads_dev + n);
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

  std::vector<void*> get_buffer_ptrs() override { return group().buffers; }
  std::vector<void*> get_signal_pad_ptrs() override { return group().pads; }
  void** get_buffer_ptrs_dev() override { return group().buffers_dev; }
  void** get_signal_pad_ptrs_dev() override { return group().pads_dev; }
  std::size_t get_buffer_size() override { return allocation_->layout.size; }
  std::size_t get_signal_pad_size() { return allocation_->layout.pad_size; }
  std::size_t get_offset() override { return offset_; }
  bool has_multicast_support() override { return false; }
  void* get_multicast_ptr() override { return nullptr; }
  int get_rank() override { return group_->rank; }
  int get_world_size() override { return group_->size; }
  c10::Device get_device() override { return allocation_->device; }
  const std::vector<int>& get_rank_to_global_rank() override { return group_->pes; }
  int* get_rank_to_global_rank_dev() override { return group().pes_dev; }
  bool world_within_direct_access() override { return group_->mapped; }

  /// Synchronizes in rounds. Each round doubles the number of members that are known to have
  /// entered.
  void barrier(int channel, std::size_t timeout_ms) override {
    Pool::get().check(allocation_->job);
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

  /// Called at the last strong reference. Allocation::handles has a weak one.
  void release_resources() override {
    group_.reset();
    allocation_.reset();
  }

  /// Returns the group. Throws after the end of the job.
  const Group& group() const {
    Pool::get().check(allocation_->job);
    return *group_;
  }
  /// Returns the address of this tensor on another member, as an address of this PE's heap.
  char* symmetric(int rank, const void* mine) const {
    check_rank(rank);
    return group_->symmetric[static_cast<std::size_t>(rank)] +
           (static_cast<const char*>(mine) - allocation_->base);
  }

 private:
  void check_rank(int rank) const {
    Pool::get().check(allocation_->job);
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
    const auto member = static_cast<std::size_t>(rank);
    return reinterpret_cast<std::uint64_t*>(group_->symmetric[member] + group_->words[member]) +
           index;
  }

  /// Adds 1 to a word of a member. A put of no bytes orders earlier work of the stream before it,
  /// because kernels store to mapped members.
  void send(int rank, std::size_t index) {
    const auto stream = current_stream(get_device());
    auto* word = word_of(rank, index);
    if (!group_->mapped) gshmemx_quiet_on_stream(stream);
    gshmemx_putmem_signal_on_stream(word, word, 0, word, 1, GSHMEM_SIGNAL_ADD,
                                    group_->pes[static_cast<std::size_t>(rank)], stream);
    check_fault();
  }

  /// Waits for 1 in a word of this PE and subtracts it, so that a graph may be launched again. If a
  /// NIC adds to the word (GSHMEM_AMO), it is not changed here: its value is compared with the
  /// number of signals that were consumed.
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

}  // namespace gshmem_torch
