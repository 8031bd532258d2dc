// Shared receive queues and address handles: objects that DevX commands and mlx5dv_init_obj name.
#include "transport/softnic/verbs/addresses.h"
#include "transport/softnic/verbs/verbs_calls.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

namespace gshmem::soft {

int get_srq_number(ibv_srq* srq, std::uint32_t* number) {
  *number = srq->handle;
  return 0;
}

}  // namespace gshmem::soft

using namespace gshmem::soft;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  return pointer_call([&] {
    ibv_srq_attr& wanted = init->attr;
    require_call(wanted.max_wr > 0 && wanted.max_wr < kMaxReceives, EINVAL);
    require_call(wanted.max_sge <= kMaxPieces, EINVAL);
    // One entry more than may be posted: the list never becomes empty.
    const std::uint32_t log = log2_ceil(wanted.max_wr + 1);
    const std::uint32_t log_bytes = log2_ceil(kPieceBytes * (1 + std::max(1u, wanted.max_sge)));
    auto srq = std::make_unique<SoftSrq>(std::size_t{1} << (log + log_bytes));
    srq->log_entries = log;
    srq->log_entry_bytes = log_bytes;
    wanted.max_wr = (1u << log) - 1;
    wanted.max_sge = (1u << log_bytes) / kPieceBytes - 1;
    srq->attributes = wanted;
    srq->receives.open({.entries = static_cast<std::uint8_t*>(srq->memory.entries()),
                        .log_entries = log,
                        .log_entry_bytes = log_bytes,
                        .record = srq->memory.record(),
                        .most_pieces = wanted.max_sge,
                        .most_posted = wanted.max_wr,
                        .list = true});
    ContextState& state = state_of(pd->context);
    srq->pd = use(pd->context, Resource::kPd, pd->handle);
    srq->verbs.handle = state.engine.create_receives({.pd = pd->handle,
                                                      .entries = srq->memory.entries(),
                                                      .log_entries = log,
                                                      .log_entry_bytes = log_bytes,
                                                      .record = srq->memory.record(),
                                                      .order = ReceiveOrder::kList});
    state.resources.add(Resource::kSrq, srq->verbs.handle);
    srq->verbs.context = pd->context;
    srq->verbs.srq_context = init->srq_context;
    srq->verbs.pd = pd;
    init_waiting(srq->verbs);
    return &srq.release()->verbs;
  });
}

int ibv_destroy_srq(ibv_srq* verbs) {
  return errno_call([&] {
    require_call(state_of(verbs->context).resources.remove(Resource::kSrq, verbs->handle) ==
                     Resources::Removal::kRemoved,
                 EBUSY);
    engine_of(verbs->context).destroy_receives(verbs->handle);
    destroy_waiting(*verbs);
    delete whole<SoftSrq>(verbs);
  });
}

int ibv_modify_srq(ibv_srq*, ibv_srq_attr*, int) { return ENOSYS; }

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* out) {
  *out = whole<SoftSrq>(srq)->attributes;
  return 0;
}

// Only the port is checked: clients leave parts of the attributes unset, and the vector repeats
// them.
ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  return pointer_call([&] {
    require_call(attributes->port_num == kPort, EINVAL);
    const DeviceAttributes device = engine_of(pd->context).device();
    const Route way = route_to(device, *attributes);
    auto ah = std::make_unique<SoftAh>();
    ah->pd = use(pd->context, Resource::kPd, pd->handle);
    ah->verbs = {pd->context, pd, 0};
    mlx5_wqe_av& vector = ah->vector;
    for (int i = 0; i < 6; ++i) vector.rmac[i] = static_cast<std::uint8_t>(way.mac >> (40 - 8 * i));
    vector.stat_rate_sl =
        static_cast<std::uint8_t>(attributes->static_rate << 4 | (attributes->sl & 0xf));
    vector.fl_mlid = attributes->src_path_bits & 0x7f;
    // On Ethernet it is the UDP source port (mlx5_create_ah).
    // The long form (mlx5_wqe_av): the device does not report that it takes the short one.
    vector.dqp_dct = htobe32(MLX5_EXTENDED_UD_AV);
    vector.rlid = htobe16(device.mac != 0 ? way.udp_source : attributes->dlid);
    if (attributes->is_global != 0) {
      const ibv_global_route& route = attributes->grh;
      vector.tclass = route.traffic_class;
      vector.hop_limit = route.hop_limit;
      // Bit 30: there is a global route; bits 27:20 and 19:0 GID index and flow label
      // (rdma-core providers/mlx5/verbs.c, mlx5_create_ah).
      vector.grh_gid_fl = htobe32(1u << 30 | static_cast<std::uint32_t>(route.sgid_index) << 20 |
                                  (route.flow_label & 0xfffff));
      std::memcpy(vector.rgid, route.dgid.raw, sizeof(vector.rgid));
    }
    return &ah.release()->verbs;
  });
}

int ibv_destroy_ah(ibv_ah* ah) {
  delete whole<SoftAh>(ah);
  return 0;
}

}  // extern "C"
