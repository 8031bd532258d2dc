// Put and get of bytes, by load/store if the PE is mapped and otherwise by the network. The APIs
// are thin layers on top (device/api/api.h). OpenSHMEM 1.5, section 9.6.
//
// Order. A put returns when its source may be reused; the data is at the target after quiet. A get
// returns when the data has arrived. The nbi forms complete at quiet.
//
// Every form synchronizes the group at both ends: at entry, because each thread may have written a
// part of the source, or read a part of the destination; at exit, because a quiet of any thread
// must cover the operations of the others.
#pragma once

#include "../core/coop.h"
#include "../pe/copy.h"
#include "../network/network_path.h"
#include "../pe/p2p.h"

namespace gshmem::device {

template <class Coop>
GSHMEM_FN void put_nbi(Coop coop, const State& state, void* dest, const void* source,
                       std::size_t bytes, int pe) {
  coop.sync();
  if (is_mapped(state, pe)) {
    copy<Source::kLocal>(coop, peer_address(state, dest, pe), source, bytes);
  } else {
    nic::put(coop, state, dest, source, bytes, pe, nic::Reuse::kAtQuiet);
  }
  coop.sync();
}

template <class Coop>
GSHMEM_FN void put(Coop coop, const State& state, void* dest, const void* source, std::size_t bytes,
                   int pe) {
  coop.sync();
  // This returns early: an else branch would cost callers registers (tests/device/registers).
  if (!is_mapped(state, pe)) {
    nic::put(coop, state, dest, source, bytes, pe, nic::Reuse::kOnReturn);
    coop.sync();
    return;
  }
  copy<Source::kLocal>(coop, peer_address(state, dest, pe), source, bytes);
  coop.sync();  // no thread may reuse `source` while another still reads it
}

template <class Coop>
GSHMEM_FN void get_nbi(Coop coop, const State& state, void* dest, const void* source,
                       std::size_t bytes, int pe) {
  coop.sync();
  if (is_mapped(state, pe)) {
    copy<Source::kPeer>(coop, dest, peer_address(state, source, pe), bytes);
  } else {
    nic::get(coop, state, dest, source, bytes, pe, nic::Arrival::kAtQuiet);
  }
  coop.sync();
}

template <class Coop>
GSHMEM_FN void get(Coop coop, const State& state, void* dest, const void* source, std::size_t bytes,
                   int pe) {
  coop.sync();
  if (is_mapped(state, pe)) {
    copy<Source::kPeer>(coop, dest, peer_address(state, source, pe), bytes);
  } else {
    nic::get(coop, state, dest, source, bytes, pe, nic::Arrival::kOnReturn);
  }
  coop.sync();  // every thread may read data that any thread fetched
}

/// Is `p` aligned for one access of a W? An element may not be aligned to its size: one of 128 bits
/// may be a complex<double>, or any pair of C++.
template <class W>
GSHMEM_FN bool is_aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % sizeof(W) == 0;
}
template <Source kSource, class W>
GSHMEM_FN void copy_element_word(void* dest, const void* source) {
  const W* from = static_cast<const W*>(source);
  store_bulk(static_cast<W*>(dest),
             kSource == Source::kPeer ? load_relaxed(from) : load_bulk(from));
}
/// Copies an element that is not aligned to its size, in the largest words that both addresses
/// allow.
template <Source kSource>
GSHMEM_OUTLINE void copy_element(void* dest, const void* source, std::uint32_t bytes) {
  const std::uintptr_t all =
      reinterpret_cast<std::uintptr_t>(dest) | reinterpret_cast<std::uintptr_t>(source) | bytes;
  std::uint32_t step = 1;
  GSHMEM_NO_UNROLL
  for (std::uint32_t at = 0; at < bytes; at += step) {
    char* to = static_cast<char*>(dest) + at;
    const char* from = static_cast<const char*>(source) + at;
    if (all % 8 == 0) {
      copy_element_word<kSource, std::uint64_t>(to, from);
      step = 8;
    } else if (all % 4 == 0) {
      copy_element_word<kSource, std::uint32_t>(to, from);
      step = 4;
    } else if (all % 2 == 0) {
      copy_element_word<kSource, std::uint16_t>(to, from);
      step = 2;
    } else {
      copy_element_word<kSource, std::uint8_t>(to, from);
    }
  }
}

