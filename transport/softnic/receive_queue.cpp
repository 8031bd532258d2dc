#include "transport/softnic/receive_queue.h"

namespace gshmem::soft {
namespace {

/// mlx5_wqe_srq_next_seg: 16 bytes, of which 2 and 3 are the index of the next entry.
constexpr std::size_t kLinkBytes = 16;

}  // namespace

const std::uint8_t* ReceiveQueue::entry(std::uint32_t index) const {
  return static_cast<const std::uint8_t*>(attributes_.entries) +
         (std::size_t{index} << attributes_.log_entry_bytes);
}

bool ReceiveQueue::take(Receive* out) {
  // Word 0 of the record counts the posted entries (mlx5dv.h, MLX5_RCV_DBR). Pairs with the
  // client's store of it, which comes after that of the entries.
  const std::uint32_t record = __builtin_bswap32(
      __atomic_load_n(static_cast<const std::uint32_t*>(attributes_.record), __ATOMIC_ACQUIRE));
  if (static_cast<std::uint16_t>(record) == taken_) return false;
  const bool list = attributes_.order == ReceiveOrder::kList;
  const std::uint32_t index = (list ? next_ : taken_) & ((1u << attributes_.log_entries) - 1);
  const std::size_t skipped = attributes_.order == ReceiveOrder::kRing ? 0 : kLinkBytes;
  out->index = static_cast<std::uint16_t>(index);
  out->local = nic::decode_receive(entry(index) + skipped,
                                   (std::size_t{1} << attributes_.log_entry_bytes) - skipped);
  for (const nic::LocalPiece& piece : out->local) out->bytes += piece.bytes;
  // The link is read now: when the completion is polled, the client links the entry to its free
  // ones.
  if (list) next_ = static_cast<std::uint16_t>(entry(index)[2] << 8 | entry(index)[3]);
  ++taken_;
  return true;
}

}  // namespace gshmem::soft
