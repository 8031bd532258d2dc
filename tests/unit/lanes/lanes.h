// Lanes that take turns in one host thread. A lane goes on until it meets others of its group, or
// waits for something. One of them may be late: it stops where the test says, until no other lane
// can go on. So each order of two steps that no meeting keeps is seen as it should not be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <setjmp.h>
#include <ucontext.h>

namespace gshmem::test {

/// Which lane is late: after `meetings` of its meetings, at once or where it then waits first.
struct Late {
  std::size_t lane;
  unsigned meetings;
  enum class Where { kAfterMeeting, kInWait } where;
};

/// What somebody else does meanwhile, as a NIC: a step of it. False: there is nothing to do.
using Step = std::function<bool()>;
/// When it does that: as soon as it can, when no lane but the late one can go on, or at last.
enum class When { kAtOnce, kBeforeLate, kAfterLate };

class Lanes {
 public:
  /// Calls `body(i)` on `count` lanes, until all have ended. False: some wait for each other.
  bool run(std::size_t count, const std::function<void(std::size_t)>& body, const Late& late,
           When when, const Step& step);
  /// Of the calling lane, all meetings so far.
  [[nodiscard]] unsigned meetings(std::size_t lane) const { return all_[lane].meetings; }

  // What lanes call.
  void pause(unsigned polls);
  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
  struct Group {
    int size;
    bool any = false, result = false;
    std::vector<std::size_t> waiting = {};  ///< lanes
  };
  /// Whether `mine` was true on one of the group.
  bool meet(Group& group, bool mine);

 private:
  static constexpr std::size_t kStackBytes = 256 * 1024;
  enum class State { kReady, kMeeting, kWaiting, kEnded };
  struct One {
    std::unique_ptr<char[]> stack{new char[kStackBytes]};  // not zeroed
    ucontext_t context{};  ///< where it begins; going on by it would take two system calls
    jmp_buf jump{};
    bool begun = false;
    State state = State::kReady;
    bool held = false;
    unsigned meetings = 0;
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

/// Those of the process.
Lanes& lanes();

/// A lane's group, as device code sees it.
struct LaneGroup {
  Lanes::Group* group;
  int rank;
  [[nodiscard]] int thread_rank() const { return rank; }
  [[nodiscard]] int size() const { return group->size; }
  void sync() const { (void)lanes().meet(*group, false); }
  [[nodiscard]] bool any(bool mine) const { return lanes().meet(*group, mine); }
};

}  // namespace gshmem::test
