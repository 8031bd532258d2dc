#include "host/control/seen_ends.h"

#include <algorithm>
#include <iterator>

namespace gshmem::control {
namespace {

bool is_death(const SeenEnds::End& end) { return end.event != PeerEvent::kLeft; }

}  // namespace

void SeenEnds::add(const End& end) {
  for (End& known : ends_) {
    if (known.pe != end.pe) continue;
    known.seen = std::min(known.seen, end.seen);
    return;
  }
  ends_.push_back(end);
}

void SeenEnds::drop(int pe) {
  std::erase_if(ends_, [&](const End& end) { return end.pe == pe; });
}

bool SeenEnds::has_death(int pe) const {
  return std::ranges::any_of(ends_, [&](const End& end) { return end.pe == pe && is_death(end); });
}

std::vector<SeenEnds::End> SeenEnds::of_turn() const {
  const bool deaths = std::ranges::any_of(ends_, is_death);
  std::vector<End> ends;
  std::ranges::copy_if(ends_, std::back_inserter(ends),
                       [&](const End& end) { return is_death(end) == deaths; });
  return ends;
}

std::optional<SeenEnds::Time> SeenEnds::next_due() const {
  std::optional<Time> next;
  for (const End& end : of_turn()) next = next ? std::min(*next, end.due) : end.due;
  return next;
}

std::optional<SeenEnds::End> SeenEnds::take_due(Time now) {
  const std::optional<Time> next = next_due();
  if (!next || *next > now) return std::nullopt;
  const std::vector<End> ends = of_turn();
  const End first = *std::ranges::min_element(ends, {}, &End::seen);
  drop(first.pe);
  return first;
}

}  // namespace gshmem::control
