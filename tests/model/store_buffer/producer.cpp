#include "tests/model/store_buffer/producer.h"

#include <algorithm>
#include <cstring>

namespace gshmem::model {
namespace {

using device::Amo;
using device::AmoOp;
using device::Thread;
using device::nic::Arrival;
using device::nic::Reuse;

std::uint32_t below(std::uint64_t n) { return model().random.below(n); }

}  // namespace

void Job::check_signal(int pe, std::uint64_t offset) {
  const std::uint64_t in_heap = offset - abi::kInternalBytes;
  const std::uint64_t at = in_heap % kPartBytes;
  if (at < kSignals || at >= kSignals + 8 * kSlots) return;
  const std::size_t thread = in_heap / kPartBytes, which = (at - kSignals) / 8;
  Shadow& shadow = shadows[thread][static_cast<std::size_t>(pe)];
  auto& signalled = shadow.signalled[which];
  if (signalled.empty()) fail("signal %zu of thread %zu comes once too often", which, thread);
  for (const Payload& payload : signalled.front()) {
    const char* there = remote(thread, pe) + payload.at;
    if (std::memcmp(there, shadow.part.data() + payload.at, payload.bytes) != 0) {
      fail("signal %zu of thread %zu at PE %d comes before its payload of %zu bytes", which, thread,
           pe, static_cast<std::size_t>(payload.bytes));
    }
    if (payload.position == 0 || nic->flushed(payload.queue, payload.position)) continue;
    fail(
        "signal %zu of thread %zu at PE %d comes before its payload of %zu bytes, which may still "
        "be on its way",
        which, thread, pe, static_cast<std::size_t>(payload.bytes));
  }
  signalled.pop_front();
}

void Producer::run() {
  for (std::uint32_t i = 0; i < job_.calls && !over(); ++i) {
    pe_ = 1 + static_cast<int>(below(job_.heaps->remote.size() - 1));
    if (job_.crowded && i % 4 == 0) synchronize();
    call();
  }
  if (job_.fails || below(4) != 0) quiet();
}

/// Lets all threads start again together, from an empty queue.
void Producer::synchronize() {
  quiet();
  const std::uint64_t all = job_.shadows.size();
  const std::uint64_t sync = job_.met++ / all + 1;
  while (job_.met < sync * all && !over()) pause();
}

void Producer::call() {
  if (job_.small_only) return small_call();
  if (job_.scarce && below(3) == 0) return below(2) ? get_one() : atomic8();
  if (job_.crowded) return crowded_call();
  switch (below(14)) {
    case 0:
    case 1:
      return put_from_heap();
    case 2:
      return put_from_stack();
    case 3:
      return put_waiting();
    case 4:
      return p();
    case 5:
    case 6:
      return put_signal(Source::kAny);
    case 7:
      return get();
    case 8:
      return get_one();
    case 9:
      return add_and_announce();
    case 10:
      return below(2) ? atomic8() : atomic4();
    case 11:
      return amo();
    case 12:
      return burst();
    default:
      // With rails, odd threads put by another queue than that of their signals.
      if (state_->nic.rails > 1 && self_ % 2 != 0 && below(4) != 0) return put_fence_signal();
      return quiet();
  }
}

/// Makes a call by lanes of a warp. More than two entries would not be reserved together.
void Producer::small_call() {
  switch (below(12)) {
    case 0:
      return quiet();
    case 1:
      return add_and_announce();
    case 2:
    case 3:
      return put_from_stack();
    case 4:
      return put_from_heap();
    case 5:
      return put_signal(Source::kHeap);
    case 6:
      return put_waiting();
    case 7:
      return amo();
    default:
      return p();
  }
}

/// Posts as many entries as the short path does, which fill the queue.
void Producer::crowded_call() {
  switch (below(16)) {
    case 0:
      return put_from_stack();
    case 1:
      return quiet();
    case 2:
      return p();
    case 3:
      return amo();
    default:
      return put_signal(Source::kHeap);
  }
}

/// Returns bytes of which no two neighbours are equal, different from all patterns of this thread.
Producer::Bytes Producer::pattern(std::uint32_t bytes) {
  Bytes all(bytes);
  ++pattern_;
  for (std::uint32_t i = 0; i < bytes; ++i) {
    all[i] = static_cast<char>(pattern_ * 37 + i * 7 + (i >> 5));
  }
  return all;
}

/// Returns a source that no earlier put uses any more.
std::uint64_t Producer::next_slot() {
  if (++used_ > kSlots) {
    quiet();
    used_ = 1;
  }
  slot_ = (slot_ + 1) % kSlots;
  return slot_ * kSlotBytes;
}

void Producer::fill(std::uint64_t at, const Bytes& bytes) {
  std::size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) {
    std::uint32_t word;
    std::memcpy(&word, &bytes[i], sizeof(word));
    device::store_bulk(reinterpret_cast<std::uint32_t*>(local(at + i)), word);
  }
  for (; i < bytes.size(); ++i) {
    device::store_bulk(reinterpret_cast<std::uint8_t*>(local(at + i)),
                       static_cast<std::uint8_t>(bytes[i]));
  }
}

