// Reads of a word that each PE has for the others: whether a peer answers. The first operation to
// each peer that a queue leads to is one by every lane, a greeting. Providers make connections at
// it, and what they allocate and register for them has to be there before kernels run. Later a
// peer that operations have waited for longer than kProbeAfter is probed: providers fail what was
// in flight on a connection that has ended, but not always, and never what waits for a message. The
// thread that starts queues waits for greetings; all else is for the executor's thread.
#pragma once

#include "transport/ofi/operation.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace gshmem::ofi {

class Probes final : private CompletionSink {
 public:
  /// `memory` holds the word for peers at `word`, and 8 bytes after it the place of theirs.
  Probes(Lanes& lanes, std::vector<Peer>& peers, const LaneMemory& memory, std::uint64_t word);

  // The thread that starts queues.
  void expect(Peer& peer);  ///< the first time only
  /// Until all that are expected have answered. `patience`: 0 = for ever. Errors:
  /// GSHMEMX_ERROR_PEER_FAILED and GSHMEMX_ERROR_TIMEOUT, with the PE.
  void wait(Clock::duration patience);

  // The executor's thread.
  /// Sends greetings; true when the provider took any.
  bool progress();
  /// No answer comes any more.
  void give_up(const std::string& why);
  /// An operation to `pe` has been under way since then. Probes it, and sets Peer::lost.
  void waiting(int pe, Clock::time_point since, Clock::time_point now);

 private:
  struct Probe : Context {
    Peer* peer = nullptr;
    std::size_t lane = 0;
    bool greets = false;
    // Of one that does not greet:
    bool flying = false;
    Clock::time_point next{};     ///< not before
    Clock::time_point refused{};  ///< since then the provider has taken no probe; 0 = it has
    std::uint64_t answers = 0;    ///< the peer's, then
  };
  /// False: the provider has no place for it now.
  bool send(Probe& probe);
  void completed(Context& context, const Completion& completion) override;
  void end_greeting(const Probe& greeting, const std::string& why);

  Lanes& lanes_;
  const LaneMemory& memory_;
  std::uint8_t* landing_;
  std::deque<Probe> probes_;  ///< by PE, by the lane of its small transfers
  std::vector<bool> known_;   ///< by PE, of the thread that starts queues
  std::vector<Probe*> to_send_;
  std::atomic<bool> any_new_{false};
  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::deque<Probe> greetings_;
  std::vector<Probe*> new_;
  std::vector<std::size_t> unanswered_;  ///< by PE: greetings
  std::size_t left_ = 0;                 ///< of all PEs
  std::string failure_;                  ///< the first one
};

}  // namespace gshmem::ofi
