// Does things that a NIC may legally do and seldom does: delays, overtaking, bytes in any order. A
// decision is a hash of the seed, the number of the queue pair in the order of creation, the
// behaviour, and the number of the WQE. So a run with the same seed makes the same decisions,
// whatever the timing.
//
//   GSHNIC_ADVERSARY = "off" | "on" | "all" | item { ("," | ";" | " ") item }
//   item             = behaviour "=" probability (0 to 1) | "on" | "all"
//
// "on" gives each behaviour that is not excluded a chance of 1/8, "all" of 1/2. A later item
// overrides earlier ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gshmem::soft {

enum class Behaviour : std::uint8_t {
  kStarve,          ///< "starve": a queue pair is not processed for a while
  kBatch,           ///< "batch": few WQEs in a visit, then the next queue pair
  kLateStart,       ///< "late_start": execution begins late, so the source is read late
  kLateCompletion,  ///< "late_completion": the completion comes long after the data
  kReorderBytes,    ///< "reorder_bytes": packets and lines of a write land in any order
  kReorderWrites,   ///< "reorder_writes": a write lands after the next write or atomic (relaxed
                    ///< ordering only)
  kLateRead,        ///< "late_read": the source of a read is read late, after later writes
  kLateAtomic,      ///< "late_atomic": the old value comes back late
  kCoalesce,        ///< "coalesce": a doorbell is read late, so that a newer one replaces it
  kSkip,            ///< "skip": completions that a collapsed queue may leave out are left out
  kLateFlush,       ///< "late_flush": flushes come late, one by one
  kDrop,            ///< "drop": a message is lost and sent again
  kDropReply,       ///< "drop_reply": an answer is lost, so that its request comes again
  kTrailingRead,    ///< "trailing_read": not in on and all: what is fetched trails the completion
                    ///< until a DUMP
  kTrailingWrite,  ///< "trailing_write": not in on and all: what is written, if it is longer than a
                   ///< word, trails the acknowledgement and later words until the NIC of the
                   ///< target reads
  kCount
};

struct AdversaryOptions {
  std::array<double, static_cast<std::size_t>(Behaviour::kCount)> probability{};
  [[nodiscard]] bool any() const;
};
/// Errors: EngineError 0x3, which names the bad item and what is accepted.
[[nodiscard]] AdversaryOptions parse_adversary(std::string_view text);

class Adversary {
 public:
  Adversary(const AdversaryOptions& options, std::uint64_t seed)
      : options_(options), seed_(seed), active_(options.any()) {}

  [[nodiscard]] bool decides(Behaviour behaviour, std::uint64_t queue, std::uint64_t number) const {
    return active_ && roll(behaviour, queue, number);
  }
  /// Can the adversary ever decide for this behaviour?
  [[nodiscard]] bool may(Behaviour behaviour) const {
    return options_.probability[static_cast<std::size_t>(behaviour)] > 0;
  }
  /// Returns 0 if it decides against the behaviour. Otherwise returns mostly microseconds, seldom a
  /// millisecond.
  [[nodiscard]] std::int64_t delay_ns(Behaviour behaviour, std::uint64_t queue,
                                      std::uint64_t number) const;

 private:
  [[nodiscard]] bool roll(Behaviour behaviour, std::uint64_t queue, std::uint64_t number) const;
  [[nodiscard]] std::uint64_t hash(Behaviour behaviour, std::uint64_t queue,
                                   std::uint64_t number) const;

  AdversaryOptions options_;
  std::uint64_t seed_;
  bool active_;
};

}  // namespace gshmem::soft
