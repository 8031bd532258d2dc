// Threads that take turns in a random sequence, all in one host thread, so that a seed gives the
// same run again. A thread runs until it calls switch_thread().
#pragma once

#include "tests/model/store_buffer/random.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <ucontext.h>

namespace gshmem::model {

class Threads {
 public:
  explicit Threads(Random& random) : random_(random) {}
  /// Call it before run().
  void add(std::function<void()> body);
  /// Returns when all threads have ended.
  void run();
  /// Continues another thread, or this one.
  void switch_thread();
  [[nodiscard]] std::size_t current() const { return current_; }
  [[nodiscard]] bool ended(std::size_t thread) const { return all_[thread].ended; }
  [[nodiscard]] std::size_t count() const { return all_.size(); }
  /// Is the address in memory of one thread only?
  [[nodiscard]] bool on_stack(const void* p) const;

 private:
  struct One {
    std::function<void()> body;
    std::unique_ptr<char[]> stack;
    ucontext_t context;
    bool ended = false;
  };
  static void begin(unsigned high, unsigned low);
  std::size_t any();

  Random& random_;
  std::vector<One> all_;
  std::size_t current_ = 0;
  ucontext_t main_;
};

}  // namespace gshmem::model