void Producer::expect(std::uint64_t at, const char* bytes, std::size_t n) {
  std::memcpy(shadow().part.data() + at, bytes, n);
}

/// Checks after the call that it is complete at the target.
void Producer::check(std::uint64_t at, std::size_t n, const char* call) {
  if (over()) return;
  if (std::memcmp(job_.remote(self_, pe_) + at, shadow().part.data() + at, n) != 0) {
    fail("%s of thread %zu has ended, but the %zu bytes at %llu of PE %d are not what it has put",
         call, self_, n, static_cast<unsigned long long>(at), pe_);
  }
}

void Producer::check_got(const char* got, std::uint64_t at, std::size_t n, const char* call) {
  if (over()) return;
  if (std::memcmp(got, shadow().part.data() + at, n) != 0) {
    fail("%s of thread %zu: the %zu bytes from %llu of PE %d are not what was there", call, self_,
         n, static_cast<unsigned long long>(at), pe_);
  }
}

void Producer::put_from_heap() {
  const std::uint64_t at = next_slot();
  if (over()) return;  // the put that used the slot may be pending
  const Bytes bytes = pattern(1 + below(300));
  fill(at, bytes);
  expect(at, bytes.data(), bytes.size());
  device::nic::put(Thread{}, *state_, local(at), local(at), bytes.size(), pe_, Reuse::kAtQuiet);
}

/// The data is inside the entries: the source is free at once.
void Producer::put_from_stack() {
  const std::uint64_t at = next_slot();
  // A warp posts up to two entries, because more would not be reserved together.
  const Bytes bytes = pattern(1 + below(job_.small_only ? 92 : 300));
  char source[304];
  const std::size_t shift = below(4);
  std::memcpy(source + shift, bytes.data(), bytes.size());
  expect(at, bytes.data(), bytes.size());
  device::nic::put(Thread{}, *state_, local(at), source + shift, bytes.size(), pe_,
                   Reuse::kOnReturn);
  std::memset(source, 0x55, sizeof(source));
}

/// Small ones travel inside the entry, and are not waited for.
void Producer::put_waiting() {
  const std::uint64_t at = next_slot();
  if (over()) return;  // the put that used the slot may be pending
  const Bytes bytes = pattern(1 + below(240));
  fill(at, bytes);
  expect(at, bytes.data(), bytes.size());
  device::nic::put(Thread{}, *state_, local(at), local(at), bytes.size(), pe_, Reuse::kOnReturn);
  if (bytes.size() > device::nic::kInlinePutBytes) check(at, bytes.size(), "put");
}

