#include "transport/softnic/verbs/send_queue.h"

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gshmem::soft {
namespace {

constexpr std::size_t kUnitBytes = 16, kSlotBytes = MLX5_SEND_WQE_BB;

std::uint8_t control_flags(unsigned flags, bool signal_all) {
  unsigned value = 0;
  if (signal_all || (flags & IBV_SEND_SIGNALED) != 0) value |= MLX5_WQE_CTRL_CQ_UPDATE;
  if ((flags & IBV_SEND_SOLICITED) != 0) value |= MLX5_WQE_CTRL_SOLICITED;
  if ((flags & IBV_SEND_FENCE) != 0) value |= MLX5_WQE_CTRL_FENCE;
  return static_cast<std::uint8_t>(value);
}

}  // namespace

void SendQueue::open(const Shape& shape) {
  shape_ = shape;
  posted_.resize(std::size_t{1} << shape.log_entries);
}

void SendQueue::reset() {
  const std::lock_guard guard(mutex_);
  entry_ = rung_ = request_ = started_ = 0;
  done_.store(0, std::memory_order_relaxed);  // the queue pair is at rest
}

/// Returns the next segment of the entry, all zero.
template <class Segment>
Segment* SendQueue::add() {
  static_assert(sizeof(Segment) % kUnitBytes == 0);
  auto* segment = reinterpret_cast<Segment*>(image_.data() + bytes_);
  std::memset(static_cast<void*>(segment), 0, sizeof(Segment));
  bytes_ += sizeof(Segment);
  return segment;
}

void SendQueue::header(std::uint8_t opcode, std::uint64_t id, unsigned flags, __be32 immediate) {
  bytes_ = 0;
  id_ = id;
  has_address_ = !shape_.addressed;
  has_data_ = false;
  // Pairs with complete().
  const std::uint32_t open = request_ - done_.load(std::memory_order_acquire);
  if (open >= shape_.most_requests) fail(ENOMEM);
  mlx5dv_set_ctrl_seg(add<mlx5_wqe_ctrl_seg>(), static_cast<std::uint16_t>(entry_), opcode, 0,
                      shape_.number, control_flags(flags, shape_.signal_all), 0, 0, immediate);
  if (shape_.addressed) add<mlx5_wqe_av>();
}

mlx5_wqe_av& SendQueue::address(const mlx5_wqe_av& value, std::uint32_t number) {
  auto& segment = *reinterpret_cast<mlx5_wqe_av*>(image_.data() + sizeof(mlx5_wqe_ctrl_seg));
  segment = value;
  segment.dqp_dct |= htobe32(number);
  has_address_ = true;
  return segment;
}

void SendQueue::to(const mlx5_wqe_av& value, std::uint32_t number, std::uint32_t queue_key) {
  address(value, number).key.qkey.qkey = htobe32(queue_key);
  if (has_data_) finish();
}

void SendQueue::to_target(const mlx5_wqe_av& value, std::uint32_t number,
                          std::uint64_t access_key) {
  address(value, number).key.dc_key = htobe64(access_key);
  if (has_data_) finish();
}

void SendQueue::set_data() {
  has_data_ = true;
  if (has_address_) finish();
}

void SendQueue::remote(std::uint64_t address, std::uint32_t key) {
  auto* segment = add<mlx5_wqe_raddr_seg>();
  segment->raddr = htobe64(address);
  segment->rkey = htobe32(key);
}

void SendQueue::atomic(std::uint64_t swap_or_add, std::uint64_t compare) {
  auto* segment = add<mlx5_wqe_atomic_seg>();
  segment->swap_add = htobe64(swap_or_add);
  segment->compare = htobe64(compare);
}

void SendQueue::pieces(const ibv_sge* pieces, std::size_t count) {
  if (count > shape_.most_pieces) return fail(EINVAL);
  for (std::size_t i = 0; i < count; ++i) {
    // A length of 0 would stand for 2 GiB.
    if (pieces[i].length == 0) continue;
    mlx5dv_set_data_seg(add<mlx5_wqe_data_seg>(), pieces[i].length, pieces[i].lkey, pieces[i].addr);
  }
  set_data();
}

void SendQueue::inlined(const ibv_data_buf* buffers, std::size_t count) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += buffers[i].length;
  if (bytes > shape_.most_inline) return fail(ENOMEM);
  if (bytes > 0) {
    const __be32 head = htobe32(MLX5_INLINE_SEG | static_cast<std::uint32_t>(bytes));
    std::memcpy(image_.data() + bytes_, &head, sizeof head);
    bytes_ += sizeof head;
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(image_.data() + bytes_, buffers[i].addr, buffers[i].length);
      bytes_ += buffers[i].length;
    }
    while (bytes_ % kUnitBytes != 0) image_[bytes_++] = 0;
  }
  set_data();
}

void SendQueue::finish() {
  if (error_ != 0) return;
  auto* control = reinterpret_cast<mlx5_wqe_ctrl_seg*>(image_.data());
  control->qpn_ds |= htobe32(static_cast<std::uint32_t>(bytes_ / kUnitBytes));
  std::memcpy(&last_, control, sizeof last_);
  const std::uint32_t mask = (1u << shape_.log_entries) - 1;
  posted_[entry_ & mask] = {id_, request_++};
  for (std::size_t at = 0; at < bytes_; at += kSlotBytes) {
    std::memcpy(shape_.entries + (entry_++ & mask) * kSlotBytes, image_.data() + at,
                std::min(kSlotBytes, bytes_ - at));
  }
}

void SendQueue::ring() {
  error_ = 0;
  started_ = request_;
  if (entry_ == rung_) return;
  rung_ = entry_;
  // Record, then doorbell; each pairs with the engine's acquiring load.
  __atomic_store_n(shape_.record + MLX5_SND_DBR, htobe32(entry_ & 0xffff), __ATOMIC_RELEASE);
  __atomic_store_n(static_cast<std::uint64_t*>(shape_.doorbell), last_, __ATOMIC_RELEASE);
}

int SendQueue::ring_all_or_none() {
  const int code = error_;
  code == 0 ? ring() : abandon();
  return code;
}

void SendQueue::abandon() {
  entry_ = rung_;
  request_ = started_;
  error_ = 0;
}

std::uint64_t SendQueue::complete(std::uint16_t index) {
  const Posted posted = posted_[index & ((1u << shape_.log_entries) - 1)];
  done_.store(posted.request + 1, std::memory_order_release);  // pairs with header()
  return posted.id;
}

}  // namespace gshmem::soft
