#include "host/control/tree.h"

#include <algorithm>
#include <cstring>

namespace gshmem::control {
namespace {

using net::Frame;
using net::FrameHeader;
using net::FrameKind;

/// Hosts directly below a host.
std::vector<int> nodes_below(int node, int n_nodes, int fan_out) {
  std::vector<int> nodes;
  const int first = node * fan_out + 1;
  for (int below = first; below < std::min(first + fan_out, n_nodes); ++below)
    nodes.push_back(below);
  return nodes;
}

/// Calls `visit` for a host and all below it, in the order of the tree.
template <class Visit>
void walk(int node, int n_nodes, int fan_out, const Visit& visit) {
  visit(node);
  for (const int below : nodes_below(node, n_nodes, fan_out)) walk(below, n_nodes, fan_out, visit);
}

bool is_whole(const FrameHeader& header, std::size_t pes) {
  const Rows rows = rows_of(header);
  return header.bytes == (rows.alike ? rows.width : std::uint64_t{rows.width} * pes);
}

}  // namespace

Neighbours tree_neighbours(const HostGroup& group, int fan_out) {
  Neighbours neighbours;
  if (group.index > 0) {
    neighbours.parent = group.pe(0);
    return neighbours;
  }
  const auto leader = [&](int node) { return group.leaders[static_cast<std::size_t>(node)]; };
  if (group.node > 0) neighbours.parent = leader((group.node - 1) / fan_out);
  neighbours.children.assign(group.pes.begin() + 1, group.pes.end());
  for (const int node : nodes_below(group.node, group.n_nodes(), fan_out))
    neighbours.children.push_back(leader(node));
  return neighbours;
}

std::vector<int> tree_order(const HostGroup& group, int fan_out) {
  std::vector<std::vector<int>> pes(group.hosts.size());
  for (std::size_t pe = 0; pe < group.node_of.size(); ++pe)
    pes[static_cast<std::size_t>(group.node_of[pe])].push_back(static_cast<int>(pe));
  std::vector<int> order;
  walk(0, group.n_nodes(), fan_out, [&](int node) {
    const std::vector<int>& here = pes[static_cast<std::size_t>(node)];
    order.insert(order.end(), here.begin(), here.end());
  });
  return order;
}

Frame rows_frame(FrameKind kind, std::uint64_t number, const Rows& rows, net::ByteView payload) {
  const std::uint32_t flags = (rows.alike ? 1u : 0u) | (rows.wanted ? 2u : 0u);
  return net::make_frame({.kind = kind, .number = number, .detail = rows.width << 2 | flags},
                         payload);
}

Rows rows_of(const FrameHeader& header) {
  return {header.detail >> 2, (header.detail & 1) != 0, (header.detail & 2) != 0};
}

Tree::Tree(const HostGroup& group, MissingHere missing_here, int fan_out)
    : me_(group.me()),
      n_pes_(static_cast<int>(group.node_of.size())),
      neighbours_(tree_neighbours(group, fan_out)),
      missing_here_(std::move(missing_here)),
      gathering_(0) {
  if (group.index > 0) return;
  std::vector<std::size_t> sizes(group.hosts.size());
  for (const int node : group.node_of) ++sizes[static_cast<std::size_t>(node)];
  members_.push_back({me_, sizes[static_cast<std::size_t>(group.node)]});
  for (const int node : nodes_below(group.node, group.n_nodes(), fan_out)) {
    Member below{group.leaders[static_cast<std::size_t>(node)], 0};
    walk(node, group.n_nodes(), fan_out,
         [&](int each) { below.pes += sizes[static_cast<std::size_t>(each)]; });
    members_.push_back(below);
  }
  gathering_ = net::Gathering(members_.size());
}

bool Tree::is_neighbour(int pe) const {
  const std::vector<int>& children = neighbours_.children;
  return pe == neighbours_.parent ||
         std::find(children.begin(), children.end(), pe) != children.end();
}

std::size_t Tree::member(int from) const {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [from](const Member& each) { return each.leader == from; });
  return static_cast<std::size_t>(found - members_.begin());
}

void Tree::contribute(const Frame& contribution) { put(0, contribution); }

void Tree::put(std::size_t member, const Frame& contribution) {
  if (member >= members_.size() || !is_whole(net::header_of(contribution), members_[member].pes) ||
      !gathering_.put(member, contribution) || !gathering_.complete())
    return;
  if (root()) return finish(combined(FrameKind::kResult));
  outgoing_.emplace_back(neighbours_.parent, combined(FrameKind::kContribution));
}

