// Transfers by host threads by the names that no other body calls: blocks and long double for each
// type, and sizes on a context. Each is checked in both directions.
#include "tests/spmd/handles.h"

#include <cstring>
#include <functional>
#include <limits>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// The positions of elements: `block` of them, followed by a gap up to `source` or `dest` elements.
struct Layout {
  std::size_t source, dest, block;
  [[nodiscard]] static std::size_t at(std::size_t i, std::size_t stride, std::size_t block) {
    return i / block * stride + i % block;
  }
};
constexpr Layout kFlat{1, 1, 1}, kStrided{2, 3, 1}, kBlocks{4, 3, 2};
constexpr std::size_t kCount = 4, kRoom = 16;

/// The memory of this PE and of the next one, and the effect of puts and gets on it.
class Transfers {
 public:
  /// A put and a get; the arguments are `dest` and `source`.
  using Call = std::function<void(void*, const void*)>;

  explicit Transfers(Pe& pe)
      : pe_(pe), contexts_(pe, 1, 0, OwnedContexts::Queues::kOwn), memory_(kRoom), signal_(1) {}
  [[nodiscard]] gshmem_ctx_t ctx() const { return contexts_.list().handle[0]; }
  [[nodiscard]] std::uint64_t* signal() const { return signal_.data(); }

  /// For elements of `size` bytes. The put arranges them in the layout, and the get restores them.
  void check(const char* name, std::size_t size, Layout layout, const Call& put, const Call& get) {
    if (!pe_.draws()) return;
    signals_ += std::strstr(name, "_signal") ? 1 : 0;
    const std::size_t bytes = kRoom * size;
    std::vector<std::uint8_t> source(bytes), there(bytes), back(bytes);
    for (std::size_t i = 0; i < bytes; ++i) source[i] = pattern(mix(pe_.seed(), size), i);
    gshmem_putmem(memory_.data(), there.data(), bytes, pe_.next());
    gshmem_quiet();
    put(memory_.data(), source.data());
    gshmem_ctx_quiet(ctx());
    gshmem_quiet();
    gshmem_getmem(there.data(), memory_.data(), bytes, pe_.next());
    get(back.data(), memory_.data());
    gshmem_ctx_quiet(ctx());
    gshmem_quiet();
    std::vector<std::uint8_t> put_there(bytes), got_back(bytes);
    for (std::size_t i = 0; i < kCount * size; ++i) {
      const std::size_t from = Layout::at(i / size, layout.source, layout.block) * size + i % size;
      const std::size_t to = Layout::at(i / size, layout.dest, layout.block) * size + i % size;
      put_there[to] = got_back[from] = source[from];
    }
    if (there != put_there) pe_.fail(__LINE__, std::string(name) + " puts something else");
    if (back != got_back) pe_.fail(__LINE__, std::string(name) + " and its get differ");
  }
  /// Every put with a signal has added 1, and so have `more` calls.
  void check_signals(std::uint64_t more = 0) {
    pe_.barrier();
    SPMD_EQ(pe_, gshmem_uint64_g(signal(), pe_.me()), signals_ + more);
    pe_.barrier();
  }

 private:
  Pe& pe_;
  OwnedContexts contexts_;
  struct alignas(16) Unit {
    std::uint8_t bytes[16];
  };
  SymmetricArray<Unit> memory_;
  SymmetricArray<std::uint64_t> signal_;
  std::uint64_t signals_ = 0;
};

#define HOST(STEM, ...) gshmem_##STEM(__VA_ARGS__)
#define ON_CTX(STEM, ...) gshmem_ctx_##STEM(all.ctx(), __VA_ARGS__)
#define CALL(BY, STEM, T, ...)                        \
  [&](void* dest, const void* source) {               \
    T* const d = static_cast<T*>(dest);               \
    const T* const s = static_cast<const T*>(source); \
    BY(STEM, d, s, __VA_ARGS__, pe.next());           \
  }
