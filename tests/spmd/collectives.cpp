// Collectives against a sequential model: every one, in every scope, of teams of every shape, with
// random counts, one after the other with nothing between; all reductions and scans by host threads
// and on streams.
#include "tests/spmd/stream.h"
#include "tests/spmd/teams.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

enum class Move { kAlltoall, kAlltoalls, kBroadcast, kFcollect, kCollect };
constexpr Move kMoves[] = {Move::kAlltoall, Move::kAlltoalls, Move::kBroadcast, Move::kFcollect,
                           Move::kCollect};
GSHMEM_FN bool has_parts(Move move) { return move == Move::kAlltoall || move == Move::kAlltoalls; }

/// Bytes that one member gives to one other at most, and room for all members' of two rounds: a
/// member that has entered a round is through with the one before.
struct MoveMemory {
  std::uint8_t *source, *dest;
  std::size_t most, members;
  GSHMEM_FN std::uint8_t* dest_of(int round) const {
    return dest + static_cast<std::size_t>(round % 2) * most * members;
  }
};

/// What round `round` moves.
struct MoveRound {
  std::uint64_t seed;
  int round;
  GSHMEM_FN std::uint64_t random(std::uint64_t what) const {
    return mix(seed, static_cast<std::uint64_t>(round) * 8 + what);
  }
  /// Of member `member`: now and then none, and few more often than many.
  GSHMEM_FN std::size_t bytes(Move move, int member, std::size_t most) const {
    const std::uint64_t r =
        move == Move::kCollect ? mix(random(0), static_cast<std::uint64_t>(member)) : random(0);
    return r % 7 == 0 ? 0 : r % 3 == 0 && move != Move::kAlltoalls ? r / 8 % most : r / 8 % 40;
  }
  /// Between elements of `dest` and of `source`.
  GSHMEM_FN std::size_t stride(Move move, std::uint64_t of) const {
    return move == Move::kAlltoalls ? 1 + random(3 + of) % 3 : 1;
  }
  GSHMEM_FN std::uint8_t byte(int pe, std::size_t at) const {
    return pattern(mix(random(1), static_cast<std::uint64_t>(pe)), at);
  }
};

constexpr std::uint8_t kUntouched = 0xee;

/// `rounds` of them, which write their sources and look at what has come between each other.
struct MoveRounds {
  template <class Group>
  GSHMEM_FN static int make(const LaunchContext& ctx, Group group, Move move, gshmem_team_t team,
                            std::uint8_t* dest, const std::uint8_t* source, device::Strides strides,
                            int root) {
    switch (move) {
      case Move::kAlltoall:
        return ctx.alltoall(group, team, dest, source, strides.nelems);
      case Move::kAlltoalls:
        return ctx.alltoalls(group, team, dest, source, strides);
      case Move::kFcollect:
        return ctx.fcollect(group, team, dest, source, strides.nelems);
      case Move::kCollect:
        return ctx.collect(group, team, dest, source, strides.nelems);
      case Move::kBroadcast:
        break;
    }
    return ctx.broadcast(group, team, dest, source, strides.nelems, root);
  }
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, MoveMemory memory, Move move,
                            Scope scope, gshmem_team_t team, int rounds, std::uint64_t seed) const {
    with_group(ctx, scope, [&](auto group) {
      const std::size_t width = static_cast<std::size_t>(group.size());
      const std::size_t rank = static_cast<std::size_t>(group.thread_rank());
      const int n = ctx.team_n_pes(team), me = ctx.team_my_pe(team);
      for (int round = 0; round < rounds; ++round) {
        const MoveRound now{seed, round};
        const std::size_t bytes = now.bytes(move, me, memory.most);
        const std::size_t dst = now.stride(move, 0), sst = now.stride(move, 1);
        const int root = static_cast<int>(now.random(2) % static_cast<std::uint64_t>(n));
        const std::size_t parts = has_parts(move) ? static_cast<std::size_t>(n) : 1;
        for (std::size_t i = rank; i < bytes * parts; i += width) {
          memory.source[i * sst] = now.byte(ctx.my_pe(), i);
        }
        std::uint8_t* const dest = memory.dest_of(round);
        if (move == Move::kAlltoalls) {  // nobody writes to the next one before all are here
          for (std::size_t i = rank; i < memory.most * parts; i += width) {
            memory.dest_of(round + 1)[i] = kUntouched;
          }
        }
        const int status =
            make(ctx, group, move, team, dest, memory.source,
                 {static_cast<std::ptrdiff_t>(dst), static_cast<std::ptrdiff_t>(sst), bytes}, root);
        SPMD_EQ(log, status, 0, static_cast<std::uint64_t>(round));
        std::size_t at = 0;
        for (int from = 0; from < (move == Move::kBroadcast ? 1 : n); ++from) {
          const int member = move == Move::kBroadcast ? root : from;
          const int pe = ctx.team_translate_pe(team, member, GSHMEM_TEAM_WORLD);
          const std::size_t theirs = now.bytes(move, member, memory.most);
          const std::size_t first = has_parts(move) ? static_cast<std::size_t>(me) * bytes : 0;
          for (std::size_t i = rank; i < theirs; i += width) {
            const std::uint8_t* const got = dest + (at + i) * dst;
            const bool spoilt = round > 0 && dst > 1 && got[1] != kUntouched;
            if (got[0] == now.byte(pe, first + i) && !spoilt) continue;
            SPMD_EQ(log, got[0], now.byte(pe, first + i), i);
            SPMD_CHECK(log, !spoilt);
            break;
          }
          at += theirs;
        }
        group.sync();  // a thread's source may be another thread's to look at
      }
    });
  }
};

