#include "transport/hosts/relay.h"

#include <algorithm>

namespace gshmem::hosts {

Neighbours tree_neighbours(const p2p::HostGroup& group, int fan_out) {
  Neighbours neighbours;
  if (group.index > 0) {
    neighbours.parent = group.pe(0);
    return neighbours;
  }
  const auto leader = [&](int node) { return group.leaders[static_cast<std::size_t>(node)]; };
  if (group.node > 0) neighbours.parent = leader((group.node - 1) / fan_out);
  neighbours.children.assign(group.pes.begin() + 1, group.pes.end());
  const int first = group.node * fan_out + 1;
  for (int node = first; node < std::min(first + fan_out, group.n_nodes()); ++node)
    neighbours.children.push_back(leader(node));
  return neighbours;
}

Frame news_frame(const PeerNews& news) {
  return make_frame({.kind = FrameKind::kNews,
                     .sequence = static_cast<std::uint32_t>(news.status),
                     .pe = news.pe,
                     .detail = static_cast<std::uint32_t>(news.event)},
                    news.why);
}

PeerNews news_of(const Frame& frame) {
  const FrameHeader header = header_of(frame);
  const std::span<const char> why = payload_of(frame);
  return {.pe = header.pe,
          .event = static_cast<PeerEvent>(header.detail),
          .why = std::string(why.begin(), why.end()),
          .status = static_cast<int>(header.sequence)};
}

bool Relay::is_neighbour(int pe) const {
  const std::vector<int>& children = neighbours_.children;
  return pe == neighbours_.parent ||
         std::find(children.begin(), children.end(), pe) != children.end();
}

void Relay::contribute(std::uint64_t sequence, std::span<const char> data) {
  const Frame frame =
      make_frame({.kind = FrameKind::kContribution, .sequence = sequence, .pe = me_}, data);
  if (root()) {
    gather(frame);
  } else {
    outgoing_.emplace_back(neighbours_.parent, frame);
  }
}

void Relay::expired(std::uint64_t sequence) {
  if (root()) {
    tell_missing(sequence);
  } else {
    outgoing_.emplace_back(neighbours_.parent,
                           make_frame({.kind = FrameKind::kExpired, .sequence = sequence}));
  }
}

void Relay::take(int from, const Frame& frame) {
  const FrameHeader header = header_of(frame);
  switch (header.kind) {
    case FrameKind::kContribution:
      if (!root()) {
        outgoing_.emplace_back(neighbours_.parent, frame);
      } else {
        gather(frame);
      }
      return;
    case FrameKind::kExpired:
      if (!root()) {
        outgoing_.emplace_back(neighbours_.parent, frame);
      } else {
        tell_missing(header.sequence);
      }
      return;
    case FrameKind::kResult:
    case FrameKind::kMissing:
      if (from == neighbours_.parent) down(frame);
      return;
    case FrameKind::kNews:
      spread(from, frame);
      return;
    case FrameKind::kGoodbye:
      gone(from, PeerEvent::kLeft);
      return;
    case FrameKind::kEnded:  // the monitor's
      return;
  }
}

void Relay::gather(const Frame& contribution) {
  const FrameHeader header = header_of(contribution);
  if (header.sequence <= done_ || header.pe < 0 || header.pe >= n_pes_) return;
  Gathering& gathering = gatherings_[header.sequence];
  gathering.by_pe.resize(static_cast<std::size_t>(n_pes_));
  Frame& place = gathering.by_pe[static_cast<std::size_t>(header.pe)];
  if (place) return;
  place = contribution;
  gathering.widest = std::max<std::size_t>(gathering.widest, header.bytes);
  if (++gathering.count < n_pes_) return;
  finish(header.sequence, gathering);
  done_ = header.sequence;
  gatherings_.erase(gatherings_.begin(), gatherings_.upper_bound(done_));
}

/// PEs that called different functions may bring different sizes: the rest is zero, and who
/// compares the data sees it.
void Relay::finish(std::uint64_t sequence, const Gathering& gathering) {
  std::vector<char> all(gathering.widest * static_cast<std::size_t>(n_pes_));
  for (std::size_t pe = 0; pe < gathering.by_pe.size(); ++pe) {
    const std::span<const char> data = payload_of(gathering.by_pe[pe]);
    if (!data.empty()) std::memcpy(all.data() + pe * gathering.widest, data.data(), data.size());
  }
  down(make_frame({.kind = FrameKind::kResult,
                   .sequence = sequence,
                   .detail = static_cast<std::uint32_t>(gathering.widest)},
                  all));
}

void Relay::tell_missing(std::uint64_t sequence) {
  const auto found = gatherings_.find(sequence);
  if (found == gatherings_.end()) return;
  Gathering& gathering = found->second;
  const auto missing = std::find(gathering.by_pe.begin(), gathering.by_pe.end(), nullptr);
  const int pe = static_cast<int>(missing - gathering.by_pe.begin());
  if (gathering.told_missing == pe) return;  // everyone knows
  gathering.told_missing = pe;
  down(make_frame({.kind = FrameKind::kMissing, .sequence = sequence, .pe = pe}));
}

void Relay::down(const Frame& frame) {
  for (const int child : neighbours_.children) outgoing_.emplace_back(child, frame);
  deliveries_.push_back(frame);
}

void Relay::gone(int pe, PeerEvent event) { spread(pe, news_frame({.pe = pe, .event = event})); }

void Relay::tell(const PeerNews& mine) { pass_on(me_, news_frame(mine)); }

void Relay::spread(int from, const Frame& news) {
  const FrameHeader header = header_of(news);
  if (header.pe < 0 || header.pe >= n_pes_ || header.pe == me_) return;
  const bool exited = static_cast<PeerEvent>(header.detail) == PeerEvent::kExited;
  if (!(exited ? exited_ : gone_).insert(header.pe).second) return;
  deliveries_.push_back(news);
  pass_on(from, news);
}

void Relay::pass_on(int from, const Frame& news) {
  // One of each kind ends the job; a job that ends as a whole must not drown in news.
  const std::uint32_t bit = 1u << (header_of(news).detail % 32);
  if ((passed_on_ & bit) != 0) return;
  passed_on_ |= bit;
  if (neighbours_.parent >= 0 && from != neighbours_.parent)
    outgoing_.emplace_back(neighbours_.parent, news);
  for (const int child : neighbours_.children) {
    if (child != from) outgoing_.emplace_back(child, news);
  }
}

}  // namespace gshmem::hosts
