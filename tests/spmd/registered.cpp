// Memory of the program that is registered as symmetric: every kind of call on it, by host threads
// and in kernels; several buffers; what comes and goes; and what is refused on all PEs alike.
#include "tests/spmd/user_memory.h"

#include <cstdlib>
#include <memory>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// Words of a registered buffer that a test uses, from its end backwards: the last one, too.
constexpr std::size_t kRegisteredWords = 64;

/// Jobs that use a network have no registered memory.
bool is_refused(Pe& pe) {
  bool network = std::getenv("GSHMEM_TEST_NO_NATIVE_ATOMICS") != nullptr;
  for (int other = 0; other < pe.n(); ++other) network |= !pe.maps(other);
  const char* p2p = std::getenv("GSHMEM_P2P");
  network |= p2p && *p2p == '0';
  if (!network) return false;
  UserMemory memory(pe, 1);
  SPMD_CHECK(pe, gshmemx_buffer_register_symmetric(memory.data(), memory.bytes(), 0) == nullptr);
  SPMD_EQ(pe, gshmemx_last_fault(nullptr), GSHMEMX_SUCCESS);
  return true;
}

/// A buffer that is registered for as long as the object lives.
struct Registered {
  Registered(Pe& of, UserMemory& memory, const void* preferred = nullptr)
      : pe(of), bytes(memory.bytes()) {
    void* const at = gshmemx_buffer_register_symmetric_at_preferred_address(
        memory.data(), bytes, const_cast<void*>(preferred), 0);
    data = static_cast<char*>(at);
    SPMD_CHECK(pe, data != nullptr);
  }
  ~Registered() { SPMD_EQ(pe, gshmemx_buffer_unregister_symmetric(data, bytes), 0); }
  Registered(const Registered&) = delete;
  /// The last kRegisteredWords words.
  [[nodiscard]] std::uint64_t* words() const {
    return reinterpret_cast<std::uint64_t*>(data + bytes) - kRegisteredWords;
  }
  Pe& pe;
  std::size_t bytes;
  char* data = nullptr;
};

std::vector<std::uint8_t> bytes_of(const Pe& pe, int of, std::size_t count) {
  std::vector<std::uint8_t> data(count);
  const std::uint64_t seed = mix(pe.seed(), static_cast<std::uint64_t>(of));
  for (std::size_t i = 0; i < count; ++i) data[i] = pattern(seed, i);
  return data;
}

/// Every word of a kernel's calls is in registered memory; they begin at 0.
struct AllInKernel {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* words) const {
    const int me = ctx.my_pe(), n = ctx.n_pes(), next = (me + 1) % n, last = (me + n - 1) % n;
    const auto of = [](int pe, std::uint64_t i) {
      return 1000 * static_cast<std::uint64_t>(pe + 1) + i;
    };
    for (std::uint64_t i = 0; i < 8; ++i) words[i] = of(me, i);
    gshmem_barrier_all();
    gshmem_uint64_put(words + 8, words, 8, next);
    gshmem_uint64_get(words + 16, words, 8, next);
    for (std::uint64_t i = 0; i < 8; ++i) SPMD_EQ(log, words[16 + i], of(next, i), i);
    gshmem_uint64_p(words + 24, of(me, 24), next);
    for (int pe = 0; pe < n; ++pe) (void)gshmem_uint64_atomic_fetch_add(words + 25, 3, pe);
    gshmem_uint64_put_signal(words + 26, words, 8, words + 34, 7, GSHMEM_SIGNAL_SET, next);
    gshmem_signal_wait_until(words + 34, GSHMEM_CMP_EQ, 7);
    for (std::uint64_t i = 0; i < 8; ++i) SPMD_EQ(log, words[26 + i], of(last, i), i);
    gshmem_barrier_all();
    for (std::uint64_t i = 0; i < 8; ++i) SPMD_EQ(log, words[8 + i], of(last, i), i);
    SPMD_EQ(log, words[24], of(last, 24));
    SPMD_EQ(log, words[25], 3 * static_cast<std::uint64_t>(n));
    auto* const theirs = static_cast<std::uint64_t*>(gshmem_ptr(words + 35, next));
    SPMD_CHECK(log, theirs != nullptr);
    SPMD_CHECK(log, gshmem_ptr(words + kRegisteredWords, next) == nullptr);
    if (theirs) *theirs = of(me, 35);
    gshmem_barrier_all();
    SPMD_EQ(log, words[35], of(last, 35));
  }
};

}  // namespace

