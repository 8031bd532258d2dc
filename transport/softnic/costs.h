// Models the costs of messages on hardware, in the time of a model. GSHNIC_COSTS names a file. The
// data moves as always, and only the model's clock says how long it took. So a comparison by this
// clock is the same on every machine.
//
//   file = line { "\n" line }       "#" begins a comment
//   line = name number | "fails" ("gpu" | "port" | "peer")
//
// kCostNames of costs.cpp has the names. "fails": the device cannot register GPU memory, its port
// is down, or no message arrives. Staged jobs work nevertheless, because libfabric has other
// networks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gshmem::soft {

struct Costs {
  double link_us = 0, link_gb_s = 0, link_mops = 0;  ///< the wire; 0 = nothing, no limit
  double gpu_us = 0, gpu_gb_s = 0;    ///< the NIC's way to GPU memory, across the root complex
  double gpu_cpu_s_gb = 0;            ///< CPU time on that way
  double copy_us = 0, copy_gb_s = 0;  ///< a copy for staging; a message has two
  double busy_cpus = 0;               ///< that wait, or drive the NIC, all the time
  enum class Fails : std::uint8_t { kNothing, kGpu, kPort, kPeer };
  Fails fails = Fails::kNothing;
};
/// Errors: EngineError 0x3 that quotes the bad line and says what is accepted.
[[nodiscard]] Costs parse_costs(std::string_view text);

/// The clock of the model. Guarded by the engine's lock. To read it waits, in the model, for all
/// messages so far. Messages between two readings count as posted at the first one, and share the
/// link.
class CostModel {
 public:
  /// `path` is empty: there is no model. Errors: as parse_costs; EngineError 0x3 without such a
  /// file.
  void load(const std::string& path, bool staged);
  [[nodiscard]] bool is_on() const { return on_; }
  [[nodiscard]] bool fails(Costs::Fails what) const {
    return on_ && !staged_ && costs_.fails == what;
  }
  void charge(std::uint64_t bytes);
  struct Time {
    double seconds = 0, cpu_seconds = 0;
  };
  [[nodiscard]] Time read();

 private:
  Costs costs_;
  bool on_ = false, staged_ = false;
  Time now_;
  double free_ = 0, end_ = 0;  ///< when the link has sent, and when the last message has arrived
};

}  // namespace gshmem::soft
