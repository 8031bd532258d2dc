// The order checker: every pending operation is a fiber of ThreadSanitizer. The fiber is ordered
// after the issue of the operation, and before the calls that the specification orders after it.
// Nothing else orders it. So a missing fence, quiet or wait is a data race, which ThreadSanitizer
// reports with both accesses. The checker also executes operations as late, and in any order, as
// the specification allows, by GSHMEM_CHECK_SEED. This file is not instrumented: its own accesses
// must neither be races nor order anything. So it has no mutex, and copies by loops.
#include "host/runtime/order_checker.h"

#include "host/runtime/order_collectives.h"
#include "host/runtime/order_tsan.h"

#include <gshmem/device/core/machine.h>

#include <cstdio>
#include <cstdlib>

namespace gshmem {
namespace {

using abi::DeviceState;
using device::AmoOp;
using device::order::Transfer;
using device::order::Update;
using tsan::callers;
using tsan::kFrames;
using tsan::kNoSync;
using tsan::Locked;
using tsan::mixed;
using tsan::name_of;
using tsan::note_reading;
using tsan::SpinLock;

/// ThreadSanitizer supports some 8,000 threads and fibers. Operations that share a fiber are
/// ordered.
constexpr unsigned kMostFibers = 16, kMostFibersOfAll = 2048;
/// The maximum number of delayed operations of a context.
constexpr unsigned kMostLate = 32;
/// Threads may wait for each word of a put of up to this size (device/pe/copy.h).
constexpr std::size_t kMostFlagBytes = 64;

struct Op {
  Op* next;
  void* fiber;
  enum Kind { kPut, kGet, kLand, kUpdate } kind;
  Transfer transfer;
  Update update;
  std::uint64_t epoch;  ///< 0: fences do not order the operation
  char* buffer;         ///< a copy of the source of a put whose source may change
  std::size_t room;
  void* frames[kFrames];  ///< call stack of the thread that issued it
  int n_frames;
};

/// The operations of a context to a PE. Operations before and after a fence have different epochs.
/// An epoch releases one of the two tags, and the next epoch acquires it. This chain would break at
/// an epoch without operations, so only the last epoch may have none. A fence does not order gets.
struct Target {
  std::uint64_t tags[2], gets, epoch;
  bool dirty;       ///< an operation was issued since the last quiet
  bool in_epoch;    ///< an operation that fences order was issued since the last fence
  struct Site* by;  ///< the caller of that fence; null after the next operation
};

/// A place in the program that calls fence or quiet. A fence orders something if there are
/// operations to one PE before it and after it. A quiet does if an operation is pending.
struct Site {
  void* frames[kFrames];
  int n_frames;
  unsigned long calls;
  bool orders;
};
constexpr unsigned kMostSites = 256;

struct Context {
  Context* next;
  const void* key;   ///< null: its PE has ended
  const char* heap;  ///< heap of the PE
  Target* targets;
  int n_targets;
  Op* late;  ///< delayed operations, in the order of issue
  unsigned n_late;
  void* fibers[kMostFibers];
  unsigned n_fibers, n_free;  ///< the free fibers come first
};

template <class W>
void copy_words(char* to, const char* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += sizeof(W)) {
    const W word = __atomic_load_n(reinterpret_cast<const W*>(from + at), __ATOMIC_RELAXED);
    __atomic_store_n(reinterpret_cast<W*>(to + at), word, __ATOMIC_RELEASE);
  }
}
/// Copies by the largest words that both addresses and the size allow, so that words for which
/// threads wait are not torn.
void copy(char* to, const char* from, std::size_t bytes) {
  const std::uintptr_t all =
      reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) | bytes;
  if (all % 8 == 0) return copy_words<std::uint64_t>(to, from, bytes);
  if (all % 4 == 0) return copy_words<std::uint32_t>(to, from, bytes);
  if (all % 2 == 0) return copy_words<std::uint16_t>(to, from, bytes);
  copy_words<std::uint8_t>(to, from, bytes);
}

const char* source_at(const Transfer& t, std::size_t i) {
  return t.source + static_cast<std::ptrdiff_t>(i) * t.source_stride;
}
char* dest_at(const Transfer& t, std::size_t i) {
  return t.dest + static_cast<std::ptrdiff_t>(i) * t.dest_stride;
}

