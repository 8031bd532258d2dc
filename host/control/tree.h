// The protocol between PEs for host collectives, news, alltoall parts and messages. It uses no
// sockets itself. Included by the monitor and its tests. The PEs of a host are below its first PE,
// the leader. The leaders form a hypercube: two leaders are linked if the numbers of their hosts
// differ in one bit. Frames that are addressed to a PE use all these links, so that no host
// forwards more than the others. Some of the links form the tree: a host's parent has the same
// number without its lowest set bit. The root is PE 0. A host contributes the data of its PEs to a
// collective as one block. It forwards one block that joins its own block and those of the hosts
// below. A block whose rows are all equal is stored as one row. So a barrier, or an agreement on a
// value that all PEs share, costs a few bytes per link. Invariant: a PE receives frames from its
// parent in the order in which the root sent them. So a result arrives before the news that PEs
// which already had the result have left. Parts and messages take other paths: a PE leaves only
// after its parts and messages have arrived.
#pragma once

#include "host/base/net/gathering.h"
#include "host/control/host_group.h"
#include "host/control/news.h"

#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace gshmem::control {

/// PE numbers, ascending.
struct Neighbours {
  int parent = -1;  ///< -1 = this PE is the root
  std::vector<int> children;
  std::vector<int> across;  ///< other neighbours, to which all news but departures is sent
};
[[nodiscard]] Neighbours neighbours_of(const HostGroup& group);
/// Returns all PEs in the order in which their rows reach the root.
[[nodiscard]] std::vector<int> tree_order(const HostGroup& group);

/// Describes the payload of a contribution or a result.
struct Rows {
  std::uint32_t width = 0;  ///< bytes per PE
  bool alike = false;       ///< one row stands for all PEs
};
[[nodiscard]] net::Frame rows_frame(net::FrameKind kind, std::uint64_t number, const Rows& rows,
                                    net::ByteView payload);
[[nodiscard]] Rows rows_of(const net::FrameHeader& header);

class Tree {
 public:
  /// Called on leaders. Returns a PE of this host that has not entered collective `number`, or -1.
  using MissingHere = std::function<int(std::uint64_t number)>;
  /// `group` outlives this object.
  Tree(const HostGroup& group, MissingHere missing_here);

  /// On leaders, takes the contribution of their host to collective `number`; all hosts count
  /// collectives alike. On all PEs, takes a part or a message.
  void contribute(const net::Frame& frame);
  /// Handles the event that this PE's timeout for collective `number` has passed.
  void expired(std::uint64_t number);
  /// Takes a frame from `from`: the parent or a child, or for a part or a message any PE with a
  /// link.
  void take(int from, const net::Frame& frame);
  /// The connection to `pe`, which need not be a neighbour, shows `event`; for `status` see
  /// PeerNews. Do not call it for a departure of a PE that is not a neighbour: see the invariant.
  void gone(int pe, PeerEvent event, int status = 0);
  /// Notifies all other PEs about this one.
  void announce(const PeerNews& mine);

  [[nodiscard]] bool is_neighbour(int pe) const;
  /// Returns frames for neighbours, with the PE that each goes to, in order.
  [[nodiscard]] std::vector<std::pair<int, net::Frame>> take_outgoing() {
    return std::exchange(outgoing_, {});
  }
  /// Returns results, missing PEs (kMissing), parts, messages and news for this PE, in order. There
  /// is one piece of news per PE, except that a PE which was reported may exit later, and one that
  /// finalizes may leave later.
  [[nodiscard]] std::vector<net::Frame> take_deliveries() { return std::exchange(deliveries_, {}); }

 private:
  [[nodiscard]] bool root() const { return neighbours_.parent < 0; }
  /// Returns the index of a sender of blocks in members_ (0 = this host), or members_.size() if
  /// `from` is not one.
  [[nodiscard]] std::size_t member(int from) const;
  void put(std::size_t member, const net::Frame& contribution);
  [[nodiscard]] net::Frame combined(net::FrameKind kind) const;
  void finish(const net::Frame& result);
  void forward(const net::Frame& addressed);
  void ask(std::uint64_t number);
  void report_missing(const net::Frame& answer);
  void down(const net::Frame& frame);
  /// Delivers news here and passes it on to all neighbours but `from`.
  void spread(int from, const net::Frame& news);
  void pass_on(int from, const net::Frame& news);

  const HostGroup& group_;
  int me_, n_pes_;
  Neighbours neighbours_;
  MissingHere missing_here_;
  struct Member {
    int leader;
    std::size_t pes;  ///< the PEs of its host and of the hosts below
  };
  std::vector<Member> members_;  ///< on a leader: itself, then the hosts below
  net::Gathering gathering_;
  /// The last collective for which all PEs know who is missing, and that PE.
  std::pair<std::uint64_t, int> reported_missing_{0, -1};
  std::set<int> gone_, exited_, finalizing_;
  std::uint32_t passed_on_ = 0;  ///< one bit per PeerEvent
  std::vector<std::pair<int, net::Frame>> outgoing_;
  std::vector<net::Frame> deliveries_;
};

}  // namespace gshmem::control
