// Commands that move a queue pair from state to state. Which fields a command takes: those that
// the transition requires (InfiniBand, section 11.2.4.2, "modify queue pair") and those that
// opt_param_mask adds; everything else in the qpc has no effect, as on hardware.
#include "transport/softnic/verbs/firmware_state.h"

#include <algorithm>

namespace gshmem::soft {
namespace {

/// opt_param_mask, Linux include/linux/mlx5/qp.h (MLX5_QP_OPTPAR_*).
enum OptionalField : std::uint32_t {
  kAltPath = 1 << 0,
  kRre = 1 << 1,
  kRae = 1 << 2,
  kRwe = 1 << 3,
  kPkey = 1 << 4,
  kRnrTimeout = 1 << 6,
  kPmState = 1 << 10,
  kLagAffinity = 1 << 15,
  kPort = 1 << 16,
};
constexpr std::uint32_t kAccess = kRre | kRae | kRwe;

constexpr std::size_t kRemoteGidOffset = 0x10;  ///< ads.rgid

DevxQp& find_qp(FirmwareState& state, const Call& call) {
  const auto found = state.qps.find(named_object(call));
  demand(found != state.qps.end(), Status::kBadResource, Check::kNumber, "no such queue pair");
  return found->second;
}

/// Is it an initiator? Its entries contain address vectors, and it has no path of its own.
bool is_initiator(const DevxQp& qp) {
  return get(qp.context.data(), qpc::st) == static_cast<std::uint32_t>(Service::kInitiator);
}

/// Returns the queue pair of a command that takes a qpc, and that begins in state `from`.
DevxQp& begin(FirmwareState& state, const Call& call, QpState from, std::uint32_t optional) {
  DevxQp& qp = find_qp(state, call);
  const QpState now = state.engine.state(named_object(call));
  if (now != from)
    throw Refusal{Status::kBadQpState, Check::kState,
                  "queue pair is in state " + std::to_string(static_cast<int>(now)) + ", not " +
                      std::to_string(static_cast<int>(from))};
  const std::uint8_t* input = call.in.data();
  demand((get(input, qp_in::opt_param_mask) & ~optional) == 0, Status::kBadParameter,
         Check::kOptionalMask, "opt_param_mask has bits that this transition does not take");
  demand(get(input, qp_in::qpc_ext) == 0, Status::kBadParameter, Check::kOptionalMask,
         "extended qpc is not there");
  check_fields(state, call, Structure::kQpc, kQpcOffset);
  check_fields(state, call, Structure::kAds, kQpcOffset + kPathOffset);
  demand(is_initiator(qp) || get(input + kQpcOffset, qpc::dc_access_key) == 0,
         Status::kBadParameter, Check::kAccessKey, "dc_access_key of a connection");
  return qp;
}

template <class... Fields>
void take(DevxQp& qp, std::size_t offset, const std::uint8_t* structure, Fields... fields) {
  (set(qp.context.data() + offset, fields, get(structure, fields)), ...);
}

/// Returns the remote access that the `taken` fields of the qpc request.
QpInit access_of(const std::uint8_t* qpc, std::uint32_t taken) {
  return checked_access((taken & kRwe) != 0 && get(qpc, qpc::rwe) == 1,
                        (taken & kRre) != 0 && get(qpc, qpc::rre) == 1,
                        (taken & kRae) != 0 && get(qpc, qpc::rae) == 1, get(qpc, qpc::atomic_mode));
}

void take_access(DevxQp& qp, const std::uint8_t* qpc, std::uint32_t taken) {
  if ((taken & kRwe) != 0) take(qp, 0, qpc, qpc::rwe);
  if ((taken & kRre) != 0) take(qp, 0, qpc, qpc::rre);
  if ((taken & kRae) != 0) take(qp, 0, qpc, qpc::rae, qpc::atomic_mode);
}

void check_port(const std::uint8_t* path) {
  demand(get(path, ads::vhca_port_num) <= 1, Status::kBadParameter, Check::kPath,
         "there is one port");
  demand(get(path, ads::pkey_index) == 0, Status::kBadIndex, Check::kPath,
         "there is one partition key");
}

std::uint64_t remote_mac(const std::uint8_t* path) {
  return std::uint64_t{get(path, ads::rmac_47_32)} << 32 | get(path, ads::rmac_31_0);
}

Route route_of(const DeviceAttributes& device, const std::uint8_t* path) {
  Route route{.lid = static_cast<std::uint16_t>(get(path, ads::rlid)),
              .global = get(path, ads::grh) == 1,
              .gid_index = static_cast<std::uint8_t>(get(path, ads::src_addr_index)),
              .hop_limit = static_cast<std::uint8_t>(get(path, ads::hop_limit)),
              .udp_source = static_cast<std::uint16_t>(get(path, ads::udp_sport))};
  if (device.mac != 0) route.mac = remote_mac(path);
  std::copy_n(path + kRemoteGidOffset, route.gid.size(), route.gid.begin());
  return route;
}

void check_address(const DeviceAttributes& device, const std::uint8_t* path) {
  const bool ethernet = device.mac != 0;
  if (get(path, ads::grh) == 1 || ethernet)
    demand(get(path, ads::src_addr_index) < device.gids.size(), Status::kBadIndex, Check::kPath,
           "src_addr_index: no such GID");
  if (ethernet)
    return demand(remote_mac(path) != 0, Status::kBadParameter, Check::kPath, "rmac is none");
  // Unicast LIDs: InfiniBand, section 4.1.3.
  const std::uint32_t lid = get(path, ads::rlid);
  demand(lid >= 1 && lid <= 0xbfff, Status::kBadParameter, Check::kPath,
         "rlid is not a unicast LID");
}

void check_migration(const std::uint8_t* qpc) {
  demand(get(qpc, qpc::pm_state) % 3 == 0, Status::kBadParameter, Check::kMigration,
         "pm_state is neither armed nor migrated");
}

}  // namespace

QpInit checked_access(bool write, bool read, bool atomic, std::uint32_t mode) {
  demand(mode <= static_cast<std::uint32_t>(AtomicMode::kUpTo8), Status::kBadParameter,
         Check::kAtomicMode, "atomic_mode above 8 bytes");
  demand(!atomic || mode != 0, Status::kBadParameter, Check::kAtomicMode,
         "rae without an atomic_mode");
  return {.remote_write = write,
          .remote_read = read,
          .remote_atomic = atomic,
          .atomic_mode = static_cast<AtomicMode>(mode)};
}

void rst2init_qp(FirmwareState& state, Call& call) {
  DevxQp& qp = begin(state, call, QpState::kReset, 0);
  const std::uint8_t* qpc = call.in.data() + kQpcOffset;
  const std::uint8_t* path = qpc + kPathOffset;
  check_port(path);
  check_migration(qpc);
  // All three are required fields of this transition: no mask bit needed.
  state.engine.modify_to_init(named_object(call), access_of(qpc, kAccess));
  take_access(qp, qpc, kAccess);
  take(qp, 0, qpc, qpc::pm_state);
  take(qp, kPathOffset, path, ads::vhca_port_num, ads::pkey_index);
}

void init2init_qp(FirmwareState& state, Call& call) {
  DevxQp& qp = begin(state, call, QpState::kInit, kAccess | kPkey | kPort | kLagAffinity);
  const std::uint8_t* qpc = call.in.data() + kQpcOffset;
  const std::uint32_t mask = get(call.in.data(), qp_in::opt_param_mask);
  check_port(qpc + kPathOffset);
  static_cast<void>(access_of(qpc, mask));
  DevxQp changed = qp;
  take_access(changed, qpc, mask);
  // The engine takes access rights only once. To reset the queue pair and set them again has the
  // same effect, because it has not been used yet.
  state.engine.modify_to_reset(named_object(call));
  state.engine.modify_to_init(named_object(call), access_of(changed.context.data(), kAccess));
  qp = changed;
}

void init2rtr_qp(FirmwareState& state, Call& call) {
  DevxQp& qp = begin(state, call, QpState::kInit, kAltPath | kAccess | kPkey | kLagAffinity);
  const std::uint8_t* qpc = call.in.data() + kQpcOffset;
  const std::uint8_t* path = qpc + kPathOffset;
  const std::uint32_t mask = get(call.in.data(), qp_in::opt_param_mask);
  const DeviceAttributes device = state.engine.device();
  if (!is_initiator(qp)) check_address(device, path);
  demand(get(path, ads::vhca_port_num) <= 1, Status::kBadParameter, Check::kPath,
         "there is one port");
  const std::uint32_t mtu = get(qpc, qpc::mtu);  // 1 is 256 bytes (enum ibv_mtu)
  demand(mtu > 0 && (128u << mtu) <= device.profile.mtu, Status::kBadParameter, Check::kMtu,
         "mtu is none, or above the port's");
  const std::uint32_t log_message = get(qpc, qpc::log_msg_max);
  demand(log_message <= kLogMessageMax, Status::kBadParameter, Check::kMessage,
         "log_msg_max above log_max_msg");
  const std::uint32_t log_reads = get(qpc, qpc::log_rra_max);
  demand(log_reads <= kLogOutstanding, Status::kBadParameter, Check::kOutstanding,
         "log_rra_max above log_max_ra_res_qp");
  static_cast<void>(access_of(qpc, mask));
  DevxQp changed = qp;
  take_access(changed, qpc, mask);
  const bool connects = !is_initiator(qp);
  state.engine.modify_to_rtr(named_object(call),
                             {.remote_qpn = connects ? get(qpc, qpc::remote_qpn) : 0,
                              .route = connects ? route_of(device, path) : Route{},
                              .mtu = 128u << mtu,
                              .log_message_max = log_message,
                              .log_responder_reads = log_reads,
                              .receive_psn = get(qpc, qpc::next_rcv_psn),
                              .min_rnr_timer = get(qpc, qpc::min_rnr_nak),
                              .access = access_of(changed.context.data(), kAccess)});
  qp = changed;
  take(qp, 0, qpc, qpc::mtu, qpc::log_msg_max, qpc::remote_qpn, qpc::log_rra_max, qpc::min_rnr_nak,
       qpc::next_rcv_psn);
  take(qp, kPathOffset, path, ads::rlid, ads::grh, ads::src_addr_index, ads::sl, ads::tclass,
       ads::hop_limit, ads::udp_sport, ads::rmac_47_32, ads::rmac_31_0);
  std::copy_n(path + kRemoteGidOffset, sizeof(Gid),
              qp.context.begin() + kPathOffset + kRemoteGidOffset);
}

void rtr2rts_qp(FirmwareState& state, Call& call) {
  DevxQp& qp = begin(state, call, QpState::kRtr, kAltPath | kPmState | kRnrTimeout);
  const std::uint8_t* qpc = call.in.data() + kQpcOffset;
  const std::uint8_t* path = qpc + kPathOffset;
  const std::uint32_t log_reads = get(qpc, qpc::log_sra_max);
  demand(log_reads <= kLogOutstanding, Status::kBadParameter, Check::kOutstanding,
         "log_sra_max above log_max_ra_req_qp");
  const bool timer = (get(call.in.data(), qp_in::opt_param_mask) & kRnrTimeout) != 0;
  QpRts rts{.retries = get(qpc, qpc::retry_count),
            .rnr_retries = get(qpc, qpc::rnr_retry),
            .ack_timeout = get(path, ads::ack_timeout),
            .log_initiator_reads = log_reads,
            .send_psn = get(qpc, qpc::next_send_psn)};
  if (timer) rts.min_rnr_timer = get(qpc, qpc::min_rnr_nak);
  state.engine.modify_to_rts(named_object(call), rts);
  take(qp, 0, qpc, qpc::log_sra_max, qpc::retry_count, qpc::rnr_retry, qpc::next_send_psn);
  if (timer) take(qp, 0, qpc, qpc::min_rnr_nak);
  take(qp, kPathOffset, path, ads::ack_timeout);
}

void rts2rts_qp(FirmwareState& state, Call& call) {
  // These changes have no effect here. A change of access would have one, and the engine has no
  // call for it.
  static_cast<void>(
      begin(state, call, QpState::kRts, kAltPath | kPmState | kRnrTimeout | kLagAffinity));
}

void to_error_qp(FirmwareState& state, Call& call) {
  static_cast<void>(find_qp(state, call));
  state.engine.modify_to_error(named_object(call));
}

void to_reset_qp(FirmwareState& state, Call& call) {
  static_cast<void>(find_qp(state, call));
  state.engine.modify_to_reset(named_object(call));
}

}  // namespace gshmem::soft