/// Orders a thread that waits for a word of this write after the writer.
void release_words(char* at, std::size_t bytes) {
  const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(at) | bytes;
  const std::size_t step = place % 4 == 0 ? 4 : 2;
  if (bytes > kMostFlagBytes || place % 2 != 0) return;
  for (std::size_t i = 0; i < bytes; i += step) __tsan_release(at + i);
}

/// Executes an atomic, which is atomic to other atomics. It releases what comes before it, and
/// acquires nothing.
void carry_out(const Update& u) {
  if (u.op != AmoOp::kSet) __tsan_release(u.word);
#define GSHMEM_UPDATE(BITS)                                                     \
  const auto operand = static_cast<std::uint##BITS##_t>(u.operand);             \
  switch (u.op) {                                                               \
    case AmoOp::kSet:                                                           \
      __tsan_atomic##BITS##_store(u.word, operand, __ATOMIC_RELEASE);           \
      break;                                                                    \
    case AmoOp::kAnd:                                                           \
      (void)__tsan_atomic##BITS##_fetch_and(u.word, operand, __ATOMIC_RELAXED); \
      break;                                                                    \
    case AmoOp::kOr:                                                            \
      (void)__tsan_atomic##BITS##_fetch_or(u.word, operand, __ATOMIC_RELAXED);  \
      break;                                                                    \
    case AmoOp::kXor:                                                           \
      (void)__tsan_atomic##BITS##_fetch_xor(u.word, operand, __ATOMIC_RELAXED); \
      break;                                                                    \
    default:                                                                    \
      (void)__tsan_atomic##BITS##_fetch_add(u.word, operand, __ATOMIC_RELAXED); \
  }
  if (u.bytes == 8) {
    GSHMEM_UPDATE(64)
  } else {
    GSHMEM_UPDATE(32)
  }
#undef GSHMEM_UPDATE
}

void carry_out(const Transfer& t, const char* buffer) {
  for (std::size_t i = 0; i < t.count && t.bytes != 0; ++i) {
    const char* const from = buffer ? buffer + i * t.bytes : source_at(t, i);
    char* const to = dest_at(t, i);
    if (!buffer) note_reading(from, t.bytes);
    __tsan_write_range(to, t.bytes);
    release_words(to, t.bytes);
    copy(to, from, t.bytes);
  }
  if (t.signal)
    carry_out(Update{t.state, t.pe, t.signal, sizeof(*t.signal), t.signal_op, t.signal_value});
}

class FiberChecker final : public device::order::Checker {
 public:
  FiberChecker(std::uint64_t seed, bool names_fences)
      : random_(seed), names_fences_(names_fences) {}

  /// Reports each place whose fences or quiets have ordered nothing. It makes a race with special
  /// thread names, which gshmem-check recognizes. So ThreadSanitizer finds file and line of the
  /// place.
  void name_fences() {
    for (unsigned i = 0; i < n_sites_; ++i) {
      const Site& site = sites_[i];
      if (site.orders) continue;
      char name[64];
      (void)std::snprintf(name, sizeof(name), "orders nothing, %lu calls", site.calls);
      void* const here = __tsan_get_current_fiber();
      void* const fibers[2] = {__tsan_create_fiber(0), __tsan_create_fiber(0)};
      for (void* const fiber : fibers) {
        __tsan_set_fiber_name(fiber, name);
        __tsan_switch_to_fiber(fiber, kNoSync);
        for (int frame = site.n_frames; frame-- > 0;) __tsan_func_entry(site.frames[frame]);
        __tsan_write_range(&sites_[i].calls, sizeof(site.calls));
        for (int frame = 0; frame < site.n_frames; ++frame) __tsan_func_exit();
        __tsan_switch_to_fiber(here, kNoSync);
      }
    }
  }

  void put(const Transfer& t) override {
    if (t.blocking) {
      for (std::size_t i = 0; i < t.count; ++i) note_reading(source_at(t, i), t.bytes);
    }
    issue(Op::kPut, t, {t.state, t.pe, nullptr, 0, AmoOp::kSet, 0},
          static_cast<void**>(__builtin_frame_address(0)));
  }
  void get(const Transfer& t) override {
    if (!t.blocking)
      return issue(Op::kGet, t, {t.state, t.pe, nullptr, 0, AmoOp::kSet, 0},
                   static_cast<void**>(__builtin_frame_address(0)));
    help();
    carry_out(t, nullptr);
  }
  void update(const Update& update) override {
    issue(Op::kUpdate,
          {.state = update.state, .pe = update.pe, .dest = nullptr, .source = nullptr, .bytes = 0},
          update, static_cast<void**>(__builtin_frame_address(0)));
  }
  void land(const Transfer& fetch) override {
    issue(Op::kLand, fetch, {fetch.state, fetch.pe, nullptr, 0, AmoOp::kSet, 0},
          static_cast<void**>(__builtin_frame_address(0)));
  }