/// Puts one element of 1 to 16 bytes. An element of up to 8 bytes that is aligned to its size is
/// not torn, so `p` can set a flag.
template <class T>
GSHMEM_FN void p(const State& state, T* dest, T value, int pe) {
  if (!is_mapped(state, pe)) return nic::p(state, dest, value, pe);
  Word<T>* at = reinterpret_cast<Word<T>*>(peer_address(state, dest, pe));
  if constexpr (alignof(T) < sizeof(T)) {
    if (!is_aligned<Word<T>>(at)) return copy_element<Source::kLocal>(at, &value, sizeof(T));
  }
  if constexpr (sizeof(T) <= 8) {
    store_flag(at, bits<Word<T>>(value));
  } else {
    store_relaxed(at, bits<Word<T>>(value));
  }
}

template <class T>
GSHMEM_FN T g(const State& state, const T* source, int pe) {
  if (!is_mapped(state, pe)) return nic::g(state, source, pe);
  const auto* at = reinterpret_cast<const Word<T>*>(peer_address(state, source, pe));
  if constexpr (alignof(T) < sizeof(T)) {
    if (!is_aligned<Word<T>>(at)) {
      T value{};
      copy_element<Source::kPeer>(&value, at, sizeof(T));
      return value;
    }
  }
  return bits<T>(load_relaxed(at));
}

/// Strides and counts of iput and iget, in elements (OpenSHMEM 1.5, section 9.6).
struct Strides {
  std::ptrdiff_t dst, src;
  std::size_t nelems;
};

template <Source kSource, class W, class Coop>
GSHMEM_FN void copy_strided(Coop coop, W* dest, const W* source, Strides strides) {
  const bool whole = is_aligned<W>(dest) && is_aligned<W>(source);  // then every element is aligned
  const std::size_t width = static_cast<std::size_t>(coop.size());
  for (std::size_t i = static_cast<std::size_t>(coop.thread_rank()); i < strides.nelems;
       i += width) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i);
    W* to = dest + at * strides.dst;
    const W* from = source + at * strides.src;
    if (whole) {
      copy_element_word<kSource, W>(to, from);
    } else {
      copy_element<kSource>(to, from, sizeof(W));
    }
  }
  sync_lanes(coop);
  coop.sync();
}

template <class W>
GSHMEM_FN W load_element(const W* source) {
  if (is_aligned<W>(source)) return load_bulk(source);
  W value{};
  copy_element<Source::kLocal>(&value, source, sizeof(W));
  return value;
}

/// The variables of an element-by-element call, in local memory to save registers of the functions
/// that it calls.
template <class W>
struct StridedWork {
  W* dest;
  const W* source;
  Strides strides;
  int pe;
};

template <class W, class Coop>
GSHMEM_FN void iput(Coop coop, const State& state, W* dest, const W* source, Strides strides,
                    int pe) {
  sync_lanes(coop);
  coop.sync();
  if (is_mapped(state, pe)) {
    copy_strided<Source::kLocal>(coop, peer_address(state, dest, pe), source, strides);
    return;
  }
  StridedWork<W> work{dest, source, strides, pe};
  keep_in_memory(work);
  GSHMEM_NO_UNROLL
  for (std::size_t i = static_cast<std::size_t>(coop.thread_rank()); i < work.strides.nelems;
       i += static_cast<std::size_t>(coop.size())) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i);
    nic::p(state, work.dest + at * work.strides.dst,
           load_element(work.source + at * work.strides.src), work.pe);
    keep_in_memory(work);
  }
  sync_lanes(coop);
  coop.sync();
}

template <class W, class Coop>
GSHMEM_FN void iget(Coop coop, const State& state, W* dest, const W* source, Strides strides,
                    int pe) {
  sync_lanes(coop);
  coop.sync();
  if (is_mapped(state, pe)) {
    copy_strided<Source::kPeer>(coop, dest, peer_address(state, source, pe), strides);
    return;
  }
  const std::size_t width = static_cast<std::size_t>(coop.size());
  // READs of one queue complete in order, so a thread's last one stands for all. A thread that
  // moves to another SM may change its queue.
  StridedWork<W> work{dest, source, strides, pe};
  keep_in_memory(work);
  GSHMEM_NO_UNROLL
  for (std::size_t i = static_cast<std::size_t>(coop.thread_rank()); i < work.strides.nelems;
       i += width) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i);
    const bool last = state.nic.map == abi::QueueMap::kSm || i + width >= work.strides.nelems;
    nic::get(Thread{}, state, work.dest + at * work.strides.dst,
             work.source + at * work.strides.src, sizeof(W), work.pe,
             last ? nic::Arrival::kOnReturn : nic::Arrival::kAtQuiet);
    keep_in_memory(work);
  }
  sync_lanes(coop);
  coop.sync();
}

}  // namespace gshmem::device
