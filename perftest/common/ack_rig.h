// Work queues of this PE's own whose consumer only acknowledges: host threads that look at the
// doorbells and complete whatever they cover, without reading an entry. What is then measured is
// what the GPU spends on a put. Nothing is transferred, so what was written into the queues is
// checked instead (check).
#pragma once

#include "perftest/common/gpu.h"

#include <gshmem/gshmem.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace perftest {

struct RigShape {
  unsigned queues = 1;
  MemorySide memory = MemorySide::kHost;  ///< of entries and doorbell records
  bool exclusive = false;
  gshmem::abi::Bell bell = gshmem::abi::Bell::kWord;
};

/// The puts that were made: element `k` of 8 bytes at `source` to element `k` at `dest`, offsets
/// into the heap. Thread t of the `threads` of a queue puts element (t + i) % elements in iteration
/// i of [first, last).
struct RigWork {
  std::uint64_t source = 0, dest = 0, elements = 0;
  std::uint64_t first = 0, last = 0;
  unsigned threads = 1;
  bool in_order = true;  ///< by iteration, then by thread
  bool carried =
      false;  ///< entries hold the elements, source_value() each, instead of their address
};
constexpr std::uint64_t source_value(std::uint64_t element) { return 0x5ca1ab1e00000000 + element; }

class AckRig {
 public:
  static constexpr std::uint32_t kDepth = 1024;  ///< GSHMEM_QP_DEPTH's default

  /// For the PE with state `pe`, on a GPU or in CPU mode. Errors: std::runtime_error.
  AckRig(const gshmem::abi::DeviceState& pe, bool on_gpu, const RigShape& shape);
  ~AckRig();
  AckRig(const AckRig&) = delete;

  /// The PE with these queues: no PE is mapped, and block b uses queue b % queues to the PE itself.
  [[nodiscard]] const gshmem::abi::DeviceState& state() const { return state_; }
  /// The mistakes in cursors, records, acknowledgements, and the entries of the last lap; ""
  /// when they are what `work` makes. `corrupt` flips a bit first.
  [[nodiscard]] std::string check(const RigWork& work, bool corrupt) const;

 private:
  struct Watch {
    alignas(128) std::uint64_t* doorbell;
    std::uint32_t* completion;
    std::uint32_t number;
    std::uint64_t acknowledged = 0;
    bool foreign = false;  ///< a doorbell named another queue
  };
  [[nodiscard]] Memory allocate(MemorySide side, std::size_t bytes) const;
  void copy(void* to, const void* from, std::size_t bytes) const;
  void make_views();
  void consume(unsigned nth, unsigned of);
  [[nodiscard]] std::string check_queue(unsigned queue, const RigWork& work, bool corrupt) const;
  [[nodiscard]] std::string check_entry(const unsigned char* entry, std::uint64_t index,
                                        unsigned queue, const RigWork& work) const;

  RigShape shape_;
  bool on_gpu_;
  gshmem::abi::DeviceState state_;
  Memory entries_, records_;        ///< by shape_.memory
  Memory doorbells_, completions_;  ///< in host memory
  Memory views_, cursors_, used_;   ///< in the PE's memory
  std::vector<Watch> watches_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> consumers_;
};

}  // namespace perftest