/// What an element of PE `pe` is. Few and small values: of any type, exact in every order.
template <class T>
GSHMEM_FN T value_of(double value) {
  if constexpr (std::is_same_v<T, gshmem_half_t> || std::is_same_v<T, gshmem_bfloat16_t>) {
    // The upper half of a float is a bfloat16; of these values no half has more than 8 bits.
    const float wide = static_cast<float>(value);
    std::uint32_t raw = 0;
    memcpy(&raw, &wide, sizeof raw);
    std::uint32_t narrow = raw >> 16;
    if (std::is_same_v<T, gshmem_half_t>) {
      const std::uint32_t magnitude = raw & 0x7fffffff;
      narrow = (raw >> 16 & 0x8000) | (magnitude == 0 ? 0 : (magnitude - (112u << 23)) >> 13);
    }
    const std::uint16_t half = static_cast<std::uint16_t>(narrow);
    T result{};
    memcpy(static_cast<void*>(&result), &half, sizeof half);
    return result;
  } else {
    return static_cast<T>(value);
  }
}
template <class T>
constexpr bool kIsInteger = std::is_integral_v<T>;
GSHMEM_FN std::int64_t number_of(std::uint64_t seed, int pe, std::size_t i) {
  constexpr std::int64_t kValues[] = {1, 2, -1, -2};
  return kValues[mix(seed, static_cast<std::uint64_t>(pe) * 100'000 + i) % 4];
}
/// The operator on two results so far, as numbers; of integers modulo 2^64.
GSHMEM_FN std::int64_t combine(ReduceOp op, std::int64_t a, std::int64_t b) {
  const std::uint64_t x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  switch (op) {
    case ReduceOp::kSum:
      return static_cast<std::int64_t>(x + y);
    case ReduceOp::kProd:
      return static_cast<std::int64_t>(x * y);
    case ReduceOp::kMin:
      return a < b ? a : b;
    case ReduceOp::kMax:
      return a > b ? a : b;
    case ReduceOp::kAnd:
      return static_cast<std::int64_t>(x & y);
    case ReduceOp::kOr:
      return static_cast<std::int64_t>(x | y);
    case ReduceOp::kXor:
    case ReduceOp::kMaxloc:  // of pairs
      break;
  }
  return static_cast<std::int64_t>(x ^ y);
}
/// Both parts of a complex number, or of a pair.
struct Two {
  std::int64_t x, y;
};
GSHMEM_FN Two combine(ReduceOp op, Two a, Two b) {
  if (op == ReduceOp::kMaxloc) return b.x > a.x || (b.x == a.x && b.y < a.y) ? b : a;
  if (op == ReduceOp::kSum) return {a.x + b.x, a.y + b.y};
  return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
template <class T>
constexpr bool kIsTwo = device::kIsComplex<T> || std::is_same_v<T, gshmem_double2_t>;
/// An element of T as a number, and back. Unsigned ones have no negative values.
template <class T>
GSHMEM_FN auto number_in(std::uint64_t seed, int pe, std::size_t i) {
  const std::int64_t number = number_of(seed, pe, i);
  if constexpr (kIsTwo<T>) {
    return Two{number, number_of(seed + 1, pe, i)};
  } else {
    return std::is_unsigned_v<T> && number < 0 ? -number : number;
  }
}
template <class T, class Number>
GSHMEM_FN T element_of(Number number) {
  if constexpr (kIsTwo<T>) {
    using Part = std::conditional_t<sizeof(T) == sizeof(double), float, double>;
    return T{static_cast<Part>(number.x), static_cast<Part>(number.y)};
  } else if constexpr (kIsInteger<T>) {
    return static_cast<T>(number);
  } else {
    return value_of<T>(static_cast<double>(number));
  }
}
template <class T>
GSHMEM_FN bool is_same(T a, T b) {
  if constexpr (device::kIsComplex<T>) {  // zeros may have any sign
    return a.re == b.re && a.im == b.im;
  } else {
    const auto* left = reinterpret_cast<const std::uint8_t*>(&a);
    const auto* right = reinterpret_cast<const std::uint8_t*>(&b);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      if (left[i] != right[i]) return false;
    }
    return true;
  }
}

/// What is made of the members' elements.
enum class Way { kReduce, kReducescatter, kInscan, kExscan };
constexpr Way kWays[] = {Way::kReduce, Way::kReducescatter, Way::kInscan, Way::kExscan};

/// The members of the world are the PEs in their order.
struct World {
  GSHMEM_FN int operator()(int member) const { return member; }
};

/// Element i of the result of member `me` of `n`, which are the PEs `pe_of(0)`, ...; `count` of
/// them.
template <class T, class PeOf>
GSHMEM_FN T result_of(Way way, ReduceOp op, std::uint64_t seed, int me, int n, std::size_t count,
                      std::size_t i, const PeOf& pe_of) {
  if (way == Way::kReducescatter) i += static_cast<std::size_t>(me) * count;
  const int last = way == Way::kInscan ? me : way == Way::kExscan ? me - 1 : n - 1;
  if (last < 0) return element_of<T>(decltype(number_in<T>(seed, 0, i)){});
  auto result = number_in<T>(seed, pe_of(0), i);
  for (int k = 1; k <= last; ++k) result = combine(op, result, number_in<T>(seed, pe_of(k), i));
  return element_of<T>(result);
}

/// Elements of each array; the longest call, and a shift that 16 bytes do not divide.
constexpr std::size_t kElements = 700;
/// Of a call, at most: over the network those of 16 bytes are a round trip each.
template <class T>
constexpr std::size_t kLongest = sizeof(T) < 16 ? kElements - 3 : 150;

template <class T, ReduceOp kOp>
struct ReduceRounds {
  template <class Group>
  GSHMEM_FN static int make(const LaunchContext& ctx, Group group, Way way, gshmem_team_t team,
                            T* dest, const T* source, std::size_t count) {
    if (way == Way::kReducescatter)
      return ctx.template reducescatter<kOp>(group, team, dest, source, count);
    if constexpr (kOp == ReduceOp::kSum) {
      if (way == Way::kInscan) return ctx.template inscan<kOp>(group, team, dest, source, count);
      if (way == Way::kExscan) return ctx.template exscan<kOp>(group, team, dest, source, count);
    }
    return ctx.template reduce<kOp>(group, team, dest, source, count);
  }
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, char* memory, Way way, Scope scope,
                            gshmem_team_t team, int rounds, std::uint64_t base) const {
    with_group(ctx, scope, [&](auto group) {
      const std::size_t width = static_cast<std::size_t>(group.size());
      const std::size_t rank = static_cast<std::size_t>(group.thread_rank());
      const int n = ctx.team_n_pes(team), me = ctx.team_my_pe(team);
      const std::size_t parts = way == Way::kReducescatter ? static_cast<std::size_t>(n) : 1;
      for (int round = 0; round < rounds; ++round) {
        const std::uint64_t seed = mix(base, static_cast<std::uint64_t>(round));
        const std::size_t shift = seed / 64 % 4 == 0 ? seed / 256 % 3 : 0;
        const std::size_t count = seed % 5 == 0   ? 0
                                  : seed % 3 == 0 ? seed / 7 % (kLongest<T> / parts)
                                                  : seed / 7 % 20;
        // By turns, so that members may still look at the last result.
        T* const source = reinterpret_cast<T*>(memory) + shift +
                          static_cast<std::size_t>(round % 2) * 2 * kElements;
        T* const own =
            way == Way::kReducescatter ? source + static_cast<std::size_t>(me) * count : source;
        T* const dest = seed / 1024 % 3 == 0 ? own : source + kElements;
        for (std::size_t i = rank; i < count * parts; i += width) {
          source[i] = element_of<T>(number_in<T>(seed, ctx.my_pe(), i));
        }
        const int status = make(ctx, group, way, team, dest, source, count);
        SPMD_EQ(log, status, 0, static_cast<std::uint64_t>(round));
        for (std::size_t i = rank; i < count; i += width) {
          const T expected = result_of<T>(way, kOp, seed, me, n, count, i, [&](int k) {
            return ctx.team_translate_pe(team, k, GSHMEM_TEAM_WORLD);
          });
          if (is_same(dest[i], expected)) continue;
          SPMD_EQ(log, i, kElements + 1, static_cast<std::uint64_t>(round));
          break;
        }
        group.sync();
      }
    });
  }
};

template <class T, ReduceOp kOp>
void test_reduce(Pe& pe, int rounds) {
  SymmetricArray<T> memory(4 * kElements + 8);
  for (const OwnTeam& team : teams_of(pe)) {
    for (const Scope scope : kScopes) {
      for (const Way way : kWays) {
        if (way >= Way::kInscan && kOp != ReduceOp::kSum) continue;
        if (way == Way::kReducescatter && kOp == ReduceOp::kMaxloc) continue;
        if (!pe.draws()) continue;
        if (team.get() != GSHMEM_TEAM_INVALID) {
          pe.run(one_group(pe, scope), ReduceRounds<T, kOp>{},
                 reinterpret_cast<char*>(memory.data()), way, scope, team.get(),
                 way == Way::kReduce ? rounds : rounds / 4, pe.seed());
        }
        pe.barrier();
      }
    }
  }
}

/// Of each member, of what is combined.
constexpr std::size_t kTyped = 37;
/// Memory for check_reduce(): of elements of any type, source and results.
std::size_t typed_words(const Pe& pe) {
  return 2 * kTyped * (static_cast<std::size_t>(pe.n()) + 1);
}

/// A call of the API: dest, source, count.
template <class T>
using Reduction = std::function<int(T*, const T*, std::size_t)>;

/// Makes the call with every PE's values, and looks at the result.
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
  pe.barrier();  // also: nobody looks at the last result any more
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

#define REDUCE_WITH(T, WAY, OP_NAME, STEM, BY)                           \
  check_reduce<T>(pe, memory, Way::WAY, ReduceOp::OP_NAME, #STEM,        \
                  [&](T* dest, const T* source, std::size_t n) {         \
                    return BY(STEM, GSHMEM_TEAM_WORLD, dest, source, n); \
                  });
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
#define COMPLEX(BY, NAME, T)          \
  REDUCE_OP(BY, NAME, T, sum, kSum)   \
  REDUCE_OP(BY, NAME, T, prod, kProd) \
  SCANS(BY, NAME, T)
#define BY_HOST(STEM, ...) gshmem_##STEM(__VA_ARGS__)
#define MAXLOC_BY_HOST(STEM, ...) gshmemx_##STEM(__VA_ARGS__)
#define IN_STREAM(STEM, ...)                                                  \
  [&] {                                                                       \
    const int status = gshmemx_##STEM##_on_stream(__VA_ARGS__, stream.get()); \
    stream.finish();                                                          \
    return status;                                                            \
  }()

}  // namespace

