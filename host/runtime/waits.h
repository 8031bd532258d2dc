// The waits of a PE that take long, and where the PEs are for which it waits. Device code notes
// such waits (abi::WaitRecord); the monitor's thread looks at them. It asks the PE that is awaited
// where it is, logs what a wait is for, and ends a wait for a PE that does not come. Host threads
// that wait in the library ask by themselves. Included by Pe. Invariant: a wait ends for what is
// known of a PE only when it has found nothing after that was known.
#pragma once

#include <gshmem/abi/state.h>

#include "host/base/error.h"
#include "host/base/net/frame.h"
#include "host/control/news.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace gshmem {

class Waits {
 public:
  struct Outside {
    /// To take() of that PE. Threads: any.
    std::function<void(int pe, net::ByteView letter)> send;
    /// Puts a fault about PE `pe` on record, which ends all waits.
    std::function<void(const Error& error, int pe)> raise;
    /// Collectives of all PEs, by numbers that all count alike: the one in which a host thread of
    /// this PE is, 0 = none; and the last to which this PE has come.
    struct Collective {
      std::uint64_t waits_in, come_to;
    };
    std::function<Collective()> collective;
    /// For so many seconds what PE `pe` has told may be known before what it has put is here.
    std::function<double(int pe)> lag;
  };
  /// All outlive this object.
  Waits(const abi::DeviceState& state, Outside outside)
      : state_(state), outside_(std::move(outside)) {}
  Waits(const Waits&) = delete;

  /// Marks a host thread of this PE as in `call`, whose text stays, as long as this object lives.
  class Call {
   public:
    Call(Waits& waits, const char* call) : waits_(waits), before_(waits.call_.exchange(call)) {}
    ~Call() { waits_.call_.store(before_); }
    Call(const Call&) = delete;

   private:
    Waits& waits_;
    const char* before_;
  };
  /// One more host thread makes calls.
  void count_thread() { n_threads_.fetch_add(1, std::memory_order_relaxed); }

  // On the monitor's thread.
  /// Looks at all that is noted. False: nothing is, and nothing has changed for a while.
  [[nodiscard]] bool look();
  void take(int from, net::ByteView letter);
  /// A PE has left, or finalizes.
  void hear(const control::PeerNews& news);

  // Threads: any but the monitor's.
  /// Logs that this PE's call has waited for `seconds`, for PE `pe` where that is known (else -1),
  /// and where that PE is: asks it, and waits for the answer for a moment.
  void warn(double seconds, int pe);
  /// Tells what a wait was for that has taken too long; empty: nothing is known.
  [[nodiscard]] std::string explain(const abi::FaultRecord& record) const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class Kind : std::uint32_t { kAsks, kAnswers };
  struct Letter {
    Kind kind{};
    std::uint32_t n_threads = 0;
    std::uint64_t collective = 0;  ///< Collective::waits_in
    char call[56] = "";            ///< empty: none of the library
  };
  /// The last answer of a PE.
  struct Place {
    Time since{};  ///< known in this collective
    Letter letter;
  };
  struct End {
    control::PeerEvent event;
    Time at;  ///< known
  };
  /// The monitor's thread keeps this of each record.
  struct Seen {
    std::uint64_t started = 0, waited = 0;
    Time moved{}, moved_before{};  ///< the last two times at which `waited` was another
    double ask_at = 0, warn_at = 0;
  };
  void ask(int pe);
  void answer(int pe);
  void judge(const abi::WaitRecord& wait, Seen& seen);
  [[nodiscard]] std::string where_is(int pe) const;
  [[nodiscard]] std::string word_of(const abi::WaitRecord& wait) const;
  [[nodiscard]] std::string aim_of(const abi::WaitRecord& wait) const;

  const abi::DeviceState& state_;
  const Outside outside_;
  std::atomic<const char*> call_{nullptr};
  std::atomic<unsigned> n_threads_{0};
  std::array<Seen, abi::kWaits> seen_{};
  mutable std::mutex mutex_;  ///< of what follows
  std::condition_variable answered_;
  std::map<int, Place> places_;
  std::map<int, End> ends_;
};

}  // namespace gshmem
