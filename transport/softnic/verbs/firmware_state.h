// State that the command handlers share, and their list. Included by firmware*.cpp only. A handler
// returns when its command has been executed and throws Refusal when it has changed nothing.
#pragma once

#include "transport/softnic/verbs/firmware.h"
#include "transport/softnic/verbs/prm.h"

#include <array>
#include <map>
#include <string>
#include <vector>

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
};
struct FirmwareState;

/// A queue's part of user memory: `bytes` that begin `inside` a page of 2^(12 + `log_page`) bytes.
struct UmemPlace {
  std::uint32_t id = 0;
  std::uint64_t offset = 0, inside = 0, bytes = 0;
  std::uint32_t log_page = 0;
};
/// The objects that a queue uses. They cannot be destroyed while it uses them.
class Uses {
 public:
  /// Errors: kBadResource with `check` when there is none.
  void number(const FirmwareState& state, Resource kind, std::uint32_t number, Check check,
              const char* reason);
  // Addresses of user memory. Errors: kUmem, kUmemRange.
  [[nodiscard]] std::uint8_t* queue(const FirmwareState& state, const UmemPlace& place,
                                    const char* what);
  /// Returns the address of a doorbell record of 8 bytes.
  [[nodiscard]] std::uint8_t* record(const FirmwareState& state, std::uint32_t id,
                                     std::uint64_t offset, const char* what);

 private:
  const Umem& umem(const FirmwareState& state, std::uint32_t id, const char* what);

  std::vector<Resources::Use> all_;
};

struct DevxQp {
  std::array<std::uint8_t, kQpcBytes> context{};  ///< as programmed so far
  Uses uses;
  bool adopted = false;  ///< verbs has created it, and destroys it
};

struct DevxDct {
  std::array<std::uint8_t, kDctcBytes> context{};
  Uses uses;
};

struct FirmwareState {
  Engine& engine;
  Resources& resources;
  std::map<std::uint32_t, Umem> umems = {};
  std::uint32_t last_umem = 0;
  std::map<std::uint32_t, Uses> cqs = {};
  std::map<std::uint32_t, DevxQp> qps = {};
  std::map<std::uint32_t, DevxDct> dcts = {};
  std::map<std::uint32_t, Uses> receives = {};  ///< that queue pairs share (RMP)
};

struct Call {
  std::span<const std::uint8_t> in;
  std::span<std::uint8_t> out;
  const char* name = "";
};
/// Returns the object number that a command names.
[[nodiscard]] inline std::uint32_t named_object(const Call& call) {
  return get(call.in.data(), object::number);
}

/// Removes the object that a destroying command names, and returns its number. If verbs creates
/// objects of this kind, too, it must be one of `made`. Errors: it is not, or a queue uses it.
[[nodiscard]] std::uint32_t take_number(FirmwareState& state, const Call& call, Resource kind,
                                        const std::map<std::uint32_t, Uses>* made = nullptr);

/// Returns access rights from the fields of a context, including the requirements of atomics.
/// Errors: kAtomicMode.
[[nodiscard]] QpInit checked_access(bool write, bool read, bool atomic, std::uint32_t mode);

/// Refuses fields of features that are not supported; remarks on reserved bits that are set.
void check_fields(FirmwareState& state, const Call& call, Structure structure, std::size_t offset);

/// Does the device have real time (roce_cap.qp_ts_format)? InfiniBand ports do not have this
/// capability.
[[nodiscard]] inline bool has_real_time(const DeviceAttributes& device) { return device.mac != 0; }

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
void create_dct(FirmwareState& state, Call& call);
void destroy_dct(FirmwareState& state, Call& call);
void query_dct(FirmwareState& state, Call& call);
void to_error_qp(FirmwareState& state, Call& call);
void to_reset_qp(FirmwareState& state, Call& call);
void query_qp(FirmwareState& state, Call& call);

}  // namespace gshmem::soft
