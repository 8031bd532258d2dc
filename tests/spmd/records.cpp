// Calls of host threads as records (device/core/call_record.h), which host/runtime/execute.h
// executes: the requests of host threads whose heaps are on GPUs, and the results. In CPU mode this
// thread makes its own records; on GPUs all bodies that call from host threads do so.
#include "host/runtime/execute.h"
#include "tests/spmd/spmd.h"

#include <vector>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// The calling thread's calls become records during its lifetime.
class ByRecord final : public device::HostOps {
 public:
  ByRecord() : ambient_(*gshmemi_ambient()) { ambient_.ops = this; }
  ~ByRecord() { ambient_.ops = nullptr; }
  ByRecord(const ByRecord&) = delete;
  std::uint64_t run(const device::Call& call) override {
    ++made_;
    ambient_.ops = nullptr;
    const std::uint64_t answer =
        device::execute(device::Thread{}, *ambient_.state, call.name, call);
    ambient_.ops = this;
    return answer;
  }
  bool reads(const void*) override { return true; }
  [[nodiscard]] int made() const { return made_; }

 private:
  device::Ambient& ambient_;
  int made_ = 0;
};

/// A call, which is one record and has this result.
#define ONE_RECORD(EXPRESSION, EXPECTED) \
  {                                      \
    const int before = by.made();        \
    SPMD_EQ(pe, EXPRESSION, EXPECTED);   \
    SPMD_EQ(pe, by.made(), before + 1);  \
  }
#define ONE_RECORD_OF(CALL)             \
  {                                     \
    const int before = by.made();       \
    CALL;                               \
    SPMD_EQ(pe, by.made(), before + 1); \
  }

}  // namespace

