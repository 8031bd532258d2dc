// Measures what dormant communication costs a kernel: two streaming kernels, each alone and with
// one call after a flag that is never set. check_registers.py compiles this unit and compares the
// registers of both kernels with a call and alone. calls.cu has the other families. PUTS_ALONE and
// ORDER_ALONE leave only the kernels with puts, and those that order or synchronize.
#include <gshmem/burst.hpp>

#include <cstddef>
#include <cstdint>

/// Arguments of the dormant calls. They are in memory, as in a real program, so that only the cost
/// of the call itself counts.
struct Target {
  std::uint64_t* signal;
  char* heap;
  int* word;
  std::size_t bytes;
  std::uint64_t value;
  gshmem_ctx_t ctx;
  gshmemx_qp_handle_t* qps;
  gshmem_team_t team;
  int pe;
  int flag;
};

struct Arrays {
  const double* __restrict__ a;
  const double* __restrict__ b;
  const double* __restrict__ c;
  const double* __restrict__ d;
  const double* __restrict__ e;
};

// A grid-stride loop; the neighbours in five arrays enter every element. Only the position is live
// across the call.
#define STREAM(NAME, CALL)                                                                     \
  extern "C" __global__ void STREAM_##NAME(double* __restrict__ out, Arrays in, double scale,  \
                                           std::size_t n, const Target* to) {                  \
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;                 \
    std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x + 1;       \
    for (; i + 1 < n; i += step) {                                                             \
      out[i] = in.a[i] * scale + in.b[i - 1] * in.c[i + 1] +                                   \
               in.d[i] * (in.a[i - 1] + in.a[i + 1]) + in.b[i + 1] * (in.c[i - 1] - in.c[i]) + \
               in.b[i] * in.d[i - 1] * in.d[i + 1] + in.e[i] * (in.e[i - 1] + in.e[i + 1]);    \
      if (to->flag != 0) {                                                                     \
        CALL;                                                                                  \
      }                                                                                        \
    }                                                                                          \
  }

// A column marched through planes of `n` elements, three neighbours of three arrays carried in
// registers: 20 of them are live across the call.
#define MARCH(NAME, CALL)                                                                        \
  extern "C" __global__ void MARCH_##NAME(double* __restrict__ out, Arrays in, double scale,     \
                                          std::size_t n, std::size_t planes, const Target* to) { \
    std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x + 1;         \
    double a0 = in.a[i], b0 = in.b[i], c0 = in.c[i];                                             \
    double a1 = in.a[i + n], b1 = in.b[i + n], c1 = in.c[i + n];                                 \
    _Pragma("unroll 1") for (std::size_t z = 0; z < planes; ++z) {                               \
      const double a2 = in.a[i + 2 * n], b2 = in.b[i + 2 * n], c2 = in.c[i + 2 * n];             \
      out[i] = (a0 - 2 * a1 + a2) * scale + (b0 - 2 * b1 + b2) * in.d[i] +                       \
               (c0 - 2 * c1 + c2) * in.e[i] + in.a[i - 1] * in.a[i + 1];                         \
      a0 = a1, b0 = b1, c0 = c1, a1 = a2, b1 = b2, c1 = c2, i += n;                              \
      if (to->flag != 0) {                                                                       \
        CALL;                                                                                    \
      }                                                                                          \
    }                                                                                            \
  }

#define KERNELS(NAME, CALL) STREAM(NAME, CALL) MARCH(NAME, CALL)

KERNELS(alone, *to->word = to->pe)

#if !defined(PUTS_ALONE) && !defined(ORDER_ALONE)
// Elements, atomics and signals.
KERNELS(int_p, gshmem_int_p(to->word, static_cast<int>(to->value), to->pe))
KERNELS(int_g, *to->word = gshmem_int_g(to->word, to->pe))
KERNELS(atomic_add, gshmem_uint64_atomic_add(to->signal, to->value, to->pe))
KERNELS(atomic_fetch_add,
        *to->signal = gshmem_uint64_atomic_fetch_add(to->signal, to->value, to->pe))
STREAM(atomic_compare_swap,
       *to->signal = gshmem_uint64_atomic_compare_swap(to->signal, to->value, to->bytes, to->pe))
