// PRM commands as a client writes them, by byte and bit from the programmer's reference manual
// (layouts as in rdma-core providers/mlx5/mlx5_ifc.h), never by the firmware's own tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbs_test {

using Bytes = std::vector<std::uint8_t>;

/// Sets bits high..low of the big-endian word at `byte`.
inline void bits(Bytes& bytes, std::size_t byte, int high, int low, std::uint32_t value) {
  for (int bit = low; bit <= high; ++bit, value >>= 1) {
    std::uint8_t& target = bytes[byte + 3 - static_cast<std::size_t>(bit / 8)];
    const auto mask = static_cast<std::uint8_t>(1 << bit % 8);
    target = static_cast<std::uint8_t>((value & 1) != 0 ? target | mask : target & ~mask);
  }
}
inline void word(Bytes& bytes, std::size_t byte, std::uint32_t value) {
  bits(bytes, byte, 31, 0, value);
}
inline void word64(Bytes& bytes, std::size_t byte, std::uint64_t value) {
  word(bytes, byte, static_cast<std::uint32_t>(value >> 32));
  word(bytes, byte + 4, static_cast<std::uint32_t>(value));
}
inline std::uint32_t word_at(const Bytes& bytes, std::size_t byte) {
  return static_cast<std::uint32_t>(bytes[byte] << 24 | bytes[byte + 1] << 16 |
                                    bytes[byte + 2] << 8 | bytes[byte + 3]);
}
inline std::uint32_t bits_at(const Bytes& bytes, std::size_t byte, int high, int low) {
  const std::uint32_t shifted = word_at(bytes, byte) >> low;
  return high - low == 31 ? shifted : shifted & ((1u << (high - low + 1)) - 1);
}

inline Bytes command(std::uint32_t opcode, std::size_t length = 0x10) {
  Bytes bytes(length);
  bits(bytes, 0, 31, 16, opcode);
  return bytes;
}
inline Bytes command_on(std::uint32_t opcode, std::uint32_t number, std::size_t length = 0x10) {
  Bytes bytes = command(opcode, length);
  bits(bytes, 8, 23, 0, number);
  return bytes;
}

struct CqPlan {
  std::uint32_t umem = 0, uar = 0, eqn = 0, log_entries = 0;
  std::uint64_t buffer = 0, record = 0;
  bool collapsed = true;
};
inline Bytes create_cq(const CqPlan& plan) {
  Bytes in = command(0x400, 0x110);
  bits(in, 0x10, 25, 25, 1);  // dbr_umem_valid
  bits(in, 0x10, 20, 20, plan.collapsed ? 1 : 0);
  bits(in, 0x10, 17, 17, 1);  // oi
  word(in, 0x14, plan.umem);
  bits(in, 0x1c, 28, 24, plan.log_entries);
  bits(in, 0x1c, 23, 0, plan.uar);
  bits(in, 0x24, 7, 0, plan.eqn);
  word64(in, 0x48, plan.record);
  word64(in, 0x50, plan.buffer);
  word(in, 0x58, plan.umem);
  bits(in, 0x5c, 31, 31, 1);
  return in;
}

/// qpc begins at 0x18 of the command.
inline constexpr std::size_t kQpc = 0x18, kPath = 0x18 + 0x18;

struct QpPlan {
  std::uint32_t pd = 0, umem = 0, uar = 0, cq = 0, log_entries = 0;
  std::uint64_t queue = 0, record = 0;
  std::uint32_t service = 0;  ///< qpc.st
};
inline Bytes create_qp(const QpPlan& plan) {
  Bytes in = command(0x500, 0x110);
  bits(in, kQpc + 0x00, 23, 16, plan.service);
  bits(in, kQpc + 0x00, 12, 11, 3);  // pm_state migrated
  bits(in, kQpc + 0x04, 23, 0, plan.pd);
  bits(in, kQpc + 0x08, 14, 11, plan.log_entries);
  bits(in, kQpc + 0x0c, 23, 0, plan.uar);
  bits(in, kQpc + 0x7c, 23, 0, plan.cq);
  word64(in, kQpc + 0xa0, plan.record);
  bits(in, kQpc + 0xac, 26, 24, 3);  // no receive queue
  bits(in, kQpc + 0xd0, 28, 28, 1);  // dbr_umem_valid
  word(in, kQpc + 0xe4, plan.umem);
  word64(in, 0x100, plan.queue);
  word(in, 0x108, plan.umem);
  bits(in, 0x10c, 31, 31, 1);
  return in;
}

