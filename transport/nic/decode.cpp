// Offsets and values are those of <infiniband/mlx5dv.h> (struct mlx5_wqe_ctrl_seg, _raddr_seg,
// _data_seg, _inl_data_seg, _atomic_seg, mlx5_cqe64, mlx5_err_cqe), of rdma-core
// providers/mlx5/wqe.h (masked atomic segments), and of the ConnectX programmer's reference manual.
// They are byte offsets on purpose: see decode.h.
#include "transport/nic/decode.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

namespace gshmem::nic {
namespace {

constexpr std::size_t kUnitBytes = 16;  // size of MLX5_SEND_WQE_DS

std::uint32_t be16_at(const std::uint8_t* p) { return std::uint32_t{p[0]} << 8 | p[1]; }
std::uint32_t be32_at(const std::uint8_t* p) { return be16_at(p) << 16 | be16_at(p + 2); }
std::uint64_t be64_at(const std::uint8_t* p) {
  return std::uint64_t{be32_at(p)} << 32 | be32_at(p + 4);
}
void put_be32(std::uint8_t* p, std::uint32_t value) {
  p[0] = static_cast<std::uint8_t>(value >> 24);
  p[1] = static_cast<std::uint8_t>(value >> 16);
  p[2] = static_cast<std::uint8_t>(value >> 8);
  p[3] = static_cast<std::uint8_t>(value);
}

// MLX5_OPCODE_*. Opcodes without a kind have a name here, so that a message can name them.
struct OpcodeName {
  std::uint8_t opcode;
  const char* name;
};
constexpr OpcodeName kNames[] = {
    {0x00, "NOP"},       {0x01, "SEND_INVAL"}, {0x08, "WRITE"},       {0x09, "WRITE_IMM"},
    {0x0a, "SEND"},      {0x0b, "SEND_IMM"},   {0x0e, "TSO"},         {0x0f, "WAIT"},
    {0x10, "READ"},      {0x11, "ATOMIC_CS"},  {0x12, "ATOMIC_FA"},   {0x14, "MASKED_CS"},
    {0x15, "MASKED_FA"}, {0x19, "FMR"},        {0x1b, "LOCAL_INVAL"}, {0x1f, "CONFIG_CMD"},
    {0x20, "SET_PSV"},   {0x23, "DUMP"},       {0x25, "UMR"},         {0x28, "TAG_MATCHING"},
    {0x2c, "FLOW_TBL"},  {0x2f, "MMO"},
};
const char* opcode_name(std::uint8_t opcode) {
  for (const OpcodeName& row : kNames) {
    if (row.opcode == opcode) return row.name;
  }
  return "unknown opcode";
}

/// snprintf into a string; decode.h must not need more than the standard library.
template <class... Values>
std::string text(const char* format, Values... values) {
  char line[192];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

/// Parses an entry from front to back. The first error is kept.
class Decoder {
 public:
  Decoder(const std::uint8_t* wqe, std::size_t bytes, Receives receives, Wqe& decoded,
          Findings& findings)
      : at_(wqe), left_(bytes), receives_(receives), wqe_(decoded), findings_(findings) {}

  void decode() {
    if (left_ < kUnitBytes) {
      return fail(WqeError::kLocalOperation, "shorter than a control segment");
    }
    const std::size_t bytes = left_;
    control();
    if (wqe().units == 0) fail(WqeError::kLocalOperation, "ds is 0");
    if (wqe().units * kUnitBytes != bytes) {
      fail(WqeError::kLocalOperation,
           text("ds %u is not the %zu bytes of this entry", wqe().units, bytes));
    }
    if (ok()) body();
    if (ok() && left_ != 0) {
      fail(WqeError::kLocalOperation,
           text("ds %u, but %s ends %zu bytes earlier", wqe().units, name(), left_));
    }
  }

 private:
  Wqe& wqe() { return wqe_; }
  [[nodiscard]] bool ok() const { return findings_.error == WqeError::kNone; }
  [[nodiscard]] const char* name() const { return opcode_name(wqe_.opcode); }
  void fail(WqeError error, std::string reason) {
    if (!ok()) return;
    findings_.error = error;
    findings_.reason = std::move(reason);
  }

  void remark(const std::string& what) {
    findings_.remark += (findings_.remark.empty() ? "" : "; ") + what;
  }

  /// Returns the next `bytes`, or null (and sets an error) when the entry has no more.
  const std::uint8_t* take(std::size_t bytes, const char* what) {
    if (!ok()) return nullptr;
    if (left_ < bytes) {
      fail(WqeError::kLocalOperation,
           text("ds %u has no room for the %s of %s", wqe().units, what, name()));
      return nullptr;
    }
    const std::uint8_t* segment = at_;
    at_ += bytes;
    left_ -= bytes;
    return segment;
  }

  // mlx5_wqe_ctrl_seg: +0 opmod, wqe_index (16 bits), opcode; +4 qpn (24 bits), ds (6 bits);
  // +8 signature; +9 dci_stream_channel_id; +11 fm_ce_se; +12 imm.
  void control() {
    const std::uint8_t* segment = take(kUnitBytes, "control segment");
    opmod_ = segment[0];
    wqe().index = static_cast<std::uint16_t>(be16_at(segment + 1));
    wqe().opcode = segment[3];
    wqe().number = be32_at(segment + 4) >> 8;
    wqe().units = segment[7] & 0x3f;
    if (segment[7] & 0xc0) remark("reserved bits beside ds are set");
    // Only a queue pair created with wq_signature has one, and no queue pair is created so.
    if (segment[8]) remark(text("signature 0x%02x", segment[8]));
    if (be16_at(segment + 9)) remark("a DCI stream on a connection");
    flags(segment[11]);
    immediate(be32_at(segment + 12));
  }

  void immediate(std::uint32_t value) {
    const bool may_have = wqe().opcode == 0x09 || wqe().opcode == 0x0b;
    wqe().has_immediate = receives_ != Receives::kNo && may_have;
    if (wqe().has_immediate) {
      wqe().immediate = value;
    } else if (value != 0) {
      // No other opcode that is decoded here has an immediate, an invalidated key or a UMR key.
      remark(text("immediate 0x%08x in %s", value, name()));
    }
  }

  // fm_ce_se: fence mode 7:5 (0 to 4: mlx5dv.h has 1 and 4, PRM 2 and 3), completion 3:2, solicited
  // event 1.
  void flags(std::uint8_t value) {
    wqe().fence = value >> 5;
    wqe().signalled = (value >> 2 & 3) >= 2;
    wqe().solicited = (value & 2) != 0;
    if (wqe().fence > 4) {
      fail(WqeError::kLocalOperation, text("fence mode %u", unsigned{wqe().fence}));
    }
    if (value & 0x11) remark(text("reserved bits in fm_ce_se 0x%02x", unsigned{value}));
  }

  void body() {
    const bool send = wqe().opcode == 0x0a || wqe().opcode == 0x0b;
    const bool waits = wqe().opcode == 0x00 || wqe().opcode == 0x0f;
    if (receives_ == Receives::kDatagrams && !send && !waits) return unknown();
    const bool masked = wqe().opcode == 0x14 || wqe().opcode == 0x15;
    if (!masked && opmod_ != 0) {
      return fail(WqeError::kLocalOperation, text("opmod 0x%02x in %s", unsigned{opmod_}, name()));
    }
    const bool stays = waits || wqe().opcode == 0x23;
    if (receives_ == Receives::kTargets && !stays) address(Key::kAccess);
    switch (wqe().opcode) {
      case 0x00:
        wqe().kind = WqeKind::kNop;
        return;
      case 0x08:
        wqe().kind = WqeKind::kWrite;
        remote();
        return payload(Inline::kAllowed);
      case 0x09:
        if (receives_ == Receives::kNo) return unknown();
        wqe().kind = WqeKind::kWrite;
        remote();
        return payload(Inline::kAllowed);
      case 0x0a:
      case 0x0b:
        if (receives_ == Receives::kNo) return unknown();
        wqe().kind = WqeKind::kSend;
        if (receives_ == Receives::kDatagrams) address(Key::kQueue);
        return payload(Inline::kAllowed);
      case 0x0f:
        if (receives_ == Receives::kNo) return unknown();
        wqe().kind = WqeKind::kWait;
        return awaited();
      case 0x10:
        wqe().kind = WqeKind::kRead;
        remote();
        return payload(Inline::kForbidden);
      case 0x11:
        return atomic(WqeKind::kCompareSwap, 8);
      case 0x12:
        return atomic(WqeKind::kFetchAdd, 8);
      case 0x14:
        return masked_atomic(WqeKind::kMaskedCompareSwap);
      case 0x15:
        return masked_atomic(WqeKind::kMaskedFetchAdd);
      case 0x23:
        wqe().kind = WqeKind::kDump;
        if (left_ != kUnitBytes) {
          return fail(WqeError::kLocalOperation, text("ds %u in DUMP, not 2", wqe().units));
        }
        return payload(Inline::kForbidden);
      default:
        return unknown();
    }
  }

  void unknown() {
    fail(WqeError::kLocalOperation, text("opcode 0x%02x (%s)", unsigned{wqe().opcode}, name()));
  }

  // mlx5_wqe_raddr_seg: +0 address, +8 rkey, +12 reserved.
  void remote() {
    const std::uint8_t* segment = take(kUnitBytes, "remote address segment");
    if (segment == nullptr) return;
    wqe().remote_address = be64_at(segment);
    wqe().remote_key = be32_at(segment + 8);
    if (be32_at(segment + 12)) remark("reserved word of the remote address segment is set");
  }

  // The segment of a WAIT for a producer index (opmod 0; PRM, "cross-channel"): +0 reserved, +8
  // the producer index, +12 the number of the completion queue.
  void awaited() {
    const std::uint8_t* segment = take(kUnitBytes, "completion queue");
    if (segment == nullptr) return;
    wqe().awaited_count = be32_at(segment + 8) & 0xffffff;
    wqe().awaited_queue = be32_at(segment + 12) & 0xffffff;
    if (be64_at(segment) != 0) remark("reserved words of WAIT are set");
  }

  enum class Key { kQueue, kAccess };

  // mlx5_wqe_av: +0 queue key of 4 bytes or access key of 8, +8 the long form and dqp_dct, +12
  // stat_rate_sl, +13 fl_mlid, +14 rlid (on Ethernet udp_sport); of the long form +20 rmac, +26
  // tclass, +27 hop_limit, +28 grh_gid_fl, +32 rgid.
  void address(Key key) {
    constexpr std::size_t kLong = 48;
    const std::uint8_t* segment = take(kUnitBytes, "address vector");
    if (segment == nullptr) return;
    AddressVector& to = wqe().to;
    to.key = key == Key::kQueue ? be32_at(segment) : be64_at(segment);
    const std::uint32_t number = be32_at(segment + 8);
    to.number = number & 0xffffff;
    to.lid = static_cast<std::uint16_t>(be16_at(segment + 14));
    to.brief = (number >> 31) == 0;
    if (to.brief || take(kLong - kUnitBytes, "address vector") == nullptr) return;
    const std::uint32_t grh = be32_at(segment + 28);
    to.mac = std::uint64_t{be16_at(segment + 20)} << 32 | be32_at(segment + 22);
    to.traffic_class = segment[26];
    to.hop_limit = segment[27];
    to.global = (grh >> 30 & 1) != 0;
    to.gid_index = static_cast<std::uint8_t>(grh >> 20);
    to.flow_label = grh & 0xfffff;
    std::copy_n(segment + 32, to.gid.size(), to.gid.begin());
  }

  enum class Inline { kAllowed, kForbidden };

  /// Parses the rest of the entry: an inline segment, then pointers. Each may be missing (length 0:
  /// both).
  void payload(Inline may_be_inline) {
    while (ok() && left_ > 0) {
      if (at_[0] & 0x80) {  // the flag MLX5_INLINE_SEG
        if (may_be_inline == Inline::kForbidden) {
          return fail(WqeError::kLocalOperation, text("inline data in %s", name()));
        }
        if (wqe().length != 0) {
          return fail(WqeError::kLocalOperation, "inline data after another data segment");
        }
        inline_data();
      } else {
        pointer();
      }
    }
  }

  // Parses a data segment; the caller has checked that the entry has a whole unit left.
  // mlx5_wqe_data_seg: +0 byte_count (31 bits), +4 lkey, +8 address.
  void pointer() {
    const std::uint8_t* segment = take(kUnitBytes, "data segment");
    if (segment[0] & 0x80) {
      return fail(WqeError::kLocalOperation, text("inline data in %s", name()));
    }
    LocalPiece piece;
    piece.bytes = be32_at(segment);
    piece.key = be32_at(segment + 4);
    piece.address = be64_at(segment + 8);
    // PRM, "data segment": byte_count 0 means 2 GiB, which no message may have.
    if (piece.bytes == 0) {
      return fail(WqeError::kLocalLength, "a data segment of 0 bytes, which means 2 GiB");
    }
    wqe().length += piece.bytes;
    wqe().local.push_back(piece);
  }

  // Parses an inline segment, under the same condition. mlx5_wqe_inl_data_seg: +0 0x80000000 |
  // bytes; payload; all of it padded to 16.
  void inline_data() {
    const std::size_t bytes = be32_at(take(4, "inline header")) & 0x7fffffff;
    const std::size_t padded = (4 + bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes - 4;
    if (padded > left_) {
      return fail(WqeError::kLocalOperation,
                  text("%zu bytes inline do not fit into ds %u", bytes, wqe().units));
    }
    const std::uint8_t* first = take(padded, "inline data");
    wqe().inline_payload.assign(first, first + bytes);
    wqe().length = bytes;
  }

  void result(std::uint64_t bytes) {
    if (!ok()) return;
    if (left_ != kUnitBytes) {
      return fail(WqeError::kLocalOperation,
                  text("ds %u in %s of %u bytes", wqe().units, name(), unsigned(bytes)));
    }
    pointer();
    wqe().length = bytes;
    if (ok() && wqe().local.front().bytes != bytes) {
      fail(WqeError::kLocalLength, text("result of %u bytes for %s of %u",
                                        wqe().local.front().bytes, name(), unsigned(bytes)));
    }
  }

  // mlx5_wqe_atomic_seg: +0 swap_add, +8 compare.
  void atomic(WqeKind kind, std::uint64_t bytes) {
    wqe().kind = kind;
    remote();
    if (const std::uint8_t* segment = take(kUnitBytes, "atomic segment")) {
      wqe().swap_or_add = be64_at(segment);
      wqe().compare = be64_at(segment + 8);
      // rdma-core providers/mlx5/qp.c set_atomic_seg sets 0 in a fetch-and-add.
      if (kind == WqeKind::kFetchAdd && wqe().compare != 0) remark("compare value in ATOMIC_FA");
    }
    result(bytes);
  }

  // rdma-core providers/mlx5/wqe.h and PRM "extended atomic": opmod 0x08 | log2(bytes) - 2.
  void masked_atomic(WqeKind kind) {
    wqe().kind = kind;
    if (opmod_ != 0x08 && opmod_ != 0x09) {
      return fail(WqeError::kLocalOperation, text("opmod 0x%02x in %s", unsigned{opmod_}, name()));
    }
    remote();
    const std::uint64_t bytes = opmod_ == 0x08 ? 4 : 8;
    if (kind == WqeKind::kMaskedCompareSwap) {
      masked_swap(bytes);
    } else {
      masked_add(bytes);
    }
    result(bytes);
  }

  std::uint64_t operand(const std::uint8_t* segment, std::uint64_t bytes, std::size_t which) {
    return bytes == 4 ? be32_at(segment + 4 * which) : be64_at(segment + 8 * which);
  }

  // The operands are swap, compare, swap mask, compare mask.
  void masked_swap(std::uint64_t bytes) {
    const std::uint8_t* segment = take(4 * bytes, "operands");
    if (segment == nullptr) return;
    wqe().swap_or_add = operand(segment, bytes, 0);
    wqe().compare = operand(segment, bytes, 1);
    wqe().swap_mask = operand(segment, bytes, 2);
    wqe().compare_mask = operand(segment, bytes, 3);
  }

  // The operands are add and field boundary; with 4 bytes, 8 reserved bytes follow.
  void masked_add(std::uint64_t bytes) {
    const std::uint8_t* segment = take(kUnitBytes, "operands");
    if (segment == nullptr) return;
    wqe().swap_or_add = operand(segment, bytes, 0);
    wqe().boundary = operand(segment, bytes, 1);
    if (bytes == 4 && be64_at(segment + 8) != 0) remark("reserved bytes of the operands are set");
  }

  const std::uint8_t* at_;
  std::size_t left_;
  Receives receives_;
  std::uint8_t opmod_ = 0;
  Wqe& wqe_;
  Findings& findings_;
};

}  // namespace

std::size_t wqe_bytes(const std::uint8_t* ctrl) { return (ctrl[7] & 0x3fu) * kUnitBytes; }

DecodeResult decode_wqe(const std::uint8_t* wqe, std::size_t bytes, Receives receives) {
  DecodeResult result;
  static_cast<Findings&>(result) = decode_wqe(wqe, bytes, receives, result.wqe);
  return result;
}

Findings decode_wqe(const std::uint8_t* wqe, std::size_t bytes, Receives receives, Wqe& decoded) {
  decoded.clear();
  Findings findings;
  Decoder(wqe, bytes, receives, decoded, findings).decode();
  return findings;
}

// Reads as many mlx5_wqe_data_seg as fit.
std::vector<LocalPiece> decode_receive(const std::uint8_t* entry, std::size_t bytes) {
  constexpr std::uint32_t kNoKey = 0x100;
  std::vector<LocalPiece> pieces;
  for (std::size_t at = 0; at + kUnitBytes <= bytes; at += kUnitBytes) {
    const std::uint8_t* segment = entry + at;
    const LocalPiece piece{be64_at(segment + 8), be32_at(segment), be32_at(segment + 4)};
    if (piece.key == kNoKey) break;
    pieces.push_back(piece);
  }
  return pieces;
}

std::string dump_wqe(const std::uint8_t* wqe, std::size_t bytes) {
  std::string out;
  if (bytes >= kUnitBytes) {
    out = text("%s index %u qpn 0x%x ds %u opmod 0x%02x flags 0x%02x", opcode_name(wqe[3]),
               be16_at(wqe + 1), be32_at(wqe + 4) >> 8, wqe[7] & 0x3fu, unsigned{wqe[0]},
               unsigned{wqe[11]});
  }
  for (std::size_t row = 0; row < bytes; row += kUnitBytes) {
    out += text("\n  %03zx:", row);
    for (std::size_t i = row; i < std::min(bytes, row + kUnitBytes); ++i) {
      out += text(i % 4 == 0 ? "  %02x" : " %02x", unsigned{wqe[i]});
    }
  }
  return out;
}

// rdma-core providers/mlx5/qp.c post_send_db stores the first 8 bytes of the last WQE: the index of
// its first entry and its ds. Clients on GPUs store the index of the next entry with ds 0.
Doorbell decode_doorbell(std::uint64_t register_value) {
  std::uint8_t bytes[8];
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(register_value >> 8 * i);
  const std::uint32_t units = bytes[7] & 0x3f;
  return {.number = be32_at(bytes + 4) >> 8,
          .producer = static_cast<std::uint16_t>(be16_at(bytes + 1) + (units + 3) / 4)};
}

std::uint64_t atomic_result(const Wqe& wqe, std::uint64_t old) {
  const std::uint64_t all = wqe.length == 4 ? 0xffffffffu : ~std::uint64_t{0};
  switch (wqe.kind) {
    case WqeKind::kCompareSwap:
      return old == wqe.compare ? wqe.swap_or_add : old;
    case WqeKind::kFetchAdd:
      return (old + wqe.swap_or_add) & all;
    case WqeKind::kMaskedCompareSwap:
      if (((old ^ wqe.compare) & wqe.compare_mask) != 0) return old;
      return ((old & ~wqe.swap_mask) | (wqe.swap_or_add & wqe.swap_mask)) & all;
    case WqeKind::kMaskedFetchAdd: {
      // This is a ripple-carry adder, bit by bit as in the definition.
      std::uint64_t sum = 0, carry = 0;
      for (std::uint64_t bit = 1; (bit & all) != 0; bit <<= 1) {
        const unsigned ones = !!(old & bit) + !!(wqe.swap_or_add & bit) + !!carry;
        if (ones & 1) sum |= bit;
        carry = ones >= 2 && !(wqe.boundary & bit);
      }
      return sum;
    }
    default:
      return old;
  }
}

std::uint64_t carry_out_atomic(void* word, const Wqe& wqe) {
  const auto change = [&]<class T>(T* at) -> std::uint64_t {
    const std::atomic_ref<T> shared(*at);
    T old = shared.load(std::memory_order_acquire);
    while (!shared.compare_exchange_weak(old, static_cast<T>(atomic_result(wqe, old)),
                                         std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    return old;
  };
  return wqe.length == 4 ? change(static_cast<std::uint32_t*>(word))
                         : change(static_cast<std::uint64_t*>(word));
}

// mlx5_cqe64: +32 srqn_uidx, +44 byte_cnt, +56 sop_drop_qpn, +60 wqe_counter, +63 op_own.
// +22 slid, +24 flags_rqpn (bit 28: there is a GRH; 27:24 service level or type of packet; 24
// bits: the sender's), +36 imm_inval_pkey.
// mlx5_err_cqe: +52 the hardware's, +54 vendor_err_synd, +55 syndrome, +56 s_wqe_opcode_qpn, +60
// and +63 as above.
std::array<std::uint8_t, 64> encode_completion(const Completion& completion) {
  std::array<std::uint8_t, 64> cqe{};
  put_be32(&cqe[32], completion.user_index);
  if (completion.error) {
    cqe[52] = completion.hardware_syndrome;
    cqe[54] = completion.vendor_syndrome;
    cqe[55] = completion.syndrome;
  } else {
    cqe[22] = static_cast<std::uint8_t>(completion.source_lid >> 8);
    cqe[23] = static_cast<std::uint8_t>(completion.source_lid);
    put_be32(&cqe[24], std::uint32_t{completion.global} << 28 |
                           std::uint32_t{completion.packet_type} << 24 |
                           (completion.source & 0xffffff));
    put_be32(&cqe[36], completion.immediate);
    put_be32(&cqe[44], completion.bytes);
  }
  put_be32(&cqe[56], std::uint32_t{completion.wqe_opcode} << 24 | (completion.number & 0xffffff));
  cqe[60] = static_cast<std::uint8_t>(completion.wqe_index >> 8);
  cqe[61] = static_cast<std::uint8_t>(completion.wqe_index);
  unsigned opcode = static_cast<unsigned>(completion.of);
  // the values of MLX5_CQE_REQ_ERR, MLX5_CQE_RESP_ERR
  if (completion.error) opcode = completion.of == CompletionOf::kRequest ? 13 : 14;
  // Cards set bit 1 in every error (dumps in ofiwg/libfabric#4283 and Juniper/warp17#81).
  const bool solicited = completion.solicited || completion.error;
  cqe[63] = static_cast<std::uint8_t>(opcode << 4 | unsigned{solicited} << 1 |
                                      unsigned{completion.owner});
  return cqe;
}

}  // namespace gshmem::nic
