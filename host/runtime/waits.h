// The long waits of a PE, and the calls of the PEs that it waits for. Device code notes such waits
// (abi::WaitRecord), and the monitor's thread checks them. It asks the awaited PE which call it is
// in, and logs the condition of the wait. It ends a wait for a PE that will not come. Host threads
// that wait in the library ask themselves. Included by Pe. Invariant: news about a PE end a wait
// only if its condition was not met after the news arrived.
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
    /// Delivers a message to take() of that PE. Threads: any.
    std::function<void(int pe, net::ByteView message)> send;
    /// Records a fault about PE `pe`, which ends all waits.
    std::function<void(const Error& error, int pe)> raise;
    /// Collectives of all PEs, by numbers that are the same on all PEs. waits_in: the one that a
    /// host thread of this PE is in, 0 = none. come_to: the last one that this PE has entered.
    struct Collective {
      std::uint64_t waits_in, come_to;
    };
    std::function<Collective()> collective;
    /// Returns by how many seconds news about PE `pe` may overtake its puts.
    std::function<double(int pe)> lag;
  };
  /// All arguments outlive this object.
  Waits(const abi::DeviceState& state, Outside outside)
      : state_(state), outside_(std::move(outside)) {}
  Waits(const Waits&) = delete;

  /// During its lifetime, a host thread of this PE counts as being in `call`, whose text is not
  /// copied.
  class Call {
   public:
    Call(Waits& waits, const char* call) : waits_(waits), before_(waits.call_.exchange(call)) {}
    ~Call() { waits_.call_.store(before_); }
    Call(const Call&) = delete;

   private:
    Waits& waits_;
    const char* before_;
  };
  /// Counts one more host thread that makes calls.
  void count_thread() { n_threads_.fetch_add(1, std::memory_order_relaxed); }

  // Called on the monitor's thread.
  /// Checks all noted waits. Returns false if there is none, and nothing has changed for a while.
  [[nodiscard]] bool look();
  void take(int from, net::ByteView message);
  /// A PE has left, or finalizes.
  void on_peer_news(const control::PeerNews& news);

  // Threads: any but the monitor's.
  /// Logs that this PE's call has waited for `seconds`, for PE `pe` if that is known (-1
  /// otherwise). It also logs which call that PE is in: it asks the PE, and waits a moment for the
  /// answer.
  void warn(double seconds, int pe);
  /// Returns the condition of a wait that has taken too long; empty: unknown.
  [[nodiscard]] std::string explain(const abi::FaultRecord& record) const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class Kind : std::uint32_t { kAsks, kAnswers };
  struct Message {
    Kind kind{};
    std::uint32_t n_threads = 0;
    std::uint64_t collective = 0;  ///< see Collective::waits_in
    char call[56] = "";            ///< empty: in no call of the library
  };
  /// The last answer of a PE.
  struct Place {
    Time since{};  ///< since when the PE is known to be in this collective
    Message message;
  };
  struct End {
    control::PeerEvent event;
    Time at;  ///< time at which the news arrived
  };
  /// The state that the monitor's thread keeps of each record.
  struct Seen {
    std::uint64_t started = 0, waited = 0;
    Time moved{}, moved_before{};  ///< the last two times at which `waited` had changed
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
  mutable std::mutex mutex_;  ///< guards the members below
  std::condition_variable answered_;
  std::map<int, Place> places_;
  std::map<int, End> ends_;
};

}  // namespace gshmem