  void fence(const DeviceState& state) override {
    const Locked locked(lock_);
    Context& context = context_of(state);
    Site* const site = site_of(static_cast<void**>(__builtin_frame_address(0)));
    for (int pe = 0; pe < context.n_targets; ++pe) {
      Target& target = context.targets[pe];
      if (target.in_epoch) ++target.epoch;
      if (target.in_epoch) target.by = site;
      target.in_epoch = false;
    }
  }

  void quiet(const DeviceState& state, int pe) override {
    const Locked locked(lock_);
    Context& context = context_of(state);
    if (Site* const site = site_of(static_cast<void**>(__builtin_frame_address(0)))) {
      for (int at = pe < 0 ? 0 : pe; at < (pe < 0 ? context.n_targets : pe + 1); ++at)
        site->orders = site->orders || context.targets[at].dirty;
    }
    complete(context, pe);
  }

  void finish(const DeviceState& state) override {
    const Locked locked(lock_);
    for (Context* context = contexts_; context; context = context->next) {
      if (!context->key || context->heap != state.heap) continue;
      complete(*context, -1);
      for (unsigned i = 0; i < context->n_fibers; ++i) __tsan_destroy_fiber(context->fibers[i]);
      n_fibers_ -= context->n_fibers;
      context->n_fibers = context->n_free = 0;
      context->key = nullptr;
    }
    collectives_.finish(state);
  }

  /// A fence before the atomic orders it, too.
  void before_fetch(const DeviceState& state, int pe) override {
    help();
    const Locked locked(lock_);
    Context& context = context_of(state);
    Target& target = context.targets[pe];
    note_later(target);
    if (target.epoch == 0) return;
    while (Op* const op = first_before(context, pe, target.epoch)) deliver(context, op);
    __tsan_acquire(&target.tags[(target.epoch + 1) % 2]);
  }

  std::uint64_t poll(const void* word, unsigned bytes) override {
    help();
    switch (bytes) {
      case 2:
        return __atomic_load_n(static_cast<const std::uint16_t*>(word), __ATOMIC_ACQUIRE);
      case 4:
        return __atomic_load_n(static_cast<const std::uint32_t*>(word), __ATOMIC_ACQUIRE);
      default:
        return __atomic_load_n(static_cast<const std::uint64_t*>(word), __ATOMIC_ACQUIRE);
    }
  }
  void acquire(const void* word) override { __tsan_acquire(const_cast<void*>(word)); }

  void join(const DeviceState& state) override {
    char name[64];
    (void)name_of("thread", state, name);
    __tsan_set_fiber_name(__tsan_get_current_fiber(), name);
  }

  void enter(const Collective& call) override {
    const Locked locked(lock_);
    collectives_.enter(call, static_cast<void**>(__builtin_frame_address(0)));
  }
  void leave(const Collective& call) override {
    const Locked locked(lock_);
    collectives_.leave(call);
  }
  void ignore(bool begins) override {
    (begins ? AnnotateIgnoreReadsBegin : AnnotateIgnoreReadsEnd)(__FILE__, __LINE__);
    (begins ? AnnotateIgnoreWritesBegin : AnnotateIgnoreWritesEnd)(__FILE__, __LINE__);
  }

 private:
  std::uint64_t draw() { return mixed(random_ += 0x9e3779b97f4a7c15u); }
  unsigned draw(unsigned below) { return static_cast<unsigned>(draw() % below); }

  /// Identifies a context. A state to which a handle refers is identified by its address. Any other
  /// state is identified by its heap, because programs may copy the state of their PE.
  static const void* key_of(const DeviceState& state) {
    const abi::ContextEntry* const entries = state.host_contexts;
    for (std::uint32_t i = 0; entries && i < abi::kMaxContexts; ++i) {
      const DeviceState* const each = __atomic_load_n(&entries[i].state, __ATOMIC_RELAXED);
      if (!each) break;
      if (each == &state) return each;
    }
    return state.heap;
  }

