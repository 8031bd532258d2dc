// Lanes that take turns in one host thread. A lane goes on until it synchronizes with its group, or
// waits. One of them may be late: it stops where the test says, until no other lane can go on. So
// the test sees every order of two steps that no synchronization keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <setjmp.h>
#include <ucontext.h>

namespace gshmem::test {

/// Which lane is late: after `syncs` of its synchronizations, at once or where it waits next.
struct Late {
  std::size_t lane;
  unsigned syncs;
  enum class Where { kAfterSync, kInWait } where;
};

/// A step of another agent, such as a NIC. Returns false if it has nothing to do.
using Step = std::function<bool()>;
/// When that agent works: as soon as it can, when no lane but the late one can go on, or last.
enum class When { kAtOnce, kBeforeLate, kAfterLate };

class Lanes {
 public:
  /// Calls `body(i)` on `count` lanes, until all have ended. Returns false if some wait for each
  /// other.
  bool run(std::size_t count, const std::function<void(std::size_t)>& body, const Late& late,
           When when, const Step& step);
  /// Returns how often the calling lane has synchronized.
  [[nodiscard]] unsigned syncs(std::size_t lane) const { return all_[lane].syncs; }

  // Functions that lanes call.
  void pause(unsigned polls);
  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
  struct Group {
    int size;
    bool any = false, result = false;
    std::vector<std::size_t> waiting = {};  ///< lanes
  };
  /// Synchronizes the group. Returns whether `mine` was true on any lane.
  bool synchronize(Group& group, bool mine);

 private:
  static constexpr std::size_t kStackBytes = 256 * 1024;
  enum class State { kReady, kInSync, kWaiting, kEnded };
  struct One {
    std::unique_ptr<char[]> stack{new char[kStackBytes]};  // not zeroed
    ucontext_t context{};  ///< its first entry; to resume by it would take two system calls
    jmp_buf jump{};
    bool begun = false;
    State state = State::kReady;
    bool held = false;
    unsigned syncs = 0;
    std::uint64_t looked = 0;  ///< events before its last poll
  };
  static void begin();
  void leave(State state);
  [[nodiscard]] bool may_go_on(std::size_t lane) const;
  void go_on(std::size_t lane);
  void be_late(std::size_t lane, Late::Where where);
  bool go_round();
  bool release();

  std::vector<One> all_;
  std::size_t count_ = 0, current_ = 0;
  const std::function<void(std::size_t)>* body_ = nullptr;
  Late late_{};
  bool was_late_ = false;
  std::uint64_t events_ = 0, now_ns_ = 1;
  jmp_buf main_{};
};

/// Returns the lanes of the process.
Lanes& lanes();

/// The group of a lane, as device code sees it.
struct LaneGroup {
  Lanes::Group* group;
  int rank;
  [[nodiscard]] int thread_rank() const { return rank; }
  [[nodiscard]] int size() const { return group->size; }
  void sync() const { (void)lanes().synchronize(*group, false); }
  [[nodiscard]] bool any(bool mine) const { return lanes().synchronize(*group, mine); }
};

}  // namespace gshmem::test
