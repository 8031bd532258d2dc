// The interface of the double of libgdrapi (gdr_double.cpp), for tests: the rules that a test sets,
// and the record of calls. Its GPU memory is CPU memory, of which a mapping is a second view.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace gshmem::test {

/// Copies as the real library does: with stores that stay in write-combining buffers for a while,
/// so that later stores may overtake them.
inline void copy_by_combining(void* to, const void* from, std::size_t bytes) {
#if defined(__x86_64__)
  auto* out = static_cast<std::uint8_t*>(to);
  const auto* in = static_cast<const std::uint8_t*>(from);
  const std::size_t skew = reinterpret_cast<std::uintptr_t>(out) % sizeof(int);
  const std::size_t before = std::min(bytes, skew == 0 ? 0 : sizeof(int) - skew);
  std::memcpy(out, in, before);
  std::size_t at = before;
  for (; at + sizeof(int) <= bytes; at += sizeof(int)) {
    int word = 0;
    std::memcpy(&word, in + at, sizeof(word));
    _mm_stream_si32(reinterpret_cast<int*>(out + at), word);
  }
  std::memcpy(out + at, in + at, bytes - at);
#else
  std::memcpy(to, from, bytes);
#endif
}

struct GdrDouble {
  // Rules; a call that fails by one returns this errno.
  bool no_driver = false;  ///< gdr_open returns null
  int pin_error = 0, info_error = 0, map_error = 0, copy_error = 0, unmap_error = 0;
  std::uint64_t page = 64 * 1024;  ///< pinning rounds to it
  std::uint64_t pins_less = 0;     ///< bytes that gdr_get_info_v2 leaves out at the end
  std::uint64_t pins_later = 0;    ///< bytes that it leaves out at the beginning

  // Records.
  int sessions = 0, pins = 0, mappings = 0;  ///< open now
  int opened = 0, pinned = 0, mapped = 0;    ///< ever
  int copies_to = 0, copies_from = 0;
  std::uint8_t* view = nullptr;         ///< of the newest mapping
  std::vector<std::string> violations;  ///< violations of the contract
};

/// The exported record; `reset` clears rules and records, not memory.
using GdrDoubleRecord = GdrDouble*();
using GdrDoubleReset = void();
/// Allocates zeroed "GPU" memory at a multiple of 2 MiB; the double knows it while it is loaded.
using GdrDoubleAllocate = void*(std::size_t bytes);

}  // namespace gshmem::test
