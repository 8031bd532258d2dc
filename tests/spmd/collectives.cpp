// Collectives against a sequential model: every one, in every scope, of teams of every shape, with
// random counts, one after the other with nothing between; all reductions by host threads and on
// streams.
#include "tests/spmd/stream.h"
#include "tests/spmd/teams.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

enum class Move { kAlltoall, kBroadcast, kFcollect };
constexpr Move kMoves[] = {Move::kAlltoall, Move::kBroadcast, Move::kFcollect};

/// Bytes that one member gives to one other at most, and room for all members' of two rounds: a
/// member that has entered a round is through with the one before.
struct MoveMemory {
  std::uint8_t *source, *dest;
  std::size_t most, members;
  GSHMEM_FN std::uint8_t* dest_of(int round) const {
    return dest + static_cast<std::size_t>(round % 2) * most * members;
  }
};

/// What round `round` moves: the same on all members.
struct MoveRound {
  std::uint64_t seed;
  int round;
  GSHMEM_FN std::uint64_t random(std::uint64_t what) const {
    return mix(seed, static_cast<std::uint64_t>(round) * 8 + what);
  }
  /// Now and then none, and few more often than many.
  GSHMEM_FN std::size_t bytes(std::size_t most) const {
    const std::uint64_t r = random(0);
    return r % 7 == 0 ? 0 : r % 3 == 0 ? r / 8 % most : r / 8 % 40;
  }
  GSHMEM_FN std::uint8_t byte(int pe, std::size_t at) const {
    return pattern(mix(random(1), static_cast<std::uint64_t>(pe)), at);
  }
};