template <class T>
void Producer::p_of() {
  const std::uint64_t at = below(kSlots) * kSlotBytes + 400 + below(32 / sizeof(T)) * sizeof(T);
  const Bytes bytes = pattern(sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  expect(at, bytes.data(), bytes.size());
  device::nic::p(*state_, reinterpret_cast<T*>(local(at)), value, pe_);
}

/// Calls p with all sizes; the largest one does not use the short path.
void Producer::p() {
  switch (below(8)) {
    case 0:
      return p_of<std::uint8_t>();
    case 1:
      return p_of<std::uint16_t>();
    case 2:
      return p_of<std::uint32_t>();
    case 3:
      return p_of<device::Word16>();
    default:
      return p_of<std::uint64_t>();
  }
}

void Producer::put_signal(Source from) {
  const std::uint64_t at = next_slot(), signal = kSignals + slot_ * 8;
  if (over()) return;
  const Bytes bytes = pattern(1 + below(job_.crowded ? 40 : 260));
  const bool from_heap = from == Source::kHeap || below(2) == 0;
  const bool adds = below(job_.crowded ? 8 : 2) == 0, waits = below(job_.crowded ? 2 : 4) == 0;
  char source[264];
  if (from_heap) {
    fill(at, bytes);
  } else {
    std::memcpy(source, bytes.data(), bytes.size());
  }
  expect(at, bytes.data(), bytes.size());
  const std::uint64_t operand = expect_update(adds, {{at, bytes.size()}});
  device::nic::put_signal(Thread{}, *state_, local(at), from_heap ? local(at) : source,
                          bytes.size(), {local(signal), operand, adds ? AmoOp::kAdd : AmoOp::kSet},
                          pe_, waits ? Reuse::kOnReturn : Reuse::kAtQuiet);
  if (!waits || !from_heap || bytes.size() <= device::nic::kInlinePutBytes) return;
  check(at, bytes.size(), "put_signal");
  check(signal, sizeof(operand), "put_signal");
  // Earlier entries of this thread on this queue are complete, too.
  if (job_.crowded) used_ = 0;
}

/// Returns the operand for an update of the signal of the slot that was used last.
std::uint64_t Producer::expect_update(bool adds, const std::vector<Payload>& behind) {
  const std::uint64_t signal = kSignals + slot_ * 8, operand = 1 + below(1000);
  std::uint64_t value;
  std::memcpy(&value, shadow().part.data() + signal, sizeof(value));
  value = adds ? value + operand : operand;
  expect(signal, reinterpret_cast<const char*>(&value), sizeof(value));
  shadow().signalled[slot_].push_back(behind);
  return operand;
}

/// Puts from the heap and from elsewhere whose doorbell is rung later, and perhaps a signal after
/// them. There is no quiet while some have no doorbell.
void Producer::burst() {
  const std::uint32_t puts = 1 + below(kSlots);
  quiet();
  if (over()) return;
  used_ = 0;
  std::vector<Payload> all;
  device::Burst<Thread> burst(Thread{}, *state_, pe_, true);
  for (std::uint32_t i = 0; i < puts; ++i) {
    const std::uint64_t at = next_slot();
    const bool is_word = below(4) == 0, from_heap = below(8) != 0;
    const Bytes bytes = pattern(is_word ? 8 : 1 + below(below(8) ? 64 : 300));
    all.push_back({at, bytes.size()});
    expect(at, bytes.data(), bytes.size());
    if (is_word) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data(), sizeof(word));
      burst.put_word(local(at), word, sizeof(word));
    } else {
      char source[304];
      std::memcpy(source, bytes.data(), bytes.size());
      if (from_heap) fill(at, bytes);
      burst.put(local(at), from_heap ? local(at) : source, {bytes.size(), 1});
      std::memset(source, 0x55, sizeof(source));
    }
    if (below(4) == 0) burst.ring();
    if (over()) return;
  }
  if (below(3) != 0) {
    const std::uint64_t signal = kSignals + slot_ * 8;
    const bool adds = below(2) == 0;
    const std::uint64_t operand = expect_update(adds, all);
    burst.signal({reinterpret_cast<std::uint64_t*>(local(signal)), operand,
                  adds ? GSHMEM_SIGNAL_ADD : GSHMEM_SIGNAL_SET});
  }
  burst.end();
}