#define FLAT(BY, PUT, GET, T, SIZE) \
  all.check(#PUT, SIZE, kFlat, CALL(BY, PUT, T, kCount), CALL(BY, GET, T, kCount));
#define STRIDED(BY, PUT, GET, T, SIZE) \
  all.check(#PUT, SIZE, kStrided, CALL(BY, PUT, T, 3, 2, kCount), CALL(BY, GET, T, 2, 3, kCount));
#define BLOCKS(BY, PUT, GET, T, SIZE) \
  all.check(#PUT, SIZE, kBlocks, CALL(BY, PUT, T, 3, 4, 2, 2), CALL(BY, GET, T, 4, 3, 2, 2));
#define SIGNALS(BY, PUT, GET, T, SIZE, END)                                             \
  all.check(#PUT "_signal", SIZE, kFlat,                                                \
            CALL(BY, PUT##_signal##END, T, kCount, all.signal(), 1, GSHMEM_SIGNAL_ADD), \
            CALL(BY, GET, T, kCount));
/// For transfers without strides and blocks, such as mem.
#define MOVES(BY, PUT, GET, T, SIZE)      \
  FLAT(BY, PUT, GET, T, SIZE)             \
  FLAT(BY, PUT##_nbi, GET##_nbi, T, SIZE) \
  SIGNALS(BY, PUT, GET, T, SIZE, )        \
  SIGNALS(BY, PUT, GET, T, SIZE, _nbi)

}  // namespace

SPMD_TEST(blocks_of_every_type_and_size_by_host_threads) {
  Transfers all(pe);
#define TYPED_BLOCKS(STEM, END, T, SIZE)                    \
  BLOCKS(HOST, STEM##ibput##END, STEM##ibget##END, T, SIZE) \
  BLOCKS(ON_CTX, STEM##ibput##END, STEM##ibget##END, T, SIZE)
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) TYPED_BLOCKS(NAME##_, , T, sizeof(T))
#include <gshmem/types.def>
  TYPED_BLOCKS(longdouble_, , long double, sizeof(long double))
  TYPED_BLOCKS(, 8, void, 1)
  TYPED_BLOCKS(, 16, void, 2)
  TYPED_BLOCKS(, 32, void, 4)
  TYPED_BLOCKS(, 64, void, 8)
  TYPED_BLOCKS(, 128, void, 16)
}

SPMD_TEST(transfers_of_every_size_on_a_context_by_host_threads) {
  Transfers all(pe);
#define SIZED(BITS)                                   \
  MOVES(ON_CTX, put##BITS, get##BITS, void, BITS / 8) \
  STRIDED(ON_CTX, iput##BITS, iget##BITS, void, BITS / 8)
  SIZED(8)
  SIZED(16)
  SIZED(32)
  SIZED(64)
  SIZED(128)
  MOVES(ON_CTX, putmem, getmem, void, 1)
  gshmemx_ctx_signal_op(all.ctx(), all.signal(), 1, GSHMEM_SIGNAL_ADD, pe.next());
  gshmem_ctx_quiet(all.ctx());
  all.check_signals(1);
}

SPMD_TEST(transfers_of_long_double_by_host_threads) {
  Transfers all(pe);
#define LONG_DOUBLE(BY)                                                       \
  MOVES(BY, longdouble_put, longdouble_get, long double, sizeof(long double)) \
  STRIDED(BY, longdouble_iput, longdouble_iget, long double, sizeof(long double))
  LONG_DOUBLE(HOST)
  LONG_DOUBLE(ON_CTX)
  all.check_signals();
  SymmetricArray<long double> word(2);
  const long double value = 1.0L / (pe.me() + 3), theirs = 1.0L / (pe.previous() + 3);
  gshmem_longdouble_p(word.data(), value, pe.next());
  gshmem_ctx_longdouble_p(all.ctx(), word.data() + 1, -value, pe.next());
  gshmem_ctx_quiet(all.ctx());
  pe.barrier();
  SPMD_CHECK(pe, gshmem_longdouble_g(word.data(), pe.me()) == theirs);
  SPMD_CHECK(pe, gshmem_ctx_longdouble_g(all.ctx(), word.data() + 1, pe.me()) == -theirs);
  pe.barrier();
}

SPMD_TEST(collectives_of_long_double_by_host_threads) {
  const auto n = static_cast<std::size_t>(pe.n()), me = static_cast<std::size_t>(pe.me());
  constexpr gshmem_team_t kWorld = GSHMEM_TEAM_WORLD;
  SymmetricArray<long double> from(n), to(2 * n);
  // No double is so close to 1.
  const auto value = [](std::size_t member, std::size_t i) {
    return 1 + std::numeric_limits<long double>::epsilon() *
                   static_cast<long double>(1 + member * 10 + i);
  };
  std::vector<long double> mine(n);
  for (std::size_t i = 0; i < n; ++i) mine[i] = value(me, i);
  from.write(mine, pe.me());
  pe.barrier();
  const auto element = [&](std::size_t i) { return to.to_vector(pe.me())[i]; };
  SPMD_EQ(pe, gshmem_longdouble_alltoall(kWorld, to.data(), from.data(), 1), 0);
  for (std::size_t i = 0; i < n; ++i) SPMD_CHECK(pe, element(i) == value(i, me));
  pe.barrier();
  SPMD_EQ(pe, gshmem_longdouble_alltoalls(kWorld, to.data(), from.data(), 2, 1, 1), 0);
  for (std::size_t i = 0; i < n; ++i) SPMD_CHECK(pe, element(2 * i) == value(i, me));
  pe.barrier();
  SPMD_EQ(pe, gshmem_longdouble_fcollect(kWorld, to.data(), from.data() + n - 1, 1), 0);
  for (std::size_t i = 0; i < n; ++i) SPMD_CHECK(pe, element(i) == value(i, n - 1));
  pe.barrier();
  SPMD_EQ(pe, gshmem_longdouble_collect(kWorld, to.data(), from.data(), me == 0 ? 0 : 1), 0);
  for (std::size_t i = 1; i < n; ++i) SPMD_CHECK(pe, element(i - 1) == value(i, 0));
  pe.barrier();
  SPMD_EQ(pe, gshmem_longdouble_broadcast(kWorld, to.data(), from.data(), n, pe.n() - 1), 0);
  for (std::size_t i = 0; i < n; ++i) SPMD_CHECK(pe, element(i) == value(n - 1, i));

  long double sum = 0, before = 0, product = 1;
  for (std::size_t k = 0; k < n; ++k) {
    if (k < me) before = k == 0 ? value(0, 0) : before + value(k, 0);
    sum = k == 0 ? value(0, 0) : sum + value(k, 0);
    product *= value(k, 0);
  }
  const struct {
    int (*call)(gshmem_team_t, long double*, const long double*, std::size_t);
    long double result;
  } reductions[] = {{gshmem_longdouble_sum_reduce, sum},
                    {gshmem_longdouble_prod_reduce, product},
                    {gshmem_longdouble_min_reduce, value(0, 0)},
                    {gshmem_longdouble_max_reduce, value(n - 1, 0)},
                    {gshmem_longdouble_sum_inscan, me == 0 ? value(0, 0) : before + value(me, 0)},
                    {gshmem_longdouble_sum_exscan, before}};
  for (const auto& [call, result] : reductions) {
    pe.barrier();
    SPMD_EQ(pe, call(kWorld, to.data(), from.data(), 1), 0);
    SPMD_CHECK(pe, element(0) == result);
  }
}
