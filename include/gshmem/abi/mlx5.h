// mlx5 wire formats as a requester writes and reads them: work queue entries, completion queue
// entries, doorbell records and doorbells. They are endian-typed PODs. Used by device/network/wqe.h
// and transport/nic/mlx5. The decoder (transport/nic/decode.h) reads bytes instead, from the same
// sources, so that a mistake here cannot cancel out.
//
// Sources: <infiniband/mlx5dv.h> (struct mlx5_wqe_*_seg, mlx5_cqe64, MLX5_OPCODE_*), rdma-core
// providers/mlx5/wqe.h (masked atomics) and qp.c (post_send_db), checked in
// tests/unit/mlx5_layout_test.cpp; golden bytes in tests/unit/wqe_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define GSHMEM_ABI_FN __host__ __device__ constexpr
#else
#define GSHMEM_ABI_FN constexpr
#endif

namespace gshmem::abi {

GSHMEM_ABI_FN std::uint16_t swap_bytes(std::uint16_t v) {
  return static_cast<std::uint16_t>(v << 8 | v >> 8);
}
GSHMEM_ABI_FN std::uint32_t swap_bytes(std::uint32_t v) {
#if defined(__CUDA_ARCH__)
  // nvcc 13.0 makes six instructions of the portable code below.
  if (!__builtin_is_constant_evaluated()) return __byte_perm(v, 0, 0x0123);
#endif
  return v << 24 | (v << 8 & 0xff0000) | (v >> 8 & 0xff00) | v >> 24;  // this becomes one bswap
}
GSHMEM_ABI_FN std::uint64_t swap_bytes(std::uint64_t v) {
  return static_cast<std::uint64_t>(swap_bytes(static_cast<std::uint32_t>(v))) << 32 |
         swap_bytes(static_cast<std::uint32_t>(v >> 32));
}

/// A big-endian integer in memory. It has no arithmetic: get() and the constructor convert.
template <class T>
struct Be {
  T raw = 0;
  constexpr Be() = default;
  GSHMEM_ABI_FN explicit Be(T host) : raw(swap_bytes(host)) {}
  GSHMEM_ABI_FN static Be from_raw(T raw) {
    Be value;
    value.raw = raw;
    return value;
  }
  GSHMEM_ABI_FN T get() const { return swap_bytes(raw); }
};
using Be16 = Be<std::uint16_t>;
using Be32 = Be<std::uint32_t>;
using Be64 = Be<std::uint64_t>;

inline constexpr std::uint32_t kWqebbBytes = 64;    ///< MLX5_SEND_WQE_BB
inline constexpr std::uint32_t kSegmentBytes = 16;  ///< unit of ctrl.ds (MLX5_SEND_WQE_DS)

/// MLX5_OPCODE_*
enum class Opcode : std::uint8_t {
  kNop = 0x00,
  kRdmaWrite = 0x08,
  kRdmaRead = 0x10,
  kAtomicCompareSwap = 0x11,
  kAtomicFetchAdd = 0x12,
  kMaskedCompareSwap = 0x14,
  kMaskedFetchAdd = 0x15,
  kDump = 0x23,
};
/// The operand size of masked atomics, in opmod: 8 | log2(bytes) - 2. rdma-core
/// providers/mlx5/mlx5.h (MLX5_OPCODE_ATOMIC_MASKED_*), PRM "extended atomic".
inline constexpr std::uint8_t kOpmodMasked4 = 0x08, kOpmodMasked8 = 0x09;

/// ctrl.fm_ce_se
enum ControlFlags : std::uint8_t {
  kCqUpdate = 0x08,  ///< MLX5_WQE_CTRL_CQ_UPDATE: requests a CQE
  kFence = 0x80,     ///< MLX5_WQE_CTRL_FENCE: begins after earlier reads and atomics have ended
};

struct ControlSegment {
  Be32 opmod_index_opcode;  ///< opmod << 24 | (wqe index & 0xffff) << 8 | opcode
  Be32 number_ds;           ///< queue pair number << 8 | 16-byte units of the whole WQE
  std::uint8_t signature = 0;
  std::uint8_t reserved[2] = {0, 0};
  std::uint8_t flags = 0;  ///< ControlFlags
  Be32 immediate;
};
struct RemoteSegment {
  Be64 address;
  Be32 key;
  std::uint32_t reserved = 0;
};
struct DataSegment {
  Be32 bytes;  ///< bit 31 must be 0
  Be32 key;
  Be64 address;
};
/// The payload follows directly; header and payload are padded to 16 bytes.
struct InlineHeader {
  Be32 bytes;  ///< kInlineMarker | length
};
inline constexpr std::uint32_t kInlineMarker = 0x80000000;
static_assert(sizeof(ControlSegment) == 16 && offsetof(ControlSegment, flags) == 11);
static_assert(sizeof(RemoteSegment) == 16 && offsetof(RemoteSegment, key) == 8);
static_assert(sizeof(DataSegment) == 16 && offsetof(DataSegment, address) == 8);
static_assert(sizeof(InlineHeader) == 4);

/// The doorbell record of a queue pair: two words, each a count of entries modulo 2^16.
struct DoorbellRecord {
  Be32 receive, send;
};
static_assert(sizeof(DoorbellRecord) == 8 && offsetof(DoorbellRecord, send) == 4);

/// Returns the big-endian word `index << 8`, with the index of an entry modulo 2^16.
GSHMEM_ABI_FN std::uint32_t index_bytes(std::uint32_t index) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return __byte_perm(index, 0, 0x4014);
#endif
  return (index & 0xff) << 16 | (index & 0xff00);
}
/// Returns the value of a doorbell: big-endian words `index << 8 | opcode 0` and `number << 8 | ds
/// 0`, where index is that of the next entry, in memory order.
GSHMEM_ABI_FN std::uint64_t doorbell_value(std::uint32_t next_index, std::uint32_t number) {
  return std::uint64_t{swap_bytes(number << 8)} << 32 | index_bytes(next_index);
}
/// Returns the value of a doorbell record: the big-endian index modulo 2^16.
GSHMEM_ABI_FN std::uint32_t record_value(std::uint32_t next_index) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return __byte_perm(next_index, 0, 0x0144);
#endif
  return (next_index & 0xff) << 24 | (next_index & 0xff00) << 8;
}