  Context& context_of(const DeviceState& state) {
    const void* const key = key_of(state);
    Context* unused = nullptr;
    for (Context* context = contexts_; context; context = context->next) {
      if (context->key == key) return *context;
      if (!context->key && context->n_targets >= state.n_pes) unused = context;
    }
    if (!unused) {
      unused = static_cast<Context*>(std::calloc(1, sizeof(Context)));
      unused->n_targets = state.n_pes;
      unused->targets =
          static_cast<Target*>(std::calloc(static_cast<std::size_t>(state.n_pes), sizeof(Target)));
      unused->next = contexts_;
      contexts_ = unused;
    }
    unused->key = key;
    unused->heap = state.heap;
    return *unused;
  }

  void* take_fiber(Context& context, const DeviceState& state) {
    if (context.n_free > 0) {
      // The position after the free fibers is the first position of those in use: the fiber stays
      // there.
      return context.fibers[--context.n_free];
    }
    if (context.n_fibers == kMostFibers || (context.n_fibers > 0 && n_fibers_ >= kMostFibersOfAll))
      return context.fibers[draw(context.n_fibers)];
    void* const fiber = __tsan_create_fiber(0);
    char name[64];
    (void)name_of("operation", state, name);
    __tsan_set_fiber_name(fiber, name);
    ++n_fibers_;
    return context.fibers[context.n_fibers++] = fiber;
  }

  Op* new_op() {
    Op* op = unused_;
    if (op) {
      unused_ = op->next;
    } else {
      op = static_cast<Op*>(std::calloc(1, sizeof(Op)));
    }
    return op;
  }

  void issue(Op::Kind kind, const Transfer& transfer, const Update& update, void** frame) {
    const Locked locked(lock_);
    Context& context = context_of(*transfer.state);
    Target& target = context.targets[transfer.pe];
    Op* const op = new_op();
    op->kind = kind;
    target.dirty = true;
    target.in_epoch = target.in_epoch || is_fenced(*op);
    op->transfer = transfer;
    op->update = update;
    op->epoch = is_fenced(*op) ? target.epoch : 0;
    if (is_fenced(*op)) note_later(target);
    op->n_frames = callers(frame, op->frames);
    if (transfer.blocking) fill(*op);
    op->fiber = take_fiber(context, *transfer.state);
    void* const here = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(op->fiber, 0);  // this orders it after its issue
    __tsan_switch_to_fiber(here, kNoSync);
    op->next = nullptr;
    Op** end = &context.late;
    while (*end) end = &(*end)->next;
    *end = op;
    __atomic_store_n(&n_late_, n_late_ + 1, __ATOMIC_RELAXED);
    if (++context.n_late > kMostLate) deliver_any(context, -1);
  }

  /// Returns null if fences are not reported.
  Site* site_of(void** frame) {
    if (!names_fences_) return nullptr;
    Site made{};
    made.n_frames = callers(frame, made.frames);
    unsigned at = 0;
    for (; at < n_sites_; ++at) {
      const Site& known = sites_[at];
      int same = 0;
      while (same < made.n_frames && known.frames[same] == made.frames[same]) ++same;
      if (known.n_frames == made.n_frames && same == made.n_frames) break;
    }
    if (at == kMostSites) return nullptr;
    if (at == n_sites_) sites_[n_sites_++] = made;
    ++sites_[at].calls;
    return &sites_[at];
  }
  static void note_later(Target& target) {
    if (target.by) target.by->orders = true;
    target.by = nullptr;
  }

  static void fill(Op& op) {
    const Transfer& t = op.transfer;
    const std::size_t bytes = t.bytes * t.count;
    if (op.room < bytes) {
      AnnotateIgnoreWritesBegin(__FILE__, __LINE__);  // for ThreadSanitizer both calls store to it
      std::free(op.buffer);
      op.buffer = static_cast<char*>(std::malloc(bytes));
      AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
      op.room = bytes;
    }
    for (std::size_t i = 0; i < t.count && t.bytes != 0; ++i)
      copy(op.buffer + i * t.bytes, source_at(t, i), t.bytes);
  }

  static bool is_fenced(const Op& op) { return op.kind == Op::kPut || op.kind == Op::kUpdate; }

