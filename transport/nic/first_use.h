// Connections on first use (GSHMEM_CONNECT=use): each PE has a thread that makes the queues to a
// peer when device code on either of the two first posts to the other. Included by the runtime,
// which delivers the messages between PEs. The PE that begins creates its queues and offers them.
// The other PE creates its own, connects them and answers. Then the first PE connects, releases its
// writers and confirms. If both send an offer at once, each connects to the offer of the other, and
// confirms. Invariant: a writer posts only when both ends can answer, and a pair of PEs makes one
// connection per context. tests/model/first_use.pml explores every interleaving.
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
  using Message = std::vector<std::byte>;
  struct Outside {
    int my_pe;
    /// Control::asked.
    std::uint32_t* asked;
    /// Device code wakes this thread; otherwise the thread polls.
    bool is_woken;
    /// Delivers a message to take() of that PE, in order. Threads: any.
    std::function<void(int pe, std::span<const std::byte> message)> send;
    /// Ends the waits of writers.
    std::function<void(const Error& error, int pe)> on_error;
  };
  /// `queues` outlives this object. Messages may arrive from other PEs as soon as their init has
  /// ended.
  FirstUse(QueueSet& queues, Outside outside);
  /// Connections that are incomplete stay so: no more entries are posted.
  ~FirstUse();
  FirstUse(const FirstUse&) = delete;
  /// Accepts a message from PE `from`. Threads: any; does not wait.
  void take(int from, std::span<const std::byte> message);

 private:
  using Pair = QueueSet::Pair;
  /// The state of the connection of a pair of PEs, as this PE knows it.
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
  void read(int from, std::span<const std::byte> message);
  void send(Kind kind, const Pair& pair, const QueueSet::QueueInfos& infos);

  QueueSet& queues_;
  const Outside outside_;
  std::map<Pair, Stage> stages_;  ///< used by the thread only
  std::mutex mutex_;
  std::deque<std::pair<int, Message>> messages_;  ///< those that have arrived, with their senders
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace gshmem::nic
