// Burst: many small messages to one PE with one doorbell for all, the cheapest way onto the network
// for the thread that puts. C++20.
#pragma once

#include "context.hpp"

#include <gshmem/device/api/burst.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gshmem {

/// Messages of a thread, or of the threads of a warp side by side, to PE `pe`:
///
///     gshmem::Burst burst(gshmem::context().on(ctx), gshmem::Thread{}, pe);
///     for (int i = 0; i < n; ++i) burst.put_nbi(dest + at[i], source + at[i], 1);
///     burst.signal({flag, 1});
///
/// Group (Thread or Warp): all its threads make each call together, the end of the burst included.
/// Every thread puts messages of its own: addresses, values and counts are the calling thread's.
/// `pe` and the signal are the same for all.
///
/// Order and visibility: as with the non-blocking puts of OpenSHMEM 1.5, section 9.6: no order, and
/// complete at the target after a quiet of the context. But a signal of the burst is never seen
/// before earlier messages, of all threads of the group (which put_signal promises of one).
/// Messages may stay here until ring(), signal() or the end of the burst; a queue that is full is
/// rung, and waited for. Sources may be used again after a quiet.
///
/// Context: one made with GSHMEM_CTX_PRIVATE or GSHMEM_CTX_SERIALIZED. Nothing else is posted by it
/// while the burst lives, and one burst at a time; quiet of it may be called after ring() or
/// signal(). The functions are those of Context, one by one, by any other context and to a PE that
/// is mapped. They are so on host threads whose heaps are on GPUs, too.
///
/// Errors: those of Context. A fault that ends a wait for room leaves the message out.
template <Group G>
class Burst {
  static_assert(std::is_same_v<G, Thread> || std::is_same_v<G, Warp>,
                "a burst is made by a thread or by a warp");

 public:
  GSHMEM_FN Burst(const Context& context, G group, int pe)
      : burst_(group, context.state(), pe, may_post()) {}
  Burst(const Burst&) = delete;
  GSHMEM_FN ~Burst() { burst_.end(); }

  /// `count` elements; 0: the calling thread has no message.
  template <Element T>
  GSHMEM_FN void put_nbi(T* dest, const T* source, std::size_t count) {
    burst_.put(dest, source, {count, sizeof(T)});
  }
  /// One element of up to 8 bytes, whose source is free at once.
  template <Scalar T>
  GSHMEM_FN void p(T* dest, std::type_identity_t<T> value) requires(sizeof(T) <= 8) {
    std::uint64_t raw = 0;
    memcpy(&raw, &value, sizeof(T));
    burst_.put_word(dest, raw, sizeof(T));
  }
  /// Seen after all messages so far, of all threads. It leaves at once, and so do they.
  GSHMEM_FN void signal(Signal signal) { burst_.signal({signal.address, signal.value, signal.op}); }
  /// All messages so far leave.
  GSHMEM_FN void ring() { burst_.ring(); }

 private:
  /// Host threads whose heaps are on GPUs have other ways.
  GSHMEM_FN static bool may_post() {
    GSHMEM_ON_HOST_OPS({
      (void)ops;
      return false;
    })
    return true;
  }

  device::Burst<G> burst_;
};

}  // namespace gshmem
