// Growth of the heap: all PEs add memory together, or none does. The addresses are reserved since
// init. So running kernels, streams and graphs need no update: they find the new memory in the same
// way as registered memory of the program.
#include "host/base/log.h"
#include "host/base/run_phase.h"
#include "host/runtime/pe.h"

#include <algorithm>

namespace gshmem {

SymmetricHeap::Growth Pe::growth() {
  const Config& config = options_.config;
  SymmetricHeap::Growth growth;
  if (!config.symmetric_growth) return growth;
  const p2p::PeerWindow& window = paths_->window();
  growth.granularity = std::max(window.lent_granularity(), abi::kGranuleBytes);
  growth.limit = config.symmetric_size + window.lent_bytes();
  const bool is_set = config.symmetric_limit != 0 && config.symmetric_limit <= growth.limit;
  if (is_set) growth.limit = config.symmetric_limit;
  const std::uint64_t steps = std::min(config.symmetric_part, growth.limit) / growth.granularity;
  growth.step = std::max<std::uint64_t>(steps, 1) * growth.granularity;
  if (growth.limit > config.symmetric_size) {
    growth.advice = is_set ? "; raise GSHMEM_SYMMETRIC_LIMIT"
                           : strprintf("; this %s has no more memory or addresses for it",
                                       gpu_ ? "GPU" : "host");
  }
  growth.add = [this](std::uint64_t bytes, std::uint64_t alignment) {
    return add_to_heap(bytes, alignment);
  };
  return growth;
}

std::uint64_t Pe::add_to_heap(std::uint64_t bytes, std::uint64_t alignment) {
  constexpr const char* kFailed = "it failed";
  const std::shared_ptr<void> in_gpu = gpu_ ? gpu_->enter() : nullptr;
  p2p::LentMemory more;
  std::uint64_t offset = 0;
  bool reserved = false;
  const auto undo = [&] {
    if (!reserved) return;
    unmap_at(offset);
    registered_->release(offset);
  };
  try {
    run_phase(
        ranks(),
        [&] {
          offset = registered_->reserve_part(bytes, alignment);
          reserved = true;
          more = paths_->window().make_more(bytes, heap_->capacity());
        },
        kFailed);
    run_phase(
        ranks(), [&] { map_at(offset, more, bytes); }, kFailed);
    registered_->publish(offset, nullptr, bytes, network_.exchange_keys(offset));
  } catch (...) {
    undo();
    throw;
  }
  return offset;
}

void Pe::map_at(std::uint64_t offset, const p2p::LentMemory& lent, std::uint64_t bytes) {
  paths_->window().map_lent(offset, lent);
  char* at = state_.heap + offset;
  for (const p2p::LentMemory::Piece& piece : lent.pieces) {
    if (gpu_) gpu_->complete_memory_calls_on(at);
    at += piece.bytes;
  }
  network_.register_memory(offset, bytes);
  registered_->prepare(offset);
}

void Pe::unmap_at(std::uint64_t offset) noexcept {
  network_.unregister_memory(offset);
  paths_->window().unmap_lent(offset);
}

}  // namespace gshmem
