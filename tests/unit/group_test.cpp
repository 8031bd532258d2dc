// Tests that group operations synchronize at both ends: a thread of the group changes nothing
// before the first synchronization with the others, and nothing after the last one.
#include "tests/unit/queue_rig.h"
#include "tests/unit/no_launch.h"

#include <gshmem/device/api/api_pieces.h>
#include <gshmem/device/api/api_tile.h>

#include <catch2/catch.hpp>

#include <functional>

namespace gshmem::device {
namespace {

/// Snapshots of the rig at every synchronization.
struct Syncs {
  QueueRig& rig;
  std::function<void()> others;  ///< what the other threads have done by the first one
  std::vector<std::vector<char>> seen = {};

  void note() {
    if (seen.empty() && others) others();
    seen.push_back(rig.snapshot());
  }
};
/// One thread of two.
struct Member {
  Syncs* syncs;
  int rank;
  [[nodiscard]] int thread_rank() const { return rank; }
  [[nodiscard]] static int size() { return 2; }
  void sync() const { syncs->note(); }
  [[nodiscard]] bool any(bool mine) const {
    syncs->note();
    return mine;
  }
};

constexpr std::size_t kBytes = 1024;
using GroupCall = std::function<void(Member, QueueRig&)>;
/// A call changes memory that others see, or, with no bytes, nothing.
enum class Leaves { kSomething, kNothing };

void test_one(QueueRig::Reach reach, int rank, const GroupCall& call, Leaves leaves) {
  QueueRig rig(reach);
  rig.complete(QueueRig::kDepth - 1);     // completes every entry that the call posts
  std::memset(rig.heap(), 0x33, kBytes);  // until the other threads have written
  Syncs syncs{rig, [&] { std::memset(rig.heap(), 0x5a, kBytes); }};
  call({&syncs, rank}, rig);
  const std::vector<char> end = rig.snapshot();
  REQUIRE(rig.control().stop == 0);
  REQUIRE(syncs.seen.size() >= 2);
  // Rank 0 takes part in everything. The brackets keep Catch from printing tens of kilobytes.
  if (rank == 0) CHECK((syncs.seen.front() != end) == (leaves == Leaves::kSomething));
  CHECK((syncs.seen.back() == end));
  QueueRig untouched(reach);
  std::memset(untouched.heap(), 0x5a, kBytes);
  CHECK((syncs.seen.front() == untouched.snapshot()));
}
void test_syncs(const GroupCall& call, Leaves leaves = Leaves::kSomething) {
  for (const QueueRig::Reach reach : {QueueRig::Reach::kMapped, QueueRig::Reach::kNetwork}) {
    for (const int rank : {0, 1}) test_one(reach, rank, call, leaves);
  }
}

char* target(QueueRig& rig) { return rig.heap() + QueueRig::kHeapBytes / 2; }
SignalUpdate signal(QueueRig& rig) {
  return {reinterpret_cast<std::uint64_t*>(rig.heap() + QueueRig::kHeapBytes - 64), 7,
          GSHMEM_SIGNAL_SET};
}
std::uint64_t* words(char* at) { return reinterpret_cast<std::uint64_t*>(at); }
constexpr Strides kStrides{2, 2, 8};
constexpr int kTeam = GSHMEM_TEAM_WORLD;
constexpr Elements kElements{kBytes, 1}, kNone{0, 1};
constexpr std::size_t kInts = kBytes / sizeof(int);
int* ints(char* at) { return reinterpret_cast<int*>(at); }
api::Caller caller(const QueueRig& rig) { return {rig.state(), "test"}; }

/// Makes tiles of rows of 16 floats from the heap to `target`: elements are contiguous, or have
/// gaps.
api::TileArguments tiles(QueueRig& rig, std::ptrdiff_t stride) {
  const auto tensor = [&](char* at) {
    return gshmemx::Tensor(reinterpret_cast<float*>(at),
                           gshmemx::make_layout(gshmemx::make_shape(16, 16 / stride),
                                                gshmemx::make_stride(stride, 16 * stride)));
  };
  struct NoBoundary {};
  return api::tile_arguments(tensor(rig.heap()), tensor(target(rig)), NoBoundary{}, NoBoundary{},
                             0);
}
using TileCase = std::function<void(Member, QueueRig&, const api::TileArguments&)>;
void test_tiles_sync(const TileCase& call) {
  for (const std::ptrdiff_t stride : {1, 2}) {
    test_syncs([&](Member group, QueueRig& rig) { call(group, rig, tiles(rig, stride)); });
  }
}

}  // namespace

TEST_CASE("put_synchronizes_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) {
    put(group, rig.state(), target(rig), rig.heap(), kBytes, 0);
  });
}
TEST_CASE("put_nbi_synchronizes_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) {
    put_nbi(group, rig.state(), target(rig), rig.heap(), kBytes, 0);
  });
}
TEST_CASE("get_synchronizes_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) {
    get(group, rig.state(), target(rig), rig.heap(), kBytes, 0);
  });
}
TEST_CASE("get_nbi_synchronizes_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) {
    get_nbi(group, rig.state(), target(rig), rig.heap(), kBytes, 0);
  });
}
TEST_CASE("put_signal_synchronizes_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) {
    put_signal(group, rig.state(), target(rig), rig.heap(), kBytes, signal(rig), 0);
  });
}
TEST_CASE("put_signal_nbi_synchronizes_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) {
    put_signal_nbi(group, rig.state(), target(rig), rig.heap(), kBytes, signal(rig), 0);
  });
}
TEST_CASE("lists_synchronize_at_both_ends") {
  for (const bool is_put : {true, false}) {
    for (const bool has_signal : {true, false}) {
      for (const bool blocking : {true, false}) {
        if (!is_put && has_signal && !blocking) continue;  // there is no such call
        test_syncs([=](Member group, QueueRig& rig) {
          char* const to = target(rig);
          const Piece pieces[] = {{to, rig.heap(), kBytes / 2},
                                  {to + kBytes, rig.heap() + kBytes / 2, kBytes / 2}};
          move_list(group, ListCall{&rig.state(), "test", pieces, 2, 0, is_put, blocking,
                                    has_signal, AmoOp::kSet, signal(rig).address, 7});
        });
      }
    }
  }
}
TEST_CASE("iput_synchronizes_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) {
    iput(group, rig.state(), words(target(rig)), words(rig.heap()), kStrides, 0);
  });
}
TEST_CASE("iget_synchronizes_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) {
    iget(group, rig.state(), words(target(rig)), words(rig.heap()), kStrides, 0);
  });
}
TEST_CASE("barrier_all_synchronizes_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) { barrier_all(group, rig.state(), "test"); });
}
TEST_CASE("sync_all_synchronizes_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) { sync_all(group, rig.state(), "test"); });
}

