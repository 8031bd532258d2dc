// The root service's view of a job, without sockets: the ranks that have joined, left or died, the
// current collective, and the frames to send to each rank. Included by root.cpp and its tests.
// Invariant: after the first failure only that failure is sent.
#pragma once

#include "host/base/failure.h"
#include "host/base/net/gathering.h"

#include <string>
#include <utility>

namespace gshmem::bootstrap {

class Job {
 public:
  /// `where` is added to errors about missing ranks, for example the address of the root service.
  explicit Job(std::string where = {}) : where_(std::move(where)) {}

  /// Adds a rank by its kHello. The rank has proved that it belongs to this job. A JobFailure has
  /// the reason for a refusal. The first rank sets the size of the job.
  [[nodiscard]] JobFailure join(const net::Frame& hello);
  void contribute(int rank, const net::Frame& contribution);
  void leave(int rank);
  /// The connection of `rank` ended without a goodbye; `why` completes "rank 3 died: ".
  void lost(int rank, const std::string& why);
  /// A rank has waited for `seconds` for collective `number`; 0 = for the others to join.
  void expired(std::uint64_t number, double seconds);
  /// Stores a possible reason why ranks are missing. It is sent to all waiting ranks at once, and
  /// again when their timeout has passed.
  void note(const std::string& reason);
  /// Ends the job for all ranks, unless it has failed already.
  void fail(const JobFailure& failure);

  /// Have all ranks joined?
  [[nodiscard]] bool complete() const { return joined_ > 0 && joined_ == members_.size(); }
  /// Has some rank joined, and have all that joined left?
  [[nodiscard]] bool deserted() const { return joined_ > 0 && gone_ == joined_; }
  [[nodiscard]] const JobFailure& failure() const { return failure_; }
  /// Returns the rank whose process runs the root service; -1 = no such rank has joined.
  [[nodiscard]] int root_rank() const { return root_rank_; }

  /// Returns the frames that the calls above decided to send, as (rank, frame), in order.
  [[nodiscard]] std::vector<std::pair<int, net::Frame>> take_outgoing() {
    return std::exchange(outgoing_, {});
  }

 private:
  struct Member {
    bool joined = false;
    bool gone = false;  ///< it has left or died
  };

  void send_to_all(const net::Frame& frame);
  void finish_collective();
  /// Fails the job when a rank that has left is waited for.
  void check_gone();
  [[nodiscard]] std::vector<int> missing() const;
  [[nodiscard]] const char* operation() const;

  std::string where_;
  std::vector<Member> members_;
  std::size_t joined_ = 0, gone_ = 0;
  net::Gathering gathering_{0};
  int first_ = -1;  ///< the rank whose bytes the others have to match; -1 = no rank has arrived
  int root_rank_ = -1;
  JobFailure failure_;
  std::string note_;  ///< the last note
  int notes_ = 0;     ///< number of notes that the ranks received
  std::vector<std::pair<int, net::Frame>> outgoing_;
};

}  // namespace gshmem::bootstrap
