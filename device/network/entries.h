// The types of entries that a call can post: a WqeImage (wqe.h) or a KeyedEntry, in memory, or a
// OneEntry or a SignalledEntry, in registers. `fill` makes the image of the entry. Its argument
// `keys` provides the local and the remote keys. Included by post.h. Invariant: nothing here writes
// to a queue by itself, and repeated calls of `fill` make the same image.
#pragma once

#include "../pe/p2p.h"
#include "queue.h"

namespace gshmem::device {

struct HeldKeys {
  Be32 local, remote;
  GSHMEM_FN Be32 local_key() const { return local; }
  GSHMEM_FN Be32 remote_key() const { return remote; }
};
/// The local key is loaded when it is needed: an entry with an inline payload has none.
struct LayoutKeys {
  Queue queue;
  Be32 remote;
  GSHMEM_FN Be32 local_key() const { return queue.local_key(); }
  GSHMEM_FN Be32 remote_key() const { return remote; }
};

/// One WQE of three units: a transfer between heaps, or a WRITE with an inline payload. In a
/// transfer, only the key of the local heap is missing in the third unit.
struct OneEntry {
  std::uint64_t remote;  ///< offset into the remote heap
  Word16 data;
  Opcode opcode;
  /// For a transfer: sets the offset into the local heap.
  GSHMEM_FN void set_local(std::uint64_t offset) {
    const Word16 unit = data_unit(0, {}, offset);
    data.z = unit.z;
    data.w = unit.w;
  }
  GSHMEM_FN static constexpr std::uint32_t entries() { return 1; }
  GSHMEM_FN static constexpr std::uint32_t last() { return 0; }
  template <class Image, class Keys>
  GSHMEM_FN void fill(Image& image, const Keys& keys) const {
    image.put(0, control_unit({opcode, 0, 3, 0}));
    image.put(1, remote_unit(remote, keys.remote_key()));
    Word16 third = data;
    if (!(data.x & kRawInline)) third.y = keys.local_key().raw;
    image.put(2, third);
    image.units = 3;
  }
};
/// `local` and `remote` are offsets into the heaps.
GSHMEM_FN OneEntry transfer_entry(Opcode opcode, std::uint64_t remote, std::uint64_t local,
                                  std::uint32_t bytes) {
  return {remote, data_unit(bytes, {}, local), opcode};
}
/// `bytes` is at most kShortInlineBytes.
GSHMEM_FN OneEntry inline_entry(std::uint64_t remote, ShortPayload payload, std::uint32_t bytes) {
  return {remote,
          {inline_header(bytes), payload.word[0], payload.word[1], payload.word[2]},
          Opcode::kRdmaWrite};
}

/// The offset in the heap of a word that receives the old values that no caller needs.
inline constexpr std::uint64_t kSink = offsetof(abi::InternalArea, sink);

/// The keys of a SignalledEntry and of its queue's heaps.
struct SignalKeys : HeldKeys {
  Be32 atomic;
  GSHMEM_FN SignalKeys(Be32 local_key, Be32 remote_key, Be32 atomic_key)
      : HeldKeys{local_key, remote_key}, atomic(atomic_key) {}
  GSHMEM_FN explicit SignalKeys(Queue queue)
      : SignalKeys(queue.local_key(), queue.remote_key(), queue.atomic_key()) {}
};
/// A OneEntry, and the update of a signal word of 8 bytes after it.
struct SignalledEntry {
  OneEntry payload;
  std::uint64_t word, value;  ///< the word's offset in the remote heap, and the operand
  std::uint32_t sets;         ///< 1: the word becomes the value; 0: the value is added
  /// A swap has masks, and therefore its WQE takes a second entry.
  GSHMEM_FN std::uint32_t entries() const { return 2 + sets; }
  GSHMEM_FN static constexpr std::uint32_t last() { return 1; }
  template <class Image>
  GSHMEM_FN void fill(Image& image, const SignalKeys& keys) const {
    payload.fill(image, keys);
    const KeyedAddress remote{word, keys.atomic}, result{kSink, keys.local};
    if (sets != 0) {
      image_amo(image, 4, {AmoOp::kSet, sizeof(value), value, 0}, remote, result);
    } else {
      image_amo(image, 4, {AmoOp::kAdd, sizeof(value), value, 0}, remote, result);
    }
  }
  template <class Image>
  GSHMEM_FN void fill(Image& image, Queue queue) const {
    fill(image, SignalKeys(queue));
  }
};

/// These functions find the keys of a range of registered memory for a queue. They do not check
/// where the range ends: the NIC does.
GSHMEM_FN const std::uint32_t* local_key_at(const abi::RegisteredRange& range,
                                            std::uint32_t remote_key_count, Queue queue) {
  return &local_keys(range, remote_key_count)[queue.nic()].raw;
}
GSHMEM_FN const abi::RemoteKeys& remote_keys_at(const abi::RegisteredRange& range,
                                                std::uint32_t rails, Queue queue) {
  return remote_keys(range)[static_cast<std::uint32_t>(queue.pe()) * rails + queue.rail()];
}

/// A OneEntry with at least one address in registered memory, or in a part by which the heap has
/// grown. Its keys are loaded while the reservation is pending.
struct KeyedEntry {
  OneEntry entry;
  const std::uint64_t *remote = nullptr,
                      *local = nullptr;  ///< of range_word; null: it has the key of the queue
  std::uint32_t rails = 0, remote_key_count = 0;  ///< those of the state