/// `rounds` of them, which write their sources and look at what has come between each other.
struct MoveRounds {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, MoveMemory memory, Move move,
                            Scope scope, gshmem_team_t team, int rounds, std::uint64_t seed) const {
    with_group(ctx, scope, [&](auto group) {
      const std::size_t width = static_cast<std::size_t>(group.size());
      const std::size_t rank = static_cast<std::size_t>(group.thread_rank());
      const int n = ctx.team_n_pes(team), me = ctx.team_my_pe(team);
      for (int round = 0; round < rounds; ++round) {
        const MoveRound now{seed, round};
        const std::size_t bytes = now.bytes(memory.most);
        const int root = static_cast<int>(now.random(2) % static_cast<std::uint64_t>(n));
        const std::size_t parts = move == Move::kAlltoall ? static_cast<std::size_t>(n) : 1;
        for (std::size_t i = rank; i < bytes * parts; i += width) {
          memory.source[i] = now.byte(ctx.my_pe(), i);
        }
        std::uint8_t* const dest = memory.dest_of(round);
        int status = -1;
        if (move == Move::kAlltoall) {
          status = ctx.alltoall(group, team, dest, memory.source, bytes);
        } else if (move == Move::kFcollect) {
          status = ctx.fcollect(group, team, dest, memory.source, bytes);
        } else {
          status = ctx.broadcast(group, team, dest, memory.source, bytes, root);
        }
        SPMD_EQ(log, status, 0, static_cast<std::uint64_t>(round));
        for (int from = 0; from < (move == Move::kBroadcast ? 1 : n); ++from) {
          const int member = move == Move::kBroadcast ? root : from;
          const int pe = ctx.team_translate_pe(team, member, GSHMEM_TEAM_WORLD);
          const std::size_t first =
              move == Move::kAlltoall ? static_cast<std::size_t>(me) * bytes : 0;
          const std::uint8_t* const got = dest + static_cast<std::size_t>(from) * bytes;
          for (std::size_t i = rank; i < bytes; i += width) {
            if (got[i] == now.byte(pe, first + i)) continue;
            SPMD_EQ(log, got[i], now.byte(pe, first + i), i);
            break;
          }
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
      break;
  }
  return static_cast<std::int64_t>(x ^ y);
}
/// An element of T as a number, and back. Unsigned ones have no negative values.
template <class T>
GSHMEM_FN std::int64_t number_in(std::uint64_t seed, int pe, std::size_t i) {
  const std::int64_t number = number_of(seed, pe, i);
  return std::is_unsigned_v<T> && number < 0 ? -number : number;
}
template <class T>
GSHMEM_FN T element_of(std::int64_t number) {
  if constexpr (kIsInteger<T>) {
    return static_cast<T>(number);
  } else {
    return value_of<T>(static_cast<double>(number));
  }
}
template <class T>
GSHMEM_FN bool is_same(T a, T b) {
  const auto* left = reinterpret_cast<const std::uint8_t*>(&a);
  const auto* right = reinterpret_cast<const std::uint8_t*>(&b);
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    if (left[i] != right[i]) return false;
  }
  return true;
}

/// Elements of each array; the longest call, and a shift that 16 bytes do not divide.
constexpr std::size_t kElements = 700;

template <class T, ReduceOp kOp>
struct ReduceRounds {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, char* memory, Scope scope,
                            gshmem_team_t team, int rounds, std::uint64_t base) const {
    with_group(ctx, scope, [&](auto group) {
      const std::size_t width = static_cast<std::size_t>(group.size());
      const std::size_t rank = static_cast<std::size_t>(group.thread_rank());
      for (int round = 0; round < rounds; ++round) {
        const std::uint64_t seed = mix(base, static_cast<std::uint64_t>(round));
        const std::size_t shift = seed / 64 % 4 == 0 ? seed / 256 % 3 : 0;
        const std::size_t count = seed % 5 == 0   ? 0
                                  : seed % 3 == 0 ? seed / 7 % (kElements - 3)
                                                  : seed / 7 % 20;
        // By turns, so that members may still look at the last result.
        T* const source = reinterpret_cast<T*>(memory) + shift +
                          static_cast<std::size_t>(round % 2) * 2 * kElements;
        T* const dest = seed / 1024 % 3 == 0 ? source : source + kElements;
        for (std::size_t i = rank; i < count; i += width) {
          source[i] = element_of<T>(number_in<T>(seed, ctx.my_pe(), i));
        }
        const int status = ctx.template reduce<kOp>(group, team, dest, source, count);
        SPMD_EQ(log, status, 0, static_cast<std::uint64_t>(round));
        for (std::size_t i = rank; i < count; i += width) {
          std::int64_t expected = 0;
          for (int k = 0; k < ctx.team_n_pes(team); ++k) {
            const int pe = ctx.team_translate_pe(team, k, GSHMEM_TEAM_WORLD);
            const std::int64_t number = number_in<T>(seed, pe, i);
            expected = k == 0 ? number : combine(kOp, expected, number);
          }
          if (is_same(dest[i], element_of<T>(expected))) continue;
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
      if (team.get() != GSHMEM_TEAM_INVALID) {
        pe.run(one_group(pe, scope), ReduceRounds<T, kOp>{}, reinterpret_cast<char*>(memory.data()),
               scope, team.get(), rounds, pe.seed());
      }
      pe.barrier();
    }
  }
}

/// Calls `reduce(dest, source, count)` with every PE's values, and looks at the result.
template <class T, class Reduce>
void check_reduce(Pe& pe, void* memory, ReduceOp op, const char* name, const Reduce& reduce) {
  constexpr std::size_t kCount = 37;
  T* const source = static_cast<T*>(memory);
  T* const dest = source + kCount;
  const std::uint64_t seed = mix(pe.seed(), std::strlen(name) * 16 + static_cast<unsigned>(op));
  std::vector<std::uint8_t> mine(kCount * sizeof(T));
  for (std::size_t i = 0; i < kCount; ++i) {
    const T value = element_of<T>(number_in<T>(seed, pe.me(), i));
    std::memcpy(mine.data() + i * sizeof(T), static_cast<const void*>(&value), sizeof(T));
  }
  pe.write(source, mine);
  pe.barrier();  // also: nobody looks at the last result any more
  if (reduce(dest, source, kCount) != 0) return pe.fail(__LINE__, std::string(name) + " failed");
  const std::vector<std::uint8_t> got = pe.read(dest, kCount * sizeof(T));
  for (std::size_t i = 0; i < kCount; ++i) {
    std::int64_t expected = number_in<T>(seed, 0, i);
    for (int k = 1; k < pe.n(); ++k) expected = combine(op, expected, number_in<T>(seed, k, i));
    T value{};
    std::memcpy(static_cast<void*>(&value), got.data() + i * sizeof(T), sizeof(T));
    if (!is_same(value, element_of<T>(expected)))
      return pe.fail(__LINE__, std::string(name) + ": element " + std::to_string(i));
  }
}

#define REDUCE_BY(NAME, T, OP, OP_NAME, FUNCTION, ...)                               \
  check_reduce<T>(pe, memory, ReduceOp::OP_NAME, #NAME "_" #OP,                      \
                  [&](T* dest, const T* source, std::size_t n) {                     \
                    return FUNCTION(GSHMEM_TEAM_WORLD, dest, source, n __VA_ARGS__); \
                  });
#define REDUCE_NUM(BY, NAME, T) \
  BY(NAME, T, sum, kSum)        \
  BY(NAME, T, prod, kProd)      \
  BY(NAME, T, min, kMin)        \
  BY(NAME, T, max, kMax)
#define REDUCE_BITS(BY, NAME, T) \
  REDUCE_NUM(BY, NAME, T)        \
  BY(NAME, T, and, kAnd)         \
  BY(NAME, T, or, kOr)           \
  BY(NAME, T, xor, kXor)
#define BY_HOST(NAME, T, OP, OP_NAME) REDUCE_BY(NAME, T, OP, OP_NAME, gshmem_##NAME##_##OP##_reduce)
#define IN_STREAM(NAME, T, OP, OP_NAME)                                                      \
  REDUCE_BY(NAME, T, OP, OP_NAME, [&](auto... arguments) {                                   \
    const int status = gshmemx_##NAME##_##OP##_reduce_on_stream(arguments..., stream.get()); \
    stream.finish();                                                                         \
    return status;                                                                           \
  })

}  // namespace

SPMD_TEST(collectives_move_what_a_sequential_model_says) {
  constexpr std::size_t kMost = 3000;
  const std::size_t n = static_cast<std::size_t>(pe.n());
  SymmetricArray<std::uint8_t> source(kMost * n), dest(2 * kMost * n + 1);
  const int rounds = std::max(pe.rounds(60), 4);
  for (const OwnTeam& team : teams_of(pe)) {
    for (const Scope scope : kScopes) {
      for (const Move move : kMoves) {
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

SPMD_TEST(reductions_of_every_type_by_host_threads) {
  SymmetricArray<std::uint64_t> area(80);
  void* const memory = area.data();
#define REDUCE_OWN(BY, NAME, T) REDUCE_NUM(BY, NAME, T)
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) REDUCE_##REDUCE(BY_HOST, NAME, T)
#include <gshmem/types.def>
#undef REDUCE_OWN
}

SPMD_TEST(reductions_of_every_type_on_streams) {
  if (streams_hold_each_other_up(pe)) return;
  SymmetricArray<std::uint64_t> area(80);
  void* const memory = area.data();
  const Stream stream(pe);
#define REDUCE_OWN(BY, NAME, T)
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) REDUCE_##REDUCE(IN_STREAM, NAME, T)
#include <gshmem/types.def>
#undef REDUCE_OWN
}

SPMD_TEST(collectives_by_host_threads_and_on_streams_move_elements_of_every_type) {
  if (streams_hold_each_other_up(pe)) return;
  const std::size_t n = static_cast<std::size_t>(pe.n());
  constexpr std::size_t kCount = 5;
  SymmetricArray<std::uint64_t> source(kCount * n), dest(kCount * n);
  const Stream stream(pe);
  std::uint64_t call = 0;
  // `first`: where the bytes of member `k` for this one begin in its source.
  const auto check = [&](std::size_t bytes, bool from_root, bool is_alltoall, const auto& make) {
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
      for (std::size_t i = 0; i < bytes; ++i) expected.push_back(pattern_of(k, first + i));
    }
    pe.equal_bytes(__LINE__, pe.read(dest.data(), expected.size()), expected);
  };
  const gshmem_team_t world = GSHMEM_TEAM_WORLD;
  const int root = pe.n() - 1;
#define MOVES(ALLTOALL, BROADCAST, FCOLLECT, T, SIZE, ...)                                      \
  {                                                                                             \
    T* const to = reinterpret_cast<T*>(dest.data());                                            \
    const T* const from = reinterpret_cast<const T*>(source.data());                            \
    constexpr std::size_t kBytes = kCount * (SIZE);                                             \
    check(kBytes, false, true, [&] { return ALLTOALL(world, to, from, kCount __VA_ARGS__); });  \
    check(kBytes, true, false,                                                                  \
          [&] { return BROADCAST(world, to, from, kCount, root __VA_ARGS__); });                \
    check(kBytes, false, false, [&] { return FCOLLECT(world, to, from, kCount __VA_ARGS__); }); \
  }
#define COMMA ,
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE)                                           \
  MOVES(gshmem_##NAME##_alltoall, gshmem_##NAME##_broadcast, gshmem_##NAME##_fcollect, T, \
        sizeof(T))                                                                        \
  MOVES(gshmemx_##NAME##_alltoall_on_stream, gshmemx_##NAME##_broadcast_on_stream,        \
        gshmemx_##NAME##_fcollect_on_stream, T, sizeof(T), COMMA stream.get())
#include <gshmem/types.def>
  MOVES(gshmem_alltoallmem, gshmem_broadcastmem, gshmem_fcollectmem, void, 1)
  MOVES(gshmemx_alltoallmem_on_stream, gshmemx_broadcastmem_on_stream,
        gshmemx_fcollectmem_on_stream, void, 1, COMMA stream.get())
}
