// One endpoint of libfabric and what belongs to it: fabric, domain, address vector, completion
// queue, registered memory. Invariant (FI_THREAD_DOMAIN): one thread at a time calls it, the main
// thread until the executor starts, then the executor's.
#pragma once

#include "transport/nic/nic.h"
#include "transport/ofi/library.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gshmem::ofi {

struct Completion {
  int error = 0;            ///< libfabric error number, positive; 0 = done
  std::size_t bytes = 0;    ///< of a received message
  std::string_view text{};  ///< of an error
};

struct Context;
class CompletionSink {
 public:
  virtual void completed(Context& context, const Completion& completion) = 0;

 protected:
  ~CompletionSink() = default;
};
/// Gets the immediates of writes that others have made into memory of this PE.
class ImmediateSink {
 public:
  virtual void arrived(std::uint32_t immediate) = 0;

 protected:
  ~ImmediateSink() = default;
};

/// The name of an operation in flight. Address-stable until it completes; `provider` comes
/// first because its address is the context of the call (fi_getinfo(3), FI_CONTEXT2).
struct Context {
  fi_context2 provider{};
  CompletionSink* sink = nullptr;
};

/// Memory that the provider may read and write; registered until Fabric::close() at the latest.
struct Registered {
  const fid_mr* region = nullptr;
  std::uint8_t* base = nullptr;
  void* descriptor = nullptr;     ///< for local use
  std::uint64_t key = 0;          ///< for remote use
  std::uint64_t remote_base = 0;  ///< address of its first byte for peers
};

/// What a provider can do beyond what all can.
struct Abilities {
  /// Writes may carry 4 bytes that the target gets when all of them has arrived.
  bool immediates = false;
  /// FI_DELIVERY_COMPLETE was asked for and is obeyed; else a completion is the acknowledgement of
  /// the NIC at the other end, and only what comes later by the same NIC finds the data in memory.
  bool delivers = false;
  /// The device moves data by itself, however much; else threads that call the provider do.
  bool rdma = false;
  /// Its device stores each word once, in one piece. Threads do not: stores of memcpy overlap.
  bool words = false;
  std::uint64_t completion = 0;  ///< flag of writes: when they complete
  std::size_t inject = 0;        ///< bytes of a write that its call may carry
  std::size_t max_send = 0;      ///< bytes of a message
};

class Fabric {
 public:
  /// `arrivals`: immediates that may come between two polls. Errors: GSHMEMX_ERROR_NIC,
  /// GSHMEMX_ERROR_NOT_SUPPORTED.
  Fabric(const Library& library, InfoPtr info, std::size_t arrivals);

  [[nodiscard]] const fi_info& info() const { return *info_; }
  [[nodiscard]] const Abilities& able() const { return able_; }
  [[nodiscard]] fid_ep* endpoint() const { return endpoint_.get(); }
  /// Address of the endpoint, for peers.
  [[nodiscard]] std::vector<std::uint8_t> address() const;
  /// Makes fi_addr_t i out of addresses[i].
  void insert(const std::vector<std::vector<std::uint8_t>>& addresses);
  [[nodiscard]] fi_addr_t peer(int pe) const { return peers_.at(static_cast<std::size_t>(pe)); }

  /// `access`: FI_READ, FI_WRITE, FI_REMOTE_READ, ... Errors: GSHMEMX_ERROR_NIC.
  [[nodiscard]] Registered register_memory(const nic::Region& region, std::uint64_t access);

  /// What it gave: nobody reaches the memory by it any more.
  void unregister_memory(const fid_mr* region) noexcept;

  /// Of all immediates from now on.
  void hand_immediates_to(ImmediateSink* sink) { immediates_ = sink; }
  /// Hands what has completed to the sinks and drives the provider's progress. True when anything
  /// had completed.
  bool poll();
  /// After this the provider touches no memory and completes nothing.
  void close() noexcept;

 private:
  void poll_error();
  [[nodiscard]] std::uint64_t random_key() const;

  const Library& library_;
  InfoPtr info_;
  Abilities able_;
  ImmediateSink* immediates_ = nullptr;
  // In this order: what comes later goes first.
  Fid<fid_fabric> fabric_;
  Fid<fid_domain> domain_;
  Fid<fid_av> av_;
  Fid<fid_cq> cq_;
  Fid<fid_ep> endpoint_;
  std::vector<Fid<fid_mr>> regions_;
  std::vector<fi_addr_t> peers_;
};

}  // namespace gshmem::ofi