/// struct mlx5_cqe64, struct mlx5_err_cqe
struct CompletionEntry {
  std::uint8_t other[52];
  std::uint8_t hardware_syndrome, hardware_syndrome_type;  ///< errors only
  std::uint8_t vendor_syndrome;                            ///< errors only
  std::uint8_t syndrome;                                   ///< errors only
  Be32 opcode_number;                                      ///< WQE opcode << 24 | queue pair number
  Be16 wqe_counter;                                        ///< index of the WQE's first entry
  std::uint8_t signature;
  std::uint8_t op_own;  ///< CompletionOpcode << 4 | format << 2 | solicited << 1 | owner
};
static_assert(sizeof(CompletionEntry) == 64 && offsetof(CompletionEntry, syndrome) == 55);
static_assert(offsetof(CompletionEntry, wqe_counter) == 60 &&
              offsetof(CompletionEntry, op_own) == 63);
inline constexpr std::uint32_t kCompletionWordOffset = 60;

/// MLX5_CQE_*
enum class CompletionOpcode : std::uint8_t { kRequester = 0, kRequesterError = 13, kInvalid = 15 };

/// MLX5_CQE_SYNDROME_*
enum class Syndrome : std::uint8_t {
  kLocalLength = 0x01,
  kLocalOperation = 0x02,
  kLocalProtection = 0x04,
  kFlush = 0x05,
  kMemoryWindow = 0x06,
  kBadResponse = 0x10,
  kLocalAccess = 0x11,
  kRemoteRequest = 0x12,
  kRemoteAccess = 0x13,
  kRemoteOperation = 0x14,
  kRetryExceeded = 0x15,
  kRnrRetryExceeded = 0x16,
  kAborted = 0x22,
};

}  // namespace gshmem::abi
