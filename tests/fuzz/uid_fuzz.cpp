// Decodes everything that the uid bootstrap reads from the network or from a caller: frames, unique
// ids and the job that they drive. No input may crash it, and what decodes must encode to the same
// bytes.
#include "bootstrap/uid/id.h"
#include "bootstrap/uid/job.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace gshmem::bootstrap;
using gshmem::net::Bytes;
using gshmem::net::ByteView;
using gshmem::net::Frame;
using gshmem::net::FrameHeader;
using gshmem::net::FrameKind;
namespace net = gshmem::net;

namespace {

void check_frame(ByteView input) {
  if (input.empty()) return;
  const bool begins = net::begins_like_a_frame(input);
  if (input.size() < FrameHeader::kBytes) return;
  const auto header = net::decode_header(input.first<FrameHeader::kBytes>());
  if (header && !begins) std::abort();
  if (!header || !net::frame_length_valid(header->kind, header->bytes)) return;
  const ByteView payload = input.subspan(FrameHeader::kBytes);
  if (header->bytes != payload.size()) return;
  const Frame again = net::make_frame(*header, payload);
  if (!std::equal(again->begin(), again->end(), input.begin(), input.end())) std::abort();
  if (net::text_of(again).size() != payload.size()) std::abort();
}

void check_uniqueid(ByteView input) {
  gshmemx_uniqueid packed{};
  packed.version = kUniqueIdVersion;
  const std::size_t bytes = std::min(input.size(), sizeof packed.internal);
  if (bytes > 0) std::memcpy(packed.internal, input.data(), bytes);
  const auto id = decode_uniqueid(packed);
  if (!id) return;
  gshmemx_uniqueid again;
  encode_uniqueid(*id, &again);
  if (std::memcmp(&again, &packed, sizeof packed) != 0) std::abort();
}

/// Three ranks, then one event per two bytes of input; the job must stay consistent.
void check_job(ByteView input) {
  Job job;
  const auto join = [&](int rank) {
    (void)job.join(net::make_frame({.kind = FrameKind::kHello,
                                    .number = 3,
                                    .rank = rank,
                                    .detail = rank == 0 ? net::kHostsRoot : 0u}));
  };
  const auto event = [&](unsigned what, int rank) {
    const Bytes data(what / 8);
    switch (what % 8) {
      case 0:
      case 1:
      case 2:
      case 3:
        return job.contribute(
            rank,
            net::make_frame({.kind = FrameKind::kContribution, .number = 1 + what / 64}, data));
      case 4:
        return job.leave(rank);
      case 5:
        return job.lost(rank, "lost");
      case 6:
        return join(rank);
      default:
        return job.expired(what / 64, what);
    }
  };
  bool gone[3] = {};
  const bool all = !input.empty() && input[0] < std::byte{200};
  for (int r = 0; r < (all ? 3 : 2); ++r) join(r);
  (void)job.take_outgoing();
  for (std::size_t i = 1; i + 1 < input.size(); i += 2) {
    const auto what = static_cast<unsigned>(input[i]);
    const auto rank = static_cast<unsigned>(input[i + 1]) % (all ? 3U : 2U);
    if (gone[rank]) continue;
    gone[rank] = what % 8 == 4 || what % 8 == 5;
    const bool failed = bool{job.failure()};
    event(what, static_cast<int>(rank));
    if (failed && !job.failure()) std::abort();
    for (const auto& [to, frame] : job.take_outgoing()) {
      if (to < 0 || to > 2 || gone[to] || frame->size() < FrameHeader::kBytes) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView input = std::as_bytes(std::span(data, size));
  check_frame(input);
  check_uniqueid(input);
  check_job(input);
  return 0;
}
