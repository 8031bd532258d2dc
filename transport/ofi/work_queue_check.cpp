// What a WQE may ask for.
#include "transport/ofi/memory_access.h"
#include "transport/ofi/work_queue.h"

namespace gshmem::ofi {

Failure WorkQueue::check(const nic::Wqe& wqe, const QueueServices& services) const {
  const auto expected = static_cast<std::uint16_t>(next_);
  if (wqe.index != expected || wqe.number != number_)
    return failure(abi::Syndrome::kLocalOperation,
                   strprintf("entry %u of queue 0x%x says it is entry %u of queue 0x%x", expected,
                             number_, wqe.index, wqe.number));
  if (next_ + wqe.entries() > rung_)
    return failure(abi::Syndrome::kLocalOperation,
                   strprintf("WQE of %u entries, but the doorbell announces %llu", wqe.entries(),
                             ull(rung_ - next_)));
  if (wqe.length > services.max_message)
    return failure(abi::Syndrome::kLocalLength, strprintf("%llu bytes in one WQE, at most %u",
                                                          ull(wqe.length), services.max_message));
  if (wqe.kind == nic::WqeKind::kNop) return {};
  if (Failure why = check_local(wqe, services)) return why;
  if (wqe.kind == nic::WqeKind::kDump) return {};
  return check_remote(wqe);
}

Failure WorkQueue::check_local(const nic::Wqe& wqe, const QueueServices& services) const {
  for (const nic::LocalPiece& piece : wqe.local) {
    if (piece.key != services.local_key)
      return failure(
          abi::Syndrome::kLocalProtection,
          strprintf("local key 0x%x is not that of the heap, 0x%x", piece.key, services.local_key));
    if (!in_range(piece.address, piece.bytes, services.heap_bytes))
      return failure(
          abi::Syndrome::kLocalProtection,
          strprintf("local offset 0x%llx + %u bytes lies outside of the heap of %llu bytes",
                    ull(piece.address), piece.bytes, ull(services.heap_bytes)));
  }
  return {};
}

Failure WorkQueue::check_remote(const nic::Wqe& wqe) const {
  if (wqe.remote_key != peer_->remote_key)
    return failure(abi::Syndrome::kRemoteAccess,
                   strprintf("remote key 0x%x is not that of PE %d's heap, 0x%x", wqe.remote_key,
                             peer_->pe, peer_->remote_key));
  if (!in_range(wqe.remote_address, wqe.length, peer_->heap_bytes))
    return failure(
        abi::Syndrome::kRemoteAccess,
        strprintf("remote offset 0x%llx + %llu bytes lies outside of PE %d's heap of %llu bytes",
                  ull(wqe.remote_address), ull(wqe.length), peer_->pe, ull(peer_->heap_bytes)));
  if (wqe.is_atomic() && wqe.remote_address % wqe.length != 0)
    return failure(abi::Syndrome::kRemoteRequest,
                   strprintf("atomic of %llu bytes at remote offset 0x%llx, which is not aligned",
                             ull(wqe.length), ull(wqe.remote_address)));
  return {};
}

}  // namespace gshmem::ofi
