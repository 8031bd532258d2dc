// Collectives by their names for each type in the C API, with all their data: by host threads, on
// streams, by warps and by blocks.
#include "tests/spmd/collective_model.h"
#include "tests/spmd/stream.h"
#include "tests/spmd/teams.h"

#include <functional>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

// The C++ API combines the first ones, and does not compile for the others.
static_assert(Reducible<int, ReduceOp::kXor> && Reducible<std::uint64_t, ReduceOp::kMin> &&
              Reducible<float, ReduceOp::kMax> && Reducible<gshmem_half_t, ReduceOp::kSum> &&
              Reducible<gshmem_complexd_t, ReduceOp::kProd> &&
              Reducible<gshmem_double2_t, ReduceOp::kMaxloc>);
static_assert(!Reducible<long double, ReduceOp::kSum> && !Reducible<__int128, ReduceOp::kSum> &&
              !Reducible<float, ReduceOp::kAnd> && !Reducible<bool, ReduceOp::kSum> &&
              !Reducible<int*, ReduceOp::kSum> && !Reducible<int, ReduceOp::kMaxloc> &&
              !Reducible<gshmem_complexf_t, ReduceOp::kMax>);

/// The number of elements that each member contributes.
constexpr std::size_t kTyped = 37;
/// The memory for check_reduce(): source and results of elements of any type.
std::size_t typed_words(const Pe& pe) {
  return 2 * kTyped * (static_cast<std::size_t>(pe.n()) + 1);
}

/// A call of the API: dest, source, count.
template <class T>
using Reduction = std::function<int(T*, const T*, std::size_t)>;
template <class T, class Call>
Reduction<T> over_world(Call call) {
  return [call](T* dest, const T* source, std::size_t n) {
    return call(GSHMEM_TEAM_WORLD, dest, source, n);
  };
}

/// Makes the call with every PE's values, and checks the result.
template <class T>
[[gnu::noinline]] void check_reduce(Pe& pe, void* memory, Way way, ReduceOp op, const char* name,
                                    const Reduction<T>& reduce) {
  if (!pe.draws()) return;
  const std::size_t parts = way == Way::kReducescatter ? static_cast<std::size_t>(pe.n()) : 1;
  T* const source = static_cast<T*>(memory);
  T* const dest = source + kTyped * parts;
  const std::uint64_t seed = mix(pe.seed(), std::strlen(name) * 64 + static_cast<unsigned>(op) * 4 +
                                                static_cast<unsigned>(way));
  std::vector<std::uint8_t> mine(kTyped * parts * sizeof(T));
  for (std::size_t i = 0; i < kTyped * parts; ++i) {
    const T value = element_of<T>(number_in<T>(seed, pe.me(), i));
    std::memcpy(mine.data() + i * sizeof(T), static_cast<const void*>(&value), sizeof(T));
  }
  pe.write(source, mine);
  pe.barrier();  // after this no PE checks the last result any more
  if (reduce(dest, source, kTyped) != 0) return pe.fail(__LINE__, std::string(name) + " failed");
  const std::vector<std::uint8_t> got = pe.read(dest, kTyped * sizeof(T));
  for (std::size_t i = 0; i < kTyped; ++i) {
    T value{};
    std::memcpy(static_cast<void*>(&value), got.data() + i * sizeof(T), sizeof(T));
    const T expected = result_of<T>(way, op, seed, pe.me(), pe.n(), kTyped, i, World{});
    if (!is_same(value, expected))
      return pe.fail(__LINE__, std::string(name) + ": element " + std::to_string(i));
  }
}

