// Checks whether peers answer, by READs of a word that each PE has for this purpose. The first
// operation to each peer to which a queue leads is such a READ on every rail. It is called a
// greeting, and makes providers connect. The memory that they allocate and register for a
// connection must exist before kernels run. Later a peer is probed when operations have waited for
// it for longer than kProbeAfter. Providers fail pending operations on a connection that has ended,
// but not always, and never an operation that waits for a message. The thread that starts queues
// waits for greetings. The executor's thread uses everything else.
#pragma once

#include "transport/ofi/operation.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace gshmem::ofi {

class Liveness final : private CompletionSink {
 public:
  /// `memory` holds the word for peers at `word`. The 8 bytes after it receive the words of peers.
  Liveness(OfiRails& rails, std::vector<Peer>& peers, const RailMemory& memory, std::uint64_t word);

  // For the thread that starts queues.
  void expect(Peer& peer);  ///< has an effect the first time only
  /// Waits until all expected peers have answered. `patience`: 0 = for ever. Errors:
  /// GSHMEMX_ERROR_PEER_FAILED and GSHMEMX_ERROR_TIMEOUT, which name the PE.
  void wait(Clock::duration patience);

  // For the executor's thread.
  /// Sends greetings; true when the provider accepted any.
  bool progress();
  /// No more answers will arrive.
  void give_up(const std::string& why);
  /// An operation to `pe` has been pending since then. Probes the PE, and sets Peer::lost.
  void waiting(int pe, Clock::time_point since, Clock::time_point now);

 private:
  struct Probe : Context {
    Peer* peer = nullptr;
    std::size_t rail = 0;
    bool greets = false;
    // For a probe that is not a greeting:
    bool flying = false;
    Clock::time_point next{};  ///< not before this time
    /// The time since which the provider has refused the probe; 0 = it has not.
    Clock::time_point refused{};
    std::uint64_t answers = 0;  ///< the peer's `answers` at that time
  };
  /// Returns false if the provider has no space for it now.
  bool send(Probe& probe);
  void completed(Context& context, const Completion& completion) override;
  void end_greeting(const Probe& greeting, const std::string& why);

  OfiRails& rails_;
  const RailMemory& memory_;
  std::uint8_t* landing_;
  std::deque<Probe> probes_;  ///< by PE, on the rail of its small transfers
  std::vector<bool> known_;   ///< by PE; used by the thread that starts queues
  std::vector<Probe*> to_send_;
  std::atomic<bool> any_new_{false};
  std::mutex mutex_;  ///< guards the members below
  std::condition_variable changed_;
  std::deque<Probe> greetings_;
  std::vector<Probe*> new_;
  std::vector<std::size_t> unanswered_;  ///< by PE: number of unanswered greetings
  std::size_t left_ = 0;                 ///< the sum over all PEs
  std::string failure_;                  ///< the first failure
};

}  // namespace gshmem::ofi
