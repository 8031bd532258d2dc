#include "transport/ofi/mapped_access.h"

#include <cstring>
#include <limits>
#include <utility>

namespace gshmem::ofi {
namespace {

/// This is never a ticket of an engine: those count up from 0.
constexpr Ticket kMappedTicket = std::numeric_limits<Ticket>::max();

}  // namespace

Ticket MappedAccess::start_write(std::uint64_t offset, const void* from, std::size_t bytes) {
  if (bytes == 0) return kNoTicket;
  if (bytes > kMaxWrite || !in_range(offset, bytes, mapping_.bytes())) {
    settle();
    return engine_->start_write(offset, from, bytes);
  }
  mapping_.write(offset, from, bytes);
  unsettled_ = true;
  last_written_ = offset;
  return kMappedTicket;
}

Ticket MappedAccess::start_read(std::uint64_t offset, void* to, std::size_t bytes) {
  if (bytes == 0) return kNoTicket;
  if (bytes > kMaxRead || !in_range(offset, bytes, mapping_.bytes())) {
    settle();
    return engine_->start_read(offset, to, bytes);
  }
  mapping_.read(offset, to, bytes);
  unsettled_ = false;  // a read completes the writes before it
  return kNoTicket;
}

bool MappedAccess::done(Ticket ticket) {
  if (ticket != kMappedTicket) return engine_->done(ticket);
  settle();
  return true;
}

void MappedAccess::settle() {
  if (std::exchange(unsettled_, false)) mapping_.settle(last_written_);
}

Ticket MappedAccess::start_atomic(std::uint64_t offset, const nic::Wqe& wqe, std::uint64_t* old) {
  if (!in_range(offset, wqe.length, mapping_.bytes())) {
    settle();
    return engine_->start_atomic(offset, wqe, old);
  }
  std::uint64_t found = 0;
  (void)start_read(offset, &found, wqe.length);  // little-endian, as all hosts of NVIDIA GPUs
  const std::uint64_t result = nic::atomic_result(wqe, found);
  if (old != nullptr) *old = found;
  return result != found ? start_write(offset, &result, wqe.length) : kNoTicket;
}

}  // namespace gshmem::ofi