KERNELS(signal_op, gshmemx_signal_op(to->signal, to->value, GSHMEM_SIGNAL_ADD, to->pe))
KERNELS(signal_wait_until, gshmem_signal_wait_until(to->signal, GSHMEM_CMP_GE, to->value))
STREAM(wait_until_any, *to->signal = gshmem_uint64_wait_until_any(to->signal, to->bytes, nullptr,
                                                                  GSHMEM_CMP_GE, to->value))
STREAM(test, *to->word = gshmem_uint64_test(to->signal, GSHMEM_CMP_GE, to->value))
#endif

// Copies by a thread, a warp and a block.
#define PUT(KIND, FORM, SUFFIX) \
  KIND(putmem##SUFFIX, FORM##putmem##SUFFIX(to->heap, out, to->bytes, to->pe))
#define COPIES(KIND, FORM, SUFFIX)                                                               \
  PUT(KIND, FORM, SUFFIX)                                                                        \
  KIND(getmem##SUFFIX, FORM##getmem##SUFFIX(out, to->heap, to->bytes, to->pe))                   \
  KIND(putmem_nbi##SUFFIX, FORM##putmem_nbi##SUFFIX(to->heap, out, to->bytes, to->pe))           \
  KIND(getmem_nbi##SUFFIX, FORM##getmem_nbi##SUFFIX(out, to->heap, to->bytes, to->pe))           \
  KIND(putmem_signal##SUFFIX, FORM##putmem_signal##SUFFIX(to->heap, out, to->bytes, to->signal,  \
                                                          to->value, GSHMEM_SIGNAL_ADD, to->pe)) \
  KIND(putmem_signal_nbi##SUFFIX,                                                                \
       FORM##putmem_signal_nbi##SUFFIX(to->heap, out, to->bytes, to->signal, to->value,          \
                                       GSHMEM_SIGNAL_ADD, to->pe))
#define STRIDED(FORM, SUFFIX)                                                                    \
  STREAM(iput##SUFFIX, FORM##double_iput##SUFFIX(reinterpret_cast<double*>(to->heap), out, 2, 3, \
                                                 to->bytes, to->pe))                             \
  STREAM(iget##SUFFIX, FORM##double_iget##SUFFIX(out, reinterpret_cast<double*>(to->heap), 2, 3, \
                                                 to->bytes, to->pe))
#if defined(PUTS_ALONE)
PUT(STREAM, gshmem_, )
PUT(STREAM, gshmemx_, _warp)
#elif !defined(ORDER_ALONE)
COPIES(STREAM, gshmem_, )
COPIES(STREAM, gshmemx_, _warp)
COPIES(KERNELS, gshmemx_, _block)
STRIDED(gshmem_, )
STRIDED(gshmemx_, _warp)
STRIDED(gshmemx_, _block)
#endif

#if !defined(PUTS_ALONE)
// Order, barriers, and calls with contexts and handles.
STREAM(fence, gshmem_fence())
KERNELS(quiet, gshmem_quiet())
STREAM(sync_all, gshmem_sync_all())
STREAM(barrier_all, gshmem_barrier_all())
STREAM(barrier_all_warp, gshmemx_barrier_all_warp())
KERNELS(barrier_all_block, gshmemx_barrier_all_block())
STREAM(team_sync, *to->word = gshmem_team_sync(to->team))
STREAM(team_sync_warp, *to->word = gshmemx_team_sync_warp(to->team))
KERNELS(team_sync_block, *to->word = gshmemx_team_sync_block(to->team))
STREAM(barrier, *to->word = gshmem_barrier(to->team))
STREAM(barrier_warp, *to->word = gshmemx_barrier_warp(to->team))
KERNELS(barrier_block, *to->word = gshmemx_barrier_block(to->team))
STREAM(ctx_putmem_nbi, gshmem_ctx_putmem_nbi(to->ctx, to->heap, out, to->bytes, to->pe))
STREAM(ctx_quiet, gshmem_ctx_quiet(to->ctx))
STREAM(qp_quiet, gshmemx_qp_quiet(to->pe, to->qps, 1))
STREAM(burst, gshmem::Burst burst(gshmem::context().on(to->ctx), gshmem::Thread{}, to->pe);
       burst.put_nbi(to->heap, to->heap, to->bytes); burst.signal({to->signal, 1}))
STREAM(burst_warp, gshmem::Burst burst(gshmem::context().on(to->ctx), gshmem::Warp{}, to->pe);
       burst.put_nbi(to->heap, to->heap, to->bytes); burst.p(to->word, 1))
#endif
