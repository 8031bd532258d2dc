// Kernels that bound the registers of the functions that most programs call (register_bounds.h).
#pragma once

#include "../core/register_bounds.h"

#if defined(__CUDACC_RDC__) && GSHMEM_FIT_REGISTERS

#include "api_context.h"

namespace gshmem::device {

/// Arguments of all kinds. They are in memory, so that the compiler does not know their values.
struct FitWork {
  api::Caller call;
  char *dest, *source;
  std::uint64_t* word;
  Word16* element;
  std::uint64_t value;
  Elements n;
  int pe, handle, cmp;
};

template <class Coop>
GSHMEM_FN void fit_copies(const FitWork& w, Coop coop) {
  api::put(w.call, coop, w.dest, w.source, w.n, w.pe);
  api::get(w.call, coop, w.dest, w.source, w.n, w.pe);
  api::put_nbi(w.call, coop, w.dest, w.source, w.n, w.pe);
  api::get_nbi(w.call, coop, w.dest, w.source, w.n, w.pe);
  api::put_signal(w.call, coop, w.dest, w.source, w.n, {w.word, w.value, w.cmp}, w.pe);
  api::put_signal_nbi(w.call, coop, w.dest, w.source, w.n, {w.word, w.value, w.cmp}, w.pe);
}
template <class Coop>
GSHMEM_FN void fit_network(const FitWork& w, Coop coop) {
  const State& state = w.call.state;
  const std::size_t bytes = w.n.bytes();
  nic::put(coop, state, w.dest, w.source, bytes, w.pe, static_cast<nic::Reuse>(w.handle));
  nic::get(coop, state, w.dest, w.source, bytes, w.pe, static_cast<nic::Arrival>(w.handle));
  nic::put_signal(coop, state, w.dest, w.source, bytes, {w.word, w.value, AmoOp::kAdd}, w.pe,
                  static_cast<nic::Reuse>(w.handle));
}
template <class Coop>
GSHMEM_FN void fit_synchronization(const FitWork& w, Coop coop) {
  api::barrier_all(w.call, coop);
  *w.word = static_cast<std::uint64_t>(api::barrier(w.call, coop, w.handle));
  *w.word = static_cast<std::uint64_t>(api::quiet_status(w.call, coop));
  api::flush(w.call, coop);
  api::pe_quiet(w.call, coop, w.pe);
  api::qp_quiet(w.call, coop, w.pe, {&w.handle, w.cmp});
}
GSHMEM_FN void fit_words(const FitWork& w) {
  api::p(w.call, w.word, w.value, w.pe);
  api::p(w.call, w.element, *w.element, w.pe);
  *w.word = api::g(w.call, w.word, w.pe);
  *w.element = api::g(w.call, w.element, w.pe);
  api::amo_add(w.call, w.word, w.value, w.pe);
  *w.word = api::amo_fetch_add(w.call, w.word, w.value, w.pe);
  api::signal_op(w.call, {w.word, w.value, w.cmp}, w.pe);
  api::fence(w.call);
  api::quiet(w.call);
  api::put_nbi(api::context_caller("", "", w.handle), LeanThread{}, w.dest, w.source, w.n, w.pe);
  int pe = w.pe;
  api::put_nbi(api::context_caller("", "", w.handle, pe), LeanThread{}, w.dest, w.source, w.n, pe);
}

// Each bound says how many blocks, of how many threads, share the 65,536 registers of an SM.

/// The bound is 40 registers.
static __global__ void __launch_bounds__(768, 2) fit_waits(const FitWork* w) {
  api::wait_until(w->call, w->word, w->cmp, w->value);
}
/// The bound is 48.
static __global__ void __launch_bounds__(640, 2) fit_calls(const FitWork* w) {
  fit_words(*w);
  fit_network(*w, Thread{});
  fit_network(*w, Warp{});
  fit_copies(*w, Block{});
  fit_synchronization(*w, Thread{});
  fit_synchronization(*w, Warp{});
  fit_synchronization(*w, Block{});
  *w->word = static_cast<std::uint64_t>(api::barrier(w->call, Warpgroup{}, w->handle));
}
/// The bound is 64: a copy by one thread or warp has many words in flight (GSHMEM_COPY_DEPTH).
static __global__ void __launch_bounds__(1024) fit_copies_of_few(const FitWork* w) {
  fit_copies(*w, Thread{});
  fit_copies(*w, Warp{});
}

}  // namespace gshmem::device

#endif