SPMD_TEST(collectives_move_what_a_sequential_model_says) {
  constexpr std::size_t kMost = 3000;
  const std::size_t n = static_cast<std::size_t>(pe.n());
  SymmetricArray<std::uint8_t> source(kMost * n), dest(2 * kMost * n + 1);
  const int rounds = std::max(pe.rounds(40), 4);
  for (const OwnTeam& team : teams_of(pe)) {
    for (const Scope scope : kScopes) {
      for (const Move move : kMoves) {
        if (!pe.draws()) continue;
        if (team.get() != GSHMEM_TEAM_INVALID) {
          const MoveMemory memory{source.data(), dest.data() + (move == Move::kFcollect ? 1 : 0),
                                  kMost, n};
          pe.run(one_group(pe, scope), MoveRounds{}, memory, move, scope, team.get(), rounds,
                 pe.seed());
        }
        pe.barrier();
      }
    }
  }
}

SPMD_TEST(reductions_give_all_members_what_a_sequential_model_says) {
  const int rounds = std::max(pe.rounds(40), 4);
  test_reduce<std::int32_t, ReduceOp::kSum>(pe, rounds);
  test_reduce<std::uint64_t, ReduceOp::kXor>(pe, rounds);
  test_reduce<double, ReduceOp::kProd>(pe, rounds);
  test_reduce<std::int8_t, ReduceOp::kMin>(pe, rounds);
  test_reduce<gshmem_half_t, ReduceOp::kMax>(pe, rounds);
}

