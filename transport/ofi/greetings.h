// The first operation to each peer that a queue leads to, by every lane. Providers make connections
// at that operation, and what they allocate and register for them has to be there before kernels
// run. The thread that starts queues waits for the answers; the executor's thread sends.
#pragma once

#include "transport/ofi/operation.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace gshmem::ofi {

class Greetings final : private CompletionSink {
 public:
  /// A greeting reads the word of the peer that probes read, to `landing` in `memory`.
  Greetings(Lanes& lanes, const LaneMemory& memory, std::uint64_t landing, std::size_t pes);

  // The thread that starts queues.
  void expect(Peer& peer);  ///< the first time only
  /// Until all that are expected have answered. `patience`: 0 = for ever. Errors:
  /// GSHMEMX_ERROR_PEER_FAILED and GSHMEMX_ERROR_TIMEOUT, with the PE.
  void wait(Clock::duration patience);

  // The executor's thread.
  /// True when the provider took any.
  bool progress();
  /// No answer comes any more.
  void give_up(const std::string& why);

 private:
  struct Greeting : Context {
    Peer* peer = nullptr;
    std::size_t lane = 0;
  };
  void completed(Context& context, const Completion& completion) override;
  /// False: try again.
  bool send(Greeting& greeting);
  void end(const Greeting& greeting, const std::string& why);

  Lanes& lanes_;
  const LaneMemory& memory_;
  std::uint8_t* landing_;
  std::vector<bool> known_;  ///< by PE, of the thread that starts queues
  std::vector<Greeting*> to_send_;
  std::atomic<bool> any_new_{false};
  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::deque<Greeting> all_;
  std::vector<Greeting*> new_;
  std::vector<std::size_t> unanswered_;  ///< by PE: greetings
  std::size_t left_ = 0;                 ///< of all PEs
  std::string failure_;                  ///< the first one
};

}  // namespace gshmem::ofi