TEST_CASE("team_sync_synchronizes_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) { team_sync(group, rig.state(), "test", 0); });
  test_syncs([](Member group, QueueRig& rig) {
    rig.set_rounds();
    team_sync(group, rig.state(), "test", 0);
  });
}
TEST_CASE("team_barrier_synchronizes_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) { team_barrier(group, rig.state(), "test", 0); });
}

TEST_CASE("collectives_synchronize_at_both_ends") {
  for (const Elements n : {kElements, kNone}) {  // members synchronize even when no data moves
    test_syncs([n](Member group, QueueRig& rig) {
      CHECK(api::alltoall(caller(rig), group, kTeam, target(rig), rig.heap(), n) == 0);
    });
    test_syncs([n](Member group, QueueRig& rig) {
      CHECK(api::broadcast(caller(rig), group, kTeam, target(rig), rig.heap(), n, 0) == 0);
    });
    test_syncs([n](Member group, QueueRig& rig) {
      CHECK(api::fcollect(caller(rig), group, kTeam, target(rig), rig.heap(), n) == 0);
    });
    test_syncs([n](Member group, QueueRig& rig) {
      CHECK(api::collect(caller(rig), group, kTeam, target(rig), rig.heap(), n) == 0);
    });
  }
  test_syncs([](Member group, QueueRig& rig) {
    CHECK(api::alltoalls<8>(caller(rig), group, kTeam, target(rig), rig.heap(), kStrides) == 0);
  });
}
TEST_CASE("reductions_and_scans_synchronize_at_both_ends") {
  test_syncs([](Member group, QueueRig& rig) {
    CHECK(api::reduce_sum(caller(rig), group, kTeam, ints(target(rig)), ints(rig.heap()), kInts) ==
          0);
  });
  test_syncs([](Member group, QueueRig& rig) {
    CHECK(api::reducescatter_sum(caller(rig), group, kTeam, ints(target(rig)), ints(rig.heap()),
                                 kInts) == 0);
  });
  test_syncs([](Member group, QueueRig& rig) {
    CHECK(api::inscan_sum(caller(rig), group, kTeam, ints(target(rig)), ints(rig.heap()), kInts) ==
          0);
  });
  test_syncs([](Member group, QueueRig& rig) {
    CHECK(api::exscan_sum(caller(rig), group, kTeam, ints(target(rig)), ints(rig.heap()), kInts) ==
          0);
  });
}