SPMD_TEST(reductions_of_pairs_and_complex_numbers_give_what_a_sequential_model_says) {
  const int rounds = std::max(pe.rounds(16), 4);
  test_reduce<gshmem_double2_t, ReduceOp::kMaxloc>(pe, rounds);
  test_reduce<gshmem_complexf_t, ReduceOp::kProd>(pe, rounds);
  test_reduce<gshmem_complexd_t, ReduceOp::kSum>(pe, rounds);
}

SPMD_TEST(reductions_of_every_type_by_host_threads) {
  SymmetricArray<std::uint64_t> area(typed_words(pe));
  void* const memory = area.data();
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) \
  REDUCE_##REDUCE(BY_HOST, NAME, T) SCANS(BY_HOST, NAME, T)
#include <gshmem/types.def>
  COMPLEX(BY_HOST, complexf, gshmem_complexf_t)
  COMPLEX(BY_HOST, complexd, gshmem_complexd_t)
  REDUCE_WITH(gshmem_double2_t, kReduce, kMaxloc, double2_maxloc_reduce, MAXLOC_BY_HOST)
}

SPMD_TEST(reductions_of_every_type_on_streams) {
  if (streams_hold_each_other_up(pe)) return;
  SymmetricArray<std::uint64_t> area(typed_words(pe));
  void* const memory = area.data();
  const Stream stream(pe);
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) \
  REDUCE_##REDUCE(IN_STREAM, NAME, T) SCANS(IN_STREAM, NAME, T)
