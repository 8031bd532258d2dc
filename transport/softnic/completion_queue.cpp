#include "transport/softnic/completion_queue.h"

#include <cstring>

namespace gshmem::soft {
namespace {

constexpr std::size_t kCqeWords = 16;           // an entry of 128 bytes has them in its second half
constexpr std::uint32_t kIndexMask = 0xffffff;  // cqc.consumer_counter has 24 bits

}  // namespace

bool CompletionQueue::full() const {
  // Word 0 of the record is the consumer index (mlx5dv.h, MLX5_CQ_SET_CI). Pairs with the client's
  // store, which comes after its loads of entries.
  const std::uint32_t raw =
      __atomic_load_n(static_cast<const std::uint32_t*>(attributes_.record), __ATOMIC_ACQUIRE);
  const std::uint32_t used =
      (static_cast<std::uint32_t>(produced_) - __builtin_bswap32(raw)) & kIndexMask;
  return used >= 1u << attributes_.log_entries;
}

void CompletionQueue::arm(bool named) {
  if (attributes_.record == nullptr) return;
  // Word 1 (mlx5dv.h, MLX5_CQ_DB_REQ_NOT). Pairs with the client's store, before its doorbell.
  const std::uint32_t wish = __builtin_bswap32(
      __atomic_load_n(static_cast<const std::uint32_t*>(attributes_.record) + 1, __ATOMIC_ACQUIRE));
  if (!named && wish == wish_) return;
  wish_ = wish;
  armed_ = true;
}

bool CompletionQueue::take_event() {
  // mlx5dv.h, MLX5_CQ_DB_REQ_NOT_SOL.
  constexpr std::uint32_t kSolicitedOnly = 1 << 24;
  const std::uint64_t end = (wish_ & kSolicitedOnly) != 0 ? solicited_ : produced_;
  const std::uint64_t ahead = (end - wish_) & kIndexMask;
  if (!armed_ || end <= notified_ || ahead == 0 || ahead > kIndexMask / 2) return false;
  armed_ = false;
  notified_ = produced_;
  return true;
}

bool CompletionQueue::write(nic::Completion completion) {
  if (!attributes_.ignore_overrun && full()) {
    overrun_ = true;
    return false;
  }
  const std::uint64_t mask = (std::uint64_t{1} << attributes_.log_entries) - 1;
  const std::uint64_t slot = attributes_.collapsed ? 0 : produced_ & mask;
  completion.owner = (produced_ >> attributes_.log_entries & 1) != 0;
  ++produced_;
  if (completion.solicited || completion.error) solicited_ = produced_;

  const auto bytes = nic::encode_completion(completion);
  std::uint32_t words[kCqeWords];
  std::memcpy(words, bytes.data(), sizeof words);
  const std::size_t end = (slot + 1) * attributes_.entry_bytes / sizeof(std::uint32_t);
  auto* entry = static_cast<std::uint32_t*>(attributes_.buffer) + end - kCqeWords;
  // The entry is stored word by word, because a client may be reading the previous entry in the
  // same slot.
  for (std::size_t i = 0; i + 1 < kCqeWords; ++i) {
    __atomic_store_n(entry + i, words[i], __ATOMIC_RELAXED);
  }
  // The last word has the counter and the byte that makes the entry valid. A client that reads it
  // sees the rest of the entry, and the data. Pairs with the clients' acquire load of it.
  __atomic_store_n(entry + kCqeWords - 1, words[kCqeWords - 1], __ATOMIC_RELEASE);
  return true;
}

}  // namespace gshmem::soft
