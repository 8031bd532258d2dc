// Everything that the uid bootstrap reads from the network or from a caller: frames, unique ids and
// the job they drive. No input may crash it, and what decodes encodes to the same bytes.
#include "bootstrap/uid/job.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace gshmem::bootstrap;

namespace {

void require_same(ByteView frame, ByteView payload) {
  const ByteView again = frame.subspan(FrameHeader::kBytes);
  if (!std::equal(again.begin(), again.end(), payload.begin(), payload.end())) std::abort();
}

/// Texts may change (unprintable characters), so only their lengths are compared.
void require_same_length(ByteView frame, ByteView payload) {
  if (frame.size() - FrameHeader::kBytes != payload.size()) std::abort();
}

void check_decoders(ByteView payload) {
  if (const auto hello = decode_hello(payload)) require_same(encode(*hello), payload);
  if (const auto welcome = decode_welcome(payload)) require_same(encode(*welcome), payload);
  if (const auto gather = decode_gather(payload)) require_same(encode(*gather), payload);
  if (const auto expired = decode_expired(payload)) require_same(encode(*expired), payload);
  if (const auto abort = decode_abort(payload)) require_same_length(encode(*abort), payload);
  if (const auto fail = decode_fail(payload)) require_same_length(encode(*fail), payload);
  if (const auto result = decode_result(payload)) {
    Bytes frame = encode_result(result->number, result->data.size());
    std::copy(result->data.begin(), result->data.end(), frame.begin() + kResultDataOffset);
    require_same(frame, payload);
  }
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

/// Three ranks, then one event per two bytes of input; the job must keep its own books.
void check_job(ByteView input) {
  Job job{Cookie{}};
  const auto event = [&](unsigned what, int rank) {
    const Bytes data(what / 8);
    switch (what % 8) {
      case 0:
      case 1:
        return job.gather(rank, {1 + what / 64, Operation::kAllgather, data});
      case 2:
        return job.gather(rank, {1 + what / 64, Operation::kAlltoall, data});
      case 3:
        return job.gather(rank, {1, Operation::kBarrier, {}});
      case 4:
        return job.leave(rank);
      case 5:
        return job.lost(rank, "lost");
      case 6:
        return job.abort(rank, {1, "abort"});
      default:
        return job.expired({what / 64, what});
    }
  };
  bool gone[3] = {};
  const bool all = !input.empty() && input[0] < std::byte{200};
  for (unsigned r = 0; r < (all ? 3U : 2U); ++r) (void)job.join({Cookie{}, r, 3, r == 0});
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
  if (input.size() >= FrameHeader::kBytes) {
    const auto header = decode_header(input.first<FrameHeader::kBytes>());
    if (header) (void)frame_length_valid(header->type, header->length);
    check_decoders(input.subspan(FrameHeader::kBytes));
  }
  check_decoders(input);
  check_uniqueid(input);
  check_job(input);
  return 0;
}
