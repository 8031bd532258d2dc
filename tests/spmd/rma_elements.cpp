// Elements whose type is aligned to less than its size, and that cross a boundary of such words:
// transfers of single and strided elements still transfer the right bytes.
#include "tests/spmd/spmd.h"

#include <gshmem/blocks.h>

#include <algorithm>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

struct Complex {
  double re, im;
};
struct Quad {
  std::int32_t a, b, c, d;
};
struct Pair {
  std::int32_t a, b;
};
struct Color {
  std::uint8_t rgba[4];
};

/// The elements of the source and of the target that each call transfers.
constexpr std::size_t kCount = 5, kElements = 24;
constexpr std::ptrdiff_t kDst = 3, kSrc = 2;
constexpr std::size_t kSingle = 16, kOfBurst = 18;
constexpr std::uint8_t kUntouched = 0xc3;

template <class T>
GSHMEM_FN bool same(const T& a, const T& b) {
  const auto* left = reinterpret_cast<const std::uint8_t*>(&a);
  const auto* right = reinterpret_cast<const std::uint8_t*>(&b);
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    if (left[i] != right[i]) return false;
  }
  return true;
}

/// One group transfers to the next PE, and back.
template <class T>
struct MoveElements {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, T* target, const T* source, T* back,
                            Scope scope) const {
    const int peer = (ctx.my_pe() + 1) % ctx.n_pes();
    with_group(ctx, scope, [&](auto group) {
      ctx.iput(group, target, source, {kDst, kSrc, kCount}, peer);
      if (group.thread_rank() == 0) {
        ctx.p(target + kSingle, source[kSingle], peer);
        if constexpr (sizeof(T) <= 8) {
          Burst(ctx, Thread{}, peer).p(target + kOfBurst, source[kOfBurst]);
        }
      }
      ctx.quiet();
      group.sync();
      ctx.iget(group, back, target, {kSrc, kDst, kCount}, peer);
      if (group.thread_rank() != 0) return;
      for (std::size_t i = 0; i < kCount; ++i) {
        SPMD_CHECK(log, same(back[i * kSrc], source[i * kSrc]));
      }
      SPMD_CHECK(log, same(ctx.g(target + kSingle, peer), source[kSingle]));
      get_outside(ctx, log, target, source, peer);
    });
  }
  /// Gets into memory outside of the heap, with the alignment of `source`.
  GSHMEM_FN static void get_outside(const Context& ctx, Log log, const T* target, const T* source,
                                    int peer) {
    alignas(16) std::uint8_t memory[(kCount + 1) * sizeof(T)];
    T* back = reinterpret_cast<T*>(memory + reinterpret_cast<std::uintptr_t>(source) % sizeof(T));
    ctx.iget(Thread{}, back, target, {1, kDst, kCount}, peer);
    for (std::size_t i = 0; i < kCount; ++i) {
      SPMD_CHECK(log, same(back[i], source[i * kSrc]));
    }
  }
};

template <class T>
class ElementTest {
 public:
  explicit ElementTest(Pe& pe) : pe_(pe), target_(kBytes), source_(kBytes), back_(kBytes) {
    pe.write(source_.data(), data_of(pe.me()));
  }

  /// Tests every alignment that the type permits.
  void check() {
    for (std::size_t to = 0; to < sizeof(T); to += alignof(T)) {
      for (std::size_t from = 0; from < sizeof(T); from += alignof(T)) {
        for (const Scope scope : kScopes) check(to, from, scope);
      }
    }
  }

 private:
  static constexpr std::size_t kBytes = (kElements + 1) * sizeof(T);

  [[nodiscard]] static T* at(const SymmetricArray<std::uint8_t>& bytes, std::size_t offset) {
    return reinterpret_cast<T*>(bytes.data() + offset);
  }
  [[nodiscard]] std::vector<std::uint8_t> data_of(int pe) const {
    const std::uint64_t seed = mix(pe_.seed(), static_cast<std::uint64_t>(pe));
    std::vector<std::uint8_t> data(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) data[i] = pattern(seed, i);
    return data;
  }
  void check(std::size_t to, std::size_t from, Scope scope) {
    std::vector<std::uint8_t> expected(kBytes, kUntouched);
    pe_.write(target_.data(), expected);
    pe_.barrier();
    LaunchShape shape = shape_of(pe_, scope);
    shape.blocks = 1;
    if (scope == Scope::kThread) shape.threads = 1;
    if (scope == Scope::kWarp) shape.threads = pe_.warp();
    pe_.run(shape, MoveElements<T>{}, at(target_, to), at(source_, from), at(back_, from), scope);
    pe_.barrier();
    const std::vector<std::uint8_t> data = data_of(pe_.previous());
    const auto expect = [&](std::size_t element, std::size_t source) {
      std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(from + source * sizeof(T)), sizeof(T),
                  expected.begin() + static_cast<std::ptrdiff_t>(to + element * sizeof(T)));
    };
    for (std::size_t i = 0; i < kCount; ++i) expect(i * kDst, i * kSrc);
    expect(kSingle, kSingle);
    if (sizeof(T) <= 8) expect(kOfBurst, kOfBurst);
    pe_.equal_bytes(__LINE__, pe_.read(target_.data(), kBytes), expected);
    pe_.barrier();
  }

  Pe& pe_;
  SymmetricArray<std::uint8_t> target_, source_, back_;
};

