// ibput and ibget: blocks with gaps (OpenSHMEM 1.6), as puts and gets of the calling thread. The
// APIs include it after device/api/api.h; gshmem.h does not, and gshmem/blocks.h explains why.
#pragma once

#include "api.h"
#include "../core/register_bounds.h"

namespace gshmem::device {

/// `count` blocks of `size` bytes, which begin `dst` and `src` bytes apart.
struct Blocks {
  std::ptrdiff_t dst, src;
  std::size_t size, count;
};
/// Blocks that are put to `pe`, or fetched from it.
struct BlockMove {
  const State* state;
  void* dest;
  const void* source;
  Blocks blocks;
  int pe;
};

/// When it returns, the sources may be reused, or the data has arrived. It calls quiet, because
/// blocks may use several queues. The result has no meaning (GSHMEM_FIT needs one).
template <bool kPut>
GSHMEM_OUTLINE int move_blocks(Thread thread, const BlockMove& move) {
  const State& state = *move.state;
  GSHMEM_NO_UNROLL
  for (std::size_t i = 0; i < move.blocks.count; ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    char* const to = static_cast<char*>(move.dest) + at * move.blocks.dst;
    const char* const from = static_cast<const char*>(move.source) + at * move.blocks.src;
    if constexpr (kPut) {
      put_nbi(thread, state, to, from, move.blocks.size, move.pe);
    } else {
      get_nbi(thread, state, to, from, move.blocks.size, move.pe);
    }
  }
  if (!is_mapped(state, move.pe)) nic::quiet(thread, state, kPut ? "ibput" : "ibget");
  return 0;
}

}  // namespace gshmem::device

namespace gshmem::api {

/// Blocks of `bsize` elements of `kSize` bytes; strides in elements.
struct Blocked {
  std::ptrdiff_t dst, src;
  std::size_t bsize, nblocks;
  template <class Side>
  GSHMEM_FN Strided<Side> side(const char* name, const char* stride_name, const void* p,
                               std::ptrdiff_t stride, std::size_t unit) const {
    return {name, stride_name, p, stride, {nblocks, unit}, 1, bsize, "nblocks"};
  }
  /// Returns the blocks in bytes; arguments have been checked.
  GSHMEM_FN device::Blocks blocks(std::size_t unit) const {
    const auto step = static_cast<std::ptrdiff_t>(unit);
    return {dst * step, src * step, bsize * unit, bsize == 0 ? 0 : nblocks};
  }
};

template <bool kPut>
GSHMEM_FN void move_blocks(const Caller& call, void* dest, const void* source,
                           device::Blocks blocks, int pe) {
  GSHMEM_ON_HOST_OPS({
    for (std::size_t i = 0; i < blocks.count; ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i);
      (void)ops->run(Call::transfer(kPut ? CallKind::kPut : CallKind::kGet, call.name,
                                    static_cast<char*>(dest) + at * blocks.dst,
                                    static_cast<const char*>(source) + at * blocks.src, blocks.size,
                                    pe, true));
    }
    return;
  })
  GSHMEM_ORDER_CALL(auto t = order::transfer(call.state, dest, source, blocks.size, pe, true);
                    t.count = blocks.count; t.dest_stride = blocks.dst;
                    t.source_stride = blocks.src;
                    if (kPut ? order::put(*checker, device::Thread{}, t)
                             : order::get(*checker, device::Thread{}, t)) return;)
  GSHMEM_FIT(&device::move_blocks<kPut>, device::Thread, device::BlockMove);
  (void)device::move_blocks<kPut>({}, {&call.state, dest, source, blocks, pe});
}
template <std::size_t kSize>
GSHMEM_FN void ibput(const Caller& call, void* dest, const void* source, Blocked shape, int pe) {
  if (check_arguments(call.state, call.name, ToPe{pe},
                      shape.side<Symmetric>("dest", "dst", dest, shape.dst, kSize),
                      shape.side<Local>("source", "sst", source, shape.src, kSize)))
    move_blocks<true>(call, dest, source, shape.blocks(kSize), pe);
}
template <std::size_t kSize>
GSHMEM_FN void ibget(const Caller& call, void* dest, const void* source, Blocked shape, int pe) {
  if (check_arguments(call.state, call.name, ToPe{pe},
                      shape.side<Symmetric>("source", "sst", source, shape.src, kSize),
                      shape.side<Local>("dest", "dst", dest, shape.dst, kSize)))
    move_blocks<false>(call, dest, source, shape.blocks(kSize), pe);
}

}  // namespace gshmem::api
