// State that the command handlers share, and their list. Included by firmware*.cpp only. A handler
// returns when its command has been executed and throws Refusal when it has changed nothing.
#pragma once

#include "transport/nic/soft/verbs/firmware.h"
#include "transport/nic/soft/verbs/prm.h"

#include <array>
#include <map>
#include <string>

namespace gshmem::soft {

struct Refusal {
  Status status;
  Check check;
  std::string reason;
};
/// Throws Refusal unless `ok`.
inline void demand(bool ok, Status status, Check check, const char* reason) {
  if (!ok) throw Refusal{status, check, reason};
}

struct Umem {
  std::uint8_t* address = nullptr;
  std::uint64_t bytes = 0, page_bytes = 0;
  int users = 0;
};

struct DevxCq {
  std::uint32_t uar = 0, buffer_umem = 0, record_umem = 0;
};

struct DevxQp {
  std::array<std::uint8_t, kQpcBytes> context{};  ///< as programmed so far
  std::uint32_t pd = 0, uar = 0, send_cq = 0;
  std::uint32_t receive_cq = 0, srq = 0;  ///< 0 = none
  std::uint32_t queue_umem = 0, record_umem = 0;
  bool adopted = false;  ///< verbs has it, and destroys it
};

/// A receive queue that queue pairs share (RMP).
struct DevxReceives {
  std::uint32_t pd = 0, queue_umem = 0, record_umem = 0;
};

struct FirmwareState {
  Engine& engine;
  Resources& resources;
  std::map<std::uint32_t, Umem> umems;
  std::uint32_t last_umem = 0;
  std::map<std::uint32_t, DevxCq> cqs;
  std::map<std::uint32_t, DevxQp> qps;
  std::map<std::uint32_t, DevxReceives> receives;
};

enum class UmemUse : std::uint8_t { kQueue, kRecord };
struct UmemPlace {
  std::uint32_t id = 0;
  std::uint64_t offset = 0, bytes = 0, alignment = 1;
  UmemUse use = UmemUse::kQueue;
};
/// Address of a part of user memory. Errors: kUmem, kUmemRange.
[[nodiscard]] void* umem_part(FirmwareState& state, const UmemPlace& place, const char* what);
/// Alignment that a queue's offset must have: 2^(12 + log_page_size).
[[nodiscard]] std::uint64_t page_bytes(std::uint32_t log_page_size);

struct Call {
  std::span<const std::uint8_t> in;
  std::span<std::uint8_t> out;
  const char* name = "";
};
/// The object number that a command names.
[[nodiscard]] inline std::uint32_t named_object(const Call& call) {
  return get(call.in.data(), object::number);
}

/// Refuses fields of features that are not there; remarks on reserved bits that are set.
void check_fields(FirmwareState& state, const Call& call, Structure structure, std::size_t offset);

using Handler = void (*)(FirmwareState&, Call&);

void query_hca_cap(FirmwareState& state, Call& call);
void query_roce_address(FirmwareState& state, Call& call);
void query_lag(FirmwareState& state, Call& call);
void query_hca_vport_context(FirmwareState& state, Call& call);
void alloc_pd(FirmwareState& state, Call& call);
void dealloc_pd(FirmwareState& state, Call& call);
void alloc_uar(FirmwareState& state, Call& call);
void dealloc_uar(FirmwareState& state, Call& call);
void create_cq(FirmwareState& state, Call& call);
void destroy_cq(FirmwareState& state, Call& call);
void create_rmp(FirmwareState& state, Call& call);
void destroy_rmp(FirmwareState& state, Call& call);
void create_qp(FirmwareState& state, Call& call);
void destroy_qp(FirmwareState& state, Call& call);
void rst2init_qp(FirmwareState& state, Call& call);
void init2init_qp(FirmwareState& state, Call& call);
void init2rtr_qp(FirmwareState& state, Call& call);
void rtr2rts_qp(FirmwareState& state, Call& call);
void rts2rts_qp(FirmwareState& state, Call& call);
void to_error_qp(FirmwareState& state, Call& call);
void to_reset_qp(FirmwareState& state, Call& call);
void query_qp(FirmwareState& state, Call& call);

}  // namespace gshmem::soft
