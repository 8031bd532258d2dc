// Registered memory of the program: every kind of call on it, by host threads and in kernels, with
// either side in the heap or not; several buffers; registration and its end; and cases that are
// refused on all PEs.
#include "tests/spmd/all_in_kernel.h"
#include "tests/spmd/user_memory.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

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

/// A burst with messages to registered memory between some to the heap, in order.
struct BurstInKernel {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* words,
                            std::uint64_t* heap, int handle) const {
    const int me = ctx.my_pe(), n = ctx.n_pes(), next = (me + 1) % n, last = (me + n - 1) % n;
    for (std::uint64_t i = 0; i < 8; ++i) words[i] = heap[i] = value(me, i);
    {
      Burst burst(ctx.on(handle), Thread{}, next);
      burst.put_nbi(words + 8, words, 4);
      burst.p(heap + 8, value(me, 40));
      burst.p(words + 12, value(me, 41));
      burst.put_nbi(words + 13, heap, 4);
      burst.put_nbi(heap + 9, heap, 4);
      burst.signal({words + 17, 1, Signal::kAdd});
    }
    ctx.wait_until(words + 17, Cmp::kEq, std::uint64_t{1});
    for (std::uint64_t i = 0; i < 4; ++i) {
      SPMD_EQ(log, words[8 + i], value(last, i), i);
      SPMD_EQ(log, words[13 + i], value(last, i), i);
      SPMD_EQ(log, heap[9 + i], value(last, i), i);
    }
    SPMD_EQ(log, heap[8], value(last, 40));
    SPMD_EQ(log, words[12], value(last, 41));
  }
  GSHMEM_FN static std::uint64_t value(int pe, std::uint64_t i) {
    return 100 * static_cast<std::uint64_t>(pe + 1) + i;
  }
};

/// Two sides of calls, each in the heap or in registered memory, and a signal in each.
class Sides {
 public:
  static constexpr std::size_t kBytes = 70000;
  Sides(Pe& pe, const Registered& registered)
      : pe_(pe), heap_(2 * kBytes), heap_signal_(1), registered_(registered) {}
  /// Return the source and the destination of a call.
  [[nodiscard]] char* source(bool is_registered) const { return side(is_registered); }
  [[nodiscard]] char* dest(bool is_registered) const { return side(is_registered) + kBytes; }
  [[nodiscard]] std::uint64_t* signal(bool is_registered) {
    return is_registered ? registered_.words() : heap_signal_.data();
  }
  /// Writes new bytes to `source`, after all PEs have checked the old ones in `dest`.
  void fill(bool is_registered, std::size_t bytes) {
    ++round_;
    pe_.write(source(is_registered), pattern_of(pe_.me(), bytes));
    pe_.barrier();
  }
  /// Checks that `dest` has the data of `from`.
  void check(int line, bool is_registered, std::size_t bytes, int from) const {
    pe_.equal_bytes(line, pe_.read(dest(is_registered), bytes), pattern_of(from, bytes));
    pe_.barrier();
  }
  [[nodiscard]] std::uint64_t round() const { return round_; }

 private:
  [[nodiscard]] char* side(bool is_registered) const {
    return is_registered ? registered_.data : const_cast<char*>(heap_.data());
  }
  [[nodiscard]] std::vector<std::uint8_t> pattern_of(int of, std::size_t bytes) const {
    return bytes_of(pe_, of + 1000 * static_cast<int>(round_), bytes);
  }
  Pe& pe_;
  SymmetricArray<char> heap_;
  SymmetricArray<std::uint64_t> heap_signal_;
  const Registered& registered_;
  std::uint64_t round_ = 0;
};

}  // namespace

