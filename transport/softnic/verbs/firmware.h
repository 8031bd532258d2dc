// The soft NIC's command interface: PRM commands as bytes in, replies as bytes out, as the firmware
// of a NIC executes the commands of DevX. There is one per context, which uses the process's
// engine. It stores the data that only commands know (user memory, queue contexts as programmed);
// the engine has numbers and queues. It never ignores a command: a command that is unknown or not
// supported is refused, with a PRM status, a syndrome that says which check failed, and a line in
// the log.
#pragma once

#include "transport/softnic/engine.h"
#include "transport/softnic/verbs/resources.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

namespace gshmem::soft {

/// Command status, rdma-core providers/mlx5/mlx5_ifc.h and Linux include/linux/mlx5/device.h
/// (MLX5_CMD_STAT_*).
enum class Status : std::uint8_t {
  kOk = 0x0,
  kInternal = 0x1,
  kBadOperation = 0x2,
  kBadParameter = 0x3,
  kBadResource = 0x5,
  kExceedsLimit = 0x8,
  kBadResourceState = 0x9,
  kBadIndex = 0xa,
  kNoResource = 0xf,
  kBadQpState = 0x10,
  kBadInputLength = 0x50,
  kBadOutputLength = 0x51,
};

/// Low half of the syndrome. The high half is kSyndromeBase, which no NIC returns.
enum class Check : std::uint16_t {
  kOpcode = 1,
  kInputLength,
  kOutputLength,
  kCapability,
  kNumber,        ///< of the object that a command names
  kState,         ///< queue pair not in the state that the command leaves
  kZeroField,     ///< a field of a feature that is not there
  kOptionalMask,  ///< opt_param_mask
  kUmem,          ///< no such user memory
  kUmemRange,     ///< user memory too small or an offset that is not aligned
  kUmemInvalid,   ///< a queue without user memory
  kQueueSize,     ///< log_cq_size, log_sq_size
  kPd,
  kUar,
  kEventQueue,
  kCompletionQueue,  ///< cqn_snd, cqn_rcv
  kReceiveQueue,     ///< rq_type, srqn
  kService,          ///< qpc.st
  kPath,             ///< primary path: port, pkey, address index, LID
  kMtu,
  kMessage,      ///< log_msg_max
  kOutstanding,  ///< log_rra_max, log_sra_max
  kAtomicMode,
  kMigration,  ///< pm_state
  kAccessKey,  ///< dc_access_key where there is no DC
  kInUse,      ///< destroyed while another object uses it
  kEngine,     ///< the engine refused
};
inline constexpr std::uint32_t kSyndromeBase = 0x5f7c0000;

/// Kinds of commands that the kernel distinguishes (Linux drivers/infiniband/hw/mlx5/devx.c,
/// devx_is_obj_create_cmd and its siblings).
enum class CommandClass : std::uint8_t { kUnknown, kGeneral, kCreate, kModify, kQuery, kDestroy };
[[nodiscard]] CommandClass command_class(std::uint16_t opcode);
/// Returns the opcode that undoes a create command; 0 = none.
[[nodiscard]] std::uint16_t destroying_opcode(std::uint16_t create_opcode);

/// Completion event queues of a device: query_eqn(vector) = kFirstEventQueue + vector. The numbers
/// are not zero, so that a client which does not query them is detected.
inline constexpr std::uint32_t kEventQueues = 8, kFirstEventQueue = 0x10;
/// log2 of reads and atomics outstanding at a queue pair, either side (max_qp_rd_atom 16).
inline constexpr std::uint32_t kLogOutstanding = 4;
inline constexpr std::uint32_t kLogMessageMax = 30;
/// A queue's offset in a page of its user memory is counted in so many steps: page_offset of cqc
/// and qpc has 6 bits (Linux drivers/infiniband/hw/mlx5/mlx5_ib.h,
/// mlx5_umem_find_best_quantized_pgoff with scale 64).
inline constexpr std::uint64_t kOffsetSteps = 64;

struct FirmwareState;

/// Threads: any.
class Firmware {
 public:
  Firmware(Engine& engine, Resources& resources);
  ~Firmware();

  /// Executes a command and fills `out` (all of it; status and syndrome at its start, if they fit).
  Status execute(std::span<const std::uint8_t> in, std::span<std::uint8_t> out) noexcept;

  /// Registers memory for commands, and returns its id, never 0. `page_bytes` is the page size that
  /// the kernel has chosen for it, which limits where queues may begin (kOffsetSteps).
  [[nodiscard]] std::uint32_t register_umem(void* address, std::uint64_t bytes,
                                            std::uint64_t page_bytes);
  /// Returns false while a queue uses it, or when there is none.
  [[nodiscard]] bool release_umem(std::uint32_t id);

  /// Adds a queue pair of the engine that verbs has created: commands may query and modify it until
  /// forget_qp.
  void adopt_qp(std::uint32_t number);
  void forget_qp(std::uint32_t number);

 private:
  std::mutex mutex_;
  std::unique_ptr<FirmwareState> state_;
};

}  // namespace gshmem::soft