#define REDUCE_WITH(T, WAY, OP_NAME, STEM, BY) \
  check_reduce<T>(pe, memory, Way::WAY, ReduceOp::OP_NAME, #STEM, over_world<T>(BY(STEM)));
#define REDUCE_OP(BY, NAME, T, OP, OP_NAME)                  \
  REDUCE_WITH(T, kReduce, OP_NAME, NAME##_##OP##_reduce, BY) \
  REDUCE_WITH(T, kReducescatter, OP_NAME, NAME##_##OP##_reducescatter, BY)
#define SCANS(BY, NAME, T)                             \
  REDUCE_WITH(T, kInscan, kSum, NAME##_sum_inscan, BY) \
  REDUCE_WITH(T, kExscan, kSum, NAME##_sum_exscan, BY)
#define REDUCE_NUM(BY, NAME, T)       \
  REDUCE_OP(BY, NAME, T, sum, kSum)   \
  REDUCE_OP(BY, NAME, T, prod, kProd) \
  REDUCE_OP(BY, NAME, T, min, kMin)   \
  REDUCE_OP(BY, NAME, T, max, kMax)
#define REDUCE_OWN(BY, NAME, T) REDUCE_NUM(BY, NAME, T)
#define REDUCE_BITS(BY, NAME, T)    \
  REDUCE_NUM(BY, NAME, T)           \
  REDUCE_OP(BY, NAME, T, and, kAnd) \
  REDUCE_OP(BY, NAME, T, or, kOr)   \
  REDUCE_OP(BY, NAME, T, xor, kXor)
#define COMPLEX(BY, NAME, T)        \
  REDUCE_OP(BY, NAME, T, sum, kSum) \
  REDUCE_OP(BY, NAME, T, prod, kProd)
#define COMPLEX_AND_SCANS(BY)              \
  COMPLEX(BY, complexf, gshmem_complexf_t) \
  SCANS(BY, complexf, gshmem_complexf_t)   \
  COMPLEX(BY, complexd, gshmem_complexd_t) \
  SCANS(BY, complexd, gshmem_complexd_t)
/// A call by a group of threads in a launch of its own; a status that is not 0 is a failure there.
template <class Function>
struct InGroup {
  Pe& pe;
  Scope scope;
  Function function;
  struct Kernel {
    Function function;
    template <class... Arguments>
    GSHMEM_FN void operator()(const LaunchContext&, Log log, Arguments... arguments) const {
      SPMD_EQ(log, function(arguments...), 0);
    }
  };
  template <class... Arguments>
  int operator()(Arguments... arguments) const {
    pe.run(one_group(pe, scope), Kernel{function}, arguments...);
    return 0;
  }
};
template <class Function>
InGroup<Function> in_group(Pe& pe, Scope scope, Function function) {
  return {pe, scope, function};
}
// The function as an object. For nvcc, which takes long for each, one type stands for all.
#if defined(__CUDACC__)
#define OBJECT(NAME)                                         \
  struct Object_##NAME {                                     \
    template <class... Arguments>                            \
    GSHMEM_FN int operator()(Arguments... arguments) const { \
      return gshmemx_##NAME(arguments...);                   \
    }                                                        \
  };
#define OBJECTS(SUFFIX)                 \
  OBJECT(int_alltoall##SUFFIX)          \
  OBJECT(int_alltoalls##SUFFIX)         \
  OBJECT(int_broadcast##SUFFIX)         \
  OBJECT(int_fcollect##SUFFIX)          \
  OBJECT(int_collect##SUFFIX)           \
  OBJECT(int_sum_reduce##SUFFIX)        \
  OBJECT(int_sum_reducescatter##SUFFIX) \
  OBJECT(int_sum_inscan##SUFFIX)        \
  OBJECT(int_sum_exscan##SUFFIX)
OBJECTS(_warp)
OBJECTS(_block)
#define FUNCTION(NAME) Object_##NAME()
#define HOST_FUNCTION(NAME) [](auto... arguments) { return NAME(arguments...); }
#else
#define FUNCTION(NAME) gshmemx_##NAME
#define HOST_FUNCTION(NAME) NAME
#endif
/// A call in a stream, which is awaited.
template <class Function>
struct InStream {
  const Stream& stream;
  Function function;
  template <class... Arguments>
  int operator()(Arguments... arguments) const {
    const int status = function(arguments..., stream.get());
    stream.finish();
    return status;
  }
};
template <class Function>
InStream<Function> in_stream(const Stream& stream, Function function) {
  return {stream, function};
}
#define BY_HOST(NAME) HOST_FUNCTION(gshmem_##NAME)
#define BY_HOST_X(NAME) HOST_FUNCTION(gshmemx_##NAME)
#define IN_STREAM(NAME) in_stream(stream, gshmemx_##NAME##_on_stream)
#define BY_WARP(NAME) in_group(pe, Scope::kWarp, FUNCTION(NAME##_warp))
#define BY_BLOCK(NAME) in_group(pe, Scope::kBlock, FUNCTION(NAME##_block))

/// Collectives that transfer elements of every type, each checked.
class TypedMoves {
 public:
  explicit TypedMoves(Pe& pe) : pe_(pe), source_(kCount * members()), dest_(kCount * members()) {}

  /// The calls of one type, of `size` bytes.
  template <class Array, class Alltoall, class Alltoalls, class Broadcast, class Fcollect,
            class Collect>
  void check(std::size_t size, Alltoall alltoall, Alltoalls alltoalls, Broadcast broadcast,
             Fcollect fcollect, Collect collect) {
    constexpr gshmem_team_t kWorld = GSHMEM_TEAM_WORLD;
    Array* const to = reinterpret_cast<Array*>(dest_.data());
    const Array* const from = reinterpret_cast<const Array*>(source_.data());
    const auto count_of = [](int k) { return static_cast<std::size_t>(k) % (kCount + 1); };
    const auto same = [&](int) { return kCount * size; };
    const std::size_t mine = count_of(pe_.me());
    check_call(same, kOfAll, kPart, [&] { return alltoall(kWorld, to, from, kCount); });
    check_call(same, kOfAll, kPart, [&] {
      return alltoalls(kWorld, to, from, std::ptrdiff_t{1}, std::ptrdiff_t{1}, kCount);
    });
    check_call(same, kOfLast, kWhole,
               [&] { return broadcast(kWorld, to, from, kCount, pe_.n() - 1); });
    check_call(same, kOfAll, kWhole, [&] { return fcollect(kWorld, to, from, kCount); });
    check_call([&](int k) { return count_of(k) * size; }, kOfAll, kWhole,
               [&] { return collect(kWorld, to, from, mine); });
  }

 private:
  static constexpr std::size_t kCount = 5;
  enum Givers { kOfAll, kOfLast };
  enum Given { kWhole, kPart };  ///< to each member

  /// Member k contributes `bytes_of(k)` bytes.
  void check_call(const std::function<std::size_t(int)>& bytes_of, Givers givers, Given given,
                  const std::function<int()>& make) {
    const std::size_t bytes = bytes_of(pe_.me());
    const std::uint64_t seed = mix(pe_.seed(), ++call_);
    const auto pattern_of = [&](int k, std::size_t i) {
      return pattern(mix(seed, static_cast<std::uint64_t>(k)), i);
    };
    std::vector<std::uint8_t> mine(bytes * members());
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = pattern_of(pe_.me(), i);
    pe_.write(source_.data(), mine);
    pe_.barrier();
    SPMD_EQ(pe_, make(), 0, call_);
    std::vector<std::uint8_t> expected;
    for (int k = givers == kOfLast ? pe_.n() - 1 : 0; k < pe_.n(); ++k) {
      const std::size_t first = given == kPart ? static_cast<std::size_t>(pe_.me()) * bytes : 0;
      for (std::size_t i = 0; i < bytes_of(k); ++i) expected.push_back(pattern_of(k, first + i));
    }
    pe_.equal_bytes(__LINE__, pe_.read(dest_.data(), expected.size()), expected);
  }
  [[nodiscard]] std::size_t members() const { return static_cast<std::size_t>(pe_.n()); }
  Pe& pe_;
  SymmetricArray<std::uint64_t> source_, dest_;
  std::uint64_t call_ = 0;
};
/// Alternates between three calls, in teams of every shape, with random counts, including none.
class CallsInTeams {
 public:
  using Call = std::function<int(gshmem_team_t, int*, const int*, std::size_t)>;
  explicit CallsInTeams(Pe& pe) : pe_(pe), memory_(3 * most()), teams_(teams_of(pe)) {}
  void check(const Call& alltoall, const Call& fcollect, const Call& reduce) {
    for (const OwnTeam& team : teams_) {
      const std::uint64_t base = mix(pe_.seed(), ++rows_);
      for (std::uint64_t round = 0; round < 9 && team.get() != GSHMEM_TEAM_INVALID; ++round) {
        check_round(team.get(), mix(base, round), round,
                    round % 3 == 0   ? alltoall
                    : round % 3 == 1 ? fcollect
                                     : reduce);
      }
      pe_.barrier();
    }
  }

 private:
  static constexpr std::size_t kLongest = 300;
  [[nodiscard]] std::size_t most() const { return kLongest * static_cast<std::size_t>(pe_.n()); }
  void check_round(gshmem_team_t team, std::uint64_t seed, std::uint64_t round, const Call& call) {
    const std::size_t n = static_cast<std::size_t>(gshmem_team_n_pes(team));
    const std::size_t me = static_cast<std::size_t>(gshmem_team_my_pe(team));
    const std::size_t count = seed % 5 == 0   ? 0
                              : seed % 3 == 0 ? seed / 16 % kLongest
                                              : seed / 16 % 20;
    const auto value_at = [&](std::size_t member, std::size_t i) {
      const int of = gshmem_team_translate_pe(team, static_cast<int>(member), GSHMEM_TEAM_WORLD);
      return static_cast<int>(mix(seed, static_cast<std::uint64_t>(of) << 32 | i) % 1'000'000);
    };
    std::vector<int> given(n * count), expected;
    for (std::size_t i = 0; i < given.size(); ++i) given[i] = value_at(me, i);
    // The arrays alternate, so that a member may still check its last result.
    int *const source = memory_.data(), *const dest = source + (1 + round % 2) * most();
    pe_.write(source, bytes_of(given));
    SPMD_EQ(pe_, call(team, dest, source, count), 0, round);
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t i = 0; i < count; ++i) {
        const int value = value_at(k, round % 3 == 0 ? me * count + i : i);
        if (round % 3 == 2 && k > 0) {
          expected[i] += value;
        } else {
          expected.push_back(value);
        }
      }
    }
    pe_.equal_bytes(__LINE__, pe_.read(dest, expected.size() * sizeof(int)), bytes_of(expected));
  }
  static std::vector<std::uint8_t> bytes_of(const std::vector<int>& values) {
    const auto* const first = reinterpret_cast<const std::uint8_t*>(values.data());
    return {first, first + values.size() * sizeof(int)};
  }
  Pe& pe_;
  SymmetricArray<int> memory_;
  const std::vector<OwnTeam> teams_;
  std::uint64_t rows_ = 0;
};

#define MOVES(BY, STEM, END, T, SIZE)                                     \
  moves.check<T>(SIZE, BY(STEM##alltoall##END), BY(STEM##alltoalls##END), \
                 BY(STEM##broadcast##END), BY(STEM##fcollect##END), BY(STEM##collect##END));

}  // namespace

SPMD_TEST(reductions_of_every_type_by_host_threads) {
  SymmetricArray<std::uint64_t> area(typed_words(pe));
  void* const memory = area.data();
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) \
  REDUCE_##REDUCE(BY_HOST, NAME, T) SCANS(BY_HOST, NAME, T)
#include <gshmem/types.def>
  COMPLEX_AND_SCANS(BY_HOST)
  REDUCE_WITH(gshmem_double2_t, kReduce, kMaxloc, double2_maxloc_reduce, BY_HOST_X)
}

SPMD_TEST(reductions_of_every_type_on_streams) {
  if (streams_hold_each_other_up(pe)) return;
  SymmetricArray<std::uint64_t> area(typed_words(pe));
  void* const memory = area.data();
  const Stream stream(pe);
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) \
  REDUCE_##REDUCE(IN_STREAM, NAME, T) SCANS(IN_STREAM, NAME, T)
#include <gshmem/types.def>
  COMPLEX_AND_SCANS(IN_STREAM)
  REDUCE_WITH(gshmem_double2_t, kReduce, kMaxloc, double2_maxloc_reduce, IN_STREAM)
}

// A launch for each takes time: each scope tests a fourth of the types, drawn by the seed.
SPMD_TEST(reductions_of_every_type_by_groups) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  SymmetricArray<std::uint64_t> area(typed_words(pe));
  void* const memory = area.data();
#if defined(__CUDACC__)
#define BY_GROUP(BY)                 \
  REDUCE_OP(BY, int, int, sum, kSum) \
  SCANS(BY, int, int)
  BY_GROUP(BY_WARP)
  BY_GROUP(BY_BLOCK)
#else
  std::uint64_t row = 0;
  const auto drawn = [&] { return mix(pe.seed(), ++row) % 4 == 0; };
#define BY_GROUP(BY, OF, NAME, T) \
  if (drawn()) {                  \
    OF(BY, NAME, T)               \
    SCANS(BY, NAME, T)            \
  }
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) \
  BY_GROUP(BY_WARP, REDUCE_##REDUCE, NAME, T)   \
  BY_GROUP(BY_BLOCK, REDUCE_##REDUCE, NAME, T)
#include <gshmem/types.def>
  BY_GROUP(BY_WARP, COMPLEX, complexf, gshmem_complexf_t)
  BY_GROUP(BY_BLOCK, COMPLEX, complexf, gshmem_complexf_t)
  BY_GROUP(BY_WARP, COMPLEX, complexd, gshmem_complexd_t)
  BY_GROUP(BY_BLOCK, COMPLEX, complexd, gshmem_complexd_t)
  REDUCE_WITH(gshmem_double2_t, kReduce, kMaxloc, double2_maxloc_reduce, BY_WARP)
  REDUCE_WITH(gshmem_double2_t, kReduce, kMaxloc, double2_maxloc_reduce, BY_BLOCK)
#endif
}

SPMD_TEST(collectives_by_host_threads_and_on_streams_move_elements_of_every_type) {
  if (streams_hold_each_other_up(pe)) return;
  const Stream stream(pe);
  TypedMoves moves(pe);
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) \
  MOVES(BY_HOST, NAME##_, , T, sizeof(T))       \
  MOVES(IN_STREAM, NAME##_, , T, sizeof(T))
#include <gshmem/types.def>
  MOVES(BY_HOST, , mem, void, 1)
  MOVES(IN_STREAM, , mem, void, 1)
}

SPMD_TEST(collectives_by_host_threads_and_on_streams_in_teams_of_every_shape_match_a_model) {
  if (streams_hold_each_other_up(pe)) return;
  const Stream stream(pe);
  CallsInTeams calls(pe);
  calls.check(BY_HOST(int_alltoall), BY_HOST(int_fcollect), BY_HOST(int_sum_reduce));
  calls.check(IN_STREAM(int_alltoall), IN_STREAM(int_fcollect), IN_STREAM(int_sum_reduce));
}

SPMD_TEST(collectives_by_groups_move_elements_of_every_type) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  TypedMoves moves(pe);
#define MOVES_BY_GROUPS(STEM, END, T, SIZE)          \
  if (pe.draws()) MOVES(BY_WARP, STEM, END, T, SIZE) \
  if (pe.draws()) MOVES(BY_BLOCK, STEM, END, T, SIZE)
#if defined(__CUDACC__)
  MOVES_BY_GROUPS(int_, , int, sizeof(int))
#else
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) MOVES_BY_GROUPS(NAME##_, , T, sizeof(T))
#include <gshmem/types.def>
  MOVES_BY_GROUPS(, mem, void, 1)
#endif
}
