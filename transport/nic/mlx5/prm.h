// Layouts of the device commands that this folder executes by DevX. For each structure there are
// its size and its fields as (byte of the 32-bit big-endian word, highest bit, lowest bit). The
// file is a table with accessors; commands.h sets the values. Invariant: a field can only be used
// on the structure that it belongs to. A value that does not fit is an Error and never changes
// neighbouring bits.
//
// Sources: rdma-core providers/mlx5/mlx5_ifc.h (struct mlx5_ifc_*_bits; commands that it lacks:
// linux include/linux/mlx5/mlx5_ifc.h), where "byte 0x10 23:16" is bits 0x88..0x8f. Golden bytes in
// tests/nic/mlx5_prm_test.cpp.
#pragma once

#include "host/base/error.h"

#include <array>
#include <cstdint>

namespace gshmem::nic::mlx5::prm {

template <class Layout>
struct Field {
  std::uint16_t byte;
  std::uint8_t high, low;
};
template <class Layout>
struct Field64 {
  std::uint16_t byte;
};
/// A structure inside another one.
template <class Layout, class Inner>
struct Nested {
  std::uint16_t byte;
};

std::uint32_t get_bits(const std::uint8_t* word, int high, int low) noexcept;
void set_bits(std::uint8_t* word, int high, int low, std::uint64_t value, int byte, Where where);

/// A structure in memory that the view does not own.
template <class Layout>
class View {
 public:
  explicit View(std::uint8_t* bytes) : bytes_(bytes) {}
  void set(Field<Layout> field, std::uint64_t value, Where where = {}) {
    set_bits(bytes_ + field.byte, field.high, field.low, value, field.byte, where);
  }
  void set(Field64<Layout> field, std::uint64_t value) {
    set_bits(bytes_ + field.byte, 31, 0, value >> 32, field.byte, {});
    set_bits(bytes_ + field.byte + 4, 31, 0, value & 0xffffffff, field.byte + 4, {});
  }
  [[nodiscard]] std::uint32_t get(Field<Layout> field) const {
    return get_bits(bytes_ + field.byte, field.high, field.low);
  }
  template <class Inner>
  [[nodiscard]] View<Inner> in(Nested<Layout, Inner> nested) const {
    return View<Inner>(bytes_ + nested.byte);
  }

 protected:
  std::uint8_t* bytes_;
};

/// A structure that owns its bytes, which are zero at first.
template <class Layout>
class Message : public View<Layout> {
 public:
  Message() : View<Layout>(nullptr) { this->bytes_ = storage_.data(); }
  Message(const Message& other) : View<Layout>(nullptr), storage_(other.storage_) {
    this->bytes_ = storage_.data();
  }
  Message& operator=(const Message&) = delete;
  [[nodiscard]] const std::uint8_t* data() const noexcept { return storage_.data(); }
  [[nodiscard]] std::uint8_t* data() noexcept { return storage_.data(); }
  [[nodiscard]] static constexpr std::size_t size() noexcept { return Layout::kBytes; }

