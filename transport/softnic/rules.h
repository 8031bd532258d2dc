// Injected errors: GSHNIC_RULES. This file parses the text, and finds the rule that applies to a
// WQE.
//
//   rules  = rule { (";" | ",") rule }
//   rule   = field { ":" field }, with exactly one action
//   where  = "qp=" ("*" | number | "#" n)     n-th queue pair of the process, from 0
//          | "wqe=" ("*" | n | n "-" m)       n-th WQE since the queue pair became ready, from 0
//          | "op=" ("*" | "nop" | "write" | "read" | "cas" | "fadd" | "mcas" | "mfadd" | "atomic" |
//                   "send" | "dump" | "wait")
//          | "times=" n                       at most so often; default: always
//   action = "syndrome=" n [":vendor=" n]     the WQE fails; remote syndromes (0x12, 0x13, 0x14)
//                                             at the responder, whose queue pair fails too
//          | "drop"                           the network loses the message: sent again after the
//                                             timeout, until the retries are used up
//          | "rnr"                           the receiver has no room: sent again after its timer,
//                                             until the RNR retries are used up
//          | "delay=" n ("ns" | "us" | "ms" | "s")  execution begins that much later
//          | "key=remote"                    it goes out with a key that its target does not know
//          | "queue=error"                   its queue pair is moved to the error state: it and all
//                                            after it are flushed
//          | "queue=reset"                   to reset: nothing of it ever completes
//          | "peer=error"                    the queue pair at the other end is moved to error
//          | "cq=overrun"                    the completion queue breaks: no completion any
//                                            more, but an event; the queue pair is in error
//          | "port=down"                     the port goes down for good, with an event:
//                                            nothing gets out or in
//          | "port=flap:" n unit             it goes down and comes up after that long
//          | "device=gone"                   the device is removed: an event, and nothing any more
//
// Numbers are decimal or 0x hexadecimal. Example: "qp=*:wqe=17:op=write:syndrome=0x13".
#pragma once

#include "transport/nic/decode.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace gshmem::soft {

struct Rule {
  enum class Action {
    kSyndrome,
    kDrop,
    kRnr,
    kDelay,
    kRemoteKey,
    kQueueError,
    kQueueReset,
    kPeerError,
    kCqOverrun,
    kPortDown,
    kPortFlap,
    kDeviceGone
  };
  enum class Queue { kAny, kNumber, kOrdinal };
  Queue queue = Queue::kAny;
  std::uint64_t queue_value = 0;
  std::uint64_t first = 0, last = ~std::uint64_t{0};  ///< WQEs
  std::uint32_t kinds = ~0u;                          ///< bit nic::WqeKind
  std::uint64_t times = ~std::uint64_t{0};            ///< left
  std::optional<Action> action;
  std::uint8_t syndrome = 0, vendor = 0;
  std::uint64_t delay_ns = 0;  ///< of kDelay, and how long a kPortFlap lasts
};

/// Errors: EngineError 0x3, which quotes the bad part and says what is accepted.
[[nodiscard]] std::vector<Rule> parse_rules(std::string_view text);

class RuleSet {
 public:
  explicit RuleSet(std::vector<Rule> rules) : rules_(std::move(rules)) {}
  /// Appends to the rules that are there.
  void add(const std::vector<Rule>& more) { rules_.insert(rules_.end(), more.begin(), more.end()); }
  /// Returns the first rule that applies to `wqe`, and counts it as used; null = none.
  [[nodiscard]] const Rule* match(std::uint32_t qpn, std::uint64_t ordinal, std::uint64_t wqe,
                                  nic::WqeKind kind);

 private:
  std::vector<Rule> rules_;
};

}  // namespace gshmem::soft
