// Lets PEs synchronize that have only an id in common. Each PE sends words and its index, and
// receives the list of PEs and all words combined by `and`. The PE that made the id keeps the list
// of those that have come. It does so on the thread that receives its messages, independent of its
// own threads. Included by the runtime, for teams by unique id. Invariant: all PEs that receive the
// members receive the same members.
#pragma once

#include "host/base/net/frame.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gshmem {

class TeamRendezvous {
 public:
  struct Outside {
    int my_pe, n_pes;
    double timeout;  ///< limit of a wait in seconds; 0 = none
    /// Delivers a message to take() of that PE, which may be this one. Threads: any.
    std::function<void(int pe, net::ByteView message)> send;
    /// Throws when this PE waits for no other PE any more.
    std::function<void()> require_running;
  };
  explicit TeamRendezvous(Outside outside) : outside_(std::move(outside)) {}
  TeamRendezvous(const TeamRendezvous&) = delete;

  /// Returns an id that no other PE of the job makes. This PE does not repeat it within 2^31 ids.
  [[nodiscard]] std::uint64_t make_id();

  /// A place in a synchronization: member `index` of `size` PEs that have the id.
  struct Place {
    std::uint64_t id;
    int size, index;
  };
  struct Outcome {
    std::vector<std::int32_t> pes;     ///< by index
    std::vector<std::uint32_t> words;  ///< words of all PEs, combined; as many as each has sent
  };
  /// Waits for all members. Errors, on all of them: GSHMEMX_ERROR_INVALID_VALUE for an id that no
  /// PE has made, or an index that is out of range or taken; GSHMEMX_ERROR_SYMMETRY for sizes that
  /// differ; GSHMEMX_ERROR_TIMEOUT on a PE that gives up, which ends the wait of the others. The id
  /// cannot be used afterwards.
  [[nodiscard]] Outcome exchange(const char* call, const Place& place, std::uint32_t round,
                                 const std::vector<std::uint32_t>& words);
  /// Notifies the other PEs that this PE does not come.
  void refuse(std::uint64_t id, const std::string& why);

  /// Accepts a message from PE `from`. Does not wait.
  void take(int from, net::ByteView message);

 private:
  enum class Kind : std::uint32_t { kComes, kRefuses, kAllCame, kRefused };
  struct Header {
    std::uint64_t id = 0;
    Kind kind{};
    std::uint32_t round = 0;
    std::int32_t size = 0, index = 0;
    std::int32_t code = 0;  ///< error code of a refusal; its text follows
    std::uint32_t reserved = 0;
  };
  using Key = std::pair<std::uint64_t, std::uint32_t>;
  struct Roll {
    int came = 0;
    Outcome outcome;  ///< a PE of -1 has not come
  };
  struct Answer {
    bool here = false;
    std::int32_t code = 0;
    std::string why;
    Outcome outcome;
  };
  [[nodiscard]] bool is_made(std::uint64_t id) const;
  [[nodiscard]] static std::vector<std::byte> message_of(const Header& header, net::ByteView more);
  void enter(int from, const Header& header, std::vector<std::uint32_t> words);
  void refuse_all(std::uint64_t id, std::int32_t code, const std::string& why, int also);
  void receive(const Header& header, net::ByteView more);

  const Outside outside_;
  std::mutex mutex_;
  std::condition_variable received_;
  std::uint32_t made_ = 0;
  std::map<Key, Roll> rolls_;  ///< for ids of this PE
  /// Errors of ids of this PE. PEs that come later receive them at once.
  std::map<std::uint64_t, std::pair<std::int32_t, std::string>> refused_;
  std::map<Key, Answer> waits_;  ///< waits of threads of this PE
};

}  // namespace gshmem
