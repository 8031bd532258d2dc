// What a PE passes on to others, without sockets: the collectives of hosts and the news of who has
// gone, over a tree, and what PEs send each other: parts of an alltoall, and letters. The PEs of a
// host are below its first PE. These leaders are linked as the corners of a cube: with those whose
// host's number differs in one bit. What is addressed to a PE takes such links, so no host moves
// more of it than the others. Some of the links are the tree: to the parent, whose number lacks the
// lowest bit that is set. The root is PE 0. Included by the monitor and its tests. A host brings
// its PEs' data to a collective as one block, and what a host passes on is one block again: its own
// and those of the hosts below. Blocks whose rows are all alike stay one row, so a barrier, or the
// agreement on something that all say, costs a few bytes a link. Invariant: a PE hears from its
// parent in the order in which the root decided. So a result is there before the news that PEs
// which had it have left. Parts and letters take other ways: a PE does not leave before those that
// it has sent have come.
#pragma once

#include "host/base/net/gathering.h"
#include "host/control/host_group.h"
#include "host/control/news.h"

#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace gshmem::control {

/// By PE number, ascending.
struct Neighbours {
  int parent = -1;  ///< -1 = this PE is the root
  std::vector<int> children;
  std::vector<int> across;  ///< to which news of the tree goes, but for departures
};
[[nodiscard]] Neighbours neighbours_of(const HostGroup& group);
/// All PEs in the order in which their rows come to the root.
[[nodiscard]] std::vector<int> tree_order(const HostGroup& group);

/// What the payload of a contribution or a result is.
struct Rows {
  std::uint32_t width = 0;  ///< bytes of a PE
  bool alike = false;       ///< one row stands for all PEs
};
[[nodiscard]] net::Frame rows_frame(net::FrameKind kind, std::uint64_t number, const Rows& rows,
                                    net::ByteView payload);
[[nodiscard]] Rows rows_of(const net::FrameHeader& header);

class Tree {
 public:
  /// Of leaders: a PE of this host that has not come to collective `number`, or -1.
  using MissingHere = std::function<int(std::uint64_t number)>;
  /// `group` outlives this object.
  Tree(const HostGroup& group, MissingHere missing_here);

  /// Of leaders: what their host brings to collective `number`; all hosts count them the same way.
  /// Of all: a part or a letter.
  void contribute(const net::Frame& frame);
  /// This PE's time for collective `number` is up.
  void expired(std::uint64_t number);
  /// `from`: the parent or a child; with a part or a letter any PE that has a link.
  void take(int from, const net::Frame& frame);
  /// The connection to `pe`, which may be no neighbour, says so; `status` as of PeerNews. What a PE
  /// that is no neighbour says about leaving is not for here: see the invariant.
  void gone(int pe, PeerEvent event, int status = 0);
  /// Tells all other PEs about this one.
  void tell(const PeerNews& mine);

  [[nodiscard]] bool is_neighbour(int pe) const;
  /// Frames for neighbours, by PE, in order.
  [[nodiscard]] std::vector<std::pair<int, net::Frame>> take_outgoing() {
    return std::exchange(outgoing_, {});
  }
  /// Results, missing PEs (kMissing), parts, letters and news for this PE, in order. News comes
  /// once per PE, but one that was heard of may exit, and one that finalizes may go.
  [[nodiscard]] std::vector<net::Frame> take_deliveries() { return std::exchange(deliveries_, {}); }

 private:
  [[nodiscard]] bool root() const { return neighbours_.parent < 0; }
  /// Of those that bring blocks, 0 = this host; none: `from` is not one of them.
  [[nodiscard]] std::size_t member(int from) const;
  void put(std::size_t member, const net::Frame& contribution);
  [[nodiscard]] net::Frame combined(net::FrameKind kind) const;
  void finish(const net::Frame& result);
  void forward(const net::Frame& addressed);
  void ask(std::uint64_t number);
  void tell_missing(const net::Frame& answer);
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
    std::size_t pes;  ///< of its host and those below
  };
  std::vector<Member> members_;  ///< of a leader: itself, then the hosts below
  net::Gathering gathering_;
  /// The collective of which all know who is missing, and who it was.
  std::pair<std::uint64_t, int> told_missing_{0, -1};
  std::set<int> gone_, exited_, finalizing_;
  std::uint32_t passed_on_ = 0;  ///< by PeerEvent, a bit each
  std::vector<std::pair<int, net::Frame>> outgoing_;
  std::vector<net::Frame> deliveries_;
};

}  // namespace gshmem::control
