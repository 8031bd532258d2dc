// The root service's view of a job, without sockets: who has joined, left or died, the collective
// under way, and what every rank is to be told. Included by root.cpp and its tests. Invariant:
// after the first failure nothing but that failure is ever said again.
#pragma once

#include "bootstrap/failure.h"
#include "bootstrap/uid/wire.h"

#include <utility>

namespace gshmem::bootstrap {

/// A frame on its way. Shared: one result goes to every rank.
using Frame = std::shared_ptr<const Bytes>;

/// Where anyone can know the cookie, ranks may be strangers: they get less memory.
enum class CookieKind { kSecret, kPublic };

class Job {
 public:
  explicit Job(const Cookie& cookie, CookieKind kind = CookieKind::kSecret)
      : cookie_(cookie), kind_(kind) {}

  /// Takes a rank in; a Failure says why not. The first one fixes the size of the job.
  [[nodiscard]] Failure join(const Hello& hello);
  void gather(int rank, const Gather& gather);
  void leave(int rank);
  /// The connection of `rank` ended without a goodbye; `why` completes "rank 3 died: ".
  void lost(int rank, const std::string& why);
  void abort(int rank, const Abort& abort);
  void expired(const Expired& expired);
  /// What may be the reason when ranks are missing, once their time is up.
  void note(const std::string& reason) { note_ = reason; }
  /// Ends the job for everyone, unless it has failed already.
  void fail(const Failure& failure);

  /// Every rank has joined.
  [[nodiscard]] bool complete() const { return joined_ > 0 && joined_ == members_.size(); }
  /// Someone has joined, and nobody is left.
  [[nodiscard]] bool deserted() const { return joined_ > 0 && gone_ == joined_; }
  [[nodiscard]] const Failure& failure() const { return failure_; }
  /// The rank whose process runs the root service; -1 = none that has joined.
  [[nodiscard]] int root_rank() const { return root_rank_; }

  /// What the calls above decided to send, as (rank, frame), in order.
  [[nodiscard]] std::vector<std::pair<int, Frame>> take_outgoing() {
    return std::exchange(outgoing_, {});
  }

 private:
  struct Member {
    bool joined = false;
    bool gone = false;          ///< left or died
    std::uint64_t entered = 0;  ///< number of the collective it contributed to last
  };
  struct Collective {
    Operation operation = Operation::kAllgather;
    std::size_t bytes = 0;
    int first = -1;  ///< the rank whose operation and bytes the others have to match
    std::size_t contributions = 0;
    Bytes first_data;  ///< until another rank agrees, and the result is made
    Bytes result;
  };

  void tell_all(Bytes frame);
  void tell(std::size_t rank, const Frame& frame);
  void tell_parts();
  [[nodiscard]] std::uint64_t max_bytes() const;
  void take(int rank, const Gather& gather);
  void finish_collective();
  /// Fails when someone who has gone is waited for.
  void check_gone();
  [[nodiscard]] std::vector<int> missing() const;

  Cookie cookie_;
  CookieKind kind_;
  std::vector<Member> members_;
  std::size_t joined_ = 0, gone_ = 0;
  std::uint64_t done_ = 0;  ///< number of the last finished collective
  Collective current_;
  int root_rank_ = -1;
  Failure failure_;
  std::string note_;
  std::vector<std::pair<int, Frame>> outgoing_;
};

}  // namespace gshmem::bootstrap
