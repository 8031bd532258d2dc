// Reads work queue entries as a NIC does: the input is bytes, the output is a checked request.
// Shared by the soft NIC and the libfabric executor. It is written from the specification (sources
// at each field in decode.cpp). The code that writes entries uses include/gshmem/abi/mlx5.h. This
// code does not, so that an error of one side does not cancel out. No memory is accessed but the
// entry itself.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gshmem::nic {

/// The size of the largest WQE: ds has 6 bits, for 63 units of 16 bytes.
inline constexpr std::size_t kMaxWqeBytes = 63 * 16;
inline constexpr std::size_t kEntryBytes = 64;

enum class WqeKind : std::uint8_t {
  kNop,
  kWrite,
  kRead,
  kCompareSwap,        ///< 8 bytes
  kFetchAdd,           ///< 8 bytes
  kMaskedCompareSwap,  ///< 4 or 8 bytes
  kMaskedFetchAdd,     ///< 4 or 8 bytes
  kDump,
  kSend,  ///< sends into a buffer that the receiver has posted
  kWait,  ///< stops the queue until a completion queue has that many entries (cross-channel)
};

/// Values in order, as a vector. The first `kFew` need no allocation, since nearly all entries have
/// no more.
template <class T, std::size_t kFew>
class Few {
 public:
  void push_back(const T& value) {
    if (size_ == kFew) many_.assign(few_.begin(), few_.end());
    if (size_ >= kFew)
      many_.push_back(value);
    else
      few_[size_] = value;
    ++size_;
  }
  void assign(const T* first, const T* last) {
    size_ = static_cast<std::size_t>(last - first);
    if (size_ > kFew)
      many_.assign(first, last);
    else
      std::copy(first, last, few_.begin());
  }
  void clear() { size_ = 0; }
  [[nodiscard]] const T* data() const { return size_ > kFew ? many_.data() : few_.data(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size_; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return data()[i]; }
  [[nodiscard]] const T& front() const { return *begin(); }
  [[nodiscard]] const T& back() const { return *(end() - 1); }

 private:
  std::size_t size_ = 0;
  std::array<T, kFew> few_{};
  std::vector<T> many_;
};

/// A gather element in this PE's memory.
struct LocalPiece {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0, key = 0;
};
using LocalPieces = Few<LocalPiece, 1>;

/// Operands in host order; those of atomics on 4 bytes are in the low half.
struct AtomicOperands {
  std::uint64_t swap_or_add = 0, compare = 0;
  std::uint64_t swap_mask = 0, compare_mask = 0;  ///< for masked compare-and-swap
  std::uint64_t boundary = 0;                     ///< for masked fetch-and-add
};

/// The destination that an entry itself contains, in host order (mlx5_wqe_av).
struct AddressVector {
  /// A datagram's queue key (the queue pair's own one if bit 31 is set), or a DC access key.
  std::uint64_t key = 0;
  std::uint32_t number = 0;  ///< queue pair, or DC target
  bool brief = false;        ///< the form of 16 bytes, with a LID alone
  std::uint16_t lid = 0;     ///< on Ethernet the UDP source port
  std::uint64_t mac = 0;
  bool global = false;
  std::uint8_t traffic_class = 0, hop_limit = 0, gid_index = 0;
  std::uint32_t flow_label = 0;
  std::array<std::uint8_t, 16> gid{};

  [[nodiscard]] bool operator==(const AddressVector&) const = default;
};

struct WqeFields : AtomicOperands {
  WqeKind kind = WqeKind::kNop;
  std::uint8_t opcode = 0;   ///< the opcode of the entry, for error completions
  std::uint16_t index = 0;   ///< ctrl.wqe_index
  std::uint32_t number = 0;  ///< ctrl.qpn
  std::uint32_t units = 0;   ///< ctrl.ds
  bool signalled = false;    ///< completion requested (ctrl.ce = 2 or 3)
  std::uint8_t fence = 0;    ///< ctrl.fm, 0 = none
  std::uint64_t remote_address = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t length = 0;  ///< number of bytes at the remote side
  // For a write or a send for which the receiver gets a completion.
  bool has_immediate = false, solicited = false;
  std::uint32_t immediate = 0;
  AddressVector to;  ///< for a datagram, or from a DC initiator
  // For a wait: a completion queue, and the number of entries that it must have had. The NIC counts
  // 24 bits.
  std::uint32_t awaited_queue = 0, awaited_count = 0;

  [[nodiscard]] bool is_atomic() const {
    return kind >= WqeKind::kCompareSwap && kind <= WqeKind::kMaskedFetchAdd;
  }
  [[nodiscard]] bool is_on_wire() const {
    return kind != WqeKind::kNop && kind != WqeKind::kDump && kind != WqeKind::kWait;
  }
  [[nodiscard]] bool carries_data() const {
    return kind == WqeKind::kWrite || kind == WqeKind::kSend;
  }
  /// Returns the number of entries of 64 bytes.
  [[nodiscard]] std::uint32_t entries() const { return (units + 3) / 4; }
};
struct Wqe : WqeFields {
  Few<std::uint8_t, 32> inline_payload;  ///< in the entry itself
  LocalPieces local;  ///< the payload after the inline payload, or where results are stored