  /// The ranges that contain the two addresses. They are loaded before the reservation. The keys
  /// are loaded after it, before its result is needed.
  struct Ranges {
    const abi::RegisteredRange *remote, *local;
  };
  GSHMEM_FN Ranges ranges() const { return {load_range(remote), load_range(local)}; }
  GSHMEM_FN HeldKeys keys(const Ranges& ranges, Queue queue, Be32 remote_key) const {
    HeldKeys keys{queue.local_key(), remote_key};
    if (ranges.remote)
      keys.remote.raw = load_relaxed(&remote_keys_at(*ranges.remote, rails, queue).payload.raw);
    if (ranges.local)
      keys.local.raw = load_relaxed(local_key_at(*ranges.local, remote_key_count, queue));
    return keys;
  }
  GSHMEM_FN static constexpr std::uint32_t entries() { return 1; }
  GSHMEM_FN static constexpr std::uint32_t last() { return 0; }
  template <class Image>
  GSHMEM_FN void fill(Image& image, const HeldKeys& keys) const {
    entry.fill(image, keys);
  }
  template <class Image>
  GSHMEM_FN void fill(Image& image, Queue queue) const {
    entry.fill(image, keys(ranges(), queue, queue.remote_key()));
  }
};

// ranges_of loads the ranges of a KeyedEntry, whose keys are in no QueueView. All other entries
// have no ranges.
struct NoRanges {};
template <class Entries>
GSHMEM_FN NoRanges ranges_of(const Entries&) {
  return {};
}
GSHMEM_FN KeyedEntry::Ranges ranges_of(const KeyedEntry& entry) { return entry.ranges(); }
template <class Entries>
GSHMEM_FN LayoutKeys keys_of(const Entries&, NoRanges, Queue queue, Be32 remote_key) {
  return {queue, remote_key};
}
GSHMEM_FN SignalKeys keys_of(const SignalledEntry&, NoRanges, Queue queue, Be32 remote_key) {
  const QueueKeys keys = queue.keys();
  return {keys.local, remote_key, keys.atomic};
}
GSHMEM_FN HeldKeys keys_of(const KeyedEntry& entry, const KeyedEntry::Ranges& ranges, Queue queue,
                           Be32 remote_key) {
  return entry.keys(ranges, queue, remote_key);
}

}  // namespace gshmem::device