/// The signal uses a queue of its own, which may be far ahead of that of the put.
void Producer::put_fence_signal() {
  const std::uint64_t at = next_slot(), signal = kSignals + slot_ * 8;
  const Bytes bytes = pattern(1 + below(300));
  fill(at, bytes);
  expect(at, bytes.data(), bytes.size());
  device::nic::put(Thread{}, *state_, local(at), local(at), bytes.size(), pe_, Reuse::kAtQuiet);
  const std::size_t queue =
      static_cast<std::size_t>(pe_) * state_->nic.per_pe + self_ % state_->nic.per_pe;
  const std::uint64_t position =
      device::PublishedWord::end(device::load_acquire_gpu(&state_->nic.cursors[queue].ready));
  device::fence(Thread{}, *state_);
  if (over()) return;
  const bool adds = below(2) == 0;
  const std::uint64_t operand = expect_update(adds, {{at, bytes.size(), queue, position}});
  device::nic::amo(*state_, local(signal), Amo{adds ? AmoOp::kAdd : AmoOp::kSet, 8, operand, 0},
                   pe_);
}

/// The thread's puts arrive before its read, because they use one connection.
void Producer::put_before_get() {
  if (state_->nic.rails > 1) quiet();
}

/// Gets into the heap or into other memory.
void Producer::get() {
  put_before_get();
  const std::uint64_t at = below(kSlots / 2) * kSlotBytes + below(8);
  const bool large = below(8) == 0;  // larger than a scratch slot
  const std::uint64_t bytes = 1 + (large ? 1800 + below(240) : below(200));
  char got[2056];
  if (large || below(2) == 0) {
    device::nic::get(Thread{}, *state_, got + at % 8, local(at), bytes, pe_, Arrival::kOnReturn);
    return check_got(got + at % 8, at, bytes, "get");
  }
  const bool waits = below(4) != 0;
  device::nic::get(Thread{}, *state_, local(kLanding), local(at), bytes, pe_,
                   waits ? Arrival::kOnReturn : Arrival::kAtQuiet);
  if (!waits) quiet();
  for (std::uint64_t i = 0; i < bytes; ++i) {
    got[i] = static_cast<char>(
        device::load_bulk(reinterpret_cast<const std::uint8_t*>(local(kLanding + i))));
  }
  check_got(got, at, bytes, "get into the heap");
}

void Producer::get_one() {
  put_before_get();
  const std::uint64_t at = below(kSlots) * kSlotBytes + 8 * below(16);
  const auto value =
      device::nic::g(*state_, reinterpret_cast<const std::uint64_t*>(local(at)), pe_);
  check_got(reinterpret_cast<const char*>(&value), at, sizeof(value), "g");
}

/// A thread that sees the announcement may expect the addition after its own quiet.
void Producer::add_and_announce() {
  std::uint64_t count;
  std::memcpy(&count, shadow().part.data() + kWords, sizeof(count));
  ++count;
  expect(kWords, reinterpret_cast<const char*>(&count), sizeof(count));
  device::nic::amo(*state_, local(kWords), Amo{AmoOp::kAdd, 8, 1, 0}, pe_);
  device::store_release_gpu(&job_.announced[self_][static_cast<std::size_t>(pe_)], count);
}

template <class T>
static T updated(AmoOp op, T old, T operand, T cond) {
  switch (op) {
    case AmoOp::kFetch:
      return old;
    case AmoOp::kSet:
    case AmoOp::kSwap:
      return operand;
    case AmoOp::kCompareSwap:
      return old == cond ? operand : old;
    case AmoOp::kAdd:
      return static_cast<T>(old + operand);
    case AmoOp::kAnd:
      return old & operand;
    case AmoOp::kOr:
      return old | operand;
    case AmoOp::kXor:
      return old ^ operand;
  }
  return old;
}

/// The result of the call is checked here, its effect at the next quiet.
template <class T>
static T atomic_call(const device::State& state, void* word, T old, int pe, T& made) {
  constexpr AmoOp kOps[] = {AmoOp::kFetch, AmoOp::kSwap, AmoOp::kCompareSwap, AmoOp::kAdd,
                            AmoOp::kAnd,   AmoOp::kOr,   AmoOp::kXor};
  const AmoOp op = kOps[below(7)];
  const T operand = static_cast<T>(model().random.next());
  const T cond = below(2) ? old : static_cast<T>(operand + 1);
  made = updated(op, old, operand, cond);
  return static_cast<T>(
      device::nic::amo_fetching(state, word, Amo{op, sizeof(T), operand, cond}, pe));
}

