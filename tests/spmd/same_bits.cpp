// Sums whose roundings depend on the order: all members get the same bits, every time, in place or
// not, by any group and by host threads.
#include "tests/spmd/teams.h"

#include <cstring>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// Returns the bits of a float or half between 2^-8 and 2^8, of either sign.
template <class T>
std::uint64_t random_bits(std::uint64_t random) {
  constexpr unsigned kFraction = sizeof(T) == 2 ? 10 : 23, kBias = sizeof(T) == 2 ? 15 : 127;
  const std::uint64_t sign = random >> 63, exponent = kBias - 8 + random % 16;
  const std::uint64_t fraction = random / 16 % (std::uint64_t{1} << kFraction);
  return sign << (8 * sizeof(T) - 1) | exponent << kFraction | fraction;
}

struct Sum {
  template <class T>
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, T* dest, const T* source,
                            std::size_t count, gshmem_team_t team, Scope scope) const {
    with_group(ctx, scope, [&](auto group) {
      SPMD_EQ(log, ctx.reduce<ReduceOp::kSum>(group, team, dest, source, count), 0, count);
    });
  }
};
int sum_by_host(gshmem_team_t team, float* dest, const float* source, std::size_t count) {
  return gshmem_float_sum_reduce(team, dest, source, count);
}
int sum_by_host(gshmem_team_t team, gshmem_half_t* dest, const gshmem_half_t* source,
                std::size_t count) {
  return gshmem_half_sum_reduce(team, dest, source, count);
}

enum class By { kHost, kThread, kWarp, kBlock };
constexpr By kBy[] = {By::kHost, By::kThread, By::kWarp, By::kBlock};
Scope scope_of(By by) {
  return by == By::kThread ? Scope::kThread : by == By::kWarp ? Scope::kWarp : Scope::kBlock;
}

template <class T>
class SameBits {
 public:
  static constexpr std::size_t kMost = 60'000;
  explicit SameBits(Pe& pe)
      : pe_(pe), arrays_(2 * kMost), hashes_(static_cast<std::size_t>(pe.n()) + 1) {}

  /// Tests the first algorithm, and those of the others that this leg draws, twice each.
  void test(gshmem_team_t team, std::size_t count) {
    std::vector<std::uint8_t> first;
    for (const By by : kBy) {
      // A single thread of a GPU takes a microsecond for each element.
      if (by == By::kThread && count > 1000) continue;
      for (const bool in_place : {false, true}) {
        // From members that are not mapped a thread fetches 16 bytes per round trip.
        if (in_place && pe_.on_network() && count > 1000) continue;
        if (!first.empty() && !pe_.draws()) continue;
        for (int repeat = 0; repeat < 2; ++repeat) {
          const std::vector<std::uint8_t> got = sum(team, count, by, in_place);
          if (first.empty()) first = got;
          const std::uint64_t way = static_cast<std::uint64_t>(by) * 2 + (in_place ? 1 : 0);
          pe_.equal(__LINE__, got == first, true, count * 100 + way);
          check_members(team, hash(got), count * 100 + way);
        }
      }
    }
  }

 private:
  std::vector<std::uint8_t> sum(gshmem_team_t team, std::size_t count, By by, bool in_place) {
    T* const source = arrays_.data();
    T* const dest = in_place ? source : source + kMost;
    std::vector<std::uint8_t> mine(count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t raw =
          random_bits<T>(mix(mix(pe_.seed(), static_cast<std::uint64_t>(pe_.me())), i));
      std::memcpy(mine.data() + i * sizeof(T), &raw, sizeof(T));
    }
    pe_.write(source, mine);
    pe_.barrier();
    if (by == By::kHost) {
      pe_.equal(__LINE__, sum_by_host(team, dest, source, count), 0, count);
    } else {
      pe_.run(one_group(pe_, scope_of(by)), Sum{}, dest, static_cast<const T*>(source), count, team,
              scope_of(by));
    }
    return pe_.read(dest, mine.size());
  }
  static std::uint64_t hash(const std::vector<std::uint8_t>& bytes) {
    std::uint64_t all = 0;
    for (const std::uint8_t byte : bytes) all = mix(all ^ byte);
    return all;
  }
  void check_members(gshmem_team_t team, std::uint64_t mine, std::uint64_t tag) {
    std::uint64_t* const all = hashes_.data();
    std::uint64_t* const own = all + pe_.n();
    gshmem_uint64_p(own, mine, pe_.me());
    gshmem_quiet();
    pe_.equal(__LINE__, gshmem_uint64_fcollect(team, all, own, 1), 0, tag);
    const std::vector<std::uint8_t> raw =
        pe_.read(all, static_cast<std::size_t>(pe_.n()) * sizeof(mine));
    for (std::size_t at = 0; at < raw.size(); at += sizeof(mine)) {
      std::uint64_t theirs = 0;
      std::memcpy(&theirs, raw.data() + at, sizeof(theirs));
      pe_.equal(__LINE__, theirs, mine, tag);
    }
    pe_.barrier();
  }

  Pe& pe_;
  SymmetricArray<T> arrays_;
  SymmetricArray<std::uint64_t> hashes_;
};

template <class T>
void test_sizes(Pe& pe, gshmem_team_t team) {
  SameBits<T> same(pe);
  constexpr std::size_t kCounts[] = {1, 17, 513, 4099, 60'000};
  for (const std::size_t count : kCounts) same.test(team, count);
}

}  // namespace

SPMD_TEST(sums_of_floats_and_halves_are_the_same_bits_on_all_members_every_time) {
  test_sizes<float>(pe, GSHMEM_TEAM_WORLD);
  const OwnTeam reversed = split(pe, GSHMEM_TEAM_WORLD, pe.n() - 1, -1, pe.n());
  test_sizes<gshmem_half_t>(pe, reversed.get());
}
