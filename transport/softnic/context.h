// State that the parts of one engine share. Guarded by the engine's lock.
#pragma once

#include "transport/softnic/adversary.h"
#include "transport/softnic/atomic_words.h"
#include "transport/softnic/checker.h"
#include "transport/softnic/costs.h"
#include "transport/softnic/engine.h"
#include "transport/softnic/fabric.h"
#include "transport/softnic/queue_pair.h"
#include "transport/softnic/regions.h"
#include "transport/softnic/route.h"
#include "transport/softnic/rules.h"
#include "transport/softnic/target.h"

#include <time.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace gshmem::soft {

/// A time that never comes. It also ends a wait for everything.
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct Context {
  explicit Context(const EngineOptions& given)
      : options(given),
        checker(given.strict != Strictness::kLoose),
        adversary(parse_adversary(given.adversary), given.seed),
        rules(parse_rules(given.rules)) {}

  EngineOptions options;
  Checker checker;
  Adversary adversary;
  RuleSet rules;
  RegionTable regions;
  CostModel costs;
  Counters counters;
  std::unique_ptr<Fabric> fabric;
  Port port;  ///< known with the fabric
  std::map<std::uint32_t, std::unique_ptr<CompletionQueue>> cqs;
  std::map<std::uint32_t, std::unique_ptr<ReceiveQueue>> shared_receives;
  std::vector<CompletionQueue*> watched;  ///< those that clients may arm
  std::map<std::uint32_t, std::unique_ptr<QueuePair>> qps;
  std::map<std::uint32_t, std::unique_ptr<Target>> targets;
  std::vector<QueuePair*> busy;  ///< those with work, and some that have just finished
  std::map<int, EventListener> listeners;
  bool port_down = false;
  std::int64_t port_up_ns = 0;  ///< when it comes up again; 0 = never
  bool gone = false;            ///< the device was removed

  /// Makes each pass of the engine process the queue pair, until it is at rest.
  void wake(QueuePair& qp) {
    if (!std::exchange(qp.busy, true)) busy.push_back(&qp);
  }
  /// Writes a completion of `qp`. An error gets the vendor's bytes unless it has some. A completion
  /// queue without room fails, and so does the queue pair.
  void complete(QueuePair& qp, CompletionQueue& cq, nic::Completion completion);
  /// Stores the trailing data of `qp` that is due at `now`.
  void land(QueuePair& qp, std::int64_t now) const;
  /// Models a read of memory by the device, which pushes the writes before it (PCI Express, 2.4.1).
  void push_writes() const {
    if (!adversary.may(Behaviour::kTrailingWrite)) return;
    for (QueuePair* qp : busy) land(*qp, kNever);
  }
  void tell(const DeviceEvent& event) const {
    for (const auto& [number, listener] : listeners) listener(event);
  }
  [[nodiscard]] QueuePair* find_qp(std::uint32_t number) const {
    const auto found = qps.find(number);
    return found == qps.end() ? nullptr : found->second.get();
  }
  [[nodiscard]] Target* find_target(std::uint32_t number) const {
    const auto found = targets.find(number);
    return found == targets.end() ? nullptr : found->second.get();
  }
  /// Returns the receiver of packets from `source` to `number`: the queue pair, or a connection of
  /// a target.
  [[nodiscard]] QueuePair* end_of(std::uint32_t number, std::uint32_t source) const {
    const Target* target = find_target(number);
    return target == nullptr ? find_qp(number) : target->find(source);
  }
};

[[nodiscard]] inline std::int64_t now_ns() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Syndromes that the engine itself finds (MLX5_CQE_SYNDROME_* in <infiniband/mlx5dv.h>).
inline constexpr std::uint8_t kLocalLength = 0x01, kLocalOperation = 0x02, kLocalProtection = 0x04,
                              kFlushed = 0x05, kRemoteRequest = 0x12, kRemoteAccess = 0x13,
                              kRemoteOperation = 0x14, kRetryExceeded = 0x15, kRnrExceeded = 0x16,
                              kBadResponse = 0x10;

/// The vendor's bytes that ConnectX cards write beside a syndrome, from public dumps and logs.
/// Syndromes that are not listed have none.
struct VendorSyndromes {
  std::uint8_t syndrome, vendor, hardware;
};
inline constexpr VendorSyndromes kVendorSyndromes[] = {
    {kLocalOperation, 0x68, 0},      // openucx/ucx#3618
    {kLocalProtection, 0x53, 0x9d},  // Juniper/warp17#81
    {kFlushed, 0xf9, 0},             // linux-nvme/nvme-cli#3268
    {kRemoteRequest, 0x8a, 0},       // charmplusplus/charm#2532
    {kRemoteAccess, 0x88, 0},        // ofiwg/libfabric#4283
    {kRemoteOperation, 0x89, 0},     // openucx/ucx#5472
    {kRetryExceeded, 0x81, 0},       // openucx/ucx#3679
};

}  // namespace gshmem::soft
