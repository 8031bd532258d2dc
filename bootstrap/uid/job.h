// The root service's view of a job, without sockets: who has joined, left or died, the collective
// under way, and what every rank is to be told. Included by root.cpp and its tests. Invariant:
// after the first failure nothing but that failure is ever said again.
#pragma once

#include "host/base/failure.h"
#include "host/base/net/gathering.h"

#include <string>
#include <utility>

namespace gshmem::bootstrap {

class Job {
 public:
  /// `where`: what ranks that miss others may want to know, such as where they find the root
  /// service.
  explicit Job(std::string where = {}) : where_(std::move(where)) {}

  /// Takes a rank in that has proved that it is of this job, by its kHello; a JobFailure says why
  /// not. The first one fixes the size of the job.
  [[nodiscard]] JobFailure join(const net::Frame& hello);
  void contribute(int rank, const net::Frame& contribution);
  void leave(int rank);
  /// The connection of `rank` ended without a goodbye; `why` completes "rank 3 died: ".
  void lost(int rank, const std::string& why);
  /// A rank has waited for collective `number` for so long; 0 = for the others to join.
  void expired(std::uint64_t number, double seconds);
  /// What may be the reason when ranks are missing. All that wait are told at once, and again when
  /// their time is up.
  void note(const std::string& reason);
  /// Ends the job for everyone, unless it has failed already.
  void fail(const JobFailure& failure);

  /// Every rank has joined.
  [[nodiscard]] bool complete() const { return joined_ > 0 && joined_ == members_.size(); }
  /// Someone has joined, and nobody is left.
  [[nodiscard]] bool deserted() const { return joined_ > 0 && gone_ == joined_; }
  [[nodiscard]] const JobFailure& failure() const { return failure_; }
  /// The rank whose process runs the root service; -1 = none that has joined.
  [[nodiscard]] int root_rank() const { return root_rank_; }

  /// What the calls above decided to send, as (rank, frame), in order.
  [[nodiscard]] std::vector<std::pair<int, net::Frame>> take_outgoing() {
    return std::exchange(outgoing_, {});
  }

 private:
  struct Member {
    bool joined = false;
    bool gone = false;  ///< left or died
  };

  void tell_all(const net::Frame& frame);
  void finish_collective();
  /// Fails when someone who has gone is waited for.
  void check_gone();
  [[nodiscard]] std::vector<int> missing() const;
  [[nodiscard]] const char* operation() const;

  std::string where_;
  std::vector<Member> members_;
  std::size_t joined_ = 0, gone_ = 0;
  net::Gathering gathering_{0};
  int first_ = -1;  ///< the rank whose bytes the others have to match; -1 = nobody has come
  int root_rank_ = -1;
  JobFailure failure_;
  std::string note_;  ///< the last one
  int notes_ = 0;     ///< of which the ranks were told
  std::vector<std::pair<int, net::Frame>> outgoing_;
};

}  // namespace gshmem::bootstrap