  /// Returns the first operation that a fence orders before operations of that epoch to `pe`.
  static Op* first_before(const Context& context, int pe, std::uint64_t epoch) {
    for (Op* op = context.late; op; op = op->next) {
      if (is_fenced(*op) && op->transfer.pe == pe && op->epoch < epoch) return op;
    }
    return nullptr;
  }

  /// Executes one delayed operation to `pe`, or to any PE (-1).
  bool deliver_any(Context& context, int pe) {
    unsigned count = 0;
    for (const Op* op = context.late; op; op = op->next)
      count += static_cast<unsigned>(pe < 0 || op->transfer.pe == pe);
    if (count == 0) return false;
    unsigned left = draw(count);
    Op* op = context.late;
    for (;; op = op->next) {
      if (pe >= 0 && op->transfer.pe != pe) continue;
      if (left-- == 0) break;
    }
    Op* const before = first_before(context, op->transfer.pe, op->epoch);
    deliver(context, before ? before : op);
    return true;
  }

  void deliver(Context& context, Op* op) {
    Op** link = &context.late;
    while (*link != op) link = &(*link)->next;
    *link = op->next;
    --context.n_late;
    __atomic_store_n(&n_late_, n_late_ - 1, __ATOMIC_RELAXED);
    Target& target = context.targets[op->transfer.pe];
    void* const here = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(op->fiber, kNoSync);
    for (int i = op->n_frames; i-- > 0;) __tsan_func_entry(op->frames[i]);
    if (is_fenced(*op)) __tsan_acquire(&target.tags[(op->epoch + 1) % 2]);
    if (op->kind == Op::kUpdate) {
      carry_out(op->update);
    } else {
      carry_out(op->transfer, op->transfer.blocking ? op->buffer : nullptr);
    }
    __tsan_release(is_fenced(*op) ? &target.tags[op->epoch % 2] : &target.gets);
    for (int i = 0; i < op->n_frames; ++i) __tsan_func_exit();
    __tsan_switch_to_fiber(here, kNoSync);
    op->next = unused_;
    unused_ = op;
  }

  /// Orders the calling thread after all operations to `pe`, or to all PEs (-1).
  void complete(Context& context, int pe) {
    while (deliver_any(context, pe)) {
    }
    for (int at = pe < 0 ? 0 : pe; at < (pe < 0 ? context.n_targets : pe + 1); ++at) {
      Target& target = context.targets[at];
      // Another thread may have executed some of these operations: the tags order this thread after
      // them.
      __tsan_acquire(&target.tags[0]);
      __tsan_acquire(&target.tags[1]);
      __tsan_acquire(&target.gets);
      if (target.in_epoch) ++target.epoch;
      target.dirty = target.in_epoch = false;
      target.by = nullptr;
    }
    if (pe < 0) context.n_free = context.n_fibers;
  }

  /// Called by a thread that waits. It executes delayed operations of other threads, which might
  /// otherwise never be executed.
  void help() {
    if (__atomic_load_n(&n_late_, __ATOMIC_RELAXED) == 0) return;
    const Locked locked(lock_);
    if (draw(kHelpEvery) != 0) return;
    for (int round = 0; round < 2; ++round) {
      if (!turn_) turn_ = contexts_;
      while (turn_) {
        Context& context = *turn_;
        turn_ = turn_->next;
        if (context.late) return void(deliver_any(context, -1));
      }
    }
  }

  static constexpr unsigned kHelpEvery = 4;
  SpinLock lock_;  ///< guards all members below
  std::uint64_t random_;
  Context* contexts_ = nullptr;
  Context* turn_ = nullptr;
  Op* unused_ = nullptr;
  CollectiveChecker collectives_;
  unsigned n_late_ = 0, n_fibers_ = 0;
  const bool names_fences_;
  Site sites_[kMostSites];
  unsigned n_sites_ = 0;
};

FiberChecker* checker = nullptr;

}  // namespace

void order_check_start(std::uint64_t seed, bool names_fences) {
  static SpinLock starting;
  const Locked locked(starting);
  if (checker) return;
  __atomic_store_n(&checker, new FiberChecker(seed, names_fences), __ATOMIC_RELEASE);
  if (names_fences) (void)std::atexit([] { checker->name_fences(); });
}

}  // namespace gshmem

gshmem::device::order::Checker* gshmemi_order_checker() {
  return __atomic_load_n(&gshmem::checker, __ATOMIC_ACQUIRE);
}