SPMD_TEST(atomics_of_every_type_by_record_return_and_leave_the_right_value) {
  if (pe.on_gpu()) return pe.skip("on GPUs the service kernel makes them");
  const ByRecord by;
  SymmetricArray<std::uint64_t> words(1);
#define TEST_NONE(NAME, T)
#define TEST_ANY(NAME, T)                                                                          \
  ONE_RECORD_OF(gshmem_##NAME##_atomic_set(word, static_cast<T>(-3), pe.next()));                  \
  ONE_RECORD(gshmem_##NAME##_atomic_swap(word, static_cast<T>(5), pe.next()), static_cast<T>(-3)); \
  ONE_RECORD(gshmem_##NAME##_atomic_fetch(word, pe.next()), static_cast<T>(5));
#define TEST_EXT(NAME, T) TEST_EXT_##NAME(NAME, T)
#define TEST_EXT_float TEST_ANY
#define TEST_EXT_double TEST_ANY
#define TEST_EXT_half(NAME, T)  // it takes several records
#define TEST_STD(NAME, T)                                                                         \
  TEST_ANY(NAME, T)                                                                               \
  ONE_RECORD(                                                                                     \
      gshmem_##NAME##_atomic_compare_swap(word, static_cast<T>(4), static_cast<T>(9), pe.next()), \
      static_cast<T>(5));                                                                         \
  ONE_RECORD(                                                                                     \
      gshmem_##NAME##_atomic_compare_swap(word, static_cast<T>(5), static_cast<T>(9), pe.next()), \
      static_cast<T>(5));                                                                         \
  ONE_RECORD(gshmem_##NAME##_atomic_fetch_add(word, static_cast<T>(-10), pe.next()),              \
             static_cast<T>(9));                                                                  \
  ONE_RECORD(gshmem_##NAME##_atomic_fetch_inc(word, pe.next()), static_cast<T>(-1));              \
  ONE_RECORD_OF(gshmem_##NAME##_atomic_add(word, static_cast<T>(7), pe.next()));                  \
  gshmem_quiet();                                                                                 \
  ONE_RECORD(gshmem_##NAME##_g(word, pe.next()), static_cast<T>(7));
#define TEST_BIT(NAME, T)                                                           \
  TEST_STD(NAME, T)                                                                 \
  ONE_RECORD(gshmem_##NAME##_atomic_fetch_or(word, static_cast<T>(24), pe.next()),  \
             static_cast<T>(7));                                                    \
  ONE_RECORD(gshmem_##NAME##_atomic_fetch_and(word, static_cast<T>(29), pe.next()), \
             static_cast<T>(31));                                                   \
  ONE_RECORD(gshmem_##NAME##_atomic_fetch_xor(word, static_cast<T>(1), pe.next()),  \
             static_cast<T>(29));                                                   \
  ONE_RECORD(gshmem_##NAME##_atomic_fetch(word, pe.next()), static_cast<T>(28));
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE)                          \
  {                                                                      \
    [[maybe_unused]] T* const word = reinterpret_cast<T*>(words.data()); \
    TEST_##AMO(NAME, T)                                                  \
  }                                                                      \
  pe.barrier();
#include <gshmem/types.def>
}

SPMD_TEST(transfers_and_signals_by_record_arrive) {
  if (pe.on_gpu()) return pe.skip("on GPUs the service kernel makes them");
  const ByRecord by;
  constexpr std::size_t kCount = 300;
  SymmetricArray<int> data(4 * kCount);
  SymmetricArray<std::uint64_t> signals(2);
  int *const source = data.data(), *const dest = source + kCount, *const got = dest + kCount;
  std::vector<int> own(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    own[i] = pe.me() * 10'000 + static_cast<int>(i);
    ONE_RECORD_OF(gshmem_int_p(source + i, own[i], pe.me()));
  }
  const auto value = [](int from, std::size_t i) { return from * 10'000 + static_cast<int>(i); };
  const auto check = [&](int line, std::size_t first, std::size_t n, int from) {
    for (std::size_t i = 0; i < n; ++i) {
      pe.equal(line, gshmem_int_g(data.data() + first + i, pe.me()), value(from, i), i);
    }
  };
  ONE_RECORD_OF(gshmem_int_put_signal(dest, own.data(), kCount, signals.data(), 3,
                                      GSHMEM_SIGNAL_SET, pe.next()));
  SPMD_EQ(pe, gshmem_signal_wait_until(signals.data(), GSHMEM_CMP_EQ, 3), 3u);
  check(__LINE__, kCount, kCount, pe.previous());
  ONE_RECORD_OF(gshmem_barrier_all());
  ONE_RECORD_OF(gshmem_int_put_nbi(dest, source, kCount, pe.previous()));
  ONE_RECORD_OF(gshmem_fence());
  ONE_RECORD_OF(gshmemx_signal_op(signals.data() + 1, 5, GSHMEM_SIGNAL_ADD, pe.previous()));
  SPMD_EQ(pe, gshmem_signal_wait_until(signals.data() + 1, GSHMEM_CMP_EQ, 5), 5u);
  check(__LINE__, kCount, kCount, pe.next());
  ONE_RECORD(gshmem_team_sync(GSHMEM_TEAM_WORLD), 0);
  ONE_RECORD_OF(gshmem_int_get_nbi(got, source, kCount, pe.next()));
  ONE_RECORD(gshmemx_quiet_status(), 0);
  check(__LINE__, 2 * kCount, kCount, pe.next());
  ONE_RECORD_OF(gshmem_int_iput(dest, source, 2, 1, kCount / 2, pe.me()));
  gshmem_quiet();
  ONE_RECORD_OF(gshmem_int_iget(got, dest, 1, 2, kCount / 2, pe.me()));
  check(__LINE__, 2 * kCount, kCount / 2, pe.me());
  std::int64_t* const word = reinterpret_cast<std::int64_t*>(signals.data());
  std::int64_t old = 77;
  ONE_RECORD(gshmem_barrier(GSHMEM_TEAM_WORLD), 0);
  gshmem_int64_atomic_fetch_add_nbi(&old, word, 4, pe.next());
  gshmem_quiet();
  SPMD_EQ(pe, old, 3);
  ONE_RECORD_OF(gshmem_sync_all());
  SPMD_CHECK(pe, gshmem_int64_test(word, GSHMEM_CMP_EQ, 7));
}
