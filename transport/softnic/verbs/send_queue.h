// The send queue of a queue pair that verbs has created. It builds work queue entries in the
// formats of <infiniband/mlx5dv.h>, as rdma-core's provider does, and finds the request of a
// completion. One thread at a time posts (lock()); completions may be processed at the same time.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace gshmem::soft {

class SendQueue {
 public:
  struct Shape {
    std::uint8_t* entries = nullptr;
    std::uint32_t log_entries = 0;
    std::uint32_t* record = nullptr;  ///< of the queue pair
    void* doorbell = nullptr;         ///< register
    std::uint32_t number = 0;         ///< queue pair
    std::uint32_t most_requests = 0, most_pieces = 0, most_inline = 0;
    bool signal_all = false;
    bool addressed = false;  ///< each entry has an address vector
  };
  void open(const Shape& shape);
  /// Clears the queue: nothing is posted.
  void reset();

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // A request is header(), the segments of its operation, then pieces() or inlined(). An address,
  // if there is one, comes before or after its data. The first error is kept until the end of the
  // batch, and requests after it are not added.
  void header(std::uint8_t opcode, std::uint64_t id, unsigned flags, __be32 immediate = 0);
  void remote(std::uint64_t address, std::uint32_t key);
  /// For a datagram.
  void to(const mlx5_wqe_av& address, std::uint32_t number, std::uint32_t queue_key);
  void to_target(const mlx5_wqe_av& address, std::uint32_t number, std::uint64_t access_key);
  void atomic(std::uint64_t swap_or_add, std::uint64_t compare);
  void pieces(const ibv_sge* pieces, std::size_t count);
  void inlined(const ibv_data_buf* buffers, std::size_t count);
  void fail(int code) {
    if (error_ == 0) error_ = code;
  }
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] bool addressed() const { return shape_.addressed; }

  // These calls end a batch. The second one rings all requests if there was no error, or none. It
  // returns the error.
  void ring();
  int ring_all_or_none();
  void abandon();

  /// Returns the id of the request in entry `index` (modulo 2^16). It and all before it are done.
  [[nodiscard]] std::uint64_t complete(std::uint16_t index);

 private:
  struct Posted {
    std::uint64_t id = 0;
    std::uint32_t request = 0;  ///< counted from the beginning
  };

  template <class Segment>
  Segment* add();
  mlx5_wqe_av& address(const mlx5_wqe_av& value, std::uint32_t number);
  void set_data();
  void finish();

  Shape shape_;
  std::mutex mutex_;
  std::vector<Posted> posted_;               ///< by first entry
  std::uint32_t entry_ = 0, rung_ = 0;       ///< next one; counted from the beginning
  std::uint32_t request_ = 0, started_ = 0;  ///< next one; first one of the batch
  std::atomic<std::uint32_t> done_{0};       ///< requests
  int error_ = 0;
  std::uint64_t last_ = 0;  ///< first 8 bytes of the last entry: the doorbell
  std::uint64_t id_ = 0;
  bool has_address_ = false, has_data_ = false;         ///< the entry being built
  alignas(16) std::array<std::uint8_t, 1024> image_{};  ///< of the entry being built
  std::size_t bytes_ = 0;
};

}  // namespace gshmem::soft
