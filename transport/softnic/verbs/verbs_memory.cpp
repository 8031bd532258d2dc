// Protection domains and memory regions.
#include "transport/softnic/verbs/verbs_calls.h"

namespace gshmem::soft {
namespace {

/// Returns the protection domain that `pd` is, or the one of a parent domain.
ibv_pd* own_pd(ibv_pd* pd) {
  ibv_pd* parent = whole<SoftPd>(pd)->parent;
  return parent != nullptr ? parent : pd;
}

/// Returns the flags for the engine. The kernel refuses unknown flags, except optional ones (Linux
/// include/rdma/ib_verbs.h, ib_check_mr_access). The engine checks its other rules.
std::uint32_t check_access(unsigned access) {
  constexpr unsigned harmless = IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB;
  constexpr unsigned known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  require_call((access & (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND)) == 0, EOPNOTSUPP);
  require_call((access & ~(known | harmless | IBV_ACCESS_OPTIONAL_RANGE)) == 0, EINVAL);
  return access & (known | IBV_ACCESS_RELAXED_ORDERING);
}

ibv_mr* register_region(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                        unsigned access) {
  return pointer_call([&] {
    const std::uint32_t flags = check_access(access);
    const auto first = reinterpret_cast<std::uintptr_t>(address);
    require_call(bytes > 0 && first + bytes > first, EINVAL);
    ContextState& state = state_of(pd->context);
    // The kernel maps whole pages (uverbs_cmd.c, ib_uverbs_reg_mr).
    require_call((first - iova) % state.engine.device().profile.page_bytes == 0, EINVAL);
    ibv_pd* owner = own_pd(pd);
    auto region = std::make_unique<SoftMr>();
    region->pd = use(pd->context, Resource::kPd, owner->handle);
    const std::uint32_t key = state.engine.create_region(
        {.pd = owner->handle, .address = address, .bytes = bytes, .iova = iova, .access = flags});
    state.resources.add(Resource::kRegion, key);
    region->verbs = {pd->context, pd, address, bytes, key, key, key};
    return &region.release()->verbs;
  });
}

}  // namespace

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes) {
  return pointer_call([&] {
    constexpr std::uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    // Own allocators for queues are refused, because they would not be called.
    require_call((attributes->comp_mask & ~known) == 0, EOPNOTSUPP);
    require_call(attributes->pd != nullptr && attributes->td == nullptr, EINVAL);
    ibv_pd* parent = own_pd(attributes->pd);
    return &(new SoftPd{
                 {context, parent->handle}, parent, use(context, Resource::kPd, parent->handle)})
                ->verbs;
  });
}

}  // namespace gshmem::soft

using namespace gshmem::soft;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return pointer_call([&] {
    auto pd = std::make_unique<SoftPd>();
    pd->verbs = {context, engine_of(context).create_pd()};
    state_of(context).resources.add(Resource::kPd, pd->verbs.handle);
    return &pd.release()->verbs;
  });
}

int ibv_dealloc_pd(ibv_pd* pd) {
  return errno_call([&] {
    if (whole<SoftPd>(pd)->parent == nullptr) {
      const Resources::Removal removal =
          state_of(pd->context).resources.remove(Resource::kPd, pd->handle);
      require_call(removal != Resources::Removal::kBusy, EBUSY);
      require_call(removal == Resources::Removal::kRemoved, EINVAL);
      engine_of(pd->context).destroy_pd(pd->handle);
    }
    delete whole<SoftPd>(pd);
  });
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                         unsigned access) {
  return register_region(pd, address, bytes, iova, access);
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                        int access) {
  return register_region(pd, address, bytes, iova, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) {
  return register_region(pd, address, bytes, reinterpret_cast<std::uintptr_t>(address),
                         static_cast<unsigned>(access));
}

// Clients then register by address, which works here for GPU memory, too.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  errno = EOPNOTSUPP;
  return nullptr;
}

int ibv_rereg_mr(ibv_mr*, int, ibv_pd*, void*, std::size_t, int) {
  return IBV_REREG_MR_ERR_INPUT;  // the region stays as it is
}

int ibv_dereg_mr(ibv_mr* region) {
  return errno_call([&] {
    require_call(state_of(region->context).resources.remove(Resource::kRegion, region->handle) ==
                     Resources::Removal::kRemoved,
                 EINVAL);
    engine_of(region->context).destroy_region(region->handle);
    delete whole<SoftMr>(region);
  });
}

}  // extern "C"
