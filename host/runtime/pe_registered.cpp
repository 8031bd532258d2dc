// Registered memory of the program: the calls that make memory symmetric and that end this, and the
// table of local memory.
#include "host/base/log.h"
#include "host/runtime/pe.h"

#include <algorithm>

namespace gshmem {

void Pe::make_registered() {
  const p2p::PeerWindow& window = paths_->window();
  registered_ = std::make_unique<RegisteredMemory>(
      RegisteredMemory::Place{
          .begin = window.lent_begin(),
          .bytes = window.lent_bytes(),
          .granularity = std::max(window.lent_granularity(), abi::kGranuleBytes),
          .stride = static_cast<std::uint64_t>(window.stride())},
      table_memory());
  registered_->enter(state_);
}

void Pe::open_local_ranges() {
  if (!network_.queues()) return;
  state_.key_rails = static_cast<std::uint32_t>(network_.queues()->keys().rails());
  LocalRanges::Nics nics{
      .count = network_.queues()->keys().nics(),
      .add = [this](const void* addr, std::size_t bytes,
                    abi::Be32* keys) { network_.register_local(addr, bytes, keys); },
      .remove = [this](const void* addr) { network_.unregister_local(addr); }};
  const std::size_t bytes = LocalRanges::bytes_for(nics.count);
  if (!gpu_) host_local_ = std::make_unique<char[]>(bytes);
  state_.local = local_ranges_.open(
      std::move(nics), gpu_ ? gpu_->host_memory(bytes) : host_local_.get(), table_memory());
}

void Pe::require_registrable(const char* call, const SymmetricBuffer& buffer) const {
  require(buffer.flags == 0, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: argument flags = %d is not 0", call, buffer.flags));
  require(buffer.buffer != nullptr, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: argument buf_ptr is null", call));
  require(buffer.bytes > 0, GSHMEMX_ERROR_INVALID_VALUE, strprintf("%s: argument size = 0", call));
  require(buffer.bytes <= UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(buffer.buffer),
          GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: argument size = %zu is more than there is from buf_ptr = %p", call,
                    buffer.bytes, buffer.buffer));
  require(!paths_->window().overlaps(buffer.buffer, buffer.bytes), GSHMEMX_ERROR_INVALID_VALUE,
          [&] {
            return strprintf("%s: argument buf_ptr = %p (%zu bytes) is symmetric memory already",
                             call, buffer.buffer, buffer.bytes);
          });
  registered_->require_new(call, buffer.buffer, buffer.bytes);
}

/// Returns the address that all PEs prefer, if they agree.
std::optional<std::uint64_t> Pe::agreed_wish(const void* preferred) {
  const auto mine =
      preferred ? static_cast<std::uint64_t>(static_cast<const char*>(preferred) - state_.heap)
                : 0;  // the heap's first byte is never free
  const std::vector<std::uint64_t> all = allgather(ranks(), mine);
  const bool same = std::all_of(all.begin(), all.end(), [&](std::uint64_t o) { return o == mine; });
  return preferred && same ? std::optional(mine) : std::nullopt;
}

void* Pe::register_symmetric(const char* call, const SymmetricBuffer& buffer) {
  const auto alone = heap_->enter(call, {"argument size", buffer.bytes});
  const std::shared_ptr<void> in_gpu = gpu_ ? gpu_->enter() : nullptr;
  p2p::PeerWindow& window = paths_->window();
  p2p::LentMemory lent;
  step_of(call, [&] {
    require_registrable(call, buffer);
    try {
      lent = window.lend(buffer.buffer, buffer.bytes);
    } catch (const Error& error) {
      throw Error(error.code(),
                  strprintf("%s: argument buf_ptr = %p %s", call, buffer.buffer, error.what()));
    }
  });
  const std::uint64_t offset =
      registered_->reserve(call, buffer.bytes, agreed_wish(buffer.preferred));
  nic::MemoryKeys::OfRange keys;
  try {
    step_of(call, [&] {
      try {
        map_at(offset, lent, buffer.bytes);
      } catch (const Error& error) {
        throw Error(error.code(), strprintf("%s: %s", call, error.what()));
      }
    });
    keys = network_.exchange_keys(offset);
  } catch (...) {
    unmap_at(offset);
    registered_->release(offset);
    throw;
  }
  registered_->publish(offset, buffer.buffer, buffer.bytes, keys);
  GSHMEM_DEBUG("%s: %p (%zu bytes) at %p", call, buffer.buffer, buffer.bytes, state_.heap + offset);
  return state_.heap + offset;
}

/// A PE removes the memory only after all PEs have entered, with all their posted operations
/// complete.
void Pe::unregister_symmetric(const char* call, void* symmetric, std::size_t bytes) {
  const auto alone = heap_->enter(call, {"argument size", bytes});
  const std::shared_ptr<void> in_gpu = gpu_ ? gpu_->enter() : nullptr;
  const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(symmetric) - state_.heap);
  step_of(call, [&] {
    registered_->require_known(call, symmetric, offset, bytes);
    if (network_.in_use()) quiet_network();
  });
  const std::vector<std::uint64_t> all = allgather(ranks(), offset);
  for (std::size_t pe = 1; pe < all.size(); ++pe) {
    require(all[pe] == all[0], GSHMEMX_ERROR_SYMMETRY, [&] {
      return strprintf("%s: arguments differ: PE 0 passed offset %lu, PE %zu offset %lu", call,
                       all[0], pe, all[pe]);
    });
  }
  registered_->release(offset);
  unmap_at(offset);
}

}  // namespace gshmem
