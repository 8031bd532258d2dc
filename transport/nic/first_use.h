// Connections on first use (GSHMEM_CONNECT=use): a thread of each PE that makes the queues to a
// peer when device code here, or there, first posts to the other. Included by the runtime, which
// carries the letters between PEs. The PE that begins makes its queues and offers them. The other
// one makes its own, connects them and answers; then the first one connects, releases its writers
// and confirms. Where both offer at once, each connects to what the other has offered, and
// confirms. Invariant: a writer posts when both ends answer, and a pair of PEs makes one connection
// of a context. tests/model/first_use.pml has every interleaving.
#pragma once

#include "transport/nic/queue_set.h"

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace gshmem::nic {

class FirstUse {
 public:
  using Letter = std::vector<std::byte>;
  struct Outside {
    int my_pe;
    /// Control::asked.
    std::uint32_t* asked;
    /// Device code wakes this thread; else it looks now and then.
    bool is_woken;
    /// In order, to take() of that PE. Threads: any.
    std::function<void(int pe, std::span<const std::byte> letter)> send;
    /// Ends the waits of writers.
    std::function<void(const Error& error, int pe)> on_error;
  };
  /// `queues` outlives it. Letters may come from other PEs as soon as their init is over.
  FirstUse(QueueSet& queues, Outside outside);
  /// Connections that are half made stay so: nobody posts any more.
  ~FirstUse();
  FirstUse(const FirstUse&) = delete;
  /// Takes a letter of PE `from`. Threads: any; does not wait.
  void take(int from, std::span<const std::byte> letter);

 private:
  using Pair = QueueSet::Pair;
  /// How far a pair of PEs is, as this one knows.
  enum class Stage { kNothing, kOffered, kConnected, kReleased };
  enum class Kind : std::uint32_t { kOffer, kAnswer, kConfirm };
  struct Header {
    Kind kind;
    std::int32_t context;
  };
  void run();
  void serve();
  void wake();
  void begin(const Pair& pair);
  void read(int from, std::span<const std::byte> letter);
  void send(Kind kind, const Pair& pair, const QueueSet::QueueInfos& infos);

  QueueSet& queues_;
  const Outside outside_;
  std::map<Pair, Stage> stages_;  ///< of the thread
  std::mutex mutex_;
  std::deque<std::pair<int, Letter>> letters_;  ///< that came, with their senders
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace gshmem::nic
