// Finds peers that are gone although no operation says so: providers fail what was in flight on a
// connection, but not always, and never what waits for a message. A peer that operations have
// waited for longer than kProbeAfter is probed by a read of a word of its own.
#pragma once

#include "transport/ofi/work_queue.h"

#include <deque>
#include <vector>

namespace gshmem::ofi {

class Liveness final : private CompletionSink {
 public:
  /// Each peer by the lane of its small transfers. `memory` holds a word for peers at `word`, and 8
  /// bytes after it where theirs go.
  Liveness(Lanes& lanes, std::vector<Peer>& peers, const LaneMemory& memory, std::uint64_t word,
           Clock::duration timeout);

  /// An operation to `pe` has been under way since then. Sets Peer::lost.
  void waiting(int pe, Clock::time_point since, Clock::time_point now);

 private:
  struct Probe : Context {
    Peer* peer = nullptr;
    bool flying = false;
    Clock::time_point next{};     ///< not before
    Clock::time_point refused{};  ///< since then the provider has taken no probe; 0 = it has
  };
  void completed(Context& context, const Completion& completion) override;
  void send(Probe& probe, Clock::time_point now);

  Lanes& lanes_;
  const LaneMemory& memory_;
  std::uint8_t* landing_;
  Clock::duration patience_;  ///< how long the provider may refuse
  std::deque<Probe> probes_;  ///< by PE
};

}  // namespace gshmem::ofi
