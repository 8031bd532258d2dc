// Takes the figures of gshmem-info --gdr-proof: jobs of two PEs with either setting in turn, so
// that whatever changes on the machine meanwhile meets both. Included by prove.cpp and the tests.
#pragma once

#include "bootstrap/bootstrap.h"
#include "host/base/config.h"
#include "host/tools/proof/proof.h"

#include <memory>
#include <vector>

namespace gshmem::proof {

/// Returns 64 KiB and four times as much each, and at last `largest`.
[[nodiscard]] std::vector<std::size_t> bandwidth_sizes(std::size_t largest);

struct Plan {
  int repeats = 7;
  int gpu = -1;  ///< CUDA device of both PEs; -1: each has one of its own, where there are two
  std::vector<std::size_t> latency_bytes{8, 64, 512, 4096};
  std::vector<std::size_t> bandwidth_bytes = bandwidth_sizes(64u << 20);
  int blocks = 0;        ///< those of a kernel that move each large message; 0: one thread does
  unsigned calls = 100;  ///< for a latency
  unsigned messages = 10'000;           ///< for a rate
  std::uint64_t volume = 256ull << 20;  ///< for a bandwidth: bytes, at least one message
};

/// Where the two PEs are: this process makes both, or a launcher has started two.
class Jobs {
 public:
  /// Collective over a launcher's processes. Errors: those of bootstrap::create,
  /// GSHMEMX_ERROR_NOT_SUPPORTED for more than two.
  explicit Jobs(const Config& config, bool launched);
  ~Jobs();
  Jobs(const Jobs&) = delete;
  /// PE 0 has the figures, and the other process of a launcher has none.
  [[nodiscard]] bool is_first() const;
  [[nodiscard]] bool one_process() const { return base_ == nullptr; }
  [[nodiscard]] bool one_host() const { return one_host_; }
  /// Collective: is the text the same in all processes?
  [[nodiscard]] bool alike(const std::string& mine) const;
  /// Collective: is it so in all processes?
  [[nodiscard]] bool all(bool mine) const;
  /// Returns the bootstraps of the PEs of this process, for one more job.
  [[nodiscard]] std::vector<std::unique_ptr<bootstrap::Bootstrap>> next(double timeout) const;

 private:
  std::unique_ptr<bootstrap::Bootstrap> base_;  ///< null: both PEs are threads of this process
  bool one_host_ = true;
};

/// Returns the settings of both sides: the PEs reach each other by the network only, errors end
/// nothing, no wait is long (see selftest::config_of), and PEs of one host may share a GPU.
[[nodiscard]] Config proof_config(const Config& given, bool one_host);

/// Returns the size of the heap of each PE in the jobs of compare.
[[nodiscard]] std::uint64_t heap_bytes(const Plan& plan);

/// Collective. Starts one job as compare does, and measures nothing.
[[nodiscard]] Leg start_once(const Jobs& jobs, const Plan& plan, const Config& config);

/// Collective. What fails on one side is its leg's error; then the other side is measured alone.
[[nodiscard]] Comparison compare(const Jobs& jobs, const Plan& plan, const Config& on,
                                 const Config& off);
/// Collective: the same for words of a heap on a GPU that host threads load, as their waits do.
[[nodiscard]] Comparison compare_loads(const Jobs& jobs, const Plan& plan, const Config& on,
                                       const Config& off);

}  // namespace gshmem::proof
