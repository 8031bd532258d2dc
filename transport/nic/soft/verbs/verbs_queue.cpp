// Shared receive queues and address handles: objects that DevX commands and mlx5dv_init_obj name.
#include "transport/nic/soft/verbs/verbs_calls.h"

#include <endian.h>

#include <atomic>
#include <cstring>

namespace gshmem::soft {
namespace {

constexpr std::size_t kReceiveBytes = 64;

/// The engine has no shared receive queues; their numbers only have to be theirs.
std::uint32_t next_srq_number() {
  static std::atomic<std::uint32_t> last{0x100};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;  // a counter: nothing is ordered by it
}

}  // namespace

int get_srq_number(ibv_srq* srq, std::uint32_t* number) {
  *number = srq->handle;
  return 0;
}

}  // namespace gshmem::soft

using namespace gshmem::soft;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  return pointer_call([&] {
    require_call(init->attr.max_wr > 0 && init->attr.max_wr <= 1 << 15, EINVAL);
    require_call(init->attr.max_sge <= 30, EINVAL);
    Resources& resources = state_of(pd->context).resources;
    require_call(resources.use(Resource::kPd, pd->handle), EINVAL);
    const std::size_t bytes = kReceiveBytes << log2_ceil(init->attr.max_wr + 1);
    auto srq = std::unique_ptr<SoftSrq>(new SoftSrq{{}, QueueMemory(bytes), init->attr});
    srq->verbs.context = pd->context;
    srq->verbs.srq_context = init->srq_context;
    srq->verbs.pd = pd;
    srq->verbs.handle = next_srq_number();
    resources.add(Resource::kSrq, srq->verbs.handle);
    init_waiting(srq->verbs);
    return &srq.release()->verbs;
  });
}

int ibv_destroy_srq(ibv_srq* verbs) {
  return errno_call([&] {
    Resources& resources = state_of(verbs->context).resources;
    require_call(resources.remove(Resource::kSrq, verbs->handle) == Resources::Removal::kRemoved,
                 EBUSY);
    resources.release(Resource::kPd, verbs->pd->handle);
    destroy_waiting(*verbs);
    delete whole<SoftSrq>(verbs);
  });
}

int ibv_modify_srq(ibv_srq*, ibv_srq_attr*, int) { return ENOSYS; }

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* out) {
  *out = whole<SoftSrq>(srq)->attributes;
  return 0;
}

// Clients leave parts of the attributes unset, which the vector then repeats: only the port is
// looked at.
ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  return pointer_call([&] {
    require_call(attributes->port_num == kPort, EINVAL);
    Resources& resources = state_of(pd->context).resources;
    require_call(resources.use(Resource::kPd, pd->handle), EINVAL);
    auto ah = std::make_unique<SoftAh>();
    ah->verbs = {pd->context, pd, 0};
    mlx5_wqe_av& vector = ah->vector;
    vector.stat_rate_sl =
        static_cast<std::uint8_t>(attributes->static_rate << 4 | (attributes->sl & 0xf));
    vector.fl_mlid = attributes->src_path_bits & 0x7f;
    vector.rlid = htobe16(attributes->dlid);
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
  return errno_call([&] {
    state_of(ah->context).resources.release(Resource::kPd, ah->pd->handle);
    delete whole<SoftAh>(ah);
  });
}

}  // extern "C"