SPMD_TEST(registered_memory_is_put_and_got_as_that_of_the_heap) {
  if (is_refused(pe)) return;
  constexpr std::size_t kBytes = 100000;
  UserMemory memory(pe, 2);
  memory.write(0, bytes_of(pe, pe.me(), memory.bytes()));
  const Registered registered(pe, memory);
  SymmetricArray<std::uint8_t> heap(kBytes);
  // What was there before is there, for the others, too; also across the seam of two allocations.
  const std::size_t seam = memory.bytes() / 2 - kBytes / 2;
  gshmem_getmem(heap.data(), registered.data + seam, kBytes, pe.next());
  const std::vector<std::uint8_t> theirs = bytes_of(pe, pe.next(), memory.bytes());
  const auto from = theirs.begin() + static_cast<std::ptrdiff_t>(seam);
  pe.equal_bytes(__LINE__, pe.read(heap.data(), kBytes), {from, from + kBytes});
  pe.barrier();
  // From the heap, to where the program sees it by its own address.
  pe.write(heap.data(), bytes_of(pe, pe.me() + 100, kBytes));
  gshmem_putmem(registered.data + seam, heap.data(), kBytes, pe.next());
  pe.barrier();
  pe.equal_bytes(__LINE__, memory.read(seam, kBytes), bytes_of(pe, pe.previous() + 100, kBytes));
  pe.barrier();
  // Into the heap, what the program has written by its own address.
  memory.write(5, bytes_of(pe, pe.me() + 200, kBytes));
  gshmem_putmem_nbi(heap.data(), registered.data + 5, kBytes, pe.next());
  pe.barrier();
  pe.equal_bytes(__LINE__, pe.read(heap.data(), kBytes), bytes_of(pe, pe.previous() + 200, kBytes));
  pe.barrier();
}

SPMD_TEST(registered_memory_takes_atomics_signals_and_collectives) {
  if (is_refused(pe)) return;
  UserMemory memory(pe, 1);
  const Registered registered(pe, memory);
  std::uint64_t* const words = registered.words();
  const auto n = static_cast<std::uint64_t>(pe.n()), me = static_cast<std::uint64_t>(pe.me());
  for (int other = 0; other < pe.n(); ++other) gshmem_uint64_atomic_add(words, 5, other);
  pe.barrier();
  SPMD_EQ(pe, gshmem_uint64_atomic_fetch(words, pe.next()), 5 * n);
  gshmem_uint64_put_signal(words + 1, words, 1, words + 2, me + 1, GSHMEM_SIGNAL_SET, pe.next());
  SPMD_EQ(pe, gshmem_signal_wait_until(words + 2, GSHMEM_CMP_NE, 0),
          static_cast<std::uint64_t>(pe.previous()) + 1);
  SPMD_EQ(pe, gshmem_uint64_g(words + 1, pe.me()), 5 * n);
  gshmem_uint64_p(words + 3, me + 1, pe.me());
  SPMD_EQ(pe, gshmem_uint64_sum_reduce(GSHMEM_TEAM_WORLD, words + 4, words + 3, 1), 0);
  SPMD_EQ(pe, gshmem_uint64_g(words + 4, pe.me()), n * (n + 1) / 2);
  SPMD_EQ(pe, gshmem_uint64_broadcast(GSHMEM_TEAM_WORLD, words + 5, words + 3, 1, pe.n() - 1), 0);
  SPMD_EQ(pe, gshmem_uint64_g(words + 5, pe.me()), n);
  SPMD_CHECK(pe, gshmem_ptr(words, pe.next()) != nullptr);
  SPMD_CHECK(pe, gshmem_ptr(words + kRegisteredWords, pe.next()) == nullptr);
  SPMD_EQ(pe, gshmem_addr_accessible(words, pe.next()), 1);
  pe.barrier();
}

SPMD_TEST(registered_memory_serves_kernels) {
  if (is_refused(pe)) return;
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  UserMemory memory(pe, 2);
  const Registered registered(pe, memory);
  pe.run({.blocks = 1, .threads = 1}, AllInKernel(), registered.words());
}

