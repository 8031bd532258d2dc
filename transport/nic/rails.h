// The NICs of a PE used together ("rails"), as the runtime and QueueSet see them. This class
// decides what all of them have in common, and which queue uses which NIC. A connection is between
// rails of the same number, since fabrics are often wired in this way. PEs of this host are reached
// by the target's own port, which this PE opens in addition to its rails ("guests"). Included by
// QueueSet and the runtime. Invariant: all PEs of a job have the same number of rails.
#pragma once

#include "transport/nic/nic.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gshmem::nic {

inline constexpr int kMaxRails = 8;

class Rails {
 public:
  Rails() = default;  ///< without rails: there is no network path
  explicit Rails(NicList nics) : nics_(std::move(nics)) {}

  [[nodiscard]] int count() const { return static_cast<int>(nics_.size()); }
  [[nodiscard]] bool empty() const { return nics_.empty(); }
  [[nodiscard]] Nic& operator[](int rail) const { return *nics_[static_cast<std::size_t>(rail)]; }
  [[nodiscard]] const char* name() const { return nics_.front()->name(); }
  /// Describes all rails.
  [[nodiscard]] std::string describe() const;
  /// Returns possible causes of an error of queue `number` to PE `pe`: the ends of its connection,
  /// after a timeout the state of the queue, and the history of ports. Empty: nothing is known.
  [[nodiscard]] std::string explain(std::uint32_t number, int pe, int error) const;
  /// Returns the limits that hold for all of them. Those of atomics are from the first rail and the
  /// guests.
  [[nodiscard]] Nic::Limits limits() const;
  /// Returns the rails, and the ports of neighbours.
  [[nodiscard]] std::vector<Nic*> all() const;
  void start();
  void all_started();
  void stop() noexcept;

  /// Collective, before queues are created: PEs of one host (`node_of`, by PE) reach each other by
  /// the target's own port. Two ports of a host may not reach each other: if the kernel has both
  /// addresses, it finds no RoCE route from one to the other (linux
  /// drivers/infiniband/core/addr.c). If the PEs of a host cannot all open each other's ports, that
  /// host does not use this, and logs it.
  void open_host_ports(Collectives& boot, const std::vector<int>& node_of);
  /// Returns the Nic by which this PE reaches the rail of PE `pe`.
  [[nodiscard]] Nic& to(int pe, int rail) const;
  /// Do this PE and `pe` reach each other by two ports? Then a connection goes one way, and the PE
  /// at its other end has a queue for it that only answers.
  [[nodiscard]] bool is_one_way(int pe, int rail) const;
  /// Are there such PEs in the job?
  [[nodiscard]] bool any_one_way() const { return any_one_way_; }

 private:
  void open_guests(const std::vector<int>& pes, const std::vector<std::string>& ports);

  NicList nics_, guests_;
  std::map<std::pair<int, int>, Nic*> ways_;  ///< by PE and rail, if another port is used
  bool any_one_way_ = false;
};

/// The rail of each queue of a context to a peer. Device code relies on the order (abi::NicView):
/// the nth queue uses rail n % rails, and atomics use the queues of rail 0.
using QueueRails = std::vector<int>;

/// Returns the rails of the default context: at least as many queues as GSHMEM_QPS_PER_PE says, the
/// same number on each rail.
[[nodiscard]] QueueRails default_queues(int rails, const Config& config);
/// Returns GSHMEM_QPS_PER_PE, where 0 means its default. There are more initiators by default:
/// while one changes its target, another one can send.
[[nodiscard]] inline int queues_wanted(const Config& config) {
  if (config.qps_per_pe > 0) return config.qps_per_pe;
  return config.connect == ConnectChoice::kDc ? 16 : 2;
}
/// Returns the rails of the nth context or queue handle. It has one queue for transfers, with rails
/// assigned in turn. If that is not the first rail, it has one more on the first, for atomics.
[[nodiscard]] QueueRails context_queues(int rails, int nth);

}  // namespace gshmem::nic
