// Time of collectives of all PEs, by one thread, warp or block of each, by their hosts, or on their
// streams; the result is the mean over the PEs. The size is the data that a PE puts to one other
// (alltoall, broadcast, fcollect, collect), that is reduced (reduce, scans), or that a PE receives
// (reducescatter). Tiles are measured with the wait for them.
#include "perftest/common/calls.h"

#include <algorithm>

namespace perftest {
namespace {

/// Does the source have parts of `count` elements, one for each PE, or only one?
template <Id kId>
inline constexpr bool kSourceHasParts =
    kId == Id::alltoall || kId == Id::alltoalls || kId == Id::reducescatter;
template <Id kId>
inline constexpr bool kDestHasParts =
    kId == Id::alltoall || kId == Id::alltoalls || kId == Id::fcollect || kId == Id::collect ||
    kId == Id::tile_allgather;
template <Id kId>
inline constexpr bool kOfTiles = kId >= Id::tile_put;

/// The source and result of a PE. Values are few and small, so that sums are exact.
template <Id kId>
struct Model {
  /// The number of contiguous elements, and the distance to the next ones in units of that.
  static constexpr std::size_t kRow = kOfTiles<kId> ? kTileWidth : 1;
  static constexpr std::size_t kStep = kOfTiles<kId> || kId == Id::alltoalls ? kApart : 1;
  using Element = std::conditional_t<kId == Id::maxloc_reduce, gshmem_double2_t, float>;
  std::size_t count;
  int my_pe, n_pes;

  [[nodiscard]] std::size_t elements(bool parts) const {
    return count * kStep * (parts ? static_cast<std::size_t>(n_pes) : 1);
  }
  [[nodiscard]] std::size_t source_count() const { return elements(kSourceHasParts<kId>); }
  [[nodiscard]] std::size_t dest_count() const { return elements(kDestHasParts<kId>); }

