// Builds work queue entries from arguments. The functions fill an image of one or two WQEs, in
// which only the position in the queue is missing. An image is a WqeImage in memory, or the queue
// itself (EntryStore, device/network/post.h). Layouts and their sources are in
// include/gshmem/abi/mlx5.h, golden bytes in tests/unit/wqe_test.cpp.
#pragma once

#include <gshmem/abi/queue.h>

#include "../core/call_record.h"
#include "../core/machine.h"

namespace gshmem::device {

using abi::Be32;
using abi::Be64;
using abi::Opcode;

static_assert(sizeof(Word16) == abi::kSegmentBytes);

/// Units of 16 bytes as in the queue, at most four entries. Each WQE begins with its control unit,
/// to which `placed` adds index, queue number and completion flag.
struct WqeImage {
  Word16 unit[16];
  std::uint32_t units = 0;   ///< number of units of all WQEs, including gaps
  std::uint32_t second = 0;  ///< unit where a second WQE begins, a multiple of 4; 0 = there is none
  GSHMEM_FN void put(std::uint32_t at, Word16 word) { unit[at] = word; }
  /// Returns the number of entries that the image takes. last() is the first entry of the last WQE.
  GSHMEM_FN std::uint32_t entries() const { return (units + 3) / 4; }
  GSHMEM_FN std::uint32_t last() const { return second / 4; }
  /// Copies the units to their destination. (The keys are in them.)
  template <class Image, class Keys>
  GSHMEM_FN void fill(Image& image, const Keys&) const {
    GSHMEM_NO_UNROLL
    for (std::uint32_t at = 0; at < units; ++at) image.put(at, unit[at]);
    image.units = units;
    image.second = second;
  }
};

/// The properties of a WQE that its control unit contains.
struct WqeHead {
  Opcode opcode;
  std::uint8_t opmod;
  std::uint8_t units;  ///< number of units of 16 bytes, including the control unit
  std::uint8_t flags;  ///< abi::ControlFlags
};

/// Makes a control unit. Each property is stored as a byte at its place. (A swap of bytes would be
/// executed by the kernel, not by the compiler.)
GSHMEM_FN Word16 control_unit(WqeHead head) {
  return {static_cast<std::uint32_t>(head.opcode) << 24 | head.opmod,
          static_cast<std::uint32_t>(head.units) << 24,
          static_cast<std::uint32_t>(head.flags) << 24 /* byte 11 */, 0};
}
/// Returns the control unit of the WQE at entry `index` of queue `number`.
GSHMEM_FN Word16 placed(Word16 control, std::uint64_t index, std::uint32_t number,
                        std::uint32_t flags) {
  control.x |= abi::index_bytes(static_cast<std::uint32_t>(index));
  control.y |= Be32(number << 8).raw;
  control.z |= flags << 24;
  return control;
}

GSHMEM_FN Word16 unit_of(Be64 a, Be64 b) {
  return {static_cast<std::uint32_t>(a.raw), static_cast<std::uint32_t>(a.raw >> 32),
          static_cast<std::uint32_t>(b.raw), static_cast<std::uint32_t>(b.raw >> 32)};
}
GSHMEM_FN Word16 remote_unit(std::uint64_t address, Be32 key) {
  const Be64 at(address);
  return {static_cast<std::uint32_t>(at.raw), static_cast<std::uint32_t>(at.raw >> 32), key.raw, 0};
}
/// Makes a data segment of at most 2^31 - 1 bytes.
GSHMEM_FN Word16 data_unit(std::uint32_t bytes, Be32 key, std::uint64_t address) {
  const Be64 at(address);
  return {Be32(bytes).raw, key.raw, static_cast<std::uint32_t>(at.raw),
          static_cast<std::uint32_t>(at.raw >> 32)};
}

/// An offset into the heap of a PE, and the key of that heap.
struct KeyedAddress {
  std::uint64_t offset;
  Be32 key;
};

/// Makes a WRITE or READ of `bytes` between two addresses. `Image` is a WqeImage, or writes
/// directly to the queue.
template <class Image>
GSHMEM_FN void image_transfer(Image& image, Opcode opcode, KeyedAddress remote, KeyedAddress local,
                              std::uint32_t bytes) {
  image.put(0, control_unit({opcode, 0, 3, 0}));
  image.put(1, remote_unit(remote.offset, remote.key));
  image.put(2, data_unit(bytes, local.key, local.offset));
  image.units = 3;
}

/// The largest payload that a WRITE of four entries carries: 4 * 64 less control, remote and inline
/// header; with an address vector 48 bytes less.
inline constexpr std::uint32_t kInlineBytes = 220, kAddressedInlineBytes = kInlineBytes - 48;

/// Returns the first word of an inline payload of up to kInlineBytes. Only inline headers have the
/// bit kRawInline.
inline constexpr std::uint32_t kRawInline = abi::kInlineMarker >> 24;
GSHMEM_FN std::uint32_t inline_header(std::uint32_t bytes) { return bytes << 24 | kRawInline; }
/// Makes a WRITE with an inline payload of at most kInlineBytes; the caller stores the payload at
/// the returned address.
GSHMEM_FN std::uint32_t* image_inline(WqeImage& image, KeyedAddress remote, std::uint32_t bytes) {
  image.units = 2 + (static_cast<std::uint32_t>(sizeof(abi::InlineHeader)) + bytes + 15) / 16;
  image.unit[0] = control_unit({Opcode::kRdmaWrite, 0, static_cast<std::uint8_t>(image.units), 0});
  image.unit[1] = remote_unit(remote.offset, remote.key);
  image.unit[image.units - 1] = {0, 0, 0, 0};
  image.unit[2].x = inline_header(bytes);
  return &image.unit[2].y;
}

/// Makes a DUMP of `bytes` of local memory, from unit `at` on, where an entry begins. The NIC
/// begins it when the READs and atomics before it have ended.
template <class Image>
GSHMEM_FN void image_dump(Image& image, std::uint32_t at, KeyedAddress local, std::uint32_t bytes) {
  image.second = at;
  image.put(at, control_unit({Opcode::kDump, 0, 2, abi::kFence}));
  image.put(at + 1, data_unit(bytes, local.key, local.offset));
  image.units = at + 2;
}

/// The largest payload that a WRITE of one control, one remote and one more unit carries.
inline constexpr std::uint32_t kShortInlineBytes = 12;
struct ShortPayload {
  std::uint32_t word[3];
};
template <class Image>
GSHMEM_FN void image_short_inline(Image& image, KeyedAddress remote, ShortPayload payload,
                                  std::uint32_t bytes) {
  image.put(0, control_unit({Opcode::kRdmaWrite, 0, 3, 0}));
  image.put(1, remote_unit(remote.offset, remote.key));
  image.put(2, Word16{inline_header(bytes), payload.word[0], payload.word[1], payload.word[2]});
  image.units = 3;
}

/// An atomic of the API on `width` (4 or 8) bytes; operands of 4 bytes are in the low halves.
struct Amo {
  AmoOp op;
  std::uint32_t width;
  std::uint64_t operand, cond;
};

struct SwapMasks {
  std::uint64_t swap, compare;
};

template <class Image>
GSHMEM_FN void image_masked_swap(Image& image, std::uint32_t at, const Amo& amo, SwapMasks masks) {
  if (amo.width == 8) {
    image.put(at, control_unit({Opcode::kMaskedCompareSwap, abi::kOpmodMasked8, 5, 0}));
    image.put(at + 2, unit_of(Be64(amo.operand), Be64(amo.cond)));
    image.put(at + 3, unit_of(Be64(masks.swap), Be64(masks.compare)));
    image.units = at + 5;
  } else {
    image.put(at, control_unit({Opcode::kMaskedCompareSwap, abi::kOpmodMasked4, 4, 0}));
    image.put(at + 2, {Be32(static_cast<std::uint32_t>(amo.operand)).raw,
                       Be32(static_cast<std::uint32_t>(amo.cond)).raw,
                       Be32(static_cast<std::uint32_t>(masks.swap)).raw,
                       Be32(static_cast<std::uint32_t>(masks.compare)).raw});
    image.units = at + 4;
  }
}

template <class Image>
GSHMEM_FN void image_masked_add(Image& image, std::uint32_t at, std::uint32_t width,
                                std::uint64_t add, std::uint64_t boundary) {
  if (width == 8) {
    image.put(at, control_unit({Opcode::kMaskedFetchAdd, abi::kOpmodMasked8, 4, 0}));
    image.put(at + 2, unit_of(Be64(add), Be64(boundary)));
  } else {
    image.put(at, control_unit({Opcode::kMaskedFetchAdd, abi::kOpmodMasked4, 4, 0}));
    image.put(at + 2, {Be32(static_cast<std::uint32_t>(add)).raw,
                       Be32(static_cast<std::uint32_t>(boundary)).raw, 0, 0});
  }
  image.units = at + 4;
}

/// Makes the control and operand units of an atomic. A compare-and-swap, add or fetch of 8 bytes
/// uses InfiniBand's compare-and-swap or fetch-and-add. All others use the masked forms, of 4 or 8
/// bytes (rdma-core providers/mlx5/wqe.h). Masked swap: if (memory ^ compare) & compare mask is 0,
/// the bits of the swap mask are taken from swap. Masked add: no carry leaves a bit that is set in
/// boundary.
template <class Image>
GSHMEM_FN void image_amo_operands(Image& image, std::uint32_t at, const Amo& amo) {
  const std::uint64_t all = ~std::uint64_t{0};
  switch (amo.op) {
    case AmoOp::kSet:
    case AmoOp::kSwap:
      return image_masked_swap(image, at, amo, {all, 0});
    case AmoOp::kOr:
      return image_masked_swap(image, at, amo, {amo.operand, 0});
    case AmoOp::kAnd:
      return image_masked_swap(image, at, amo, {~amo.operand, 0});
    case AmoOp::kXor:
      return image_masked_add(image, at, amo.width, amo.operand, all);
    case AmoOp::kCompareSwap:
      if (amo.width == 4) return image_masked_swap(image, at, amo, {all, all});
      image.put(at, control_unit({Opcode::kAtomicCompareSwap, 0, 4, 0}));
      image.put(at + 2, unit_of(Be64(amo.operand), Be64(amo.cond)));
      image.units = at + 4;
      return;
    case AmoOp::kFetch:
    case AmoOp::kAdd: {
      const std::uint64_t add = amo.op == AmoOp::kAdd ? amo.operand : 0;
      if (amo.width == 4) return image_masked_add(image, at, 4, add, 0);
      image.put(at, control_unit({Opcode::kAtomicFetchAdd, 0, 4, 0}));
      image.put(at + 2, unit_of(Be64(add), Be64(0)));
      image.units = at + 4;
      return;
    }
  }
}

/// Makes the units that follow image_amo_operands: the target of the atomic, and the address of its
/// old value.
template <class Image>
GSHMEM_FN void image_amo_addresses(Image& image, std::uint32_t at, std::uint32_t width,
                                   KeyedAddress remote, KeyedAddress result) {
  image.put(at + 1, remote_unit(remote.offset, remote.key));
  image.put(image.units - 1, data_unit(width, result.key, result.offset));
}

/// Makes an atomic at unit `at` (0, or 4 after a WQE of one entry) whose old value is stored to
/// `result`.
template <class Image>
GSHMEM_FN void image_amo(Image& image, std::uint32_t at, const Amo& amo, KeyedAddress remote,
                         KeyedAddress result) {
  image.second = at;
  image_amo_operands(image, at, amo);
  image_amo_addresses(image, at, amo.width, remote, result);
}

/// Returns the old value, from the bytes that the NIC stored. Results of 4 bytes are big-endian.
/// Results of 8 bytes are big-endian only if the NIC says so (abi::kNicFetchedBig).
GSHMEM_FN std::uint64_t fetched_value(std::uint64_t stored, std::uint32_t width,
                                      std::uint32_t nic_flags) {
  if (width == 4) return abi::swap_bytes(static_cast<std::uint32_t>(stored));
  return nic_flags & abi::kNicFetchedBig ? abi::swap_bytes(stored) : stored;
}

/// Returns how many units of address vector the WQE at unit `at` takes. A NOP or a DUMP takes none,
/// since it has no target.
GSHMEM_FN std::uint32_t vector_units(const WqeImage& image, std::uint32_t at) {
  const Opcode opcode = static_cast<Opcode>(image.unit[at].x >> 24);
  return opcode == Opcode::kNop || opcode == Opcode::kDump ? 0 : 3;
}
/// Makes the WQEs of an image those of an initiator: stores the address vector of a PE after their
/// control units. The second WQE moves first.
GSHMEM_FN void address_image(WqeImage& image, const Word16* vector) {
  std::uint32_t at = image.second;
  if (at != 0) image.second = ((image.unit[0].y >> 24) + vector_units(image, 0) + 3) & ~3u;
  GSHMEM_NO_UNROLL
  for (std::uint32_t to = image.second;; at = to = 0) {
    const std::uint32_t more = vector_units(image, at);
    GSHMEM_NO_UNROLL
    for (std::uint32_t i = image.unit[at].y >> 24; --i > 0;)
      image.unit[to + more + i] = image.unit[at + i];
    image.unit[to] = image.unit[at];
    image.unit[to].y += more << 24;
    GSHMEM_NO_UNROLL
    for (std::uint32_t i = more; i > 0; --i) image.unit[to + i] = load_bulk(vector + i - 1);
    if (at == 0) break;
  }
  image.units = image.second + (image.unit[image.second].y >> 24);
}

}  // namespace gshmem::device
