// Work queues of this PE whose consumer only acknowledges: it polls the doorbells and completes all
// entries that they cover, without reading an entry. So a measurement shows what the GPU spends on
// a put. Nothing is transferred; the contents of the queues are checked instead (check).
#pragma once

#include "perftest/common/gpu.h"

#include <gshmem/abi/queue_shape.h>
#include <gshmem/gshmem.hpp>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace perftest {

/// The acknowledging side: host threads, with doorbells and completions in host memory, or a kernel
/// that runs beside the one that puts, with both in GPU memory.
enum class Acks { kHost, kGpu };

struct RigShape {
  unsigned queues = 1;
  MemorySide memory = MemorySide::kHost;  ///< memory of entries and doorbell records
  Acks acks = Acks::kHost;
  bool exclusive = false;
  bool grown = false;  ///< programs' memory is as in a part by which the heap has grown
  gshmem::abi::Bell bell = gshmem::abi::Bell::kWord;
};

/// The puts that were made: element `k` of 8 bytes at `source` to element `k` at `dest`; these are
/// offsets into the heap. Thread t of the `threads` of a queue puts element (t + i) % elements in
/// iteration i of [first, last).
struct RigWork {
  std::uint64_t source = 0, dest = 0, elements = 0;
  std::uint64_t first = 0, last = 0;
  unsigned threads = 1;
  bool in_order = true;  ///< by iteration, then by thread
  bool carried =
      false;  ///< entries contain the elements, source_value() each, instead of their address
  /// Entries of the signal after each put: none, one if it is added, two if it is set.
  unsigned signal_entries = 0;
  std::uint64_t signal = 0;  ///< an offset into the heap
};
constexpr std::uint64_t source_value(std::uint64_t element) { return 0x5ca1ab1e00000000 + element; }

/// A queue, as its consumer sees it.
struct AckWatch {
  alignas(128) std::uint64_t* doorbell;
  std::uint32_t* completion;
  std::uint32_t number;
  bool foreign = false;  ///< a doorbell named another queue
  std::uint64_t acknowledged = 0;

  /// Completes the entries that the doorbell covers. Returns false if there are no new ones.
  GSHMEM_FN bool acknowledge() {
    const std::uint64_t value = gshmem::abi::swap_bytes(gshmem::device::load_acquire(doorbell));
    const auto next = static_cast<std::uint16_t>(value >> 40);
    const auto ahead = static_cast<std::uint16_t>(next - acknowledged);
    if (ahead == 0) return false;
    foreign |= (value & 0xffffffff) >> 8 != number;
    acknowledged += ahead;
    // The word has the counter of the last entry, signature 0 and opcode kRequester.
    const std::uint32_t word = static_cast<std::uint32_t>(static_cast<std::uint16_t>(next - 1))
                               << 16;
    gshmem::device::store_release(completion, gshmem::abi::Be32(word).raw);
    return true;
  }
};

/// The kernel of Acks::kGpu, with one block: thread i acknowledges for queue i. It ends when `stop`
/// is set, or when it has seen nothing for `patience_ns`.
struct AckKernel {
  static constexpr unsigned kMaxThreads = 64;
  AckWatch* watches;
  const std::uint32_t* stop;  ///< in host memory
  std::uint64_t patience_ns;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx) const {
    constexpr unsigned kLook = 256;  // number of rounds
    AckWatch& watch = watches[ctx.thread_rank()];
    AckWatch held = watch;
    std::uint64_t moved = gshmem::device::now_ns();
    for (unsigned round = 1;; ++round) {
      if (held.acknowledge()) {
        watch = held;
        round = 0;
      } else if (round % kLook == 0) {
        const std::uint64_t now = gshmem::device::now_ns();
        if (round == kLook) moved = now;
        if (gshmem::device::load_relaxed(stop) != 0 || now - moved > patience_ns) return;
      }
    }
  }
};

class AckRig {
 public:
  static constexpr std::uint32_t kDepth = 1024;  ///< default of GSHMEM_QP_DEPTH

  /// For the PE with state `pe`, on a GPU or in CPU mode. Host threads begin to acknowledge here;
  /// for Acks::kGpu, on GPUs only, the caller launches ack_kernel(). Errors: std::runtime_error.
  AckRig(const gshmem::abi::DeviceState& pe, bool on_gpu, const RigShape& shape);
  ~AckRig();
  AckRig(const AckRig&) = delete;

  /// Returns the state of the PE with these queues: no PE is mapped, and block b uses queue b %
  /// queues to the PE itself.
  [[nodiscard]] const gshmem::abi::DeviceState& state() const { return state_; }
  /// Has a thread for each queue, and runs in ack_stream() until the rig ends: kernels that are to
  /// run beside it must have been loaded.
  [[nodiscard]] AckKernel ack_kernel() const;
  [[nodiscard]] CUstream_st* ack_stream() const { return ack_stream_.get(); }
  /// Returns the errors in cursors, records, acknowledgements, and the entries of the last lap; ""
  /// when they match `work`. `corrupt` flips a bit first.
  [[nodiscard]] std::string check(const RigWork& work, bool corrupt) const;

 private:
  [[nodiscard]] Memory allocate(MemorySide side, std::size_t bytes) const;
  void copy(void* to, const void* from, std::size_t bytes) const;
  void make_views();
  void make_part();
  [[nodiscard]] AckWatch* watches() const { return reinterpret_cast<AckWatch*>(watches_.get()); }
  void consume(unsigned nth, unsigned of);
  [[nodiscard]] std::string check_queue(unsigned queue, const RigWork& work, bool corrupt) const;
  [[nodiscard]] std::string check_entry(const unsigned char* entry, std::uint64_t index,
                                        unsigned queue, const RigWork& work) const;
  [[nodiscard]] std::string check_signal(const unsigned char* entry, std::uint64_t index,
                                         unsigned queue, const RigWork& work) const;

  RigShape shape_;
  bool on_gpu_;
  gshmem::abi::DeviceState state_;
  Memory entries_, records_;                  ///< placed as in shape_.memory
  Memory doorbells_, completions_, watches_;  ///< placed as in shape_.acks
  Memory views_, cursors_, used_, part_;      ///< in the PE's memory
  Memory stop_;                               ///< for the acknowledging threads; in host memory
  Stream ack_stream_;
  std::vector<std::thread> consumers_;
};

}  // namespace perftest
