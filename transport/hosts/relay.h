// The work of a PE's monitor with frames, without sockets: the collectives of host threads and the
// news of who has gone, over a tree. The PEs of a host are below its first PE; these leaders form a
// tree of their own below the first host's, whose leader is the root: PE 0. Included by the monitor
// and its tests. Invariant: a PE hears from its parent in the order in which the root decided. So a
// result is there before the news that PEs which had it have left.
#pragma once

#include "transport/hosts/frame_stream.h"
#include "transport/p2p/host_group.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gshmem::hosts {

enum class PeerEvent : std::uint32_t {
  kDied,         ///< its process ended without a goodbye
  kLeft,         ///< it said goodbye
  kUnreachable,  ///< its host does not answer any more
  kStopped,      ///< a fault has stopped it: it meets nobody any more, and may end the job
  kExited        ///< it ends the job on purpose: gshmem_global_exit
};

/// News of another PE.
struct PeerNews {
  int pe = -1;
  PeerEvent event = PeerEvent::kDied;
  std::string why = {};  ///< of kStopped
  int status = 0;        ///< of kExited
};

[[nodiscard]] Frame news_frame(const PeerNews& news);
[[nodiscard]] PeerNews news_of(const Frame& frame);

/// By PE number.
struct Neighbours {
  int parent = -1;  ///< -1 = this PE is the root
  std::vector<int> children;
};
inline constexpr int kFanOut = 16;  ///< hosts below a host
[[nodiscard]] Neighbours tree_neighbours(const p2p::HostGroup& group, int fan_out = kFanOut);

class Relay {
 public:
  Relay(int me, int n_pes, Neighbours neighbours)
      : me_(me), n_pes_(n_pes), neighbours_(std::move(neighbours)) {}

  /// The bytes that this PE brings to collective `sequence`; every PE counts them the same way.
  void contribute(std::uint64_t sequence, std::span<const char> data);
  /// This PE's time for `sequence` is up.
  void expired(std::uint64_t sequence);
  /// `from`: the parent or a child.
  void take(int from, const Frame& frame);
  /// The connection to `pe`, which may be no neighbour, says so. What a PE that is no neighbour
  /// says about leaving is not for here: see the invariant.
  void gone(int pe, PeerEvent event);
  /// Tells all other PEs about this one.
  void tell(const PeerNews& mine);

  [[nodiscard]] bool is_neighbour(int pe) const;
  /// Frames for neighbours, by PE, in order.
  [[nodiscard]] std::vector<std::pair<int, Frame>> take_outgoing() {
    return std::exchange(outgoing_, {});
  }
  /// Results, missing PEs (kMissing) and news for this PE, in order. News comes once per PE, but
  /// one that was heard of may exit.
  [[nodiscard]] std::vector<Frame> take_deliveries() { return std::exchange(deliveries_, {}); }

 private:
  struct Gathering {
    std::vector<Frame> by_pe;
    int count = 0;
    std::size_t widest = 0;
    int told_missing = -1;
  };
  [[nodiscard]] bool root() const { return neighbours_.parent < 0; }
  void gather(const Frame& contribution);
  void finish(std::uint64_t sequence, const Gathering& gathering);
  void tell_missing(std::uint64_t sequence);
  void down(const Frame& frame);
  /// Delivers news here and passes it on to all neighbours but `from`.
  void spread(int from, const Frame& news);
  void pass_on(int from, const Frame& news);

  int me_, n_pes_;
  Neighbours neighbours_;
  std::map<std::uint64_t, Gathering> gatherings_;  ///< root only; those under way
  std::uint64_t done_ = 0;                         ///< root only; the last that finished
  std::set<int> gone_, exited_;
  std::uint32_t passed_on_ = 0;  ///< by PeerEvent, a bit each
  std::vector<std::pair<int, Frame>> outgoing_;
  std::vector<Frame> deliveries_;
};

}  // namespace gshmem::hosts
