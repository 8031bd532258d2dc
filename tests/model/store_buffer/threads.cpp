#include "tests/model/store_buffer/threads.h"

#include <cstdint>
#include <utility>

namespace gshmem::model {
namespace {
constexpr std::size_t kStackBytes = 256 * 1024;
}  // namespace

void Threads::add(std::function<void()> body) {
  One& one = all_.emplace_back();
  one.body = std::move(body);
  one.stack.reset(new char[kStackBytes]);  // not zeroed
}

// makecontext passes ints.
void Threads::begin(unsigned high, unsigned low) {
  auto* threads =
      reinterpret_cast<Threads*>(static_cast<std::uintptr_t>(std::uint64_t{high} << 32 | low));
  One& self = threads->all_[threads->current_];
  self.body();
  self.ended = true;
  threads->switch_thread();
}

void Threads::run() {
  const auto self = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(this));
  for (One& one : all_) {
    getcontext(&one.context);
    one.context.uc_stack.ss_sp = one.stack.get();
    one.context.uc_stack.ss_size = kStackBytes;
    one.context.uc_link = nullptr;
    makecontext(&one.context, reinterpret_cast<void (*)()>(&Threads::begin), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }
  current_ = any();
  swapcontext(&main_, &all_[current_].context);
}

/// Returns a thread that has not ended; count() if there is none.
std::size_t Threads::any() {
  std::size_t live = 0;
  for (const One& one : all_) live += one.ended ? 0 : 1;
  if (live == 0) return count();
  std::size_t nth = random_.below(live), at = 0;
  while (all_[at].ended || nth-- > 0) ++at;
  return at;
}

void Threads::switch_thread() {
  const std::size_t from = current_, to = any();
  if (to == from) return;
  if (to == count()) {
    setcontext(&main_);
  } else {
    current_ = to;
    swapcontext(&all_[from].context, &all_[to].context);
  }
}

bool Threads::on_stack(const void* p) const {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  for (const One& one : all_) {
    if (at - reinterpret_cast<std::uintptr_t>(one.stack.get()) < kStackBytes) return true;
  }
  return false;
}

}  // namespace gshmem::model