  void clear() {
    static_cast<WqeFields&>(*this) = {};
    inline_payload.clear();
    local.clear();
  }
};

/// The mistake in an entry; the values are completion syndromes (MLX5_CQE_SYNDROME_*).
enum class WqeError : std::uint8_t {
  kNone = 0,
  kLocalLength = 0x01,
  kLocalOperation = 0x02,
};

struct Findings {
  WqeError error = WqeError::kNone;
  std::string reason;  ///< one line when there is an error
  /// Fields that are set and should not be, although a NIC ignores them: one line, or empty.
  std::string remark;
};
struct DecodeResult : Findings {
  Wqe wqe;  ///< its ctrl fields are valid also after an error
};

/// Does the consumer have receive queues? Without them sends and immediate data are unknown
/// opcodes.
enum class Receives : std::uint8_t {
  kNo,
  kYes,
  kDatagrams,  ///< only sends, each with an address vector
  kTargets,    ///< kYes, but entries that it sends have an address vector: a DC initiator
};

/// Returns the size of the WQE that begins with the 16 bytes at `ctrl`: 16 * ds.
[[nodiscard]] std::size_t wqe_bytes(const std::uint8_t* ctrl);

/// Decodes `bytes` of a WQE (= wqe_bytes, but at least 16, so that an entry with ds 0 can be
/// named). Unknown opcodes, a ds that does not fit the opcode, and bad inline headers are errors.
/// Reserved bits and fields without a meaning are remarks. Nothing past `bytes` is read.
[[nodiscard]] DecodeResult decode_wqe(const std::uint8_t* wqe, std::size_t bytes,
                                      Receives receives = Receives::kNo);
/// Decodes into `decoded` and overwrites its previous contents.
[[nodiscard]] Findings decode_wqe(const std::uint8_t* wqe, std::size_t bytes, Receives receives,
                                  Wqe& decoded);

/// Returns the chunks of memory that an entry of a receive queue, `bytes` long, offers. A chunk
/// without a key ends the list (mlx5dv.h, MLX5_INVALID_LKEY).
[[nodiscard]] std::vector<LocalPiece> decode_receive(const std::uint8_t* entry, std::size_t bytes);

/// Returns "WRITE index 7 qpn 0x41 ds 3 ..." and the bytes in rows of 16, for messages.
[[nodiscard]] std::string dump_wqe(const std::uint8_t* wqe, std::size_t bytes);

/// Queue pair number and producer index of a doorbell (8 bytes as stored in the register). Both
/// encodings in use give the index of the next entry = idx + ceil(ds / 4), modulo 2^16.
struct Doorbell {
  std::uint32_t number = 0;
  std::uint16_t producer = 0;
};
[[nodiscard]] Doorbell decode_doorbell(std::uint64_t register_value);

/// Returns the new value that an atomic gives a memory word of `Wqe::length` bytes (4 or 8).
/// InfiniBand, "masked atomic operations": compare-and-swap changes the bits of swap_mask when (old
/// ^ compare) & compare_mask is 0; fetch-and-add adds without carry out of the bits set in
/// boundary.
[[nodiscard]] std::uint64_t atomic_result(const Wqe& wqe, std::uint64_t old);
/// Executes an atomic on a naturally aligned word in CPU memory, atomically with respect to other
/// threads. It has acquire and release order. Returns the old value.
[[nodiscard]] std::uint64_t carry_out_atomic(void* word, const Wqe& wqe);

/// The kind of request that a completion belongs to; the values are MLX5_CQE_REQ and
/// MLX5_CQE_RESP_*.
enum class CompletionOf : std::uint8_t {
  kRequest = 0,
  kWriteImmediate = 1,
  kSend = 2,
  kSendImmediate = 3,
};

/// The completion of a WQE, as 64 bytes for the completion queue. `owner` toggles with each lap.
struct Completion {
  CompletionOf of = CompletionOf::kRequest;
  bool error = false, solicited = false;
  std::uint8_t syndrome = 0, vendor_syndrome = 0, hardware_syndrome = 0;
  std::uint8_t wqe_opcode = 0;
  std::uint32_t number = 0;
  std::uint16_t wqe_index = 0;
  std::uint32_t bytes = 0;
  bool owner = false;
  std::uint32_t user_index = 0;  ///< of the queue pair
  std::uint32_t immediate = 0;   ///< for a receive
  std::uint32_t source = 0;      ///< for a receive: the sender's queue pair
  std::uint16_t source_lid = 0;  ///< for a datagram
  bool global = false;           ///< for a datagram: it has a GRH
  std::uint8_t packet_type = 0;  ///< for a datagram on Ethernet, 4 bits
};
[[nodiscard]] std::array<std::uint8_t, 64> encode_completion(const Completion& completion);

}  // namespace gshmem::nic
