// Ends of connections that nobody has explained yet. A PE that ends because of another one says so
// first; one that is killed cannot, nor can one that crashes because of it. So a PE waits a moment
// before it says whose end was the first, and its peers tell it what they have seen. Included by
// the monitor and its tests. Pure: no sockets, no clock of its own.
#pragma once

#include "host/control/news.h"

#include <chrono>
#include <optional>
#include <vector>

namespace gshmem::control {

class SeenEnds {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct End {
    int pe;
    PeerEvent event;
    Time seen;  ///< by any PE; of several, the first counts
    Time due;   ///< to be reported then, unless something else explains it
  };

  void add(const End& end);
  /// It is explained.
  void drop(int pe);
  /// That of `pe` has been seen.
  [[nodiscard]] bool has_death(int pe) const;
  [[nodiscard]] std::optional<Time> next_due() const;
  /// When a death is due, the death that was seen first. A departure that is due waits for deaths,
  /// which may be its cause.
  [[nodiscard]] std::optional<End> take_due(Time now);
  [[nodiscard]] std::size_t size() const { return ends_.size(); }

 private:
  /// The deaths, or where there are none the departures.
  [[nodiscard]] std::vector<End> of_turn() const;

  std::vector<End> ends_;
};

}  // namespace gshmem::control
