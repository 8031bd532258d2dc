#include "host/control/tree.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace gshmem::control {
namespace {

using net::Frame;
using net::FrameHeader;
using net::FrameKind;

constexpr int lowest_bit(int node) { return node & -node; }

/// The neighbours of host `node` in the hypercube: hosts whose number differs from `node` in one
/// bit, ascending. The first `below` of `higher` are below `node` in the tree.
struct Cube {
  std::vector<int> lower, higher;
  std::size_t below = 0;
};
Cube cube_around(int node, int n_nodes) {
  Cube cube;
  for (int bit = 1; bit < n_nodes; bit <<= 1) {
    if ((node & bit) != 0) {
      cube.lower.insert(cube.lower.begin(), node ^ bit);
    } else if ((node | bit) < n_nodes) {
      cube.higher.push_back(node | bit);
      if (node == 0 || bit < lowest_bit(node)) ++cube.below;
    }
  }
  return cube;
}

/// Returns the end of a subtree: hosts from `node` up to it, exclusive, are `node` and the hosts
/// below it.
int end_of_branch(int node, int n_nodes) {
  return node == 0 ? n_nodes : std::min(node + lowest_bit(node), n_nodes);
}

/// Returns a host that has a link to `from`, and whose number differs from `to` in one bit less.
/// There is always such a host: to set a bit to 0 gives an existing host, and so does any bit once
/// all other bits are as in `to`.
int step_towards(int to, int from, int n_nodes) {
  int bit = lowest_bit(from ^ to);
  while (((from ^ to) & bit) == 0 || (from ^ bit) >= n_nodes) bit <<= 1;
  return from ^ bit;
}

bool is_whole(const FrameHeader& header, std::size_t pes) {
  const Rows rows = rows_of(header);
  return header.bytes == (rows.alike ? rows.width : std::uint64_t{rows.width} * pes);
}

}  // namespace

Neighbours neighbours_of(const HostGroup& group) {
  Neighbours neighbours;
  if (group.index > 0) {
    neighbours.parent = group.pe(0);
    // The chain of local_peers.h, of which some links may be missing.
    if (group.index > 1) neighbours.across.push_back(group.pe(group.index - 1));
    if (group.index + 1 < group.size()) neighbours.across.push_back(group.pe(group.index + 1));
    return neighbours;
  }
  const auto leader = [&](int node) { return group.leaders[static_cast<std::size_t>(node)]; };
  const Cube cube = cube_around(group.node, group.n_nodes());
  neighbours.children.assign(group.pes.begin() + 1, group.pes.end());
  for (const int node : cube.lower) neighbours.across.push_back(leader(node));
  if (group.node > 0) {
    neighbours.parent = neighbours.across.back();
    neighbours.across.pop_back();
  }
  for (std::size_t i = 0; i < cube.higher.size(); ++i)
    (i < cube.below ? neighbours.children : neighbours.across).push_back(leader(cube.higher[i]));
  return neighbours;
}

std::vector<int> tree_order(const HostGroup& group) {
  std::vector<int> order(group.node_of.size());
  std::iota(order.begin(), order.end(), 0);
  const auto host_and_pe = [&](int pe) {
    return std::pair(group.node_of[static_cast<std::size_t>(pe)], pe);
  };
  std::ranges::sort(order, {}, host_and_pe);
  return order;
}

Frame rows_frame(FrameKind kind, std::uint64_t number, const Rows& rows, net::ByteView payload) {
  return net::make_frame(
      {.kind = kind, .number = number, .detail = rows.width << 1 | (rows.alike ? 1u : 0u)},
      payload);
}

Rows rows_of(const FrameHeader& header) { return {header.detail >> 1, (header.detail & 1) != 0}; }

