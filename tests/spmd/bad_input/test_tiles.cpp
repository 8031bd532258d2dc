// Bad arguments of tile calls: each is a status, and a fault that names the call, the argument and
// its value; the call has no effect.
#include "tests/spmd/bad_input/children.h"

#include <gshmem/tile.hpp>

#include <catch2/catch.hpp>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

using Matrix =
    gshmemx::Tensor<float,
                    gshmemx::Layout<gshmemx::shape<long, long>, gshmemx::stride<long, long>>>;
Matrix matrix(float* data, long rows, long cols, long stride0, long stride1) {
  return {data, {{rows, cols}, {stride0, stride1}}};
}
struct Nothing {};
constexpr auto kPull = gshmemx::NVLS_ONE_SHOT_PULL_NBI, kPush = gshmemx::NVLS_ONE_SHOT_PUSH_NBI;

constexpr std::size_t kCount = 1024;
int put(Matrix src, Matrix dst, int pe, std::uint64_t flag) {
  return gshmemx::tile_put<Matrix, Matrix, Nothing, gshmemx::PEER_PUSH_NBI>(src, dst, {}, {}, pe,
                                                                            flag);
}

/// Each of two PEs makes `misuse(floats)` with a symmetric array of zeros; it returns
/// GSHMEMX_ERROR_INVALID_VALUE, and the fault has all of `parts`.
void expect(const std::vector<std::string>& parts, const std::function<int(float*)>& misuse) {
  const auto faults = faults_after(2, quick(), [&](const Runtime&) {
    auto* floats = static_cast<float*>(gshmem_calloc(kCount, sizeof(float)));
    if (!floats) throw std::runtime_error("no memory");
    if (misuse(floats) != kInvalid) throw std::runtime_error("the call has another status");
    for (std::size_t i = 0; i < kCount; ++i) {
      if (floats[i] != 0) throw std::runtime_error("the call had an effect");
    }
  });
  for (const gshmemx_fault_t& fault : faults) {
    CHECK(fault.code == kInvalid);
    INFO(fault.message);
    for (const std::string& part : parts) CHECK(contains(fault.message, part));
  }
}

}  // namespace

TEST_CASE("tiles_to_or_from_a_pe_with_bad_arguments_are_faults") {
  std::vector<float> ones(kCount, 1.f);
  const Matrix good = matrix(ones.data(), 8, 4, 1, 8);
  const auto there = [](float* floats) { return matrix(floats, 8, 4, 1, 8); };
  expect({"gshmemx::tile_put: argument pe = 2 is out of range [0, 2)"},
         [&](float* floats) { return put(good, there(floats), 2, 0); });
  expect({"gshmemx::tile_put: argument flag = 7 must be 0"},
         [&](float* floats) { return put(good, there(floats), 0, 7); });
  expect({"gshmemx::tile_put: argument src = 0x0 is null, where 128 bytes are needed"},
         [&](float* floats) { return put(there(nullptr), there(floats), 0, 0); });
  expect({"gshmemx::tile_put: argument dst has 33 elements, where 32 are needed"},
         [&](float* floats) { return put(good, matrix(floats, 11, 3, 1, 11), 0, 0); });
  expect({"gshmemx::tile_put: argument src stride = -8 is a stride and must be at least 0"},
         [&](float* floats) {
           return put(matrix(ones.data() + 64, 8, 4, 1, -8), there(floats), 0, 0);
         });
  expect({"gshmemx::tile_put: argument dst shape = -8 is negative"},
         [&](float* floats) { return put(good, matrix(floats, -8, -4, 1, 8), 0, 0); });
  // An access beyond an allocation of the heap is not detected; one beyond the heap is.
  expect({"gshmemx::tile_put: argument dst = 0x", "4000000028 bytes) is not in the symmetric heap"},
         [&](float* floats) { return put(good, matrix(floats, 8, 4, 1, 333333333), 0, 0); });
  expect({"gshmemx::tile_get_block: argument src = 0x", "(128 bytes) is not in the symmetric"},
         [&](float* floats) {
           return gshmemx::tile_get_block<Matrix, Matrix, Nothing, gshmemx::PEER_PULL_NBI>(
               good, there(floats), {}, {}, 0, 0);
         });
  expect({"gshmemx::tile_put: argument src = 4294967296 is too large"}, [&](float* floats) {
    return put(matrix(ones.data(), 65536, 65536, 0, 0), there(floats), 0, 0);
  });
}

TEST_CASE("tiles_of_teams_with_bad_arguments_are_faults") {
  std::vector<float> ones(kCount, 1.f);
  const auto half = [](float* floats, long cols) { return matrix(floats + 512, 8, cols, 1, 8); };
  const auto reduce = [](int team, Matrix src, Matrix dst, int root, std::uint64_t flag) {
    return gshmemx::tile_max_rooted_reduce_warp<Matrix, Matrix, Nothing, kPull>(team, src, dst, {},
                                                                                {}, root, flag);
  };
  const auto there = [](float* floats) { return matrix(floats, 8, 4, 1, 8); };
  expect({"gshmemx::tile_max_rooted_reduce_warp: argument team = 77 is not a team"},
         [&](float* floats) { return reduce(77, half(floats, 4), there(floats), 0, 0); });
  expect({"gshmemx::tile_max_rooted_reduce_warp: argument root = -1 is out of range [0, 2)"},
         [&](float* floats) { return reduce(0, half(floats, 4), there(floats), -1, 0); });
  expect({"gshmemx::tile_max_rooted_reduce_warp: argument src = 0x", "not in the symmetric heap"},
         [&](float* floats) {
           return reduce(0, matrix(ones.data(), 8, 4, 1, 8), there(floats), 0, 0);
         });
  expect({"gshmemx::tile_max_rooted_reduce_warp: argument src = 0x", "not aligned to 4 bytes"},
         [&](float* floats) {
           float* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(floats) + 2);
           return reduce(0, there(odd), there(floats), 0, 0);
         });
  expect(
      {"gshmemx::tile_sum_reduce: argument dst = 0x", "not in the symmetric heap"},
      [&](float* floats) {
        return gshmemx::tile_sum_reduce<Matrix, Matrix, Nothing, gshmemx::NVLS_TWO_SHOT_PUSH_NBI>(
            0, there(floats), matrix(ones.data(), 8, 4, 1, 8), {}, {}, 0, 0);
      });
  expect({"gshmemx::tile_allgather: argument dst has 32 elements, where 64 are needed"},
         [&](float* floats) {
           return gshmemx::tile_allgather<Matrix, Matrix, Nothing, kPush>(0, half(floats, 4),
                                                                          there(floats), {}, {}, 0);
         });
  expect({"gshmemx::tile_broadcast_warpgroup: argument dst has 64 elements, where 32 are needed"},
         [&](float* floats) {
           return gshmemx::tile_broadcast_warpgroup<Matrix, Matrix, Nothing, kPush>(
               0, half(floats, 4), matrix(floats, 8, 8, 1, 8), {}, {}, 0);
         });
  expect({"gshmemx::tile_collective_wait: argument flag = 1 must be 0"},
         [&](float*) { return gshmemx::tile_collective_wait<kPush>(0, 1); });
  expect({"gshmemx::tile_collective_wait_block: argument team = -2 is not a team"},
         [&](float*) { return gshmemx::tile_collective_wait_block<kPull>(-2, 0); });
}
