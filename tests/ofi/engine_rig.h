// The engines alone, over the double: a PE that reaches itself by three NICs.
#pragma once

#include "tests/ofi/job.h"

#include "transport/ofi/provider.h"
#include "transport/ofi/rma.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace gshmem::test {

inline constexpr std::size_t kNics = 3;
inline constexpr std::uint64_t kHeap = 4096, kPool = 4096;
inline constexpr std::uint32_t kRemoteKey = 0x77;

struct EngineRig : ofi::OperationOwner, ofi::FlushSink {
  explicit EngineRig(bool reads_trail = false, const std::string& provider = "efa-direct",
                     ofi::MemoryAccess* other = nullptr, std::size_t places = 0)
      : rails(open(provider, places)),
        engine({.rails = rails,
                .heap = heap,
                .pool = pool,
                .memories = memories,
                .access = other != nullptr ? *other : *access,
                .atomics = ofi::atomic_support(rails.first().info(), rails[0].endpoint()),
                .peers = peers,
                .landing = kPool - 8,
                .reads_trail = reads_trail}) {
    peers[0].pe = 0;
    peers[0].heap_base = heap.remote_base;
    peers[0].heap_bytes = kHeap;
    for (std::size_t rail = 0; rail < kNics; ++rail) {
      rails[rail].insert({rails[rail].address()});
      peers[0].routes.push_back({rails[rail].peer(0), heap.keys[rail], 0});
    }
  }
  EngineRig(const EngineRig&) = delete;
  ~EngineRig() {
    rails.close();
    CHECK(rules.violations().empty());
    rules.reset();
  }
  static ofi::OfiRails open(const std::string& provider, std::size_t places) {
    fabric_double()->places = places;
    fabric_double()->offer({provider});
    fabric_double()->nics = int{kNics};
    std::vector<std::unique_ptr<ofi::Fabric>> fabrics;
    for (ofi::InfoPtr& info : ofi::choose_provider(ofi::Library::get(), {.nics = int{kNics}}))
      fabrics.push_back(std::make_unique<ofi::Fabric>(ofi::Library::get(), std::move(info), 64));
    return ofi::OfiRails(std::move(fabrics));
  }
  ofi::RailMemory registered(std::vector<std::uint8_t>& memory) {
    return rails.register_memory({.base = memory.data(), .bytes = memory.size()}, ofi::kHeapAccess);
  }
  void changed(ofi::Operation&) override { ++changes; }
  void flushed(const ofi::Failure& failure) override {
    ++flushes;
    why = failure;
  }
  [[nodiscard]] std::uint64_t reads() const { return rules.taken[FabricDouble::kRead]; }
  /// Returns the journal's reads of the heap's first word by these NICs.
  [[nodiscard]] std::vector<std::string> fetches(const std::vector<int>& nics) const {
    std::vector<std::string> calls;
    for (const int nic : nics)
      calls.push_back(strprintf("fetch by %d: 8 bytes from %lu", nic, heap.remote_base));
    return calls;
  }
  /// Returns an operation that the caller fills in.
  ofi::Operation& operation() {
    ofi::Operation& made = *operations.acquire(peers[0]);
    made.wqe.clear();
    made.wqe.length = 8;
    made.wqe.remote_address = 64;
    made.wqe.remote_key = kRemoteKey;
    made.wqe.local.push_back({512, 8, 0});
    made.owner = this;
    made.outbound = &outbound;
    return made;
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, heap_memory.data() + offset, sizeof(value));
    return value;
  }

  FabricDouble& rules = *fabric_double();
  ofi::OfiRails rails;
  std::vector<std::uint8_t> heap_memory = std::vector<std::uint8_t>(kHeap);
  std::vector<std::uint8_t> pool_memory = std::vector<std::uint8_t>(kPool);
  ofi::RailMemory heap = registered(heap_memory), pool = registered(pool_memory);
  ofi::Memories memories;
  std::unique_ptr<ofi::MemoryAccess> access =
      ofi::make_memory_access({.base = heap_memory.data(), .bytes = kHeap});
  std::vector<ofi::Peer> peers = std::vector<ofi::Peer>(1);
  ofi::OperationPool operations{pool_memory.data(), 2, 1};
  ofi::Outbound outbound;
  ofi::RmaEngine engine;
  int changes = 0, flushes = 0;
  ofi::Failure why;
};

/// Copies that complete when the test says so, one after the other.
struct StepwiseAccess final : ofi::MemoryAccess {
  explicit StepwiseAccess(std::vector<std::uint8_t>& of) : memory(of) {}
  ofi::Staging allocate(std::size_t bytes) override {
    return {static_cast<std::uint8_t*>(std::calloc(bytes, 1)), std::free};
  }
  ofi::Ticket start_write(std::uint64_t offset, const void* from, std::size_t bytes) override {
    std::memcpy(memory.data() + offset, from, bytes);
    return ++copies;
  }
  ofi::Ticket start_read(std::uint64_t offset, void* to, std::size_t bytes) override {
    std::memcpy(to, memory.data() + offset, bytes);
    return ++copies;
  }
  void poll() override { polled = ended; }
  bool done(ofi::Ticket ticket) override {
    if (ticket == failing) throw Error(GSHMEMX_ERROR_CUDA, "a copy failed");
    return ticket <= polled;
  }
  ofi::Ticket start_atomic(std::uint64_t, const nic::Wqe&, std::uint64_t* old) override {
    asked += old != nullptr ? 1 : 0;
    return ++copies;
  }
  bool coherent() const override { return false; }

  std::vector<std::uint8_t>& memory;
  ofi::Ticket copies = 0, ended = 0, polled = 0, failing = 99;
  int asked = 0;  ///< atomics that fetch the old value
};

}  // namespace gshmem::test