Tree::Tree(const HostGroup& group, MissingHere missing_here)
    : group_(group),
      me_(group.me()),
      n_pes_(static_cast<int>(group.node_of.size())),
      neighbours_(neighbours_of(group)),
      missing_here_(std::move(missing_here)),
      gathering_(0) {
  if (group.index > 0) return;
  members_.push_back({me_, group.pes.size()});
  const Cube cube = cube_around(group.node, group.n_nodes());
  for (std::size_t i = 0; i < cube.below; ++i) {
    const int node = cube.higher[i], end = end_of_branch(node, group.n_nodes());
    const auto pes =
        std::ranges::count_if(group.node_of, [&](int each) { return node <= each && each < end; });
    members_.push_back(
        {group.leaders[static_cast<std::size_t>(node)], static_cast<std::size_t>(pes)});
  }
  gathering_ = net::Gathering(members_.size());
}

bool Tree::is_neighbour(int pe) const {
  const std::vector<int>& children = neighbours_.children;
  return pe == neighbours_.parent || std::ranges::find(children, pe) != children.end();
}

std::size_t Tree::member(int from) const {
  const auto found = std::ranges::find(members_, from, &Member::leader);
  return static_cast<std::size_t>(found - members_.begin());
}

void Tree::contribute(const Frame& frame) {
  if (net::is_addressed(net::header_of(frame).kind)) return forward(frame);
  put(0, frame);
}

void Tree::put(std::size_t member, const Frame& contribution) {
  if (member >= members_.size() || !is_whole(net::header_of(contribution), members_[member].pes) ||
      !gathering_.put(member, contribution) || !gathering_.complete())
    return;
  if (root()) return finish(combined(FrameKind::kResult));
  outgoing_.emplace_back(neighbours_.parent, combined(FrameKind::kContribution));
}

/// Combines the blocks into one. PEs that called different functions may contribute different
/// sizes. The rest is filled with zeros, and the caller that compares the data detects it.
Frame Tree::combined(FrameKind kind) const {
  const std::vector<Frame>& blocks = gathering_.contributions();
  Rows all{.width = 0, .alike = true};
  const net::ByteView first = net::payload_of(blocks.front());
  for (const Frame& block : blocks) {
    const Rows rows = rows_of(net::header_of(block));
    const net::ByteView data = net::payload_of(block);
    all.width = std::max(all.width, rows.width);
    all.alike = all.alike && rows.alike && std::ranges::equal(data, first);
  }
  if (all.alike) return rows_frame(kind, gathering_.number(), all, first);
  net::Bytes bytes;
  for (std::size_t member = 0; member < blocks.size(); ++member) {
    const Rows rows = rows_of(net::header_of(blocks[member]));
    const net::ByteView data = net::payload_of(blocks[member]);
    for (std::size_t pe = 0; pe < members_[member].pes; ++pe) {
      const net::ByteView row = data.subspan(rows.alike ? 0 : pe * rows.width, rows.width);
      bytes.insert(bytes.end(), row.begin(), row.end());
      bytes.resize(bytes.size() + all.width - rows.width);
    }
  }
  return rows_frame(kind, gathering_.number(), all, bytes);
}

void Tree::finish(const Frame& result) {
  if (net::header_of(result).number != gathering_.number() || !gathering_.complete()) return;
  down(result);
  gathering_.finish();
}

/// Sends a frame to the PE to which it is addressed, or to a PE that is nearer to it.
void Tree::forward(const Frame& addressed) {
  const auto to = static_cast<std::size_t>(net::header_of(addressed).detail);
  if (to >= group_.node_of.size()) return;
  if (static_cast<int>(to) == me_) return deliveries_.push_back(addressed);
  const int node = group_.node_of[to];
  int next = neighbours_.parent;
  if (group_.index == 0) {
    next = node == group_.node ? static_cast<int>(to)
                               : group_.leaders[static_cast<std::size_t>(
                                     step_towards(node, group_.node, group_.n_nodes()))];
  }
  outgoing_.emplace_back(next, addressed);
}

void Tree::expired(std::uint64_t number) {
  if (root()) return ask(number);
  outgoing_.emplace_back(neighbours_.parent,
                         net::make_frame({.kind = FrameKind::kExpired, .number = number}));
}