void Producer::atomic8() {
  const std::uint64_t at = kWords + 8;
  std::uint64_t old, made;
  std::memcpy(&old, shadow().part.data() + at, sizeof(old));
  const std::uint64_t got = atomic_call(*state_, local(at), old, pe_, made);
  check_got(reinterpret_cast<const char*>(&got), at, sizeof(got), "fetching atomic of 8 bytes");
  expect(at, reinterpret_cast<const char*>(&made), sizeof(made));
}

void Producer::atomic4() {
  const std::uint64_t at = kWords + 20;
  std::uint32_t old, made;
  std::memcpy(&old, shadow().part.data() + at, sizeof(old));
  const std::uint32_t got = atomic_call(*state_, local(at), old, pe_, made);
  check_got(reinterpret_cast<const char*>(&got), at, sizeof(got), "fetching atomic of 4 bytes");
  expect(at, reinterpret_cast<const char*>(&made), sizeof(made));
}

/// The old value is not returned. The effect is checked by the next atomic there, or quiet.
template <class T>
void Producer::amo_of(std::uint64_t at) {
  constexpr AmoOp kOps[] = {AmoOp::kSet, AmoOp::kAdd, AmoOp::kAnd, AmoOp::kOr, AmoOp::kXor};
  T old;
  std::memcpy(&old, shadow().part.data() + at, sizeof(old));
  const AmoOp op = kOps[below(5)];
  const T operand = static_cast<T>(model().random.next());
  const T made = updated(op, old, operand, T{0});
  expect(at, reinterpret_cast<const char*>(&made), sizeof(made));
  device::nic::amo(*state_, local(at), Amo{op, sizeof(T), operand, 0}, pe_);
}

void Producer::amo() {
  below(2) ? amo_of<std::uint64_t>(kWords + 8) : amo_of<std::uint32_t>(kWords + 20);
}

/// All calls of this thread are complete, and those of others that it knows of.
void Producer::quiet() {
  used_ = 0;
  std::vector<std::vector<std::uint64_t>> known = job_.announced;
  for (std::size_t thread = 0; thread < known.size(); ++thread) {
    for (std::size_t pe = 1; pe < known[thread].size(); ++pe) {
      known[thread][pe] = device::load_acquire_gpu(&job_.announced[thread][pe]);
    }
  }
  std::vector<std::uint64_t> published;
  bool told = false;
  for (std::uint32_t at = 0; at < state_->nic.count; ++at) {
    const std::uint64_t ready = device::load_acquire_gpu(&state_->nic.cursors[at].ready);
    published.push_back(device::PublishedWord::end(ready));
    told = told || job_.nic->told_of_error(at, published[at]);
  }
  const bool good = device::nic::quiet(Thread{}, *state_, "quiet");
  if (good && told) fail("quiet of thread %zu is good after an error completion", self_);
  if (!good && !job_.fails) fail("quiet of thread %zu failed", self_);
  for (std::size_t at = 0; good && at < published.size(); ++at) {
    if (published[at] == job_.start || job_.nic->flushed(at, published[at])) continue;
    fail("quiet of thread %zu has ended, but what queue %zu has put may still be on its way", self_,
         at);
  }
  const int pe_before = pe_;
  for (pe_ = 1; pe_ < static_cast<int>(job_.heaps->remote.size()); ++pe_) {
    if (!good) break;
    check(0, kLanding, "quiet");
    check(kWords, kPartBytes - kWords, "quiet");
    for (std::size_t thread = 0; thread < known.size(); ++thread) {
      std::uint64_t count;
      std::memcpy(&count, job_.remote(thread, pe_) + kWords, sizeof(count));
      if (count < known[thread][static_cast<std::size_t>(pe_)]) {
        fail(
            "quiet of thread %zu has ended, but an atomic of thread %zu that it has seen "
            "announced is not at PE %d",
            self_, thread, pe_);
      }
    }
  }
  pe_ = pe_before;
  if (good) state_ = job_.states[below(2)];
}

}  // namespace gshmem::model
