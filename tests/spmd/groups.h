// The common code of tests of group operations: memory and checks of single calls, each on a target
// of its own, between which only the call itself synchronizes the group. Included by groups.cpp and
// group_calls.cpp.
#pragma once

#include "tests/spmd/late.h"

namespace gshmem::spmd {

enum class GroupOp { kPut, kPutNbi, kPutSignal, kPutSignalNbi, kIput, kGet, kGetNbi, kIget };
GSHMEM_FN bool is_get(GroupOp op) {
  return op == GroupOp::kGet || op == GroupOp::kGetNbi || op == GroupOp::kIget;
}
GSHMEM_FN bool is_strided(GroupOp op) { return op == GroupOp::kIput || op == GroupOp::kIget; }
GSHMEM_FN bool has_signal(GroupOp op) {
  return op == GroupOp::kPutSignal || op == GroupOp::kPutSignalNbi;
}
/// May the source be reused on return?
GSHMEM_FN bool frees_source(GroupOp op) {
  return op == GroupOp::kPut || op == GroupOp::kPutSignal || op == GroupOp::kIput;
}

/// A thread's view of the calls of its group, one after the other: `begin`, the call, `end`.
struct GroupSteps {
  static constexpr std::size_t kBytes = 4096;  ///< bytes of a call, with a part for each thread
  static constexpr std::ptrdiff_t kStride = 2;
  static constexpr std::uint8_t kOld = 0xee;
  static constexpr int kWays = 6;  ///< which thread is late, and which completes

  std::uint8_t* source;   ///< source of puts, written before each
  std::uint8_t* fixed;    ///< source of gets
  std::uint8_t* targets;  ///< targets of all calls, filled with kOld
  std::uint64_t* signals;
  std::uint64_t* flag;  ///< number of the last put that the previous PE has completed
  std::uint64_t seed;
  int me, next, previous, width;
  std::size_t step = 0;

  GSHMEM_FN std::uint8_t* target() const { return targets + step * kBytes; }
  GSHMEM_FN std::uint64_t* signal() const { return signals + step; }
  GSHMEM_FN std::uint64_t number() const { return step + 1; }
  /// There are few elements, since each may be a message.
  GSHMEM_FN std::size_t strided_count() const { return static_cast<std::size_t>(width + 1); }
  GSHMEM_FN std::uint8_t byte(int pe, std::uint64_t what, std::size_t i) const {
    return pattern(mix(seed, what * 64 + static_cast<std::uint64_t>(pe)), i);
  }

  /// Is it the thread that completes? The first and the last alternate.
  template <class Group>
  GSHMEM_FN bool completes(const Group& group) const {
    return group.thread_rank() == (step / 3 % 2 == 0 ? 0 : group.size() - 1);
  }

  /// Calls `work(i)` for the bytes of the calling thread's elements, which are not those that it
  /// copies.
  template <class Group, class Work>
  GSHMEM_FN void each_byte(const Group& group, GroupOp op, std::size_t size,
                           const Work& work) const {
    const std::size_t stride = is_strided(op) ? kStride : 1;
    const std::size_t count = is_strided(op) ? strided_count() : kBytes / size;
    const std::size_t threads = static_cast<std::size_t>(group.size());
    for (std::size_t e = threads - 1 - static_cast<std::size_t>(group.thread_rank()); e < count;
         e += threads) {
      for (std::size_t i = 0; i < size; ++i) work(e * stride * size + i);
    }
  }

  /// Writes the calling thread's part of the source, and reads its part of the data that will be
  /// overwritten.
  template <class Group>
  GSHMEM_FN void begin(Log log, const Group& group, GroupOp op, std::size_t size) const {
    if (is_late(group, step)) come_late();
    each_byte(group, op, size, [&](std::size_t i) {
      if (is_get(op)) {
        SPMD_EQ(log, target()[i], kOld, number());
      } else {
        source[i] = byte(me, number(), i);
      }
    });
  }
  /// Checks that the data has arrived: after its signal, or after the flag of one thread.
  template <class Group>
  GSHMEM_FN void end(const Context& by, Log log, const Group& group, GroupOp op, std::size_t size) {
    if (is_get(op)) {
      end_get(by, log, group, op, size);
    } else {
      if (completes(group)) {
        if (frees_source(op)) overwrite(op, size);
        by.quiet();
        by.p(flag, number(), next);
      }
      if (group.thread_rank() == 0) {
        const bool by_signal = has_signal(op) && step % 2 == 0;
        by.wait_until(by_signal ? signal() : flag, Cmp::kGe, number());
        if (has_signal(op)) SPMD_EQ(log, by.signal_fetch(signal()), number());
      }
      group.sync();
      each_byte(group, op, size, [&](std::size_t i) {
        SPMD_EQ(log, target()[i], byte(previous, number(), i), number());
      });
    }
    group.sync();
    ++step;
  }
  template <class Group>
  GSHMEM_FN void end_get(const Context& by, Log log, const Group& group, GroupOp op,
                         std::size_t size) const {
    const auto check = [&](std::size_t i) {
      SPMD_EQ(log, target()[i], byte(previous, 0, i), number());
    };
    if (op != GroupOp::kGetNbi) {
      each_byte(group, op, size, check);
    } else if (completes(group)) {
      by.quiet();
      each_byte(Thread{}, op, size, check);
    }
  }
  GSHMEM_FN void overwrite(GroupOp op, std::size_t size) const {
    each_byte(Thread{}, op, size, [&](std::size_t i) { source[i] = kOld; });
  }
};

// It is out of line, because kernels have hundreds of steps.
template <class Group>
GSHMEM_OUTLINE void begin_step(const GroupSteps& steps, Log log, const Group& group, GroupOp op,
                               std::size_t size) {
  steps.begin(log, group, op, size);
}
template <class Group>
GSHMEM_OUTLINE void end_step(GroupSteps& steps, const Context& by, Log log, const Group& group,
                             GroupOp op, std::size_t size) {
  steps.end(by, log, group, op, size);
}

/// Symmetric memory for `count` calls by one group.
class GroupMemory {
 public:
  GroupMemory(Pe& pe, Scope scope, int count)
      : shape_(one_group(pe, scope)),
        source_(GroupSteps::kBytes),
        fixed_(GroupSteps::kBytes),
        targets_(static_cast<std::size_t>(count) * GroupSteps::kBytes),
        signals_(static_cast<std::size_t>(count)),
        flag_(1) {
    steps_ = {.source = source_.data(),
              .fixed = fixed_.data(),
              .targets = targets_.data(),
              .signals = signals_.data(),
              .flag = flag_.data(),
              .seed = pe.seed(),
              .me = pe.me(),
              .next = pe.next(),
              .previous = pe.previous(),
              .width = static_cast<int>(shape_.threads)};
    std::vector<std::uint8_t> fixed(fixed_.size());
    for (std::size_t i = 0; i < fixed.size(); ++i) fixed[i] = steps_.byte(pe.me(), 0, i);
    pe.write(fixed_.data(), fixed);
    pe.write(targets_.data(), std::vector<std::uint8_t>(targets_.size(), GroupSteps::kOld));
    pe.barrier();
  }
  [[nodiscard]] const LaunchShape& shape() const { return shape_; }
  [[nodiscard]] const GroupSteps& steps() const { return steps_; }

 private:
  LaunchShape shape_;
  SymmetricArray<std::uint8_t> source_, fixed_, targets_;
  SymmetricArray<std::uint64_t> signals_, flag_;
  GroupSteps steps_{};
};

}  // namespace gshmem::spmd
