// Uses bytes as a work queue entry. An entry that the decoder accepts must be consistent; a
// difference throws an exception that is not caught.
#include "transport/nic/decode.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace {

void require(bool ok, const char* what) {
  if (!ok) throw std::logic_error(what);
}

void check_accepted(const gshmem::nic::Wqe& wqe, std::size_t bytes) {
  std::uint64_t gathered = wqe.inline_payload.size();
  for (const auto& piece : wqe.local) gathered += piece.bytes;
  require(wqe.units * 16 == bytes, "ds");
  require(wqe.entries() >= 1 && wqe.entries() <= 16, "entries");
  require(wqe.fence <= 4, "fence");
  require(gathered == wqe.length, "length");
  require(wqe.inline_payload.empty() || wqe.carries_data(), "inline data that goes nowhere");
  if (wqe.is_atomic()) {
    require(wqe.length == 4 || wqe.length == 8, "size of an atomic");
    const std::uint64_t all = wqe.length == 4 ? 0xffffffff : ~std::uint64_t{0};
    require((gshmem::nic::atomic_result(wqe, 0x5a5a5a5a) & ~all) == 0, "width of an atomic");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  size = std::min(size, gshmem::nic::kMaxWqeBytes);
  // A copy of exactly this size, so that a read after it is detected.
  const std::vector<std::uint8_t> wqe(data, data + size);
  using enum gshmem::nic::Receives;
  for (const auto receives : {kNo, kYes, kDatagrams, kTargets}) {
    const auto result = gshmem::nic::decode_wqe(wqe.data(), size, receives);
    require((result.error == gshmem::nic::WqeError::kNone) == result.reason.empty(), "reason");
    if (result.error == gshmem::nic::WqeError::kNone) check_accepted(result.wqe, size);
  }
  require(gshmem::nic::dump_wqe(wqe.data(), size).empty() == (size == 0), "dump");
  if (size >= 8) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < 8; ++i) value |= std::uint64_t{wqe[i]} << 8 * i;
    require(gshmem::nic::decode_doorbell(value).number <= 0xffffff, "doorbell");
  }
  return 0;
}
