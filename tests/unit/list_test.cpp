// Tests the shares of a list that the warps of a kernel copy (copy_share): together they are all
// bytes of all pieces, each byte once.
#include "tests/unit/queue_rig.h"
#include "tests/unit/no_launch.h"

#include <gshmem/device/ops/pieces.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

namespace gshmem::device {
namespace {

constexpr std::size_t kSide = QueueRig::kHeapBytes / 2, kGap = 8;

/// Returns for each byte of `dest` how many of the shares have written it.
std::vector<int> written(const ListCall& call, char* dest, std::uint64_t shares) {
  std::vector<int> times(kSide);
  for (std::uint64_t mine = 0; mine < shares; ++mine) {
    std::memset(dest, 0, kSide);
    copy_share<Source::kLocal>(Thread{}, call, mine, shares);
    for (std::size_t i = 0; i < kSide; ++i) times[i] += dest[i] != 0 ? 1 : 0;
  }
  return times;
}

/// Returns the indices of the entries of the queue that request a completion.
std::vector<int> requests(const QueueRig& rig) {
  std::vector<int> found;
  for (int i = 0; i < static_cast<int>(QueueRig::kDepth); ++i)
    if (rig.view().entries[i * 64 + 11] & abi::kCqUpdate) found.push_back(i);
  return found;
}

}  // namespace

// A reservation has one doorbell, and its last entry requests the completion.
TEST_CASE("pieces_of_a_thread_share_reservations_and_a_signal_follows_them") {
  for (const bool is_put : {true, false}) {
    QueueRig rig(QueueRig::Reach::kNetwork);
    std::vector<Piece> list;
    for (std::size_t i = 0; i < 40; ++i)
      list.push_back({rig.heap() + kSide + i * 16, rig.heap() + i * 16, 16});
    list[20].bytes = 0;
    auto* const word = reinterpret_cast<std::uint64_t*>(rig.heap() + QueueRig::kHeapBytes - 64);
    (void)move_list(Thread{}, ListCall{&rig.state(), "test", list.data(), list.size(), 0, is_put,
                                       false, is_put, AmoOp::kAdd, word, 1});
    REQUIRE(rig.control().stop == 0);
    // A batch is a quarter of the queue; the empty piece ends one.
    const std::vector<int> batches{15, 19, 35, 38};
    std::vector<int> expected = batches;
    if (is_put) expected.push_back(39);
    CHECK(requests(rig) == expected);
    CHECK(rig.cursor().reserved == static_cast<std::uint64_t>(expected.back()) + 1);
  }
}

TEST_CASE("shares_of_a_list_are_all_of_its_bytes_once") {
  const std::vector<std::vector<std::size_t>> lists{
      {1}, {3000, 1, 128, 129, 7, 2048}, std::vector<std::size_t>(20, 100), {6000}};
  for (const std::vector<std::size_t>& sizes : lists) {
    QueueRig rig(QueueRig::Reach::kMapped);
    char *const source = rig.heap(), *const dest = source + kSide;
    std::memset(source, 0x5a, kSide);
    std::vector<Piece> list;
    std::vector<int> once(kSide);
    std::size_t to = 16, end = 0;
    for (const std::size_t bytes : sizes) {
      std::fill_n(once.begin() + static_cast<std::ptrdiff_t>(to), bytes, 1);
      list.push_back({dest + to, source + end, end + bytes});
      end += bytes;
      to += bytes + kGap;
    }
    const ListCall call{&rig.state(), "test", list.data(), list.size(), 0, true,
                        true,         false,  AmoOp::kSet, nullptr,     0};
    for (const std::uint64_t shares : {1u, 2u, 3u, 7u, 64u, 500u}) {
      INFO(sizes.size() << " pieces, " << shares << " shares");
      CHECK((written(call, dest, shares) == once));
    }
  }
}

}  // namespace gshmem::device
