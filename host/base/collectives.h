// Collectives of the host threads of ranks. They exchange a few bytes per rank, from the first
// addresses to the sizes of allocations. Included by all code that has to agree with the other
// ranks. Invariant: a call ends with the data of all ranks, or with an Error that names the missing
// or dead rank where it is known.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace gshmem {

class Collectives {
 public:
  virtual ~Collectives() = default;
  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;

  /// Gathers `bytes` from every rank (the same number on all) into `recv`, in rank order; `recv`
  /// has size()*bytes. Threads: one at a time per rank. Errors: GSHMEMX_ERROR_BOOTSTRAP, _TIMEOUT,
  /// _PEER_FAILED.
  virtual void allgather(const void* send, void* recv, std::size_t bytes) = 0;

  /// Sends `bytes` to each rank: `send` has one part per rank, in rank order. `recv` gets the parts
  /// that the ranks have for this rank, in rank order. Threads and errors are those of allgather.
  /// The cost of a rank is the data that it sends and receives. This default version uses
  /// allgather, which costs size() times as much.
  virtual void alltoall(const void* send, void* recv, std::size_t bytes) {
    const auto n = static_cast<std::size_t>(size()), me = static_cast<std::size_t>(rank());
    std::vector<char> all(n * n * bytes);
    allgather(send, all.data(), n * bytes);
    for (std::size_t from = 0; from < n; ++from)
      std::copy_n(all.data() + (from * n + me) * bytes, bytes,
                  static_cast<char*>(recv) + from * bytes);
  }

  /// Returns on no rank before every rank has called it.
  void barrier() { allgather(nullptr, nullptr, 0); }
};

/// Gathers one trivially copyable value from every rank.
template <class T>
[[nodiscard]] std::vector<T> allgather(Collectives& ranks, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(ranks.size()));
  ranks.allgather(&mine, all.data(), sizeof(T));
  return all;
}

}  // namespace gshmem
