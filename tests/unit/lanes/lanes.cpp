#include "tests/unit/lanes/lanes.h"

/// Declares longjmp of the C library without the check of _FORTIFY_SOURCE, which Ubuntu's compilers
/// enable by default and which knows one stack only.
extern "C" [[noreturn]] void go_to(__jmp_buf_tag* where, int value) __asm__("_longjmp");

namespace gshmem::test {

Lanes& lanes() {
  static Lanes all;
  return all;
}

void Lanes::begin() {
  Lanes& all = lanes();
  (*all.body_)(all.current_);
  ++all.events_;
  all.leave(State::kEnded);
}

/// Stops the calling lane.
void Lanes::leave(State state) {
  One& self = all_[current_];
  self.state = state;
  if (_setjmp(self.jump) == 0) go_to(main_, 1);
}

void Lanes::be_late(std::size_t lane, Late::Where where) {
  One& one = all_[lane];
  if (was_late_ || lane != late_.lane || where != late_.where || one.syncs < late_.syncs) return;
  was_late_ = one.held = true;
}

void Lanes::pause(unsigned polls) {
  One& self = all_[current_];
  if (polls == 1) ++events_;  // the steps before the wait
  self.looked = events_;
  be_late(current_, Late::Where::kInWait);
  leave(State::kWaiting);
}

bool Lanes::synchronize(Group& group, bool mine) {
  ++events_;
  group.any = group.any || mine;
  if (group.waiting.size() + 1 == static_cast<std::size_t>(group.size)) {
    for (const std::size_t lane : group.waiting) all_[lane].state = State::kReady;
    group.waiting.clear();
    group.result = group.any;
    group.any = false;
    leave(State::kReady);
  } else {
    group.waiting.push_back(current_);
    leave(State::kInSync);
  }
  One& self = all_[current_];
  ++self.syncs;
  be_late(current_, Late::Where::kAfterSync);
  if (self.held) leave(State::kReady);
  return group.result;
}

bool Lanes::may_go_on(std::size_t lane) const {
  const One& one = all_[lane];
  if (one.held) return false;
  return one.state == State::kReady || (one.state == State::kWaiting && one.looked < events_);
}
void Lanes::go_on(std::size_t lane) {
  current_ = lane;
  One& one = all_[lane];
  one.looked = events_;
  if (_setjmp(main_) != 0) return;
  if (one.begun) go_to(one.jump, 1);
  one.begun = true;
  setcontext(&one.context);
}

/// Runs every lane that can go on once. Returns false if none could.
bool Lanes::go_round() {
  bool some = false;
  for (std::size_t lane = 0; lane < count_; ++lane) {
    if (!may_go_on(lane)) continue;
    go_on(lane);
    some = true;
  }
  return some;
}
bool Lanes::release() {
  if (!was_late_ || !all_[late_.lane].held) return false;
  all_[late_.lane].held = false;
  ++events_;
  return true;
}

bool Lanes::run(std::size_t count, const std::function<void(std::size_t)>& body, const Late& late,
                When when, const Step& step) {
  constexpr int kTimeouts = 100;
  constexpr std::uint64_t kLongNs = 1'000'000'000;
  if (all_.size() < count) all_.resize(count);
  count_ = count;
  body_ = &body;
  late_ = late;
  was_late_ = false;
  for (std::size_t lane = 0; lane < count; ++lane) {
    One& one = all_[lane];
    getcontext(&one.context);
    one.context.uc_stack.ss_sp = one.stack.get();
    one.context.uc_stack.ss_size = kStackBytes;
    one.context.uc_link = nullptr;
    makecontext(&one.context, &Lanes::begin, 0);
    one.state = State::kReady;
    one.held = false;
    one.begun = false;
    one.syncs = 0;
    one.looked = 0;
    be_late(lane, Late::Where::kAfterSync);
  }
  const auto steps = [&] {
    if (!step || !step()) return false;
    ++events_;
    return true;
  };
  for (int timeouts = 0;;) {
    const bool some = go_round();
    if (when == When::kAtOnce && steps()) continue;
    if (some) continue;
    if (when == When::kBeforeLate && steps()) continue;
    if (release() || steps()) continue;
    std::size_t ended = 0;
    for (std::size_t lane = 0; lane < count; ++lane) {
      if (all_[lane].state == State::kEnded) ++ended;
    }
    if (ended == count) return true;
    if (++timeouts > kTimeouts) return false;  // the stacks of the lanes are not unwound
    now_ns_ += kLongNs;
    ++events_;
  }
}

}  // namespace gshmem::test