 private:
  std::array<std::uint8_t, Layout::kBytes> storage_{};
};

enum class Opcode : std::uint16_t {
  kQueryHcaCap = 0x100,
  kCreateCq = 0x400,
  kCreateQp = 0x500,
  kReset2Init = 0x502,
  kInit2Rtr = 0x503,
  kRtr2Rts = 0x504,
  kToError = 0x507,
  kToReset = 0x50a,
  kQueryQp = 0x50b,
};

/// The first words of every command and of every answer.
#define GSHMEM_PRM_IN(Layout)                           \
  static constexpr Field<Layout> kOpcode{0x00, 31, 16}; \
  static constexpr Field<Layout> kOpMod { 0x04, 15, 0 }
#define GSHMEM_PRM_OUT(Layout)                          \
  static constexpr Field<Layout> kStatus{0x00, 31, 24}; \
  static constexpr Field<Layout> kSyndrome { 0x04, 31, 0 }

/// ads: one path of a queue pair.
struct Path {
  static constexpr Field<Path> kPkeyIndex{0x00, 15, 0};
  static constexpr Field<Path> kGrh{0x04, 23, 23};
  static constexpr Field<Path> kRemoteLid{0x04, 15, 0};
  static constexpr Field<Path> kAckTimeout{0x08, 31, 27};
  static constexpr Field<Path> kGidIndex{0x08, 23, 16};  // src_addr_index
  static constexpr Field<Path> kHopLimit{0x08, 7, 0};
  static constexpr Field<Path> kTrafficClass{0x0c, 27, 20};
  static constexpr Field<Path> kRemoteGidWord[4] = {
      {0x10, 31, 0}, {0x14, 31, 0}, {0x18, 31, 0}, {0x1c, 31, 0}};
  static constexpr Field<Path> kDscp{0x20, 21, 16};
  static constexpr Field<Path> kUdpSourcePort{0x20, 15, 0};
  static constexpr Field<Path> kEthernetPriority{0x24, 30, 28};
  static constexpr Field<Path> kServiceLevel{0x24, 27, 24};
  static constexpr Field<Path> kPort{0x24, 23, 16};
  static constexpr Field<Path> kRemoteMacHigh{0x24, 15, 0};
  static constexpr Field<Path> kRemoteMacLow{0x28, 31, 0};
};

/// qpc
struct QpContext {
  static constexpr Field<QpContext> kState{0x00, 31, 28};
  static constexpr Field<QpContext> kServiceType{0x00, 23, 16};
  static constexpr Field<QpContext> kPathMigration{0x00, 12, 11};
  static constexpr Field<QpContext> kPd{0x04, 23, 0};
  static constexpr Field<QpContext> kMtu{0x08, 31, 29};
  static constexpr Field<QpContext> kLogMessageMax{0x08, 28, 24};
  static constexpr Field<QpContext> kLogSendQueue{0x08, 14, 11};
  static constexpr Field<QpContext> kTimestampFormat{0x08, 7, 6};
  static constexpr Field<QpContext> kCounterSet{0x0c, 31, 24};
  static constexpr Field<QpContext> kUarPage{0x0c, 23, 0};
  static constexpr Field<QpContext> kRecordMode{0x10, 31, 30};  // send_dbr_mode
  static constexpr Field<QpContext> kUserIndex{0x10, 23, 0};
  static constexpr Field<QpContext> kRemoteNumber{0x14, 23, 0};
  static constexpr Nested<QpContext, Path> kPrimaryPath{0x18};
  static constexpr Field<QpContext> kLogAckRequests{0x70, 31, 28};
  static constexpr Field<QpContext> kLogReadsOut{0x70, 23, 21};  // log_sra_max
  static constexpr Field<QpContext> kRetryCount{0x70, 18, 16};
  static constexpr Field<QpContext> kRnrRetry{0x70, 15, 13};
  static constexpr Field<QpContext> kNextSendPsn{0x78, 23, 0};
  static constexpr Field<QpContext> kSendCq{0x7c, 23, 0};
  static constexpr Field<QpContext> kLogReadsIn{0x90, 23, 21};  // log_rra_max
  static constexpr Field<QpContext> kAtomicMode{0x90, 19, 16};
  static constexpr Field<QpContext> kRemoteRead{0x90, 15, 15};
  static constexpr Field<QpContext> kRemoteWrite{0x90, 14, 14};
  static constexpr Field<QpContext> kRemoteAtomic{0x90, 13, 13};
  static constexpr Field<QpContext> kMinRnrNak{0x94, 28, 24};
  static constexpr Field<QpContext> kNextReceivePsn{0x94, 23, 0};
  static constexpr Field<QpContext> kReceiveCq{0x9c, 23, 0};
  static constexpr Field64<QpContext> kRecordAddress{0xa0};
  static constexpr Field<QpContext> kReceiveQueueType{0xac, 26, 24};
  static constexpr Field<QpContext> kSharedReceives{0xac, 23, 0};    // srqn_rmpn_xrqn
  static constexpr Field<QpContext> kHardwareCounter{0xb4, 31, 16};  // hw_sq_wqebb_counter
  static constexpr Field<QpContext> kSoftwareCounter{0xb4, 15, 0};   // sw_sq_wqebb_counter
  static constexpr Field64<QpContext> kAccessKey{0xc8};              // dc_access_key
  static constexpr Field<QpContext> kRecordUmemValid{0xd0, 28, 28};
  static constexpr Field<QpContext> kRecordUmem{0xe4, 31, 0};
};
inline constexpr std::uint32_t kServiceRc = 0;           // MLX5_QPC_ST_RC
inline constexpr std::uint32_t kServiceDci = 5;          // MLX5_QPC_ST_DCI
inline constexpr std::uint32_t kPathMigrated = 3;        // MLX5_QPC_PM_STATE_MIGRATED
inline constexpr std::uint32_t kReceiveQueueShared = 1;  // MLX5_QPC_RQ_TYPE_MEMORY_RQ_RMP
inline constexpr std::uint32_t kReceiveQueueNone = 3;    // MLX5_QPC_RQ_TYPE_ZERO_SIZE_RQ
inline constexpr std::uint32_t kAtomicUpTo8 = 3;         // MLX5_QPC_ATOMIC_MODE_UP_TO_8B
inline constexpr std::uint32_t kTimestampDefault = 1;    // MLX5_QPC_TIMESTAMP_FORMAT_DEFAULT
// MLX5_QPC_SEND_DBR_MODE_NO_DBR_EXT (rdma-core tests/mlx5_prm_structs.py SendDbrMode): software
// rings the doorbell, and stores no record.
inline constexpr std::uint32_t kRecordNone = 1;

/// qpc.state
enum class QpState : std::uint32_t { kReset, kInit, kRtr, kRts, kSendError, kDrained, kError };

/// cqc
struct CqContext {
  static constexpr Field<CqContext> kRecordUmemValid{0x00, 25, 25};
  static constexpr Field<CqContext> kEntrySize{0x00, 23, 21};
  static constexpr Field<CqContext> kCollapsed{0x00, 20, 20};
  static constexpr Field<CqContext> kIgnoreOverrun{0x00, 17, 17};
  static constexpr Field<CqContext> kRecordUmem{0x04, 31, 0};
  static constexpr Field<CqContext> kUarPage{0x0c, 23, 0};
  static constexpr Field<CqContext> kEventQueue{0x14, 7, 0};
  static constexpr Field64<CqContext> kRecordAddress{0x38};
};
inline constexpr std::uint32_t kEntry64 = 0;  // MLX5_CQC_CQE_SZ_BYTES_64

struct CreateCqIn {
  static constexpr std::size_t kBytes = 0x110;
  GSHMEM_PRM_IN(CreateCqIn);
  static constexpr Nested<CreateCqIn, CqContext> kContext{0x10};
  static constexpr Field64<CreateCqIn> kUmemOffset{0x50};
  static constexpr Field<CreateCqIn> kUmem{0x58, 31, 0};
  static constexpr Field<CreateCqIn> kUmemValid{0x5c, 31, 31};
};
struct CreateQpIn {
  static constexpr std::size_t kBytes = 0x110;
  GSHMEM_PRM_IN(CreateQpIn);
  static constexpr Nested<CreateQpIn, QpContext> kContext{0x18};
  static constexpr Field64<CreateQpIn> kUmemOffset{0x100};
  static constexpr Field<CreateQpIn> kUmem{0x108, 31, 0};
  static constexpr Field<CreateQpIn> kUmemValid{0x10c, 31, 31};
};
/// RST2INIT, INIT2RTR and RTR2RTS have one layout.
struct ModifyQpIn {
  static constexpr std::size_t kBytes = 0x110;
  GSHMEM_PRM_IN(ModifyQpIn);
  static constexpr Field<ModifyQpIn> kNumber{0x08, 23, 0};
  static constexpr Nested<ModifyQpIn, QpContext> kContext{0x18};
};
/// 2ERR, 2RST and QUERY_QP have a number and no context.
struct QpNumberIn {
  static constexpr std::size_t kBytes = 0x10;
  GSHMEM_PRM_IN(QpNumberIn);
  static constexpr Field<QpNumberIn> kNumber{0x08, 23, 0};
};
/// The answer to every command that creates or modifies an object.
struct ObjectOut {
  static constexpr std::size_t kBytes = 0x10;
  GSHMEM_PRM_OUT(ObjectOut);
  static constexpr Field<ObjectOut> kNumber{0x08, 23, 0};
};
struct QueryQpOut {
  static constexpr std::size_t kBytes = 0x110;  // without a list of pages
  GSHMEM_PRM_OUT(QueryQpOut);
  static constexpr Nested<QueryQpOut, QpContext> kContext{0x18};
};

/// cmd_hca_cap
struct GeneralCaps {
  static constexpr Field<GeneralCaps> kGeneral2{0x04, 31, 31};  // hca_cap_2
  static constexpr Field<GeneralCaps> kLogQueueMax{0x10, 23, 16};
  static constexpr Field<GeneralCaps> kLogReadsOut{0x28, 21, 16};  // log_max_ra_req_qp
  static constexpr Field<GeneralCaps> kLogReadsIn{0x28, 5, 0};     // log_max_ra_res_qp
  static constexpr Field<GeneralCaps> kCqeVersion{0x3c, 3, 0};
  static constexpr Field<GeneralCaps> kDynamic{0x40, 5, 5};  // dct
  static constexpr Field<GeneralCaps> kRoce{0x40, 2, 2};
  static constexpr Field<GeneralCaps> kAtomic{0x40, 1, 1};
  static constexpr Field<GeneralCaps> kRc{0x44, 0, 0};
  static constexpr Field<GeneralCaps> kWqeBytesMax{0x50, 15, 0};  // max_wqe_sz_sq
};
/// cmd_hca_cap_2
struct General2Caps {
  static constexpr Field<General2Caps> kNoRecord{0x5c, 30, 30};  // send_dbr_mode_no_dbr_ext
  // log_max_send_dbr_less_qp_sq (rdma-core tests/mlx5_prm_structs.py CmdHcaCap2)
  static constexpr Field<General2Caps> kLogNoRecordQueues{0x5c, 28, 24};
};
/// atomic_caps
struct AtomicCaps {
  static constexpr Field<AtomicCaps> kEndianness8{0x08, 31, 30};  // 1: results are host-endian
  static constexpr Field<AtomicCaps> kOperations{0x10, 15, 0};
  static constexpr Field<AtomicCaps> kSizes{0x14, 15, 0};  // sizes for queue pairs: 4 and 8 bytes
  static constexpr Field<AtomicCaps> kSizesDynamic{0x18, 15, 0};  // atomic_size_dc: for targets
};
/// roce_caps
struct RoceCaps {
  static constexpr Field<RoceCaps> kTimestampFormat{0x00, 1, 0};  // qp_ts_format
  // r_roce_max_src_udp_port and r_roce_min_src_udp_port: linux mlx5_ifc.h, mlx5_ifc_roce_cap_bits
  static constexpr Field<RoceCaps> kUdpSourceMax{0x18, 31, 16}, kUdpSourceMin{0x18, 15, 0};
};
enum class CapType : std::uint16_t {
  kGeneral = 0,
  kAtomic = 3,
  kRoce = 4,
  kGeneral2 = 0x20
};  // op_mod = type * 2 + 1

struct QueryCapIn {
  static constexpr std::size_t kBytes = 0x10;
  GSHMEM_PRM_IN(QueryCapIn);
};
struct QueryCapOut {
  static constexpr std::size_t kBytes = 0x1010;
  GSHMEM_PRM_OUT(QueryCapOut);
  static constexpr Nested<QueryCapOut, GeneralCaps> kGeneral{0x10};
  static constexpr Nested<QueryCapOut, General2Caps> kGeneral2{0x10};
  static constexpr Nested<QueryCapOut, AtomicCaps> kAtomic{0x10};
  static constexpr Nested<QueryCapOut, RoceCaps> kRoce{0x10};
};
#undef GSHMEM_PRM_IN
#undef GSHMEM_PRM_OUT

/// Returns the meaning of the status of an answer in words, with what to do; "status 0x7f" if it is
/// unknown. Source: linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c (MLX5_CMD_STAT_*).
[[nodiscard]] std::string status_words(std::uint32_t status);

}  // namespace gshmem::nic::mlx5::prm
