// The NICs of a PE side by side ("rails"), as the runtime and QueueSet see them: what has to hold
// for all of them, and which queue goes by which. A connection is between rails of the same number:
// fabrics are often wired so. PEs of this host are reached by the target's own port, which this PE
// opens beside its rails ("guests"). Included by QueueSet and the runtime. Invariant: all PEs of a
// job have the same number of rails.
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
  Rails() = default;  ///< none: no network path
  explicit Rails(NicList nics) : nics_(std::move(nics)) {}

  [[nodiscard]] int count() const { return static_cast<int>(nics_.size()); }
  [[nodiscard]] bool empty() const { return nics_.empty(); }
  [[nodiscard]] Nic& operator[](int rail) const { return *nics_[static_cast<std::size_t>(rail)]; }
  [[nodiscard]] const char* name() const { return nics_.front()->name(); }
  /// All rails.
  [[nodiscard]] std::string describe() const;
  /// What may explain an error of queue `number` to PE `pe`: the ends of its connection, after a
  /// timeout the state of the queue, and the history of ports. Empty: nothing is known.
  [[nodiscard]] std::string explain(std::uint32_t number, int pe, int error) const;
  /// The limits that all of them keep. Atomics are those of the first one and of guests.
  [[nodiscard]] Nic::Limits limits() const;
  /// The rails, and the ports of neighbours.
  [[nodiscard]] std::vector<Nic*> all() const;
  void start();
  void stop() noexcept;

  /// Collective, before queues are made: PEs of one host (`node_of`, by PE) reach each other by the
  /// target's own port. Two ports of a host need not reach each other: the kernel that has both
  /// addresses finds no way of RoCE from one to the other (linux drivers/infiniband/core/addr.c).
  /// A host whose PEs cannot all open each other's ports does without, and says so.
  void open_host_ports(Collectives& boot, const std::vector<int>& node_of);
  /// By which this PE reaches the rail of PE `pe`.
  [[nodiscard]] Nic& to(int pe, int rail) const;
  /// This PE and `pe` reach each other by two ports: a connection goes one way, and the PE at its
  /// other end has a queue for it that answers and never asks.
  [[nodiscard]] bool is_one_way(int pe, int rail) const;
  /// There are such PEs in the job.
  [[nodiscard]] bool any_one_way() const { return any_one_way_; }

 private:
  void open_guests(const std::vector<int>& pes, const std::vector<std::string>& ports);

  NicList nics_, guests_;
  std::map<std::pair<int, int>, Nic*> ways_;  ///< by PE and rail, where it is another port
  bool any_one_way_ = false;
};

/// By which rail each queue of a context to a peer goes. Device code relies on the order
/// (abi::NicView): the nth goes by rail n % rails, where atomics take those of rail 0.
using QueueRails = std::vector<int>;

/// Of the default context: at least `wanted` queues, as many on each rail.
[[nodiscard]] QueueRails default_queues(int rails, int wanted);
/// Of the nth context or queue handle: one queue for transfers, by rails in turn; and where that is
/// not the first rail, one on the first, for atomics.
[[nodiscard]] QueueRails context_queues(int rails, int nth);

}  // namespace gshmem::nic
