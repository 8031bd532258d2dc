// Burst: many small messages to one PE with one doorbell for all. For the thread that puts, this is
// the path to the network with the lowest cost. C++20.
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
/// Group (Thread or Warp): all its threads make each call together, including the end of the burst.
/// Every thread puts messages of its own: addresses, values and counts are the calling thread's.
/// `pe` and the signal are the same for all.
///
/// Order and visibility: as for the non-blocking puts of OpenSHMEM 1.5, section 9.6, messages are
/// not ordered, and they are complete at the target after a quiet of the context. But a signal of
/// the burst is never visible before earlier messages of all threads of the group (put_signal
/// promises this for one message). Messages may stay unsent until ring(), signal() or the end of
/// the burst. When the queue is full, the burst rings and waits. Sources may be reused after a
/// quiet.
///
/// Context: one made with GSHMEM_CTX_PRIVATE or GSHMEM_CTX_SERIALIZED. While the burst exists,
/// nothing else may be posted by the context, which has one burst at a time. quiet of the context
/// may be called after ring() or signal(). With any other context, to a mapped PE, and on host
/// threads whose heaps are on GPUs, the functions are those of Context, one by one.
///
/// Errors: those of Context. If a fault ends a wait for room, the message is not sent.
template <Group G>
class Burst {
  static_assert(std::is_same_v<G, Thread> || std::is_same_v<G, Warp>,
                "a burst is made by a thread or by a warp");

 public:
  GSHMEM_FN Burst(const Context& context, G group, int pe)
      : burst_(group, context.state(), pe, may_post()) {}
  Burst(const Burst&) = delete;
  GSHMEM_FN ~Burst() { burst_.end(); }

  /// Puts `count` elements; 0: the calling thread has no message.
  template <Element T>
  GSHMEM_FN void put_nbi(T* dest, const T* source, std::size_t count) {
    burst_.put(dest, source, {count, sizeof(T)});
  }
  /// Puts one element of up to 8 bytes, whose source may be reused at once.
  template <Scalar T>
  GSHMEM_FN void p(T* dest, std::type_identity_t<T> value) requires(sizeof(T) <= 8) {
    std::uint64_t raw = 0;
    memcpy(&raw, &value, sizeof(T));
    burst_.put_word(dest, raw, sizeof(T));
  }
  /// Updates a word after all messages so far, of all threads. It and all earlier messages are sent
  /// at once.
  GSHMEM_FN void signal(Signal signal) { burst_.signal({signal.address, signal.value, signal.op}); }
  /// Sends all messages so far.
  GSHMEM_FN void ring() { burst_.ring(); }

 private:
  /// Host threads whose heaps are on GPUs use other paths.
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
