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
    Time due;         ///< to be reported then, unless something else explains it
    int seconds = 0;  ///< of kUnreachable: since it has answered
  };

  /// In the order in which any PE has seen them, and in which deaths, and departures, are due. Of
  /// several of one PE the first counts.
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
  /// Departures are told to nobody.
  void drop_departures();

 private:
  /// The first death, or where there is none the first departure.
  [[nodiscard]] std::vector<End>::const_iterator next() const;

  std::vector<End> ends_;
};

}  // namespace gshmem::control
