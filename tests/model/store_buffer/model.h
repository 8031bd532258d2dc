// The current run: threads of a GPU and a NIC on memory that delays stores. The machine (machine.h)
// and the NIC (nic.h) call it.
#pragma once

#include "tests/model/store_buffer/memory.h"
#include "tests/model/store_buffer/threads.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace gshmem::model {

/// Probabilities, of 256, at each access.
struct Chances {
  std::uint32_t leave, arrive, change;
  std::size_t lazy;  ///< the buffer that stores mostly leave at fences only
};

/// Threads of a warp from their convergence to the last use of their group.
class Group {
 public:
  explicit Group(std::uint64_t key) : key_(key) {}
  [[nodiscard]] int size() const { return static_cast<int>(lanes_.size()); }
  /// Returns the position of the calling thread.
  [[nodiscard]] int rank() const;
  /// __syncwarp: stores of the other threads are seen, also by fences (PTX, causality order).
  void sync();
  /// __shfl_sync: all pass a value and get that of `rank`.
  std::uint64_t value_of(int rank, std::uint64_t value);

 private:
  friend std::shared_ptr<Group> converge(std::uint64_t key);
  void synchronize();
  std::uint64_t key_;
  bool open_ = true;
  std::vector<std::size_t> lanes_;  ///< threads, in their order
  std::vector<std::uint64_t> values_;
  int arrived_ = 0;
  std::uint64_t syncs_ = 0;
};

/// One run. There is one at a time.
class Model {
 public:
  /// `lanes` threads are a warp; 1: there is no warp. The NIC is the last thread.
  Model(std::uint64_t seed, std::size_t producers, std::size_t lanes, std::string name);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  Random random;
  Memory memory;
  Threads threads;
  /// Returns the buffer of the calling thread. A shuffle orders nothing between those of a warp
  /// (PTX, "shfl.sync").
  [[nodiscard]] std::size_t buffer() const { return threads.current(); }
  Chances chances;
  /// The values that were stored to each doorbell that is a register.
  std::map<const std::uint64_t*, std::set<std::uint64_t>> rung;
  std::size_t producers, lanes;
  std::uint64_t steps = 0;
  std::string name;                                 ///< for messages
  std::vector<std::weak_ptr<Group>> newest_groups;  ///< the newest one of each warp
};
Model& model();

/// A point where stores may move and threads may switch.
void step();
void pause();
std::uint64_t steps();
/// Prints the error and how to repeat it, and ends the program.
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...);

void load(const void* p, void* to, std::size_t bytes);
void store(void* p, const void* from, std::size_t bytes, Order order,
           Update update = Update::kReplace);
void fence(View view);
void begin_atomic(void* p, void* old, std::size_t bytes);
void end_atomic(void* p, const void* made, std::size_t bytes);
std::shared_ptr<Group> converge(std::uint64_t key);

}  // namespace gshmem::model