/// Finds out which PE is missing, of this host or of those below. The first answer that reaches the
/// root is sent to all PEs, and so is each answer that names another PE.
void Tree::ask(std::uint64_t number) {
  if (number != gathering_.number()) return;
  const int here = gathering_.has(0) ? -1 : missing_here_(number);
  if (here >= 0) {
    const Frame answer =
        net::make_frame({.kind = FrameKind::kMissing, .number = number, .rank = here});
    if (!root()) return outgoing_.emplace_back(neighbours_.parent, answer), void();
    return report_missing(answer);
  }
  for (std::size_t below = 1; below < members_.size(); ++below) {
    if (!gathering_.has(below))
      outgoing_.emplace_back(members_[below].leader,
                             net::make_frame({.kind = FrameKind::kExpired, .number = number}));
  }
}

void Tree::take(int from, const Frame& frame) {
  const FrameHeader header = net::header_of(frame);
  const bool from_parent = from == neighbours_.parent;
  switch (header.kind) {
    case FrameKind::kContribution:
      return put(member(from), frame);
    case FrameKind::kResult:
      if (from_parent && !members_.empty()) finish(frame);
      return;
    case FrameKind::kExpired:
      return from_parent ? ask(header.number) : expired(header.number);
    case FrameKind::kMissing:
      if (from_parent) return down(frame);
      if (!root()) return outgoing_.emplace_back(neighbours_.parent, frame), void();
      return report_missing(frame);
    case FrameKind::kNews:
      return spread(from, frame);
    case FrameKind::kPart:
    case FrameKind::kMessage:
      return forward(frame);
    default:
      return;
  }
}

/// Sends the name of the missing PE to all PEs. Called at the root; an answer that repeats the last
/// one is dropped.
void Tree::report_missing(const Frame& answer) {
  const FrameHeader header = net::header_of(answer);
  const std::pair reported{header.number, int{header.rank}};
  if (header.number != gathering_.number() || reported_missing_ == reported) return;
  reported_missing_ = reported;
  down(answer);
}

/// Sends a frame to the leaders below, and delivers it to this PE.
void Tree::down(const Frame& frame) {
  for (std::size_t below = 1; below < members_.size(); ++below)
    outgoing_.emplace_back(members_[below].leader, frame);
  deliveries_.push_back(frame);
}

void Tree::gone(int pe, PeerEvent event, int status) {
  spread(pe, news_frame({.pe = pe, .event = event, .status = status}));
}

void Tree::announce(const PeerNews& mine) { pass_on(me_, news_frame(mine)); }

void Tree::spread(int from, const Frame& news) {
  const FrameHeader header = net::header_of(news);
  if (header.rank < 0 || header.rank >= n_pes_ || header.rank == me_) return;
  const auto event = static_cast<PeerEvent>(header.detail);
  std::set<int>& known = event == PeerEvent::kExited      ? exited_
                         : event == PeerEvent::kFinalizes ? finalizing_
                                                          : gone_;
  if (!known.insert(header.rank).second) return;
  deliveries_.push_back(news);
  pass_on(from, news);
}

void Tree::pass_on(int from, const Frame& news) {
  const auto event = static_cast<PeerEvent>(net::header_of(news).detail);
  const bool of_one = is_end_of_one(event);
  // One event of each kind but departures ends the job, so one of each is passed on. When a job
  // ends as a whole, the number of messages has to stay small.
  const std::uint32_t bit = 1u << (net::header_of(news).detail % 32);
  if (!of_one && (passed_on_ & bit) != 0) return;
  passed_on_ |= bit;
  if (neighbours_.parent >= 0 && from != neighbours_.parent)
    outgoing_.emplace_back(neighbours_.parent, news);
  // Departures are passed down the tree only, in the order of the root. All other news goes to all
  // neighbours, so that it arrives even if some PE is stopped.
  for (const auto& some :
       {neighbours_.children, of_one ? std::vector<int>{} : neighbours_.across}) {
    for (const int pe : some) {
      if (pe != from) outgoing_.emplace_back(pe, news);
    }
  }
}

}  // namespace gshmem::control