/// PEs that called different functions may bring different sizes: the rest is zero, and who
/// compares the data sees it.
Frame Tree::combined(FrameKind kind) const {
  const std::vector<Frame>& blocks = gathering_.contributions();
  Rows all{.width = 0, .alike = true, .wanted = false};
  const net::ByteView first = net::payload_of(blocks.front());
  for (const Frame& block : blocks) {
    const Rows rows = rows_of(net::header_of(block));
    const net::ByteView data = net::payload_of(block);
    all.width = std::max(all.width, rows.width);
    all.wanted = all.wanted || rows.wanted;
    all.alike =
        all.alike && rows.alike && std::equal(data.begin(), data.end(), first.begin(), first.end());
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

/// Down to the hosts below, without data to those where nobody looks at it.
void Tree::finish(const Frame& result) {
  const FrameHeader header = net::header_of(result);
  if (header.number != gathering_.number() || !gathering_.complete()) return;
  Rows rows = rows_of(header);
  rows.wanted = false;
  const Frame without = rows_frame(FrameKind::kResult, header.number, rows, {});
  for (std::size_t below = 1; below < members_.size(); ++below) {
    const FrameHeader theirs = net::header_of(gathering_.contributions()[below]);
    outgoing_.emplace_back(members_[below].leader, rows_of(theirs).wanted ? result : without);
  }
  deliveries_.push_back(result);
  gathering_.finish();
}

void Tree::expired(std::uint64_t number) {
  if (root()) return ask(number);
  outgoing_.emplace_back(neighbours_.parent,
                         net::make_frame({.kind = FrameKind::kExpired, .number = number}));
}

/// Who is missing, of this host or those below. The first answer that comes to the root is told to
/// all.
void Tree::ask(std::uint64_t number) {
  if (number != gathering_.number() || told_missing_ == number) return;
  const int here = gathering_.has(0) ? -1 : missing_here_(number);
  if (here >= 0) {
    const Frame answer =
        net::make_frame({.kind = FrameKind::kMissing, .number = number, .rank = here});
    if (!root()) return outgoing_.emplace_back(neighbours_.parent, answer), void();
    told_missing_ = number;
    return down(answer);
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
      if (!from_parent && from != me_) put(member(from), frame);
      return;
    case FrameKind::kResult:
      if (from_parent && !members_.empty()) finish(frame);
      return;
    case FrameKind::kExpired:
      return from_parent ? ask(header.number) : expired(header.number);
    case FrameKind::kMissing:
      if (from_parent) return down(frame);
      if (!root()) return outgoing_.emplace_back(neighbours_.parent, frame), void();
      if (header.number != gathering_.number() || told_missing_ == header.number) return;
      told_missing_ = header.number;
      return down(frame);
    case FrameKind::kNews:
      return spread(from, frame);
    case FrameKind::kGoodbye:
      return gone(from, PeerEvent::kLeft);
    default:
      return;
  }
}

/// To the leaders below and this PE.
void Tree::down(const Frame& frame) {
  for (std::size_t below = 1; below < members_.size(); ++below)
    outgoing_.emplace_back(members_[below].leader, frame);
  deliveries_.push_back(frame);
}

void Tree::gone(int pe, PeerEvent event) { spread(pe, news_frame({.pe = pe, .event = event})); }

void Tree::tell(const PeerNews& mine) { pass_on(me_, news_frame(mine)); }

void Tree::spread(int from, const Frame& news) {
  const FrameHeader header = net::header_of(news);
  if (header.rank < 0 || header.rank >= n_pes_ || header.rank == me_) return;
  const bool exited = static_cast<PeerEvent>(header.detail) == PeerEvent::kExited;
  if (!(exited ? exited_ : gone_).insert(header.rank).second) return;
  deliveries_.push_back(news);
  pass_on(from, news);
}

void Tree::pass_on(int from, const Frame& news) {
  // One of each kind ends the job; a job that ends as a whole must not drown in news.
  const std::uint32_t bit = 1u << (net::header_of(news).detail % 32);
  if ((passed_on_ & bit) != 0) return;
  passed_on_ |= bit;
  if (neighbours_.parent >= 0 && from != neighbours_.parent)
    outgoing_.emplace_back(neighbours_.parent, news);
  for (const int child : neighbours_.children) {
    if (child != from) outgoing_.emplace_back(child, news);
  }
}

}  // namespace gshmem::control