/// Blocks to the next PE and back; each thread has a part of `there` and `back`.
struct MoveBlocks {
  ptrdiff_t apart, close;
  std::size_t size, count, part;
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, gshmem_ctx_t handle, std::int32_t* there,
                            const std::int32_t* source, std::int32_t* back) const {
    const std::size_t first = static_cast<std::size_t>(ctx.thread_rank()) * part;
    const int peer = (ctx.my_pe() + 1) % ctx.n_pes();
    gshmem_int32_ibput(there + first, source + first, apart, close, size, count, peer);
    ctx.quiet();
    gshmem_ctx_ibput32(handle, there + first, source + first, apart, close, size, count, peer);
    gshmem_ctx_quiet(handle);
    gshmem_ctx_int32_ibget(handle, back + first, there + first, close, apart, size, count, peer);
    gshmem_ibget32(back + first, there + first, close, apart, size, count, peer);
  }
};

}  // namespace

SPMD_TEST(blocks_with_gaps_arrive_where_they_belong) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  constexpr std::size_t kPart = 96, kThreads = 3, kAll = kPart * kThreads;
  SymmetricArray<std::int32_t> there(kAll), source(kAll), back(kAll);
  gshmem_ctx_t handle = GSHMEM_CTX_INVALID;
  SPMD_EQ(pe, gshmem_ctx_create(0, &handle), 0);
  std::vector<std::int32_t> mine(kAll), theirs(kAll);
  for (std::size_t i = 0; i < kAll; ++i) {
    mine[i] = pe.me() * 1000 + static_cast<int>(i);
    theirs[i] = pe.previous() * 1000 + static_cast<int>(i);
  }
  gshmem_int32_put(source.data(), mine.data(), kAll, pe.me());
  for (const MoveBlocks& blocks : {MoveBlocks{7, 5, 5, 6, kPart}, MoveBlocks{40, 33, 31, 2, kPart},
                                   MoveBlocks{1, 1, 1, 9, kPart}, MoveBlocks{4, 3, 0, 5, kPart},
                                   MoveBlocks{5, 4, 3, 0, kPart}}) {
    const std::vector<std::int32_t> empty(kAll, -1);
    gshmem_int32_put(there.data(), empty.data(), kAll, pe.me());
    gshmem_int32_put(back.data(), empty.data(), kAll, pe.me());
    gshmem_quiet();
    pe.barrier();
    pe.run({.blocks = 1, .threads = kThreads}, blocks, handle, there.data(), source.data(),
           back.data());
    pe.barrier();
    std::vector<std::int32_t> arrived = empty, returned = empty;
    for (std::size_t i = 0; i < blocks.size * blocks.count * kThreads; ++i) {
      const std::size_t thread = i / (blocks.size * blocks.count);
      const std::size_t block = i / blocks.size % blocks.count, at = i % blocks.size;
      const std::size_t far = thread * kPart + block * static_cast<std::size_t>(blocks.apart) + at;
      const std::size_t near = thread * kPart + block * static_cast<std::size_t>(blocks.close) + at;
      arrived[far] = theirs[near];
      returned[near] = mine[near];
    }
    SPMD_CHECK(pe, there.to_vector(pe.me()) == arrived);
    SPMD_CHECK(pe, back.to_vector(pe.me()) == returned);
    pe.barrier();
  }
  gshmem_ctx_destroy(handle);
}

SPMD_TEST(elements_across_a_word_boundary_arrive) {
  ElementTest<Complex>(pe).check();
  ElementTest<Quad>(pe).check();
  ElementTest<Pair>(pe).check();
  ElementTest<Color>(pe).check();
}

SPMD_TEST(strided_elements_of_128_bits_arrive_at_addresses_of_8_bytes) {
  SymmetricArray<std::uint64_t> words(16);
  const std::uint64_t source[] = {0, 1, 2, 3, 4, 5, 6};
  std::uint64_t back[8] = {};
  gshmem_iput128(words.data() + 1, source + 1, 2, 1, 3, pe.next());
  gshmem_quiet();
  gshmem_iget128(back + 1, words.data() + 1, 1, 2, 3, pe.next());
  for (std::uint64_t i = 0; i < 8; ++i) SPMD_EQ(pe, back[i], i < 7 ? i : 0, i);
  pe.barrier();
}