/// dctc begins at 0x10 of the command.
inline constexpr std::size_t kDctc = 0x10;

struct DctPlan {
  std::uint32_t pd = 0, cq = 0, srq = 0;
  std::uint64_t key = 0;
};
inline Bytes create_dct(const DctPlan& plan) {
  Bytes in = command(0x710, 0x80);
  bits(in, kDctc + 0x04, 23, 0, 0x4711);  // user_index
  bits(in, kDctc + 0x08, 23, 0, plan.cq);
  bits(in, kDctc + 0x0c, 23, 20, 3);  // atomic_mode
  bits(in, kDctc + 0x0c, 19, 17, 7);  // rre, rwe, rae
  bits(in, kDctc + 0x10, 12, 8, 12);  // min_rnr_nak
  bits(in, kDctc + 0x14, 23, 0, plan.srq);
  bits(in, kDctc + 0x18, 23, 0, plan.pd);
  word64(in, kDctc + 0x20, plan.key);
  bits(in, kDctc + 0x28, 26, 24, 5);  // mtu 4096
  bits(in, kDctc + 0x28, 23, 16, 1);  // port
  bits(in, kDctc + 0x2c, 7, 0, 255);  // hop_limit
  return in;
}
/// A shared receive queue with one entry of 32 bytes.
inline Bytes create_rmp(std::uint32_t pd, std::uint32_t umem, std::uint64_t queue,
                        std::uint64_t record) {
  constexpr std::size_t kRmpc = 0x20, kWq = kRmpc + 0x30;
  Bytes in = command(0x90c, 0x110);
  bits(in, kRmpc, 23, 20, 1);  // ready
  bits(in, kWq, 31, 28, 1);    // cyclic
  bits(in, kWq + 0x08, 23, 0, pd);
  word64(in, kWq + 0x10, record);
  bits(in, kWq + 0x20, 19, 16, 5);
  bits(in, kWq + 0x24, 31, 30, 3);
  word(in, kWq + 0x28, umem);
  word(in, kWq + 0x2c, umem);
  word64(in, kWq + 0x30, queue);
  return in;
}

inline Bytes rst2init(std::uint32_t qpn) {
  Bytes in = command_on(0x502, qpn, 0x110);
  bits(in, kQpc + 0x00, 12, 11, 3);
  bits(in, kPath + 0x24, 23, 16, 1);  // vhca_port_num
  bits(in, kQpc + 0x90, 19, 16, 3);   // atomic_mode
  bits(in, kQpc + 0x90, 15, 13, 7);   // rre, rwe, rae
  return in;
}
inline Bytes init2rtr(std::uint32_t qpn, std::uint32_t remote, std::uint32_t lid) {
  Bytes in = command_on(0x503, qpn, 0x110);
  bits(in, kQpc + 0x08, 31, 29, 5);   // mtu 4096
  bits(in, kQpc + 0x08, 28, 24, 30);  // log_msg_max
  bits(in, kQpc + 0x14, 23, 0, remote);
  bits(in, kPath + 0x04, 15, 0, lid);
  bits(in, kPath + 0x24, 23, 16, 1);
  bits(in, kQpc + 0x90, 23, 21, 4);   // log_rra_max
  bits(in, kQpc + 0x94, 28, 24, 12);  // min_rnr_nak
  return in;
}
inline Bytes rtr2rts(std::uint32_t qpn) {
  Bytes in = command_on(0x504, qpn, 0x110);
  bits(in, kPath + 0x08, 31, 27, 20);  // ack_timeout
  bits(in, kQpc + 0x70, 23, 21, 4);    // log_sra_max
  bits(in, kQpc + 0x70, 18, 16, 7);    // retry_count
  bits(in, kQpc + 0x70, 15, 13, 7);    // rnr_retry
  return in;
}

}  // namespace verbs_test
