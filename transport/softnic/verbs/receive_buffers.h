// Receives that a client of verbs has posted, for a queue pair or for several that share them. It
// writes entries in the formats of <infiniband/mlx5dv.h>, and finds the request of a completed
// entry. Threads: any.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace gshmem::soft {

class ReceiveBuffers {
 public:
  struct Shape {
    std::uint8_t* entries = nullptr;
    std::uint32_t log_entries = 0, log_entry_bytes = 4;
    std::uint32_t* record = nullptr;  ///< counts what is posted
    std::uint32_t most_pieces = 0;
    std::uint32_t most_posted = 0;
    bool list = false;  ///< shared: an entry begins with the index of the one after it
  };
  void open(const Shape& shape);
  /// Clears the queue: nothing is posted.
  void reset();

  /// Errors: EINVAL, ENOMEM; `*bad` is the first that is not posted.
  int post(ibv_recv_wr* request, ibv_recv_wr** bad);
  /// Returns the id of the request in entry `index`, which has completed. The entry can be used
  /// again.
  [[nodiscard]] std::uint64_t complete(std::uint16_t index);

 private:
  [[nodiscard]] std::uint8_t* entry(std::uint32_t index) const {
    return shape_.entries + (std::size_t{index} << shape_.log_entry_bytes);
  }
  [[nodiscard]] mlx5_wqe_srq_next_seg& link(std::uint32_t index) const {
    return *reinterpret_cast<mlx5_wqe_srq_next_seg*>(entry(index));
  }
  void write(std::uint32_t index, const ibv_recv_wr& request);

  Shape shape_;
  std::mutex mutex_;
  std::vector<std::uint64_t> ids_;                ///< by entry
  std::uint32_t posted_ = 0, completed_ = 0;      ///< counted from the beginning
  std::uint32_t first_free_ = 0, last_free_ = 0;  ///< of a list
};

}  // namespace gshmem::soft
