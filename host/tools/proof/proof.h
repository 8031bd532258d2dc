// gshmem-info --gdr-proof: the benefit of GPUDirect RDMA on this machine, as data. measure.cpp
// takes the figures, place.cpp finds the devices, judge.cpp judges both, print.cpp and page.cpp
// print the result. Included by all of them. Invariant: nothing here runs or prints anything.
#pragma once

#include "host/tools/doctor/checks.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gshmem::proof {

/// The measured quantities. kLatency: microseconds. kBandwidth: 10^9 bytes per second. kRate: 10^6
/// messages per second. kLoad and kStore: microseconds of a host thread's load from its heap, and
/// of its put that the host stores at the target. kOnePair and kAllPairs: 10^9 bytes per second of
/// one pair while the others wait, and of all together.
enum class Quantity { kLatency, kBandwidth, kRate, kLoad, kStore, kOnePair, kAllPairs };
enum class Caller { kHost, kGpu };

/// One value per repeat. `cpu` are CPU seconds for 10^9 bytes, or for 10^6 messages; empty: not
/// measured.
struct Figures {
  std::vector<double> values, cpu;
};
struct Spread {
  double median = 0, least = 0, most = 0;
};
/// Returns zeros for no values.
[[nodiscard]] Spread spread(std::vector<double> values);

/// One measurement with a feature on and off.
struct Series {
  Quantity quantity;
  Caller caller;
  std::size_t bytes;
  Figures on, off;
};

/// One side of a comparison: a job with the feature on, or off.
struct Leg {
  std::string network;  ///< its consumer and port; empty: no job has started
  std::string error;    ///< the first reason why it was not measured in each repeat
  [[nodiscard]] bool good() const { return error.empty() && !network.empty(); }
};
struct Comparison {
  Leg on, off;
  std::vector<Series> series;
  int gpu = -1;    ///< CUDA device of PE 0
  int blocks = 0;  ///< see Plan
  int pairs = 1;   ///< of PEs that send and receive
  bool modelled = false, one_host = true;

  /// Has a job started, or failed to?
  [[nodiscard]] bool has_run() const {
    return !on.network.empty() || !off.network.empty() || !on.error.empty();
  }
  /// Returns null where neither was measured.
  [[nodiscard]] const Series* find(Quantity quantity, Caller caller, std::size_t bytes) const;
  /// Returns the series with the most bytes per second, on or off.
  [[nodiscard]] const Series* fastest() const;
  /// Returns the caller whose figures are judged: the GPU if it has figures.
  [[nodiscard]] Caller caller() const;
};

/// A finding of the doctor about the GPU and NIC that were used.
struct Evidence {
  std::string check;
  info::Finding finding;
};
/// The devices on which the figures were taken.
struct Place {
  std::vector<std::pair<std::string, std::string>> facts;  ///< for people, in order
  double link_gb_s = 0;  ///< the slowest of port, NIC and GPU at its best; 0 = unknown
  std::string link;      ///< which of them that is
  std::vector<Evidence> evidence;
};

enum class Outcome { kWorks, kFails, kUnknown };
struct Criterion {
  std::string name, measured, wanted;
  enum class Met { kYes, kNo, kUnknown } met = Met::kUnknown;
};
/// The most likely row of troubles.def.
struct Cause {
  std::string name, title, evidence, fix;
};
struct Judgement {
  Outcome outcome = Outcome::kUnknown;
  std::string sentence;
  std::vector<Criterion> criteria;
  std::optional<Cause> cause;
  /// Returns the exit status: 0 works, 1 does not, 2 does not apply or was not measured.
  [[nodiscard]] int status() const { return static_cast<int>(outcome); }
};

/// Everything that is printed. Without a job only `judgement` has contents.
struct Proof {
  std::string host, title;
  int repeats = 0;
  Place place;
  Comparison gdr;
  std::optional<Comparison> gdrcopy;
  std::optional<Comparison> all_pairs;  ///< where there are several
  Judgement judgement;
};
[[nodiscard]] std::string as_text(const Proof& proof);
[[nodiscard]] std::string as_json(const Proof& proof);
/// Returns one HTML page that needs no other file.
[[nodiscard]] std::string as_page(const Proof& proof);

/// Returns for example "latency, us".
[[nodiscard]] std::string title_of(Quantity quantity);
[[nodiscard]] std::string_view caller_name(Caller caller);
/// Returns for example "All 4 pairs at once".
[[nodiscard]] std::string pairs_title(const Comparison& all_pairs);
/// Returns which threads make the calls on the GPU; empty if there are none.
[[nodiscard]] std::string threads_text(const Comparison& comparison);
/// Returns three digits: "12.3", "0.123", "1,230" without the comma.
[[nodiscard]] std::string digits(double value);
/// Returns for example "+31 %", "12.5 times"; empty if a side is unknown.
[[nodiscard]] std::string change_text(double off, double on);

}  // namespace gshmem::proof
