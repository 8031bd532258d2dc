// N ranks in one process: a shared group, one mutex, one condition variable. Data is double
// buffered by the parity of the collective's number: a rank can be at most one collective ahead of
// the slowest, so the slots it writes are never those that another rank still reads.
#include "bootstrap/bootstrap.h"
#include "bootstrap/deadline.h"
#include "bootstrap/failure.h"

#include <algorithm>
#include <array>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <span>

namespace gshmem::bootstrap {
namespace {

class Group {
 public:
  Group(int size, double timeout_seconds)
      : members_(static_cast<std::size_t>(size)), timeout_seconds_(timeout_seconds) {}

  [[nodiscard]] int size() const noexcept { return static_cast<int>(members_.size()); }

  /// A part of what a rank brings to a collective: `at` bytes from its beginning.
  struct Part {
    std::size_t at, bytes;
  };
  /// Brings `mine`, and copies `part` of what each rank brings to `recv`.
  void collective(int rank, const char* operation, std::span<const std::byte> mine, Part part,
                  void* recv) {
    raise_if_failed();
    Member& me = members_[static_cast<std::size_t>(rank)];
    const std::size_t parity = me.entered % 2;
    me.slots[parity].assign(mine.begin(), mine.end());
    meet(me, operation, mine.size());
    auto* out = static_cast<std::byte*>(recv);
    for (const Member& member : members_) {
      if (part.bytes > 0) std::memcpy(out, member.slots[parity].data() + part.at, part.bytes);
      out += part.bytes;
    }
  }

  void fail(const Failure& failure) {
    const std::lock_guard lock(mutex_);
    fail_locked(failure);
  }

  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    Member& member = members_[static_cast<std::size_t>(rank)];
    member.departed = true;
    least_departed_ = std::min(least_departed_, member.entered);
    changed_.notify_all();
  }

 private:
  struct Member {
    unsigned long entered = 0;  ///< collectives this rank has entered
    std::size_t bytes = 0;      ///< contribution to the collective it entered last
    bool departed = false;
    std::array<std::vector<std::byte>, 2> slots;
  };

  /// Before a slot is written: after a failed collective another rank may still read it.
  void raise_if_failed() {
    const std::lock_guard lock(mutex_);
    if (failure_) failure_.raise();
  }

  /// Enters the next collective and waits until every rank has.
  void meet(Member& me, const char* operation, std::size_t bytes) {
    const Deadline deadline(timeout_seconds_);
    std::unique_lock lock(mutex_);
    if (failure_) failure_.raise();
    me.bytes = bytes;
    const unsigned long mine = ++me.entered;
    if (++arrived_[mine % 2] == members_.size()) {
      arrived_[mine % 2] = 0;
      done_ = mine;
      changed_.notify_all();
    }
    const bool ended = deadline.wait(
        changed_, lock, [&] { return failure_ || done_ >= mine || least_departed_ < mine; });
    if (done_ >= mine) return check_sizes(mine, bytes);
    const auto gone = missing(mine, Presence::kDeparted);
    if (!gone.empty()) {
      fail_locked({GSHMEMX_ERROR_PEER_FAILED,
                   rank_list(gone) + " left the job while others wait in bootstrap " + operation});
    }
    if (!ended)
      fail_locked(failure_timeout(operation, timeout_seconds_, missing(mine, Presence::kAny)));
    failure_.raise();
  }

  enum class Presence { kAny, kDeparted };
  [[nodiscard]] std::vector<int> missing(unsigned long collective, Presence which) const {
    std::vector<int> ranks;
    for (std::size_t r = 0; r < members_.size(); ++r) {
      if (members_[r].entered >= collective) continue;
      if (which == Presence::kAny || members_[r].departed) ranks.push_back(static_cast<int>(r));
    }
    return ranks;
  }

  /// A rank that has gone on to the next collective agreed on this one, so it is not compared.
  void check_sizes(unsigned long collective, std::size_t bytes) {
    for (std::size_t r = 0; r < members_.size(); ++r) {
      if (members_[r].entered != collective || members_[r].bytes == bytes) continue;
      fail_locked({GSHMEMX_ERROR_SYMMETRY,
                   strprintf("bootstrap allgather of %zu bytes, but rank %zu passes %zu", bytes, r,
                             members_[r].bytes)});
      failure_.raise();
    }
  }

  void fail_locked(const Failure& failure) {
    if (!failure_) failure_ = failure;  // the first cause is the one worth reporting
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Member> members_;
  std::array<std::size_t, 2> arrived_{};      ///< ranks in a collective that not all have entered
  unsigned long done_ = 0;                    ///< collectives that all have entered
  unsigned long least_departed_ = ULONG_MAX;  ///< collectives of the departed rank with the fewest
  Failure failure_;
  double timeout_seconds_;
};

class ThreadRank final : public Bootstrap {
 public:
  ThreadRank(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}
  ThreadRank(const ThreadRank&) = delete;
  ThreadRank& operator=(const ThreadRank&) = delete;
  ~ThreadRank() override { group_->leave(rank_); }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return group_->size(); }
  const char* name() const noexcept override { return "threads"; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    group_->collective(rank_, "allgather", {static_cast<const std::byte*>(send), bytes}, {0, bytes},
                       recv);
  }
  void alltoall(const void* send, void* recv, std::size_t bytes) override {
    const auto n = static_cast<std::size_t>(size()), me = static_cast<std::size_t>(rank_);
    group_->collective(rank_, "alltoall", {static_cast<const std::byte*>(send), n * bytes},
                       {me * bytes, bytes}, recv);
  }
  void barrier() override { group_->collective(rank_, "barrier", {}, {0, 0}, nullptr); }
  void abort(int code, std::string_view reason) noexcept override {
    group_->fail(failure_abort(rank_, code, reason));
  }

 private:
  // Shared: the ranks belong to threads that end in any order.
  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> create_threads(int size, double timeout_seconds) {
  require(size >= 1, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("a job needs at least one rank, not %d", size));
  const auto group = std::make_shared<Group>(size, timeout_seconds);
  std::vector<std::unique_ptr<Bootstrap>> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(std::make_unique<ThreadRank>(group, r));
  return ranks;
}

}  // namespace gshmem::bootstrap
