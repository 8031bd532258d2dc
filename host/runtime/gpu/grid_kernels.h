// The requests of the host to the kernels of collectives; shared by grid_ops.cpp and
// grid_kernels.cu. There is one kernel for each operator and type of reductions (types with the
// same bits share one), and one for alltoall, fcollect and broadcast.
#pragma once

#include <gshmem/device/collective/grid.h>

#include <cstdint>

namespace gshmem {

struct GridRequest {
  device::GridCall call;
  abi::Team team;  ///< the team of the call, with the addresses of host threads
  device::CallKind kind;
  /// Number of packets of every part, for each block; 0: packets are not used.
  std::uint32_t packets;
  /// In host memory, initially 0: receives the code of a fault; null = not requested.
  std::uint64_t* answer;
};

inline constexpr unsigned kGridThreads = 512;  ///< maximum number of threads of a block
inline constexpr unsigned kGridBlocksPerSm = 2;
/// The number of calls, in different streams, that fit on a GPU at the same time with all their
/// blocks. With more calls, one of them may have no block on some GPU, while its blocks on other
/// GPUs wait for it. GSHMEM_COLLECTIVE_BLOCKS makes each call smaller.
inline constexpr unsigned kGridCallsAtOnce = 4;

/// The reductions that have a kernel, each as ROW(OP, NAME, TYPE).
#define GSHMEM_GRID_REDUCTIONS(ROW)        \
  GSHMEM_GRID_SUMS(ROW, kSum)              \
  GSHMEM_GRID_SUMS(ROW, kProd)             \
  ROW(kProd, kComplexf, gshmem_complexf_t) \
  ROW(kProd, kComplexd, gshmem_complexd_t) \
  GSHMEM_GRID_SUMS(ROW, kMin)              \
  GSHMEM_GRID_SIGNED(ROW, kMin)            \
  GSHMEM_GRID_SUMS(ROW, kMax)              \
  GSHMEM_GRID_SIGNED(ROW, kMax)            \
  ROW(kAnd, kUint8, std::uint8_t)          \
  ROW(kOr, kUint8, std::uint8_t)           \
  ROW(kXor, kUint8, std::uint8_t)          \
  ROW(kMaxloc, kDouble2, gshmem_double2_t)
#define GSHMEM_GRID_SUMS(ROW, OP) \
  ROW(OP, kUint8, std::uint8_t)   \
  ROW(OP, kUint16, std::uint16_t) \
  ROW(OP, kUint32, std::uint32_t) \
  ROW(OP, kUint64, std::uint64_t) \
  ROW(OP, kFloat, float)          \
  ROW(OP, kDouble, double)        \
  ROW(OP, kHalf, gshmem_half_t)   \
  ROW(OP, kBfloat16, gshmem_bfloat16_t)
#define GSHMEM_GRID_SIGNED(ROW, OP) \
  ROW(OP, kInt8, std::int8_t)       \
  ROW(OP, kInt16, std::int16_t)     \
  ROW(OP, kInt32, std::int32_t)     \
  ROW(OP, kInt64, std::int64_t)

/// Returns the element type whose kernel executes a reduction of elements of `type`.
constexpr device::ElementType grid_type(device::ReduceOp op, device::ElementType type) {
  using device::ElementType, device::ReduceOp;
  if (op == ReduceOp::kAnd || op == ReduceOp::kOr || op == ReduceOp::kXor)
    return ElementType::kUint8;
  if (op != ReduceOp::kSum && op != ReduceOp::kProd) return type;
  if (type <= ElementType::kInt64) return static_cast<ElementType>(static_cast<unsigned>(type) + 4);
  if (op == ReduceOp::kSum && type == ElementType::kComplexf) return ElementType::kFloat;
  if (op == ReduceOp::kSum && type == ElementType::kComplexd) return ElementType::kDouble;
  return type;
}

/// Names of the kernels in the image.
inline constexpr char kGridMove[] = "gshmem_grid_move", kGridSync[] = "gshmem_grid_sync";
#define GSHMEM_GRID_KERNEL(OP, NAME) gshmem_grid_##OP##_##NAME
#define GSHMEM_GRID_NAME(OP, NAME) "gshmem_grid_" #OP "_" #NAME

}  // namespace gshmem

/// The compiled kernels (fatbin of grid_kernels.cu), embedded at build time.
extern "C" const unsigned char gshmem_grid_kernels_image[];
