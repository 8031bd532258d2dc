#include "host/control/unexplained_disconnects.h"

#include <algorithm>

namespace gshmem::control {
namespace {

bool is_death(const UnexplainedDisconnects::End& end) { return end.event != PeerEvent::kLeft; }

}  // namespace

void UnexplainedDisconnects::add(const End& end) {
  if (std::ranges::find(ends_, end.pe, &End::pe) == ends_.end()) ends_.push_back(end);
}

void UnexplainedDisconnects::drop(int pe) {
  std::erase_if(ends_, [&](const End& end) { return end.pe == pe; });
}

void UnexplainedDisconnects::drop_departures() {
  std::erase_if(ends_, [](const End& end) { return !is_death(end); });
}

bool UnexplainedDisconnects::has_death(int pe) const {
  return std::ranges::any_of(ends_, [&](const End& end) { return end.pe == pe && is_death(end); });
}

std::vector<UnexplainedDisconnects::End>::const_iterator UnexplainedDisconnects::next() const {
  const auto death = std::ranges::find_if(ends_, is_death);
  return death != ends_.end() ? death : ends_.begin();
}

std::optional<UnexplainedDisconnects::Time> UnexplainedDisconnects::next_due() const {
  const auto end = next();
  return end == ends_.end() ? std::nullopt : std::optional(end->due);
}

std::optional<UnexplainedDisconnects::End> UnexplainedDisconnects::take_due(Time now) {
  const auto end = next();
  if (end == ends_.end() || end->due > now) return std::nullopt;
  const End taken = *end;
  ends_.erase(end);
  return taken;
}

}  // namespace gshmem::control