TEST_CASE("calls_of_no_bytes_synchronize_at_both_ends") {
  const GroupCall nothing[] = {
      [](Member group, QueueRig& rig) {
        api::put(caller(rig), group, target(rig), rig.heap(), kNone, 0);
      },
      [](Member group, QueueRig& rig) {
        api::put_nbi(caller(rig), group, target(rig), rig.heap(), kNone, 0);
      },
      [](Member group, QueueRig& rig) {
        api::get(caller(rig), group, target(rig), rig.heap(), kNone, 0);
      },
      [](Member group, QueueRig& rig) {
        api::get_nbi(caller(rig), group, target(rig), rig.heap(), kNone, 0);
      },
  };
  for (const GroupCall& call : nothing) test_syncs(call, Leaves::kNothing);
  // The signal of such a call is sent, and members of a team synchronize.
  test_syncs([](Member group, QueueRig& rig) {
    api::put_signal(caller(rig), group, target(rig), rig.heap(), kNone, signal(rig), 0);
  });
  test_syncs([](Member group, QueueRig& rig) {
    api::put_signal_nbi(caller(rig), group, target(rig), rig.heap(), kNone, signal(rig), 0);
  });
  test_syncs([](Member group, QueueRig& rig) {
    CHECK(api::reduce_sum(caller(rig), group, kTeam, ints(target(rig)), ints(rig.heap()), 0) == 0);
  });
}

TEST_CASE("moves_of_tiles_synchronize_at_both_ends") {
  test_tiles_sync([](Member group, QueueRig& rig, const api::TileArguments& both) {
    CHECK(api::move_tile<true>(caller(rig), group, both, 0) == 0);
  });
  test_tiles_sync([](Member group, QueueRig& rig, const api::TileArguments& both) {
    CHECK(api::move_tile<false>(caller(rig), group, both, 0) == 0);
  });
}
TEST_CASE("collectives_of_tiles_synchronize_at_both_ends") {
  using gshmemx::NVLS_ONE_SHOT_PULL_NBI, gshmemx::NVLS_ONE_SHOT_PUSH_NBI,
      gshmemx::NVLS_TWO_SHOT_PUSH_NBI;
  test_tiles_sync([](Member group, QueueRig& rig, const api::TileArguments& both) {
    CHECK(api::put_tile_to_members<false, NVLS_ONE_SHOT_PUSH_NBI>(caller(rig), group, kTeam,
                                                                  both) == 0);
  });
  test_tiles_sync([](Member group, QueueRig& rig, const api::TileArguments& both) {
    CHECK(api::put_tile_to_members<true, NVLS_ONE_SHOT_PUSH_NBI>(caller(rig), group, kTeam, both) ==
          0);
  });
  test_tiles_sync([](Member group, QueueRig& rig, const api::TileArguments& both) {
    CHECK(api::reduce_tile<false, ReduceOp::kSum, float, NVLS_ONE_SHOT_PULL_NBI>(
              caller(rig), group, kTeam, both, 0) == 0);
  });
  test_tiles_sync([](Member group, QueueRig& rig, const api::TileArguments& both) {
    CHECK(api::reduce_tile<true, ReduceOp::kMax, float, NVLS_ONE_SHOT_PULL_NBI>(
              caller(rig), group, kTeam, both, 0) == 0);
  });
  test_tiles_sync([](Member group, QueueRig& rig, const api::TileArguments& both) {
    CHECK(api::reduce_tile<false, ReduceOp::kSum, float, NVLS_TWO_SHOT_PUSH_NBI>(
              caller(rig), group, kTeam, both, api::kNoRoot) == 0);
  });
  // An in-place tile ends like a collective.
  test_tiles_sync([](Member group, QueueRig& rig, const api::TileArguments& both) {
    api::TileArguments in_place = both;
    in_place.src = in_place.dst;
    CHECK(api::reduce_tile<false, ReduceOp::kSum, float, NVLS_ONE_SHOT_PULL_NBI>(
              caller(rig), group, kTeam, in_place, 0) == 0);
  });
}

TEST_CASE("quiet_covers_operations_before_the_first_synchronization_of_the_group") {
  const GroupCall calls[] = {
      [](Member group, QueueRig& rig) { quiet(group, rig.state()); },
      [](Member group, QueueRig& rig) { fence(group, rig.state()); },
      [](Member group, QueueRig& rig) { flush(group, rig.state()); },
      [](Member group, QueueRig& rig) { CHECK(quiet_status(group, rig.state(), "test") == 0); },
      [](Member group, QueueRig& rig) {
        api::pe_quiet({rig.state(), "test"}, group, 0);
      },
      [](Member group, QueueRig& rig) {
        const int own = GSHMEMX_QP_DEFAULT;
        api::qp_quiet({rig.state(), "test"}, group, 0, {&own, 1});
      },
  };
  for (const GroupCall& call : calls) {
    QueueRig rig(QueueRig::Reach::kNetwork);
    rig.complete(0);
    Syncs syncs{rig, [&] {
                  nic::put(Thread{}, rig.state(), target(rig), rig.heap(), kBytes, 0,
                           nic::Reuse::kAtQuiet);
                }};
    call({&syncs, 0}, rig);
    CHECK(rig.cursor().done == 1);
    CHECK((syncs.seen.back() == rig.snapshot()));
  }
}

}  // namespace gshmem::device