SPMD_TEST(registered_memory_is_put_and_got_as_that_of_the_heap) {
  constexpr std::size_t kBytes = 100000;
  UserMemory memory(pe, 2);
  memory.write(0, bytes_of(pe, pe.me(), memory.bytes()));
  const Registered registered(pe, memory);
  SymmetricArray<std::uint8_t> heap(kBytes);
  // The old contents are still there, also for the other PEs, and across the seam of two
  // allocations.
  const std::size_t seam = memory.bytes() / 2 - kBytes / 2;
  gshmem_getmem(heap.data(), registered.data + seam, kBytes, pe.next());
  const std::vector<std::uint8_t> theirs = bytes_of(pe, pe.next(), memory.bytes());
  const auto from = theirs.begin() + static_cast<std::ptrdiff_t>(seam);
  pe.equal_bytes(__LINE__, pe.read(heap.data(), kBytes), {from, from + kBytes});
  pe.barrier();
  // Puts from the heap to memory that the program then reads at its own address.
  pe.write(heap.data(), bytes_of(pe, pe.me() + 100, kBytes));
  gshmem_putmem(registered.data + seam, heap.data(), kBytes, pe.next());
  pe.barrier();
  pe.equal_bytes(__LINE__, memory.read(seam, kBytes), bytes_of(pe, pe.previous() + 100, kBytes));
  pe.barrier();
  // Puts data that the program has written at its own address to the heap.
  memory.write(5, bytes_of(pe, pe.me() + 200, kBytes));
  gshmem_putmem_nbi(heap.data(), registered.data + 5, kBytes, pe.next());
  pe.barrier();
  pe.equal_bytes(__LINE__, pe.read(heap.data(), kBytes), bytes_of(pe, pe.previous() + 200, kBytes));
  pe.barrier();
}

SPMD_TEST(registered_memory_takes_atomics_signals_and_collectives) {
  UserMemory memory(pe, 1);
  const Registered registered(pe, memory);
  std::uint64_t* const words = registered.words();
  const auto n = static_cast<std::uint64_t>(pe.n()), me = static_cast<std::uint64_t>(pe.me());
  for (int other = 0; other < pe.n(); ++other) gshmem_uint64_atomic_add(words, 5, other);
  pe.barrier();
  SPMD_EQ(pe, gshmem_uint64_atomic_fetch(words, pe.next()), 5 * n);
  pe.barrier();
  gshmem_uint64_put_signal(words + 1, words, 1, words + 2, me + 1, GSHMEM_SIGNAL_SET, pe.next());
  SPMD_EQ(pe, gshmem_signal_wait_until(words + 2, GSHMEM_CMP_NE, 0),
          static_cast<std::uint64_t>(pe.previous()) + 1);
  SPMD_EQ(pe, gshmem_uint64_g(words + 1, pe.me()), 5 * n);
  gshmem_uint64_p(words + 3, me + 1, pe.me());
  gshmem_quiet();  // a PE's own memory may be reached by the network, too
  SPMD_EQ(pe, gshmem_uint64_sum_reduce(GSHMEM_TEAM_WORLD, words + 4, words + 3, 1), 0);
  SPMD_EQ(pe, gshmem_uint64_g(words + 4, pe.me()), n * (n + 1) / 2);
  SPMD_EQ(pe, gshmem_uint64_broadcast(GSHMEM_TEAM_WORLD, words + 5, words + 3, 1, pe.n() - 1), 0);
  SPMD_EQ(pe, gshmem_uint64_g(words + 5, pe.me()), n);
  SPMD_EQ(pe, gshmem_ptr(words, pe.next()) != nullptr, pe.maps(pe.next()));
  SPMD_CHECK(pe, gshmem_ptr(words + kRegisteredWords, pe.next()) == nullptr);
  SPMD_EQ(pe, gshmem_addr_accessible(words, pe.next()), 1);
  pe.barrier();
}

SPMD_TEST(either_side_of_a_transfer_is_in_registered_memory_or_in_the_heap) {
  UserMemory memory(pe, 1);
  const Registered registered(pe, memory);
  Sides sides(pe, registered);
  // The sizes fit inside of an entry of three units, need more, have an entry of their own, or use
  // scratch memory repeatedly.
  for (const std::size_t bytes :
       {std::size_t{8}, std::size_t{20}, std::size_t{300}, Sides::kBytes}) {
    for (const int where : {1, 2, 3}) {
      const bool from = (where & 1) != 0, to = (where & 2) != 0;
      sides.fill(from, bytes);
      gshmem_putmem(sides.dest(to), sides.source(from), bytes, pe.next());
      pe.barrier();
      sides.check(__LINE__, to, bytes, pe.previous());
      sides.fill(from, bytes);
      gshmem_putmem_nbi(sides.dest(to), sides.source(from), bytes, pe.next());
      pe.barrier();
      sides.check(__LINE__, to, bytes, pe.previous());
      sides.fill(from, bytes);
      gshmem_getmem(sides.dest(to), sides.source(from), bytes, pe.next());
      sides.check(__LINE__, to, bytes, pe.next());
      sides.fill(from, bytes);
      gshmem_getmem_nbi(sides.dest(to), sides.source(from), bytes, pe.next());
      gshmem_quiet();
      sides.check(__LINE__, to, bytes, pe.next());
    }
  }
}

