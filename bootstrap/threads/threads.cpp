// Ranks that are threads of one process, or a single rank. They use a board in memory of the
// process.
#include "bootstrap/bootstrap.h"
#include "host/base/board.h"
#include "host/base/failure.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace gshmem::bootstrap {
namespace {

/// Memory for a board. Ownership is shared: the ranks belong to threads that end in any order.
std::shared_ptr<void> board_memory(int size) {
  constexpr std::align_val_t kAlignment{Board::kAlignment};
  const std::size_t bytes = Board::bytes_of(size);
  void* const memory = std::memset(::operator new(bytes, kAlignment), 0, bytes);
  return {memory, [](void* at) { ::operator delete(at, kAlignment); }};
}

class ThreadRank final : public Bootstrap {
 public:
  ThreadRank(const char* name, std::shared_ptr<void> memory, int rank, int size,
             double timeout_seconds)
      : name_(name),
        memory_(std::move(memory)),
        board_(memory_.get(), rank, size),
        rank_(rank),
        size_(size),
        timeout_seconds_(timeout_seconds) {}
  ThreadRank(const ThreadRank&) = delete;
  ThreadRank& operator=(const ThreadRank&) = delete;
  ~ThreadRank() override { board_.depart(); }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  const char* name() const noexcept override { return name_; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    if (failure_) failure_.raise();
    const Deadline deadline(timeout_seconds_);
    std::size_t at = 0;
    do {
      board_.bring(static_cast<const char*>(send) + at, bytes - at);
      await(deadline, bytes);
      char* to = static_cast<char*>(recv) + at;
      for (int rank = 0; rank < size_; ++rank, to += bytes) {
        const Board::Piece piece = board_.of(rank);
        if (piece.left != bytes - at) fail_sizes(bytes, rank, at + piece.left);
        std::copy_n(piece.data, piece.bytes, to);
      }
      at += Board::kPieceBytes;
    } while (at < bytes);
  }

 private:
  /// Returns the missing ranks whose threads have left.
  [[nodiscard]] std::vector<int> departed() const {
    std::vector<int> ranks = board_.missing(board_.number());
    std::erase_if(ranks, [this](int rank) { return !board_.departed(rank); });
    return ranks;
  }

  void await(const Deadline& deadline, std::size_t bytes) {
    const char* const operation = bytes == 0 ? "barrier" : "allgather";
    const Board::Waited waited = board_.await_all(deadline, [this] { return !departed().empty(); });
    if (waited == Board::Waited::kDone) return;
    if (waited == Board::Waited::kTimeout) {
      failure_ = failure_timeout(operation, timeout_seconds_, board_.missing(board_.number()));
    } else {
      failure_ = {
          GSHMEMX_ERROR_PEER_FAILED,
          rank_list(departed()) + " left the job while others wait in bootstrap " + operation};
    }
    failure_.raise();
  }

  [[noreturn]] void fail_sizes(std::size_t mine, int rank, std::size_t theirs) {
    failure_ = {
        GSHMEMX_ERROR_SYMMETRY,
        strprintf("bootstrap allgather of %zu bytes, but rank %d passes %zu", mine, rank, theirs)};
    failure_.raise();
  }

  const char* name_;
  std::shared_ptr<void> memory_;
  Board board_;
  int rank_, size_;
  double timeout_seconds_;
  JobFailure failure_;
};

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> create_threads(int size, double timeout_seconds) {
  const std::shared_ptr<void> memory = board_memory(size);
  std::vector<std::unique_ptr<Bootstrap>> ranks;
  for (int r = 0; r < size; ++r)
    ranks.push_back(std::make_unique<ThreadRank>("threads", memory, r, size, timeout_seconds));
  return ranks;
}

std::unique_ptr<Bootstrap> create_single() {
  return std::make_unique<ThreadRank>("single", board_memory(1), 0, 1, 0);
}

}  // namespace gshmem::bootstrap
