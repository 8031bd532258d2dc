// Ends of connections that are not explained yet. A PE that ends because of another PE reports that
// first. A PE that is killed cannot report, nor can a PE that crashes because of the other's end.
// So a PE waits a moment before it reports which PE ended first, and its peers notify it of the
// ends that they have detected. Included by the monitor and its tests. The class has no sockets and
// no clock of its own.
#pragma once

#include "host/control/news.h"

#include <chrono>
#include <optional>
#include <vector>

namespace gshmem::control {

class UnexplainedDisconnects {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct End {
    int pe;
    PeerEvent event;
    Time due;         ///< is reported at this time, unless another event explains it before
    int seconds = 0;  ///< kUnreachable: seconds since the last answer
  };

  /// Ends are added in the order in which any PE has detected them. Deaths are due in that order,
  /// and so are departures. Of several ends of one PE the first counts.
  void add(const End& end);
  /// Removes the end of `pe`, which is explained.
  void drop(int pe);
  /// Has the death of `pe` been detected?
  [[nodiscard]] bool has_death(int pe) const;
  [[nodiscard]] std::optional<Time> next_due() const;
  /// Returns the death that was detected first, if it is due. A departure that is due waits for all
  /// deaths, which may be its cause.
  [[nodiscard]] std::optional<End> take_due(Time now);
  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  /// Drops all departures, so that they are not reported.
  void drop_departures();

 private:
  /// Returns the first death, or the first departure if there is no death.
  [[nodiscard]] std::vector<End>::const_iterator next() const;

  std::vector<End> ends_;
};

}  // namespace gshmem::control
