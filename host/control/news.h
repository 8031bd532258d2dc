// News about a PE: it has died, has left, or is about to end the job. Included by the code that
// detects and that passes on such news.
#pragma once

#include "host/base/net/frame.h"

#include <string>

namespace gshmem::control {

enum class PeerEvent : std::uint32_t {
  kDied,         ///< its process ended without a goodbye
  kLeft,         ///< it said goodbye: gshmem_finalize, or the end of its process by exit
  kUnreachable,  ///< its host does not answer
  kStopped,   ///< a fault has stopped it: it takes part in no more collectives, and may end the job
  kExited,    ///< it ends the job on purpose: gshmem_global_exit
  kFinalizes  ///< it waits in gshmem_finalize, and makes no other collective call
};

struct PeerNews {
  int pe = -1;
  PeerEvent event = PeerEvent::kDied;
  std::string why = {};  ///< text of the fault (kStopped)
  int status = 0;        ///< kExited: exit status; kUnreachable: seconds since its last answer
};

/// Does the job continue? Then only calls that need that PE end.
[[nodiscard]] constexpr bool is_end_of_one(PeerEvent event) {
  return event == PeerEvent::kLeft || event == PeerEvent::kFinalizes;
}

[[nodiscard]] inline net::Frame news_frame(const PeerNews& news) {
  return net::make_frame({.kind = net::FrameKind::kNews,
                          .number = static_cast<std::uint32_t>(news.status),
                          .rank = news.pe,
                          .detail = static_cast<std::uint32_t>(news.event)},
                         news.why);
}

[[nodiscard]] inline PeerNews news_of(const net::Frame& frame) {
  const net::FrameHeader header = net::header_of(frame);
  return {.pe = header.rank,
          .event = static_cast<PeerEvent>(header.detail),
          .why = net::text_of(frame),
          .status = static_cast<int>(header.number)};
}

}  // namespace gshmem::control
