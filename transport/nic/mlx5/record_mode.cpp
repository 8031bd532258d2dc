#include "transport/nic/mlx5/record_mode.h"

#include "host/base/log.h"
#include "transport/nic/mlx5/connection.h"
#include "transport/nic/mlx5/memory.h"
#include "transport/nic/mlx5/registers.h"

#include <gshmem/abi/doorbell_cpu.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>

namespace gshmem::nic::mlx5 {
namespace {

struct Free {
  void operator()(std::uint8_t* memory) const { std::free(memory); }
};

/// Entries, then a completion, then both records, each on a page of its own.
constexpr std::uint64_t kPage = 4096, kHostPage = 65536;
constexpr QueuePlace kPlace{.completion = kPage,
                            .record = 2 * kPage,
                            .cq_record = 2 * kPage + 64,
                            .depth = abi::kMinQueueDepth};
static_assert(abi::kMinQueueDepth * abi::kWqebbBytes <= kPage);

/// Posts a NOP and rings. Returns whether it completes without an error.
bool completes_nop(const Connection& queue, std::uint8_t* memory) {
  const std::uint32_t number = queue.number();
  auto* entry = new (memory) abi::ControlSegment{};
  entry->number_ds = abi::Be32(number << 8 | 1);
  entry->flags = abi::kCqUpdate;
  abi::store_register(queue.created().doorbell, abi::doorbell_value(1, number));
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kPatience(2);
  const auto* last = memory + kPlace.completion + sizeof(abi::CompletionEntry) - 1;
  for (const auto end = Clock::now() + kPatience; Clock::now() < end;
       std::this_thread::sleep_for(std::chrono::microseconds(50))) {
    // Pairs with the write of the completion by the device.
    const auto opcode =
        static_cast<abi::CompletionOpcode>(__atomic_load_n(last, __ATOMIC_ACQUIRE) >> 4);
    if (opcode != abi::CompletionOpcode::kInvalid)
      return opcode == abi::CompletionOpcode::kRequester;
  }
  return false;
}

/// Tries a queue. Returns the reason if it does not work.
std::string try_queue(const Device& device) {
  constexpr std::uint64_t kBytes = kHostPage;
  const std::unique_ptr<std::uint8_t, Free> memory(
      static_cast<std::uint8_t*>(std::aligned_alloc(kHostPage, kBytes)));
  if (memory == nullptr) return "out of memory";
  std::memset(memory.get(), 0, kBytes);
  new (memory.get() + kPlace.completion) abi::CompletionEntry(no_completion());
  try {
    const OwnedUmem umem =
        register_queues(device, {.base = memory.get(), .bytes = kBytes, .kind = MemoryKind::kHost});
    DoorbellRegisters bells(device);
    Connection queue(device, {umem->umem_id, bells.take()}, kPlace, 0);
    queue.connect(queue.info(), -1);
    return completes_nop(queue, memory.get()) ? "" : "its NOP did not complete, or failed";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

bool does_without_records(Device& device, std::uint64_t queues, TriedDevices& tried) {
  const Switch wanted = device.config.doorbell_record;
  const std::uint32_t log_most = device.caps.log_no_record_queues;
  const std::uint64_t most = log_most == 0 ? UINT64_MAX : std::uint64_t{1} << log_most;
  const bool has = device.caps.no_record, can = has && queues <= most;
  if (wanted == Switch::kOn) return false;
  require(can || wanted != Switch::kOff, GSHMEMX_ERROR_CONFIG,
          has ? strprintf("GSHMEM_DOORBELL_RECORD=off: %s has at most %lu queues without doorbell "
                          "records, and this PE may make %lu: use auto, or fewer queues "
                          "(GSHMEM_QPS_PER_PE, GSHMEM_CONTEXTS)",
                          device.name.c_str(), most, queues)
              : "GSHMEM_DOORBELL_RECORD=off: " + device.name +
                    " has no queues without doorbell records");
  if (wanted == Switch::kOff) return true;
  if (has && !can)
    GSHMEM_INFO(
        "network: %s: queues have doorbell records, because it has at most %lu without, "
        "and this PE may make %lu",
        device.name.c_str(), most, queues);
  if (!can) return false;
  const auto known = tried.find(device.name);
  if (known != tried.end()) return known->second;
  const std::string why = try_queue(device);
  if (!why.empty())
    GSHMEM_WARN("network: %s: queues have doorbell records, because one without failed: %s",
                device.name.c_str(), why.c_str());
  return tried[device.name] = why.empty();
}

}  // namespace gshmem::nic::mlx5
