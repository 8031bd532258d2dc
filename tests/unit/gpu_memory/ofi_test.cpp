// Tests the libfabric executor on GPU memory. Staged transfers use the copy engine and few calls of
// the driver. GPUDirect RMA is played by the double of libfabric.
#include "tests/ofi/job.h"
#include "tests/unit/gpu_memory/rig.h"
#include "transport/ofi/memory_access.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace gshmem::test {
namespace {

Leg gpu_leg() { return {"tcp;ofi_rxm", "off", false, false, gpu_allocate}; }

/// Does what a launch of blocks does: posts `pieces` messages, rings one doorbell, waits for the
/// last message.
void move_all(Client& client, bool writes, unsigned pieces, std::uint64_t bytes) {
  const auto piece = static_cast<std::uint32_t>(bytes / pieces);
  std::uint64_t last = 0;
  for (std::uint64_t at = 0; at < bytes; at += piece) {
    last = writes ? client.write(at, at, piece) : client.read(at, at, piece);
  }
  REQUIRE(client.ring_and_wait(last).ok());
}

TEST_CASE("staged_gpu_memory_is_moved_completely") {
  if (!have_libfabric()) return;
  Job job(2, gpu_leg());
  cuda_double().reset();
  cuda_double().latency_ns = 20'000;
  cuda_double().held = true;  // the application waits in cudaMemcpy for its kernel
  std::uint8_t* const mine = gpu_view(job[0].heap());
  std::uint8_t* const other = gpu_view(job[1].heap());
  Client& client = job[0].to(1);
  for (const std::uint32_t bytes : {1u, 8u, 65u, 4096u, 65537u, 262'144u, 262'145u, 2'000'001u}) {
    INFO(bytes);
    fill(mine, bytes, bytes);
    std::memset(other, 0, kHeapBytes);
    REQUIRE(client.ring_and_wait(client.write(5, 0, bytes)).ok());
    REQUIRE(std::memcmp(other + 5, mine, bytes) == 0);
    REQUIRE(other[4] == 0);
    REQUIRE(other[5 + bytes] == 0);
    fill(other, bytes, bytes + 1);
    REQUIRE(client.ring_and_wait(client.read(0, 7, bytes)).ok());
    REQUIRE(std::memcmp(mine + 7, other, bytes) == 0);
  }
  cuda_double().held = false;
  CHECK(cuda_double().by_time_slice == 0);
  require_no_violations();
}

TEST_CASE("staging_takes_few_copies_and_no_wait") {
  if (!have_libfabric()) return;
  constexpr std::uint64_t kBytes = 1 << 20;
  const unsigned pieces = GENERATE(1u, 32u);
  const bool writes = GENERATE(true, false);
  Job job(2, gpu_leg());
  fill(gpu_view(job[0].heap()), kBytes, 3);
  fill(gpu_view(job[1].heap()), kBytes, 4);
  cuda_double().reset();
  cuda_double().latency_ns = 5'000;
  move_all(job[0].to(1), writes, pieces, kBytes);
  REQUIRE(std::memcmp(gpu_view(job[0].heap()), gpu_view(job[1].heap()), kBytes) == 0);
  const std::string what = std::string("ofi, ") + (writes ? "writes" : "reads") + " of " +
                           std::to_string(kBytes / pieces);
  const Calls calls = calls_per_mib(what.c_str(), kBytes);
  // A message of at most 256 KiB takes one copy at each end.
  CHECK(calls.to_host == std::max(4u, pieces));
  CHECK(calls.to_device == std::max(4u, pieces));
  CHECK(calls.waits == 0);
  CHECK(cuda_double().misaligned == 0);
  require_no_violations();
}

/// A heap as the executor's thread accesses it.
struct Access {
  static constexpr std::uint64_t kBytes = 1 << 20;
  void* gpu = gpu_allocate(kBytes);
  std::unique_ptr<ofi::MemoryAccess> heap = ofi::make_memory_access(
      {.base = gpu, .bytes = kBytes, .kind = nic::MemoryKind::kGpu, .gpu = 0});
  ofi::Staging staging = heap->allocate(kBytes);
  Access() {
    heap->attach_thread();
    cuda_double().reset();
  }
};

TEST_CASE("executors_start_work_and_end_while_another_thread_captures") {
  if (!have_libfabric()) return;
  cuda_double().reset();
  std::thread([] {  // in the mode that new threads have
    cuda_double().capturing = true;
    Job job(2, gpu_leg());
    fill(gpu_view(job[0].heap()), 4096, 8);
    CHECK(job[0].to(1).ring_and_wait(job[0].to(1).write(0, 0, 4096)).ok());
    CHECK(std::memcmp(gpu_view(job[0].heap()), gpu_view(job[1].heap()), 4096) == 0);
  })
      .join();
  cuda_double().capturing = false;
  require_no_violations();
}

/// Keeps the engine busy that copies to the GPU.
struct Held {
  Held() { cuda_double().holding_to_device = true; }
  ~Held() { end(); }
  void end() { cuda_double().holding_to_device = false; }
};

/// Does the copy complete within a number of polls?
bool ends(ofi::MemoryAccess& heap, ofi::Ticket ticket) {
  for (int look = 0; look < 100; ++look) {
    if (heap.done(ticket)) return true;
    heap.poll();
  }
  return false;
}

TEST_CASE("reads_overtake_a_long_write_and_complete_only_after_their_copies") {
  Access access;
  fill(gpu_view(access.gpu), Access::kBytes, 8);
  Held held;
  const std::uint8_t* const from = gpu_view(access.gpu) + 4096;
  std::uint8_t* const to = access.staging.get() + 4096;
  const ofi::Ticket write = access.heap->start_write(0, access.staging.get(), 64);
  access.heap->poll();
  for (int round = 0; round < 20; ++round) {  // more than there are batches
    INFO(round);
    std::memset(to, 0, 64);
    REQUIRE(ends(*access.heap, access.heap->start_read(4096, to, 64)));
    REQUIRE(std::memcmp(to, from, 64) == 0);
    REQUIRE_FALSE(access.heap->done(write));
  }
  held.end();
  REQUIRE(ends(*access.heap, write));
}

/// Adds 2 from PE 0 to 40 on PE 1.
void fetch_and_add(Job& job) {
  auto& there = *reinterpret_cast<std::uint64_t*>(gpu_view(job[1].heap()) + 64);
  there = 40;
  Client& client = job[0].to(1);
  REQUIRE(client.ring_and_wait(client.fetch_add(64, 8, 2)).ok());
  CHECK(there == 42);
  CHECK(*reinterpret_cast<std::uint64_t*>(gpu_view(job[0].heap()) + 8) == 40);
  require_no_violations();
}

TEST_CASE("atomics_on_gpu_memory_do_not_use_providers_with_software_atomics", "[double]") {
  if (!have_double()) return;
  const std::string provider = GENERATE("efa/efa-direct", "efa/efa", "verbs;ofi_rxm");
  // An atomic of the provider itself would access memory that is not mapped for the CPU.
  fabric_double()->gpu_view = [](void* at) -> void* { return gpu_view(at); };
  Job job(2, {.provider = provider, .gdr = "on", .gpu_memory = gpu_allocate});
  cuda_double().reset();
  const std::string what = job[0].nic().describe();
  CHECK_THAT(what, Catch::Contains(", RMA") && Catch::Contains("atomics by messages"));
  CHECK_FALSE(job[0].nic().limits().coherent_atomics);
  fetch_and_add(job);
  CHECK(fabric_double()->taken[FabricDouble::kFetchAtomic] == 0);
}

TEST_CASE("a_signal_in_gpu_memory_is_never_visible_before_its_payload", "[double]") {
  if (!have_double()) return;
  Leg leg{
      .provider = "", .gdr = "on", .gpu_memory = gpu_allocate, .adverse = true, .trailing = true};
  leg.provider = GENERATE("efa/efa-direct", "efa/efa", "verbs;ofi_rxm");
  if (leg.provider == "efa/efa") leg.nics = 3;
  const bool sets = GENERATE(true, false);
  INFO(leg.name() << (sets ? ", set" : ", added to"));
  fabric_double()->gpu_view = [](void* at) -> void* { return gpu_view(at); };
  Job job(2, leg);
  cuda_double().reset();
  constexpr std::uint64_t kSignal = 64, kPayload = 4096;
  auto& signal = *reinterpret_cast<std::uint64_t*>(gpu_view(job[1].heap()) + kSignal);
  Client& client = job[0].to(1);
  for (std::uint64_t round = 1; round <= 60; ++round) {
    const std::uint64_t words = round % 10 == 0 ? 60'000 : round;
    auto* const from = reinterpret_cast<std::uint64_t*>(gpu_view(job[0].heap()) + kPayload);
    const auto* const to =
        reinterpret_cast<const std::uint64_t*>(gpu_view(job[1].heap()) + kPayload);
    std::fill(from, from + words, round);
    client.write(kPayload, kPayload, static_cast<std::uint32_t>(words * 8), kPlain);
    const std::uint64_t last =
        sets ? client.masked_swap(8, kSignal, 8, {round, 0, ~std::uint64_t{0}, 0}, kSignalled)
             : client.fetch_add(kSignal, 8, 1);
    client.ring();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::atomic_ref(signal).load(std::memory_order_acquire) != round)
      REQUIRE(std::chrono::steady_clock::now() < limit);
    REQUIRE(std::count(to, to + words, round) == static_cast<std::ptrdiff_t>(words));
    REQUIRE(client.wait(last).ok());
  }
  require_no_violations();
}

}  // namespace
}  // namespace gshmem::test