#include <gshmem/types.def>
  COMPLEX(IN_STREAM, complexf, gshmem_complexf_t)
  COMPLEX(IN_STREAM, complexd, gshmem_complexd_t)
  REDUCE_WITH(gshmem_double2_t, kReduce, kMaxloc, double2_maxloc_reduce, IN_STREAM)
}

SPMD_TEST(collectives_by_host_threads_and_on_streams_move_elements_of_every_type) {
  if (streams_hold_each_other_up(pe)) return;
  const std::size_t n = static_cast<std::size_t>(pe.n());
  constexpr std::size_t kCount = 5;
  SymmetricArray<std::uint64_t> source(kCount * n), dest(kCount * n);
  const Stream stream(pe);
  std::uint64_t call = 0;
  // Member k gives `bytes_of(k)` bytes, of alltoall to each member.
  const auto check = [&](const auto& bytes_of, bool from_root, bool is_alltoall, const auto& make) {
    const std::size_t bytes = bytes_of(pe.me());
    const std::uint64_t seed = mix(pe.seed(), ++call);
    const auto pattern_of = [&](int k, std::size_t i) {
      return pattern(mix(seed, static_cast<std::uint64_t>(k)), i);
    };
    std::vector<std::uint8_t> mine(bytes * n);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = pattern_of(pe.me(), i);
    pe.write(source.data(), mine);
    pe.barrier();
    SPMD_EQ(pe, make(), 0, call);
    stream.finish();
    std::vector<std::uint8_t> expected;
    for (int k = from_root ? pe.n() - 1 : 0; k < pe.n(); ++k) {
      const std::size_t first = is_alltoall ? static_cast<std::size_t>(pe.me()) * bytes : 0;
      for (std::size_t i = 0; i < bytes_of(k); ++i) expected.push_back(pattern_of(k, first + i));
    }
    pe.equal_bytes(__LINE__, pe.read(dest.data(), expected.size()), expected);
  };
  const gshmem_team_t world = GSHMEM_TEAM_WORLD;
  const int root = pe.n() - 1;
#define MOVES(ALLTOALL, ALLTOALLS, BROADCAST, FCOLLECT, COLLECT, T, SIZE, ...)                \
  {                                                                                           \
    T* const to = reinterpret_cast<T*>(dest.data());                                          \
    const T* const from = reinterpret_cast<const T*>(source.data());                          \
    const auto count_of = [](int k) { return static_cast<std::size_t>(k) % (kCount + 1); };   \
    const auto some = [&](int k) { return count_of(k) * (SIZE); };                            \
    const auto same = [](int) { return kCount * (SIZE); };                                    \
    check(same, false, true, [&] { return ALLTOALL(world, to, from, kCount __VA_ARGS__); });  \
    check(same, false, true,                                                                  \
          [&] { return ALLTOALLS(world, to, from, 1, 1, kCount __VA_ARGS__); });              \
    check(same, true, false,                                                                  \
          [&] { return BROADCAST(world, to, from, kCount, root __VA_ARGS__); });              \
    check(same, false, false, [&] { return FCOLLECT(world, to, from, kCount __VA_ARGS__); }); \
    check(some, false, false,                                                                 \
          [&] { return COLLECT(world, to, from, count_of(pe.me()) __VA_ARGS__); });           \
  }
#define COMMA ,
#define HOST_MOVES(STEM, END, T, SIZE)                                                            \
  MOVES(gshmem_##STEM##alltoall##END, gshmem_##STEM##alltoalls##END,                              \
        gshmem_##STEM##broadcast##END, gshmem_##STEM##fcollect##END, gshmem_##STEM##collect##END, \
        T, SIZE)
#define STREAM_MOVES(STEM, END, T, SIZE)                                                       \
  MOVES(gshmemx_##STEM##alltoall##END##_on_stream, gshmemx_##STEM##alltoalls##END##_on_stream, \
        gshmemx_##STEM##broadcast##END##_on_stream, gshmemx_##STEM##fcollect##END##_on_stream, \
        gshmemx_##STEM##collect##END##_on_stream, T, SIZE, COMMA stream.get())
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) \
  HOST_MOVES(NAME##_, , T, sizeof(T))           \
  STREAM_MOVES(NAME##_, , T, sizeof(T))
#include <gshmem/types.def>
  HOST_MOVES(, mem, void, 1)
  STREAM_MOVES(, mem, void, 1)
}
