// Takes the figures of gshmem-info --gdr-proof, in jobs of a pair of PEs, or of several pairs. The
// two settings alternate, so that changes on the machine during the measurement affect both.
// Included by prove.cpp and the tests.
#pragma once

#include "bootstrap/bootstrap.h"
#include "host/base/config.h"
#include "host/tools/proof/proof.h"

#include <memory>
#include <vector>

namespace gshmem::proof {

/// Returns the sizes 64 KiB, four times that, and so on; the last one is `largest`.
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

/// Returns for each PE the PE to which it sends, or -1. Host by host, the first half of the PEs
/// sends to the second half. `hosts` names the host of each PE; the number of PEs is even.
[[nodiscard]] std::vector<int> targets_of(const std::vector<std::size_t>& hosts);

/// Where the PEs are: this process makes all PEs, or a launcher has started one process for each.
class Jobs {
 public:
  /// Collective over a launcher's processes. Errors: those of bootstrap::create,
  /// GSHMEMX_ERROR_NOT_SUPPORTED for an odd number of several.
  explicit Jobs(const Config& config, bool launched);
  ~Jobs();
  Jobs(const Jobs&) = delete;
  /// PE 0 has the figures, and other processes of a launcher have none.
  [[nodiscard]] bool is_first() const;
  [[nodiscard]] bool one_process() const { return base_ == nullptr; }
  [[nodiscard]] bool one_host() const { return one_host_; }
  /// Returns the number of this process among those of its host.
  [[nodiscard]] std::size_t local_rank() const { return local_rank_; }
  /// Returns how many PEs a job of all pairs has, if this process sees `gpus` GPUs.
  [[nodiscard]] int pes_of_all(std::size_t gpus) const;
  /// Returns targets_of the PEs of a job.
  [[nodiscard]] std::vector<int> targets(int pes) const;
  /// Collective: is the text the same in all processes?
  [[nodiscard]] bool alike(const std::string& mine) const;
  /// Collective: is `mine` true in all processes?
  [[nodiscard]] bool all(bool mine) const;
  /// Collective: returns the values of all processes, in the order of their ranks.
  template <class T>
  [[nodiscard]] std::vector<T> gather(const T& mine) const {
    return one_process() ? std::vector<T>{mine} : allgather(*base_, mine);
  }
  /// Returns the bootstraps of the PEs of this process, for one more job. Under a launcher a job
  /// has a PE for each process, otherwise `pes`.
  [[nodiscard]] std::vector<std::unique_ptr<bootstrap::Bootstrap>> next(double timeout,
                                                                        int pes) const;

 private:
  std::unique_ptr<bootstrap::Bootstrap> base_;  ///< null: the PEs are threads of this process
  std::vector<std::size_t> hosts_;              ///< of a launcher's processes
  bool one_host_ = true;
  std::size_t local_rank_ = 0;
};

/// Returns the settings that both sides share: the PEs reach each other by the network only, and
/// errors do not end the process. No wait is long (see selftest::config_of), and PEs of one host
/// may share a GPU.
[[nodiscard]] Config proof_config(const Config& given, bool one_host);

/// Returns the size of the heap of each PE in the jobs of compare.
[[nodiscard]] std::uint64_t heap_bytes(const Plan& plan);

/// Collective. Starts one job as compare does, and measures nothing.
[[nodiscard]] Leg start_once(const Jobs& jobs, const Plan& plan, const Config& config);

/// Collective. PE 0 sends. A failure on one side is stored as its leg's error; then the other side
/// is measured alone.
[[nodiscard]] Comparison compare(const Jobs& jobs, const Plan& plan, const Config& on,
                                 const Config& off);
/// Collective: bandwidth of the first pair alone, and of all at once, in jobs of `pes` PEs. CPU
/// time is that of all processes.
[[nodiscard]] Comparison compare_pairs(const Jobs& jobs, const Plan& plan, int pes,
                                       const Config& on, const Config& off);
/// Collective: does what compare does, for words of a heap on a GPU: kLoad, or kStore where both
/// sides are staged.
[[nodiscard]] Comparison compare_words(const Jobs& jobs, const Plan& plan, Quantity quantity,
                                       const Config& on, const Config& off);

}  // namespace gshmem::proof