  /// Returns element `at` of PE `pe` in round `round`, gaps not counted.
  static float value(int pe, std::size_t at, std::uint64_t round) {
    return static_cast<float>((at * 7 + static_cast<std::size_t>(pe) * 13 + round * 29) % 61);
  }
  static void set(float& element, float value, int) { element = value; }
  static void set(gshmem_double2_t& element, float value, int place) {
    // The maximum occurs more than once.
    element.x = static_cast<double>(static_cast<int>(value) % 3);
    element.y = place;
  }
  static bool same(float a, float b) { return a == b; }
  static bool same(const gshmem_double2_t& a, const gshmem_double2_t& b) {
    return a.x == b.x && a.y == b.y;
  }
  /// Returns the position of element `at`, gaps counted.
  static std::size_t place(std::size_t at) { return at / kRow * kRow * kStep + at % kRow; }
  static std::vector<Element> gaps(std::size_t count) {
    std::vector<Element> all(count);
    for (Element& element : all) set(element, -1, -1);
    return all;
  }
  [[nodiscard]] std::vector<Element> source(std::uint64_t round) const {
    std::vector<Element> all = gaps(source_count());
    for (std::size_t at = 0; at < all.size() / kStep; ++at) {
      set(all[place(at)], value(my_pe, at, round), my_pe);
    }
    return all;
  }
  [[nodiscard]] std::vector<Element> untouched() const { return gaps(dest_count()); }
  [[nodiscard]] std::vector<Element> expected(std::uint64_t round) const {
    std::vector<Element> all = untouched();
    if (kId == Id::tile_rooted_reduce && my_pe != kRoot) return all;
    for (std::size_t at = 0; at < all.size() / kStep; ++at) {
      all[place(at)] = expected_at(at, round);
    }
    return all;
  }
  [[nodiscard]] Element expected_at(std::size_t at, std::uint64_t round) const {
    const std::size_t mine = kSourceHasParts<kId> ? static_cast<std::size_t>(my_pe) * count : 0;
    Element result{};
    if constexpr (kDestHasParts<kId>) {
      set(result, value(static_cast<int>(at / count), at % count + mine, round), 0);
    } else if constexpr (kId == Id::broadcast || kId == Id::tile_broadcast) {
      set(result, value(kRoot, at, round), 0);
    } else if constexpr (kId == Id::maxloc_reduce) {
      set(result, -1, -1);
      for (int pe = 0; pe < n_pes; ++pe) {
        Element other;
        set(other, value(pe, at, round), pe);
        if (pe == 0 || other.x > result.x) result = other;
      }
    } else {
      const int end = kId == Id::inscan ? my_pe + 1 : kId == Id::exscan ? my_pe : n_pes;
      for (int pe = 0; pe < end; ++pe) result += value(pe, at + mine, round);
    }
    return result;
  }
};

/// Returns whether larger sizes are worth their time.
template <Id kId, class By>
[[nodiscard]] bool run_size(Bench& bench, const std::string& scope, std::size_t bytes) {
  using C = Call<By, kId>;
  constexpr std::uint64_t kVerified = 5;
  using Element = typename Model<kId>::Element;
  const Model<kId> model{bytes / sizeof(Element), bench.my_pe(), bench.n_pes()};
  gshmem::SymmetricArray<Element> dest(model.dest_count()), source(model.source_count());
  gshmem::SymmetricArray<std::uint64_t> wrong(1);
  const Stream stream = gpu_stream(bench.on_gpu());
  At at{};
  at.dest = reinterpret_cast<std::byte*>(dest.data());
  at.source = reinterpret_cast<std::byte*>(source.data());
  at.bytes = bytes;
  at.stream = stream.get();
  const gshmem::LaunchShape shape = shape_of_caller(bench, scope);
  const auto differ = [&](std::uint64_t round) {
    const std::vector<Element> found = dest.to_vector(bench.my_pe()), right = model.expected(round);
    return !std::equal(found.begin(), found.end(), right.begin(),
                       [](const auto& a, const auto& b) { return Model<kId>::same(a, b); });
  };
  std::uint64_t bad = bench.options().inject_corruption ? 1 : 0;
  // Every round has other data; timed calls find the data of the last round.
  call_once<By, C>(shape, at, 0, wrong.data());
  for (std::uint64_t round = 1; round <= kVerified; ++round) {
    source.write(model.source(round), bench.my_pe());
    dest.write(model.untouched(), bench.my_pe());
    bench.barrier();
    call_once<By, C>(shape, at, round, wrong.data());
    bad += differ(round) ? 1 : 0;
    if (kOfTiles<kId>) bench.barrier();  // others may still load this PE's tile
  }
  dest.write(model.untouched(), bench.my_pe());
  const Measurement measured = measure_calls<By, C>(bench, shape, Part::kTimed, at, wrong.data());
  bad += wrong.to_vector(bench.my_pe())[0] + (differ(kVerified) ? 1 : 0);
  bench.agree(bad == 0 ? ""
                       : std::string("FAIL: wrong data: ") + C::kName + " of " +
                             std::to_string(bytes) + " bytes by " + scope);
  const std::size_t n = static_cast<std::size_t>(bench.n_pes()), others = bytes * (n - 1);
  bench.add_row({.name = C::kName, .size = bytes, .scope = scope, .threads = shape.threads},
                measured, C::kCheck.trip,
                kSourceHasParts<kId> || kDestHasParts<kId> ? others : others / n);
  return bytes == bench.options().max_size || !is_slow(bench, C::kName, scope, bytes, measured);
}

void run(Bench& bench) {
  for_each_call<true>(bench, [&]<class By, Id kId>(By, Call<By, kId>, const std::string& scope) {
    for (const std::size_t bytes :
         sizes_of(bench.options(), Model<kId>::kRow * sizeof(typename Model<kId>::Element))) {
      if (!run_size<kId, By>(bench, scope, bytes)) break;
    }
  });
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(
      {.name = "collective_latency",
       .summary = "time of collectives of all PEs",
       .groups = kSizes | kCaller,
       .shows = Shows::kLatency,
       .gpu = {.min_size = 8, .max_size = 1 << 20, .step = 8, .threads_per_cta = 1024},
       .cpu = calls_on_cpu(),
       .run = run},
      argc, argv);
}