SPMD_TEST(a_signal_and_its_payload_are_each_in_registered_memory_or_in_the_heap) {
  UserMemory memory(pe, 1);
  const Registered registered(pe, memory);
  Sides sides(pe, registered);
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{300}, Sides::kBytes}) {
    for (int where = 1; where < 8; ++where) {
      const bool from = (where & 1) != 0, to = (where & 2) != 0, told = (where & 4) != 0;
      sides.fill(from, bytes);
      std::uint64_t* const signal = sides.signal(told);
      const std::uint64_t round = sides.round();
      if (where % 2 == 0) {
        gshmem_putmem_signal(sides.dest(to), sides.source(from), bytes, signal, round,
                             GSHMEM_SIGNAL_SET, pe.next());
      } else {
        gshmem_putmem_signal_nbi(sides.dest(to), sides.source(from), bytes, signal, round,
                                 GSHMEM_SIGNAL_SET, pe.next());
      }
      SPMD_EQ(pe, gshmem_signal_wait_until(signal, GSHMEM_CMP_EQ, round), round);
      sides.check(__LINE__, to, bytes, pe.previous());
    }
  }
}

/// Makes each atomic of a type, one after the other, on a word of PE `to`.
#define EVERY_ATOMIC(TYPE)                                                 \
  void every_atomic(Pe& pe, int line, std::TYPE##_t* word, int to) {       \
    const auto equal = [&](std::TYPE##_t actual, std::TYPE##_t expected) { \
      pe.equal(line, actual, expected);                                    \
    };                                                                     \
    gshmem_##TYPE##_atomic_set(word, 12, to);                              \
    equal(gshmem_##TYPE##_atomic_fetch_add(word, 4, to), 12);              \
    equal(gshmem_##TYPE##_atomic_swap(word, 3, to), 16);                   \
    equal(gshmem_##TYPE##_atomic_compare_swap(word, 3, 8, to), 3);         \
    equal(gshmem_##TYPE##_atomic_fetch_or(word, 5, to), 8);                \
    equal(gshmem_##TYPE##_atomic_fetch_and(word, 12, to), 13);             \
    equal(gshmem_##TYPE##_atomic_fetch_xor(word, 15, to), 12);             \
    equal(gshmem_##TYPE##_atomic_fetch(word, to), 3);                      \
  }
EVERY_ATOMIC(uint32)
EVERY_ATOMIC(uint64)

SPMD_TEST(registered_memory_takes_every_atomic) {
  UserMemory memory(pe, 1);
  const Registered registered(pe, memory);
  every_atomic(pe, __LINE__, registered.words(), pe.next());
  every_atomic(pe, __LINE__, reinterpret_cast<std::uint32_t*>(registered.words() + 1), pe.next());
  pe.barrier();
}

SPMD_TEST(strided_and_single_elements_are_in_registered_memory) {
  UserMemory memory(pe, 1);
  const Registered registered(pe, memory);
  std::uint64_t* const words = registered.words();
  const auto of = [](int at, std::uint64_t i) {
    return 10 * static_cast<std::uint64_t>(at) + i + 1;
  };
  for (std::uint64_t i = 0; i < 4; ++i) gshmem_uint64_p(words + i, of(pe.me(), i), pe.me());
  pe.barrier();
  gshmem_uint64_iput(words + 8, words, 2, 1, 4, pe.next());
  gshmem_uint64_iget(words + 20, words, 1, 2, 2, pe.next());
  for (std::uint64_t i = 0; i < 2; ++i)
    SPMD_EQ(pe, gshmem_uint64_g(words + 20 + i, pe.me()), of(pe.next(), 2 * i), i);
  auto* const bytes = reinterpret_cast<std::uint8_t*>(words + 30);
  gshmem_uint8_p(bytes, static_cast<std::uint8_t>(pe.me() + 3), pe.next());
  pe.barrier();
  for (std::uint64_t i = 0; i < 4; ++i)
    SPMD_EQ(pe, gshmem_uint64_g(words + 8 + 2 * i, pe.next()), of(pe.me(), i), i);
  SPMD_EQ(pe, gshmem_uint8_g(bytes, pe.next()), static_cast<std::uint8_t>(pe.me() + 3));
  pe.barrier();
}

SPMD_TEST(collectives_work_on_registered_memory) {
  constexpr std::size_t kCount = 3000;  // uses direct puts, and two shots
  UserMemory memory(pe, 1);
  const Registered registered(pe, memory);
  const auto n = static_cast<std::size_t>(pe.n());
  auto* const source = reinterpret_cast<std::uint64_t*>(registered.data);
  std::uint64_t* const dest = source + n * kCount;
  if (2 * n * kCount * sizeof(*source) > registered.bytes) return pe.skip("too many PEs");
  const auto of = [](std::size_t at, std::size_t i) { return 100000 * (at + 1) + i; };
  const auto write = [&](std::size_t count) {
    std::vector<std::uint8_t> bytes(8 * count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t value = of(static_cast<std::size_t>(pe.me()), i);
      std::memcpy(&bytes[8 * i], &value, 8);
    }
    pe.write(source, bytes);
    pe.barrier();
  };
  const auto check = [&](int line, std::size_t count, const auto& expected) {
    const std::vector<std::uint8_t> bytes = pe.read(dest, 8 * count);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t value = 0;
      std::memcpy(&value, &bytes[8 * i], 8);
      pe.equal(line, value, expected(i), i);
    }
    pe.barrier();
  };
  write(n * kCount);
  const auto me = static_cast<std::size_t>(pe.me());
  SPMD_EQ(pe, gshmem_uint64_alltoall(GSHMEM_TEAM_WORLD, dest, source, kCount), 0);
  check(__LINE__, n * kCount,
        [&](std::size_t i) { return of(i / kCount, me * kCount + i % kCount); });
  SPMD_EQ(pe, gshmem_uint64_fcollect(GSHMEM_TEAM_WORLD, dest, source, kCount), 0);
  check(__LINE__, n * kCount, [&](std::size_t i) { return of(i / kCount, i % kCount); });
  SPMD_EQ(pe, gshmem_uint64_broadcast(GSHMEM_TEAM_WORLD, dest, source, kCount, 0), 0);
  check(__LINE__, kCount, [&](std::size_t i) { return of(0, i); });
  SPMD_EQ(pe, gshmem_uint64_sum_reduce(GSHMEM_TEAM_WORLD, dest, source, kCount), 0);
  check(__LINE__, kCount, [&](std::size_t i) { return 100000 * n * (n + 1) / 2 + n * i; });
}

SPMD_TEST(contexts_reach_registered_memory) {
  UserMemory memory(pe, 1);
  const Registered registered(pe, memory);
  std::uint64_t* const words = registered.words();
  gshmemx_qp_handle_t* handles = nullptr;
  SPMD_EQ(pe, gshmemx_qp_create(3, &handles), 0);  // use the rails in turn
  const auto me = static_cast<std::uint64_t>(pe.me());
  for (int i = 0; i < 3; ++i) {
    gshmem_ctx_uint64_p(handles[i], words + i, me + 10, pe.next());
    gshmem_ctx_uint64_put(handles[i], words + 8 + i, words + 20, 1, pe.next());
    gshmem_ctx_uint64_atomic_add(handles[i], words + 16, 1, pe.next());
    gshmem_ctx_quiet(handles[i]);
  }
  pe.barrier();
  for (int i = 0; i < 3; ++i)
    SPMD_EQ(pe, gshmem_uint64_g(words + i, pe.me()),
            static_cast<std::uint64_t>(pe.previous()) + 10);
  SPMD_EQ(pe, gshmem_uint64_g(words + 16, pe.me()), 3u);
  pe.barrier();
  SPMD_EQ(pe, gshmemx_qp_destroy(3, handles), 0);
  std::free(handles);
}

SPMD_TEST(bursts_reach_registered_memory) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  UserMemory memory(pe, 1);
  const Registered registered(pe, memory);
  SymmetricArray<std::uint64_t> heap(64);
  gshmem_ctx_t by = GSHMEM_CTX_INVALID;
  SPMD_EQ(pe, gshmem_ctx_create(GSHMEM_CTX_PRIVATE, &by), 0);
  pe.run({.blocks = 1, .threads = 1}, BurstInKernel(), registered.words(), heap.data(), by);
  pe.barrier();
  gshmem_ctx_destroy(by);
}

SPMD_TEST(memory_at_an_address_that_was_used_before_has_new_keys) {
  UserMemory first(pe, 1), second(pe, 1);
  const void* was = nullptr;
  for (UserMemory* memory : {&first, &second, &first}) {
    const Registered registered(pe, *memory, was);
    if (was) SPMD_EQ(pe, static_cast<const void*>(registered.data), was);
    was = registered.data;
    const std::uint64_t value = memory == &first ? 1 : 2;
    (void)gshmem_uint64_atomic_fetch_add(registered.words(), value, pe.next());
    gshmem_uint64_put(registered.words() + 1, registered.words() + 2, 1, pe.next());
    pe.barrier();
  }
  const std::size_t at = first.bytes() / 8 - kRegisteredWords;
  SPMD_EQ(pe, first.word(at), 2u);
  SPMD_EQ(pe, second.word(at), 2u);
}

SPMD_TEST(puts_to_memory_are_complete_when_it_is_unregistered) {
  UserMemory memory(pe, 2);
  memory.write(0, std::vector<std::uint8_t>(memory.bytes()));
  SymmetricArray<std::uint8_t> heap(memory.bytes());
  pe.write(heap.data(), bytes_of(pe, pe.me(), memory.bytes()));
  {
    const Registered registered(pe, memory);
    for (int i = 0; i < 16; ++i)
      gshmem_putmem_nbi(registered.data, heap.data(), memory.bytes(), pe.next());
  }
  pe.equal_bytes(__LINE__, memory.read(0, memory.bytes()),
                 bytes_of(pe, pe.previous(), memory.bytes()));
  SPMD_EQ(pe, gshmemx_last_fault(nullptr), GSHMEMX_SUCCESS);
  pe.barrier();
}

SPMD_TEST(registered_memory_serves_kernels) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  UserMemory memory(pe, 2);
  const Registered registered(pe, memory);
  pe.run({.blocks = 1, .threads = 1}, AllInKernel(), registered.words(), pe.maps(pe.next()), true);
}

SPMD_TEST(buffers_are_registered_and_unregistered_in_any_order) {
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
  // The memory has the data that was put into it, and can be registered again at its previous
  // address.
  pe.equal(__LINE__, second.word(second.bytes() / 8 - kRegisteredWords),
           200 + static_cast<std::uint64_t>(pe.previous()));
  a.reset();
  b = std::make_unique<Registered>(pe, second, was);
  SPMD_EQ(pe, static_cast<const void*>(b->data), static_cast<const void*>(was));
  check(__LINE__, *b, 200);
  // A preferred address that is taken, not aligned, outside or different between PEs is no error.
  const void* const wishes[] = {was, was + 8, c.data, gshmemi_ambient()->state->heap,
                                pe.me() == 0 ? c.data + c.bytes : nullptr};
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
  UserMemory memory(pe, 2), more(pe, 2);
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
  refused(__LINE__, own.get(), bytes);  // no other PE can map it
  SymmetricArray<char> heap(bytes);
  refused(__LINE__, heap.data(), bytes);
  // One PE makes a mistake.
  refused(__LINE__, is_last ? nullptr : data, bytes);
  refused(__LINE__, is_last ? own.get() : data, bytes);
  refused(__LINE__, data, bytes, is_last ? 4 : 0);
  if (pe.n() > 1) refused(__LINE__, data, is_last ? bytes / 2 : bytes);
  {
    const Registered registered(pe, memory), other(pe, more);
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
    if (pe.n() > 1) {
      kept(__LINE__, registered.data, is_last ? bytes : 8, GSHMEMX_ERROR_SYMMETRY);
      kept(__LINE__, is_last ? other.data : registered.data, bytes, GSHMEMX_ERROR_SYMMETRY);
    }
    gshmem_uint64_p(registered.words(), 77, pe.next());
    pe.barrier();
    SPMD_EQ(pe, memory.word(bytes / 8 - kRegisteredWords), 77u);
    pe.barrier();
  }
  SPMD_EQ(pe, gshmemx_last_fault(nullptr), GSHMEMX_SUCCESS);
}
