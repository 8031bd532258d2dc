// One libfabric endpoint with its objects: fabric, domain, address vector, completion queue,
// registered memory. Invariant (FI_THREAD_DOMAIN): one thread at a time calls it, the main thread
// until the executor starts, then the executor's.
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
  int error = 0;            ///< libfabric error number, positive; 0 = success
  std::size_t bytes = 0;    ///< size of a received message
  std::string_view text{};  ///< text of an error
};

struct Context;
class CompletionSink {
 public:
  virtual void completed(Context& context, const Completion& completion) = 0;

 protected:
  ~CompletionSink() = default;
};
/// Receives the immediates of writes that others have made to memory of this PE.
class ImmediateSink {
 public:
  virtual void arrived(std::uint32_t immediate) = 0;

 protected:
  ~ImmediateSink() = default;
};

/// Identifies a pending operation. Its address must not change until the operation completes.
/// `provider` is the first member because its address is the context of the call (fi_getinfo(3),
/// FI_CONTEXT2).
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

/// Optional features of a provider.
struct Abilities {
  /// Writes may carry 4 bytes that the target receives when the whole write has arrived.
  bool immediates = false;
  /// FI_DELIVERY_COMPLETE was requested and is honoured. Otherwise a completion is the
  /// acknowledgement of the NIC at the other end, and only later operations through the same NIC
  /// are sure to find the data in memory.
  bool delivers = false;
  /// The device moves data of any size; otherwise threads that call the provider do.
  bool rdma = false;
  /// The device stores each word exactly once, without tearing. Threads do not: stores of memcpy
  /// overlap.
  bool words = false;
  std::uint64_t completion = 0;  ///< the flag of writes that selects when they complete
  std::size_t inject = 0;        ///< maximum size of a write that its call carries
  std::size_t max_send = 0;      ///< maximum size of a message
};

class Fabric {
 public:
  /// `arrivals` is the number of immediates that may arrive between two polls. Errors:
  /// GSHMEMX_ERROR_NIC, GSHMEMX_ERROR_NOT_SUPPORTED.
  Fabric(const Library& library, InfoPtr info, std::size_t arrivals);

  [[nodiscard]] const fi_info& info() const { return *info_; }
  [[nodiscard]] const Abilities& able() const { return able_; }
  [[nodiscard]] fid_ep* endpoint() const { return endpoint_.get(); }
  /// Returns the address of the endpoint, for peers.
  [[nodiscard]] std::vector<std::uint8_t> address() const;
  /// Inserts addresses[i] as fi_addr_t i.
  void insert(const std::vector<std::vector<std::uint8_t>>& addresses);
  [[nodiscard]] fi_addr_t peer(int pe) const { return peers_.at(static_cast<std::size_t>(pe)); }

  /// `access` is FI_READ, FI_WRITE, FI_REMOTE_READ, ... Errors: GSHMEMX_ERROR_NIC.
  [[nodiscard]] Registered register_memory(const nic::Region& region, std::uint64_t access);

  /// Unregisters a region, which is a result of register_memory.
  void unregister_memory(const fid_mr* region) noexcept;

  /// Passes all immediates to this sink from now on.
  void hand_immediates_to(ImmediateSink* sink) { immediates_ = sink; }
  /// Passes completions to the sinks and drives the provider's progress. Returns true when anything
  /// had completed.
  bool poll();
  /// After this the provider accesses no memory and completes nothing.
  void close() noexcept;

 private:
  void poll_error();
  [[nodiscard]] std::uint64_t random_key() const;

  const Library& library_;
  InfoPtr info_;
  Abilities able_;
  ImmediateSink* immediates_ = nullptr;
  // The order matters: later members are destroyed first.
  Fid<fid_fabric> fabric_;
  Fid<fid_domain> domain_;
  Fid<fid_av> av_;
  Fid<fid_cq> cq_;
  Fid<fid_ep> endpoint_;
  std::vector<Fid<fid_mr>> regions_;
  std::vector<fi_addr_t> peers_;
};

}  // namespace gshmem::ofi
