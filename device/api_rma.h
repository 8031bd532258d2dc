// The layer of device/api.h for RMA (OpenSHMEM 1.5, section 9.6). A part of api.h.
#pragma once

#include "caller.h"
#include "check.h"
#include "rma.h"

namespace gshmem::api {

enum class Completion { kBlocking, kNonBlocking };

template <Completion kCompletion, class Coop>
GSHMEM_FN void put_as(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                      int pe) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{pe}, Symmetric{{"dest", dest, n}},
                       Local{{"source", source, n}}))
    return;
  GSHMEM_BY_HOST_OPS(void, Call::transfer(CallKind::kPut, call.name, dest, source, n.bytes(), pe,
                                          kCompletion == Completion::kBlocking))
  if constexpr (kCompletion == Completion::kBlocking) {
    device::put(coop, state, dest, source, n.bytes(), pe);
  } else {
    device::put_nbi(coop, state, dest, source, n.bytes(), pe);
  }
}

template <Completion kCompletion, class Coop>
GSHMEM_FN void get_as(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                      int pe) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{pe}, Symmetric{{"source", source, n}},
                       Local{{"dest", dest, n}}))
    return;
  GSHMEM_BY_HOST_OPS(void, Call::transfer(CallKind::kGet, call.name, dest, source, n.bytes(), pe,
                                          kCompletion == Completion::kBlocking))
  if constexpr (kCompletion == Completion::kBlocking) {
    device::get(coop, state, dest, source, n.bytes(), pe);
  } else {
    device::get_nbi(coop, state, dest, source, n.bytes(), pe);
  }
}

#if !defined(__CUDA_ARCH__)
template <class T>
Call word_call(CallKind kind, const Caller& caller, T* dest, const T* source, std::uint64_t operand,
               int pe) {
  Call call(kind, caller.name, pe);
  call.dest = dest;
  call.source = source;
  call.operand = operand;
  call.width = sizeof(T);
  return call;
}
inline Call strided_call(CallKind kind, const Caller& caller, void* dest, const void* source,
                         Strides strides, Elements n, int pe) {
  Call call = Call::transfer(kind, caller.name, dest, source, n.bytes(), pe, true);
  call.dst_stride = strides.dst;
  call.src_stride = strides.src;
  call.width = static_cast<std::uint32_t>(n.size);
  return call;
}
#endif

template <class Coop>
GSHMEM_FN void put(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                   int pe) {
  put_as<Completion::kBlocking>(call, coop, dest, source, n, pe);
}
template <class Coop>
GSHMEM_FN void put_nbi(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                       int pe) {
  put_as<Completion::kNonBlocking>(call, coop, dest, source, n, pe);
}
template <class Coop>
GSHMEM_FN void get(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                   int pe) {
  get_as<Completion::kBlocking>(call, coop, dest, source, n, pe);
}
template <class Coop>
GSHMEM_FN void get_nbi(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                       int pe) {
  get_as<Completion::kNonBlocking>(call, coop, dest, source, n, pe);
}

template <class T>
GSHMEM_FN void p(const Caller& call, T* dest, T value, int pe) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{pe}, element("dest", dest))) return;
  GSHMEM_ON_HOST_OPS({
    if constexpr (sizeof(T) > sizeof(Call::operand)) {
      (void)ops->run(Call::transfer(CallKind::kPut, call.name, dest, &value, sizeof(T), pe, true));
    } else {
      (void)ops->run(word_call(CallKind::kP, call, dest, dest, bits<Word<T>>(value), pe));
    }
    return;
  })
  device::p(state, dest, value, pe);
}

template <class T>
GSHMEM_FN T g(const Caller& call, const T* source, int pe) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{pe}, element("source", source))) return T{};
  GSHMEM_ON_HOST_OPS({
    if constexpr (sizeof(T) > sizeof(Call::operand)) {
      T value{};
      (void)ops->run(
          Call::transfer(CallKind::kGet, call.name, &value, source, sizeof(T), pe, true));
      return value;
    } else {
      T* const none = nullptr;
      return bits<T>(
          static_cast<Word<T>>(ops->run(word_call(CallKind::kG, call, none, source, 0, pe))));
    }
  })
  return device::g(state, source, pe);
}

template <std::size_t kSize, class Coop>
GSHMEM_FN void iput(const Caller& call, Coop coop, void* dest, const void* source, Strides strides,
                    int pe) {
  using W = typename WordOf<kSize>::type;
  const State& state = call.state;
  const Elements n{strides.nelems, kSize};
  if (!check_arguments(state, call.name, ToPe{pe},
                       Strided<Symmetric>{"dest", "dst", dest, strides.dst, n},
                       Strided<Local>{"source", "sst", source, strides.src, n}))
    return;
  GSHMEM_BY_HOST_OPS(void, strided_call(CallKind::kIput, call, dest, source, strides, n, pe))
  device::iput(coop, state, static_cast<W*>(dest), static_cast<const W*>(source), strides, pe);
}

template <std::size_t kSize, class Coop>
GSHMEM_FN void iget(const Caller& call, Coop coop, void* dest, const void* source, Strides strides,
                    int pe) {
  using W = typename WordOf<kSize>::type;
  const State& state = call.state;
  const Elements n{strides.nelems, kSize};
  if (!check_arguments(state, call.name, ToPe{pe},
                       Strided<Symmetric>{"source", "sst", source, strides.src, n},
                       Strided<Local>{"dest", "dst", dest, strides.dst, n}))
    return;
  GSHMEM_BY_HOST_OPS(void, strided_call(CallKind::kIget, call, dest, source, strides, n, pe))
  device::iget(coop, state, static_cast<W*>(dest), static_cast<const W*>(source), strides, pe);
}

/// Blocks of `bsize` elements of `kSize` bytes; strides in elements.
struct Blocked {
  std::ptrdiff_t dst, src;
  std::size_t bsize, nblocks;
  template <class Side>
  GSHMEM_FN Strided<Side> side(const char* name, const char* stride_name, const void* p,
                               std::ptrdiff_t stride, std::size_t unit) const {
    return {name, stride_name, p, stride, {nblocks, unit}, 1, bsize, "nblocks"};
  }
  /// In bytes, of what has been checked.
  GSHMEM_FN Blocks blocks(std::size_t unit) const {
    const auto step = static_cast<std::ptrdiff_t>(unit);
    return {dst * step, src * step, bsize * unit, bsize == 0 ? 0 : nblocks};
  }
};

template <bool kPut>
GSHMEM_FN void move_blocks(const Caller& call, void* dest, const void* source, Blocks blocks,
                           int pe) {
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
  device::move_blocks<kPut>(call.state, dest, source, blocks, pe);
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
