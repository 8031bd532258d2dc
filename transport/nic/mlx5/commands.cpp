#include "transport/nic/mlx5/commands.h"

#include <cerrno>
#include <vector>

namespace gshmem::nic::mlx5 {
namespace {

using prm::Message;
using prm::Opcode;

template <class In>
void set_opcode(Message<In>& in, Opcode opcode) {
  in.set(In::kOpcode, static_cast<std::uint16_t>(opcode));
}

/// `error` is the library's result. If the command reached the device, the answer has more details.
template <class Out>
[[noreturn]] void fail_command(const char* name, int error, const Message<Out>& out, Where where) {
  if (const std::uint32_t status = out.get(Out::kStatus); status != 0) {
    throw Error(GSHMEMX_ERROR_NIC,
                strprintf("device command %s: %s (syndrome 0x%06x, which the vendor's support can "
                          "look up; dmesg may say more)",
                          name, prm::status_words(status).c_str(), out.get(Out::kSyndrome)),
                where);
  }
  const bool denied = error == EPERM || error == EACCES || error == EOPNOTSUPP;
  fail_verbs(
      std::string("device command ") + name, error,
      denied ? "DevX is off for this user or device: it needs a ConnectX-5 or newer, the "
               "mlx5_ib driver of Linux 5.1 or newer, and write access to /dev/infiniband/uverbs*"
             : "",
      where);
}

template <class In>
DeviceObject create(const VerbsApi& api, ibv_context* context, const char* name,
                    const Message<In>& in, Where where = {}) {
  Message<prm::ObjectOut> out;
  errno = 0;
  mlx5dv_devx_obj* object = api.obj_create(context, in.data(), in.size(), out.data(), out.size());
  if (object == nullptr) fail_command(name, errno, out, where);
  return {own(object, api.obj_destroy, "mlx5dv_devx_obj_destroy"),
          out.get(prm::ObjectOut::kNumber)};
}

template <class In>
void modify(const VerbsApi& api, const DeviceObject& object, const char* name,
            const Message<In>& in, Where where = {}) {
  Message<prm::ObjectOut> out;
  const int result =
      api.obj_modify(object.object.get(), in.data(), in.size(), out.data(), out.size());
  if (result != 0) fail_command(name, error_of(result), out, where);
}

Message<prm::QueryCapOut> query(const VerbsApi& api, ibv_context* context, prm::CapType type,
                                const char* name) {
  Message<prm::QueryCapIn> in;
  set_opcode(in, Opcode::kQueryHcaCap);
  // The odd value asks for current values.
  in.set(prm::QueryCapIn::kOpMod, static_cast<std::uint32_t>(type) * 2u + 1);
  Message<prm::QueryCapOut> out;
  const int result = api.general_cmd(context, in.data(), in.size(), out.data(), out.size());
  if (result != 0) fail_command(name, error_of(result), out, {});
  return out;
}

/// Sets the access rights. They are set in RST2INIT and again in INIT2RTR: some firmware takes the
/// rights of a queue pair from the first, some from the second (NVSHMEM and DOCA differ in which
/// they set).
void set_rights(prm::View<prm::QpContext> qp) {
  using Qp = prm::QpContext;
  qp.set(Qp::kRemoteRead, 1);
  qp.set(Qp::kRemoteWrite, 1);
  qp.set(Qp::kRemoteAtomic, 1);
  qp.set(Qp::kAtomicMode, prm::kAtomicUpTo8);
}

void set_path(prm::View<prm::Path> path, const RtrSpec& spec) {
  using P = prm::Path;
  path.set(P::kPkeyIndex, spec.pkey_index);
  path.set(P::kPort, spec.port);
  if (spec.global || spec.ethernet) {
    path.set(P::kGidIndex, spec.gid_index);
    path.set(P::kHopLimit, spec.hop_limit);
    path.set(P::kTrafficClass, spec.traffic_class);
    for (std::size_t word = 0; word < 4; ++word) {
      std::uint32_t value = 0;
      for (std::size_t i = 0; i < 4; ++i) value = value << 8 | spec.remote_gid[word * 4 + i];
      path.set(P::kRemoteGidWord[word], value);
    }
  }
  // linux drivers/infiniband/hw/mlx5/qp.c mlx5_set_path: the bit of a GRH is for InfiniBand. On
  // Ethernet the GRH is implied, and the priority is in eth_prio. For RoCE v2 the upper six bits of
  // the traffic class are in dscp as well.
  if (!spec.ethernet) {
    path.set(P::kGrh, spec.global ? 1 : 0);
    path.set(P::kRemoteLid, spec.remote_lid);
    path.set(P::kServiceLevel, spec.service_level);
    return;
  }
  path.set(P::kEthernetPriority, spec.service_level & 7);
  if (spec.roce_v2) {
    path.set(P::kDscp, spec.traffic_class >> 2);
    path.set(P::kUdpSourcePort, spec.udp_source_port);
  }
  const auto& mac = spec.remote_mac;
  path.set(P::kRemoteMacHigh, static_cast<std::uint32_t>(mac[0] << 8 | mac[1]));
  path.set(P::kRemoteMacLow, static_cast<std::uint32_t>(mac[2]) << 24 |
                                 static_cast<std::uint32_t>(mac[3] << 16 | mac[4] << 8 | mac[5]));
}

}  // namespace

Caps query_caps(const VerbsApi& api, ibv_context* context) {
  Caps caps;
  bool has_more = false;
  {
    using G = prm::GeneralCaps;
    auto out = query(api, context, prm::CapType::kGeneral, "QUERY_HCA_CAP(GENERAL)");
    const auto general = out.in(prm::QueryCapOut::kGeneral);
    caps.log_queue_max = general.get(G::kLogQueueMax);
    caps.wqe_bytes_max = general.get(G::kWqeBytesMax);
    caps.log_reads_out = general.get(G::kLogReadsOut);
    caps.log_reads_in = general.get(G::kLogReadsIn);
    caps.cqe_version = general.get(G::kCqeVersion);
    caps.has_roce = general.get(G::kRoce) != 0;
    caps.has_atomics = general.get(G::kAtomic) != 0;
    caps.has_rc = general.get(G::kRc) != 0;
    caps.has_dynamic = general.get(G::kDynamic) != 0;
    has_more = general.get(G::kGeneral2) != 0;
  }
  if (has_more) {
    auto out = query(api, context, prm::CapType::kGeneral2, "QUERY_HCA_CAP(GENERAL_2)");
    const auto general2 = out.in(prm::QueryCapOut::kGeneral2);
    caps.no_record = general2.get(prm::General2Caps::kNoRecord) != 0;
    caps.log_no_record_queues = general2.get(prm::General2Caps::kLogNoRecordQueues);
  }
  if (caps.has_atomics) {
    using A = prm::AtomicCaps;
    auto out = query(api, context, prm::CapType::kAtomic, "QUERY_HCA_CAP(ATOMIC)");
    const auto atomic = out.in(prm::QueryCapOut::kAtomic);
    caps.atomic_operations = atomic.get(A::kOperations);
    caps.atomic_sizes = atomic.get(A::kSizes);
    caps.atomic_sizes_dynamic = atomic.get(A::kSizesDynamic);
    caps.fetched_host_endian = atomic.get(A::kEndianness8) == 1;
  }
  if (caps.has_roce) {
    // linux include/linux/mlx5/qp.h mlx5_get_qp_default_ts: a device that has time stamp formats
    // requires the default one to be named.
    auto out = query(api, context, prm::CapType::kRoce, "QUERY_HCA_CAP(ROCE)");
    const auto roce = out.in(prm::QueryCapOut::kRoce);
    caps.timestamp_format =
        roce.get(prm::RoceCaps::kTimestampFormat) != 0 ? prm::kTimestampDefault : 0;
    const std::uint32_t min = roce.get(prm::RoceCaps::kUdpSourceMin);
    const std::uint32_t max = roce.get(prm::RoceCaps::kUdpSourceMax);
    if (min != 0 && max >= min) caps.udp_source_min = min, caps.udp_source_max = max;
  }
  return caps;
}

/// The size of the longest WQE that device/network/wqe.h writes, with a payload of kInlineBytes.
constexpr std::uint32_t kWqeBytesMost = 256;

void require_caps(const Caps& caps, const std::string& device) {
  // Bits of atomic_operations and sizes: mlx5_ifc_atomic_caps_bits.
  struct Need {
    bool present;
    const char* name;
  };
  const Need needs[] = {
      {caps.has_rc, "reliable connections"},
      {caps.cqe_version == 1, "completion entries of version 1"},
      {(caps.atomic_operations & 1) != 0, "compare-and-swap"},
      {(caps.atomic_operations & 2) != 0, "fetch-and-add"},
      {(caps.atomic_operations & 4) != 0, "masked compare-and-swap"},
      {(caps.atomic_operations & 8) != 0, "masked fetch-and-add"},
      {(caps.atomic_sizes & 4) != 0, "atomics of 4 bytes"},
      {(caps.atomic_sizes & 8) != 0, "atomics of 8 bytes"},
      {caps.wqe_bytes_max >= kWqeBytesMost, "work queue entries of 256 bytes"},
  };
  std::string missing;
  for (const Need& need : needs) {
    if (!need.present) missing += (missing.empty() ? "" : ", ") + std::string(need.name);
  }
  require(missing.empty(), GSHMEMX_ERROR_NOT_SUPPORTED,
          device + " lacks " + missing +
              ": gshmem needs a ConnectX-5 or newer with atomics on (mlxconfig PCI_ATOMIC_MODE, "
              "ATOMIC_REQ_8B); choose another device by GSHMEM_NIC_DEVICES, or GSHMEM_NIC=ofi");
}

Message<prm::CreateCqIn> encode_create_cq(const CqSpec& spec) {
  using In = prm::CreateCqIn;
  using Cq = prm::CqContext;
  Message<In> in;
  set_opcode(in, Opcode::kCreateCq);
  in.set(In::kUmem, spec.umem);
  in.set(In::kUmemOffset, spec.entry);
  in.set(In::kUmemValid, 1);
  auto cq = in.in(In::kContext);
  cq.set(Cq::kEntrySize, prm::kEntry64);
  cq.set(Cq::kCollapsed, 1);
  cq.set(Cq::kIgnoreOverrun, 1);
  cq.set(Cq::kUarPage, spec.uar_page);
  cq.set(Cq::kEventQueue, spec.event_queue);
  cq.set(Cq::kRecordUmemValid, 1);
  cq.set(Cq::kRecordUmem, spec.umem);
  cq.set(Cq::kRecordAddress, spec.record);
  return in;
}

Message<prm::CreateQpIn> encode_create_qp(const QpSpec& spec) {
  using In = prm::CreateQpIn;
  using Qp = prm::QpContext;
  Message<In> in;
  set_opcode(in, Opcode::kCreateQp);
  in.set(In::kUmem, spec.umem);
  in.set(In::kUmemOffset, spec.entries);
  in.set(In::kUmemValid, 1);
  auto qp = in.in(In::kContext);
  qp.set(Qp::kServiceType, spec.initiator ? prm::kServiceDci : prm::kServiceRc);
  qp.set(Qp::kPathMigration, prm::kPathMigrated);
  qp.set(Qp::kPd, spec.pd);
  qp.set(Qp::kLogSendQueue, spec.log_entries);
  qp.set(Qp::kTimestampFormat, spec.timestamp_format);
  qp.set(Qp::kUarPage, spec.uar_page);
  qp.set(Qp::kUserIndex, spec.user_index);
  qp.set(Qp::kRecordMode, spec.no_record ? prm::kRecordNone : 0);
  qp.set(Qp::kSendCq, spec.cq);
  qp.set(Qp::kReceiveCq, spec.cq);  // it is never used, but required
  qp.set(Qp::kReceiveQueueType, spec.initiator ? prm::kReceiveQueueShared : prm::kReceiveQueueNone);
  qp.set(Qp::kSharedReceives, spec.receive_queue);
  qp.set(Qp::kRecordUmemValid, 1);
  qp.set(Qp::kRecordUmem, spec.umem);
  qp.set(Qp::kRecordAddress, spec.record);
  return in;
}

Message<prm::ModifyQpIn> encode_init(std::uint32_t number, const InitSpec& spec) {
  using In = prm::ModifyQpIn;
  using Qp = prm::QpContext;
  Message<In> in;
  set_opcode(in, Opcode::kReset2Init);
  in.set(In::kNumber, number);
  auto qp = in.in(In::kContext);
  qp.set(Qp::kPathMigration, prm::kPathMigrated);
  qp.set(Qp::kCounterSet, spec.counter_set);
  if (spec.initiator) {
    qp.set(Qp::kAccessKey, spec.access_key);
  } else {
    set_rights(qp);
  }
  auto path = qp.in(Qp::kPrimaryPath);
  path.set(prm::Path::kPort, spec.port);
  path.set(prm::Path::kPkeyIndex, spec.pkey_index);
  return in;
}

Message<prm::ModifyQpIn> encode_rtr(std::uint32_t number, const RtrSpec& spec) {
  using In = prm::ModifyQpIn;
  using Qp = prm::QpContext;
  Message<In> in;
  set_opcode(in, Opcode::kInit2Rtr);
  in.set(In::kNumber, number);
  auto qp = in.in(In::kContext);
  qp.set(Qp::kPathMigration, prm::kPathMigrated);
  qp.set(Qp::kMtu, spec.mtu);
  qp.set(Qp::kLogMessageMax, kLogMessageMax);
  qp.set(Qp::kRemoteNumber, spec.remote_number);
  qp.set(Qp::kNextReceivePsn, spec.receive_psn);
  qp.set(Qp::kLogReadsIn, spec.log_reads_in);
  // 12: the sender retries after 0.64 ms when the receiver is not ready (InfiniBand, table 45). No
  // entry of gshmem needs a receive buffer, so this does not happen.
  qp.set(Qp::kMinRnrNak, 12);
  if (!spec.initiator) set_rights(qp);
  set_path(qp.in(Qp::kPrimaryPath), spec);
  return in;
}

Message<prm::ModifyQpIn> encode_rts(std::uint32_t number, const RtsSpec& spec) {
  using In = prm::ModifyQpIn;
  using Qp = prm::QpContext;
  Message<In> in;
  set_opcode(in, Opcode::kRtr2Rts);
  in.set(In::kNumber, number);
  auto qp = in.in(In::kContext);
  qp.set(Qp::kPathMigration, prm::kPathMigrated);
  // 2^8 packets between requests for an acknowledgement, as in the kernel driver
  // (MLX5_IB_ACK_REQ_FREQ).
  qp.set(Qp::kLogAckRequests, 8);
  qp.set(Qp::kLogReadsOut, spec.log_reads_out);
  qp.set(Qp::kRetryCount, spec.retry_count);
  qp.set(Qp::kRnrRetry, spec.rnr_retry);
  qp.set(Qp::kNextSendPsn, spec.send_psn);
  qp.in(Qp::kPrimaryPath).set(prm::Path::kAckTimeout, spec.ack_timeout);
  return in;
}

Message<prm::QpNumberIn> encode_number(Opcode opcode, std::uint32_t number) {
  Message<prm::QpNumberIn> in;
  set_opcode(in, opcode);
  in.set(prm::QpNumberIn::kNumber, number);
  return in;
}

DeviceObject create_cq(const VerbsApi& api, ibv_context* context, const CqSpec& spec) {
  return create(api, context, "CREATE_CQ", encode_create_cq(spec));
}
DeviceObject create_qp(const VerbsApi& api, ibv_context* context, const QpSpec& spec) {
  return create(api, context, "CREATE_QP", encode_create_qp(spec));
}
void modify_qp(const VerbsApi& api, const DeviceObject& qp, const char* name,
               const Message<prm::ModifyQpIn>& in) {
  modify(api, qp, name, in);
}
void move_qp(const VerbsApi& api, const DeviceObject& qp, const char* name, Opcode opcode) {
  modify(api, qp, name, encode_number(opcode, qp.number));
}

QpStatus query_qp(const VerbsApi& api, const DeviceObject& qp) {
  using Qp = prm::QpContext;
  const Message<prm::QpNumberIn> in = encode_number(Opcode::kQueryQp, qp.number);
  Message<prm::QueryQpOut> out;
  const int result = api.obj_query(qp.object.get(), in.data(), in.size(), out.data(), out.size());
  if (result != 0) fail_command("QUERY_QP", error_of(result), out, {});
  const auto context = out.in(prm::QueryQpOut::kContext);
  return {static_cast<prm::QpState>(context.get(Qp::kState)), context.get(Qp::kHardwareCounter),
          context.get(Qp::kSoftwareCounter)};
}

const char* state_name(prm::QpState state) noexcept {
  constexpr const char* kNames[] = {"RESET",    "INIT",       "RTR",  "RTS",
                                    "SQ ERROR", "SQ DRAINED", "ERROR"};
  const auto index = static_cast<std::size_t>(state);
  return index < std::size(kNames) ? kNames[index] : "unknown state";
}

std::uint32_t port_counter_set(const VerbsApi& api, ibv_context* context, ibv_pd* pd,
                               int port) noexcept try {
  require(api.create_cq && api.destroy_cq && api.create_qp && api.modify_qp && api.destroy_qp &&
              api.qp_query,
          GSHMEMX_ERROR_NOT_SUPPORTED, "the library lacks the calls for it");
  const OwnedCq cq =
      own(check_verbs(api.create_cq(context, 1, nullptr, nullptr, 0), "ibv_create_cq"),
          api.destroy_cq, "ibv_destroy_cq");
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq.get();
  init.cap = {.max_send_wr = 1,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  const OwnedQp qp =
      own(check_verbs(api.create_qp(pd, &init), "ibv_create_qp"), api.destroy_qp, "ibv_destroy_qp");
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = static_cast<std::uint8_t>(port);
  check_verbs(api.modify_qp(qp.get(), &attributes,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              "ibv_modify_qp");
  const Message<prm::QpNumberIn> in = encode_number(Opcode::kQueryQp, qp->qp_num);
  Message<prm::QueryQpOut> out;
  const int result = api.qp_query(qp.get(), in.data(), in.size(), out.data(), out.size());
  if (result != 0) fail_command("QUERY_QP", error_of(result), out, {});
  return out.in(prm::QueryQpOut::kContext).get(prm::QpContext::kCounterSet);
} catch (const std::exception& error) {
  GSHMEM_DEBUG("port %d: no counter set for the queue pairs, hw_counters will not show them: %s",
               port, error.what());
  return 0;
}

}  // namespace gshmem::nic::mlx5