SPMD_TEST(buffers_are_registered_and_unregistered_in_any_order) {
  if (is_refused(pe)) return;
  UserMemory first(pe, 1), second(pe, 3), third(pe, 2);
  auto a = std::make_unique<Registered>(pe, first), b = std::make_unique<Registered>(pe, second);
  const Registered c(pe, third);
  const auto tell = [&](const Registered& registered, std::uint64_t value) {
    gshmem_uint64_p(registered.words(), value + static_cast<std::uint64_t>(pe.me()), pe.next());
  };
  tell(*a, 100), tell(*b, 200), tell(c, 300);
  pe.barrier();
  const auto check = [&](int line, const Registered& registered, std::uint64_t value) {
    pe.equal(line, gshmem_uint64_g(registered.words(), pe.me()),
             value + static_cast<std::uint64_t>(pe.previous()));
  };
  check(__LINE__, *a, 100), check(__LINE__, *b, 200), check(__LINE__, c, 300);
  char* const was = b->data;
  b.reset();
  SPMD_CHECK(pe, gshmem_ptr(was, pe.next()) == nullptr);
  check(__LINE__, *a, 100), check(__LINE__, c, 300);
  // The memory has what was put into it, and can come back: to where it was, by a wish.
  pe.equal(__LINE__, second.word(second.bytes() / 8 - kRegisteredWords),
           200 + static_cast<std::uint64_t>(pe.previous()));
  a.reset();
  b = std::make_unique<Registered>(pe, second, was);
  SPMD_EQ(pe, static_cast<const void*>(b->data), static_cast<const void*>(was));
  check(__LINE__, *b, 200);
  // What is taken, not aligned, outside or differs is no error.
  const void* const wishes[] = {was, was + 8, c.data, gshmemi_ambient()->state->heap,
                                pe.me() == 0 ? was + (1 << 21) : nullptr};
  for (const void* wish : wishes) {
    const Registered again(pe, first, wish);
    SPMD_CHECK(pe, again.data != was);
    tell(again, 400);
    pe.barrier();
    check(__LINE__, again, 400);
    pe.barrier();
  }
  check(__LINE__, *b, 200), check(__LINE__, c, 300);
  pe.barrier();
}

SPMD_TEST(wrong_registrations_are_refused_on_all_pes) {
  if (is_refused(pe)) return;
  UserMemory memory(pe, 2);
  char* const data = memory.data();
  const std::size_t bytes = memory.bytes();
  const bool is_last = pe.me() == pe.n() - 1;
  const auto refused = [&](int line, void* buffer, std::size_t size, int flags = 0) {
    void* const got = gshmemx_buffer_register_symmetric(buffer, size, flags);
    if (got) pe.fail(line, "was registered");
  };
  std::unique_ptr<char[]> own(new char[bytes]);
  refused(__LINE__, nullptr, bytes);
  refused(__LINE__, data, 0);
  refused(__LINE__, data, SIZE_MAX);
  refused(__LINE__, data, bytes, 1);
  refused(__LINE__, data + 8, bytes);   // not its beginning
  refused(__LINE__, data, bytes - 8);   // not its end
  refused(__LINE__, own.get(), bytes);  // nobody else can map it
  SymmetricArray<char> heap(bytes);
  refused(__LINE__, heap.data(), bytes);
  // A mistake of one PE.
  refused(__LINE__, is_last ? nullptr : data, bytes);
  refused(__LINE__, is_last ? own.get() : data, bytes);
  refused(__LINE__, data, bytes, is_last ? 4 : 0);
  if (pe.n() > 1) refused(__LINE__, data, is_last ? bytes / 2 : bytes);
  {
    const Registered registered(pe, memory);
    refused(__LINE__, data, bytes);
    refused(__LINE__, registered.data, bytes);
    const auto kept = [&](int line, void* at, std::size_t size, int status) {
      pe.equal(line, gshmemx_buffer_unregister_symmetric(at, size), status);
    };
    const int invalid = GSHMEMX_ERROR_INVALID_VALUE;
    kept(__LINE__, nullptr, bytes, invalid);
    kept(__LINE__, data, bytes, invalid);
    kept(__LINE__, registered.data + 8, bytes, invalid);
    kept(__LINE__, registered.data, bytes / 2, invalid);
    kept(__LINE__, is_last ? heap.data() : registered.data, bytes, invalid);
    if (pe.n() > 1) kept(__LINE__, registered.data, is_last ? bytes : 8, GSHMEMX_ERROR_SYMMETRY);
    gshmem_uint64_p(registered.words(), 77, pe.next());
    pe.barrier();
    SPMD_EQ(pe, memory.word(bytes / 8 - kRegisteredWords), 77u);
    pe.barrier();
  }
  SPMD_EQ(pe, gshmemx_last_fault(nullptr), GSHMEMX_SUCCESS);
}
