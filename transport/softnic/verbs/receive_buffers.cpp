#include "transport/softnic/verbs/receive_buffers.h"

#include <endian.h>

#include <cerrno>

namespace gshmem::soft {

void ReceiveBuffers::open(const Shape& shape) {
  shape_ = shape;
  ids_.resize(std::size_t{1} << shape.log_entries);
  reset();
}

void ReceiveBuffers::reset() {
  const std::lock_guard lock(mutex_);
  posted_ = completed_ = 0;
  if (!shape_.list) return;
  const auto count = static_cast<std::uint32_t>(ids_.size());
  for (std::uint32_t i = 0; i < count; ++i)
    link(i).next_wqe_index = htobe16(static_cast<std::uint16_t>((i + 1) % count));
  first_free_ = 0;
  last_free_ = count - 1;
}

/// Writes the data segments of an entry. One without a valid key ends the list if there is room for
/// more.
void ReceiveBuffers::write(std::uint32_t index, const ibv_recv_wr& request) {
  auto* segment = reinterpret_cast<mlx5_wqe_data_seg*>(
      entry(index) + (shape_.list ? sizeof(mlx5_wqe_srq_next_seg) : 0));
  const auto* end =
      reinterpret_cast<mlx5_wqe_data_seg*>(entry(index) + (1u << shape_.log_entry_bytes));
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge& piece = request.sg_list[i];
    // A length of 0 would stand for 2 GiB.
    if (piece.length != 0) mlx5dv_set_data_seg(segment++, piece.length, piece.lkey, piece.addr);
  }
  if (segment < end) mlx5dv_set_data_seg(segment, 0, MLX5_INVALID_LKEY, 0);
  ids_[index] = request.wr_id;
}

int ReceiveBuffers::post(ibv_recv_wr* request, ibv_recv_wr** bad) {
  const std::lock_guard lock(mutex_);
  int code = 0;
  for (; request != nullptr; request = request->next) {
    if (static_cast<std::uint32_t>(request->num_sge) > shape_.most_pieces)  // or below 0
      code = EINVAL;
    else if (posted_ - completed_ >= shape_.most_posted)
      code = ENOMEM;
    if (code != 0) break;
    std::uint32_t index = posted_ & static_cast<std::uint32_t>(ids_.size() - 1);
    if (shape_.list) {
      index = first_free_;
      first_free_ = be16toh(link(index).next_wqe_index);
    }
    write(index, *request);
    ++posted_;
  }
  if (code != 0) *bad = request;
  // Pairs with the engine's acquire.
  __atomic_store_n(shape_.record + MLX5_RCV_DBR, htobe32(posted_ & 0xffff), __ATOMIC_RELEASE);
  return code;
}

std::uint64_t ReceiveBuffers::complete(std::uint16_t index) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t which = index & static_cast<std::uint32_t>(ids_.size() - 1);
  ++completed_;
  if (shape_.list) {
    link(last_free_).next_wqe_index = htobe16(static_cast<std::uint16_t>(which));
    last_free_ = which;
  }
  return ids_[which];
}

}  // namespace gshmem::soft
