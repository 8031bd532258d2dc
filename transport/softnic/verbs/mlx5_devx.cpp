// DevX calls of libmlx5.so.1. They do what rdma-core and the kernel do between the client and the
// firmware (Linux drivers/infiniband/hw/mlx5/devx.c), and nothing that the firmware does.
#include "transport/softnic/memory.h"
#include "transport/softnic/verbs/objects.h"
#include "transport/softnic/verbs/prm.h"

#include "host/base/log.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace gshmem::soft {
namespace {

/// The kernel wants general_obj_in_cmd_hdr and general_obj_out_cmd_hdr at least.
constexpr std::size_t kHeaderBytes = 16;
constexpr std::size_t kUarBytes = 4096;
constexpr std::uint64_t kAdapterPageBytes = 4096;  ///< MLX5_ADAPTER_PAGE_SHIFT in Linux
constexpr std::uint32_t kDedicatedUar = 1u << 31;  ///< MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED

struct SoftUmem {
  mlx5dv_devx_umem verbs;
  ibv_context* context;
};
struct SoftUar {
  mlx5dv_devx_uar verbs;
  ibv_context* context;
  UarPool::Kind kind;
  DoorbellRegister bell;
};

using Bytes = std::vector<std::uint8_t>;

Bytes copy_input(const void* input, std::size_t bytes, std::size_t out_bytes) {
  require_call(input != nullptr && bytes >= kHeaderBytes && out_bytes >= kHeaderBytes, EINVAL);
  const auto* first = static_cast<const std::uint8_t*>(input);
  return {first, first + bytes};
}

std::uint16_t opcode_of(const Bytes& input) {
  return static_cast<std::uint16_t>(get(input.data(), in::opcode));
}

/// Checks that a known command comes through the call of its class. An unknown one goes to the
/// firmware, which refuses it.
void check_class(const Bytes& input, CommandClass wanted) {
  const CommandClass actual = command_class(opcode_of(input));
  require_call(actual == wanted || actual == CommandClass::kUnknown, EINVAL);
}

/// Sets these bits, which clients may leave to the kernel (devx_set_umem_valid).
void set_umem_valid(Bytes& input) {
  if (opcode_of(input) == kCreateCq && input.size() >= kCqcOffset + kCqcBytes + 0x10) {
    set(input.data(), create_cq_in::cq_umem_valid, 1);
    set(input.data() + kCqcOffset, cqc::dbr_umem_valid, 1);
  } else if (opcode_of(input) == kCreateQp && input.size() >= kQpcOffset + kQpcBytes + 0x10) {
    set(input.data(), create_qp_in::wq_umem_valid, 1);
    set(input.data() + kQpcOffset, qpc::dbr_umem_valid, 1);
  } else if (opcode_of(input) == kCreateRmp && input.size() >= kRmpcOffset + kWqInRmpc + kWqBytes) {
    std::uint8_t* wq = input.data() + kRmpcOffset + kWqInRmpc;
    set(wq, wq::dbr_umem_valid, 1);
    set(wq, wq::wq_umem_valid, 1);
  }
}

/// Checks the flags that the kernel accepts (devx_umem_get).
void check_umem_access(unsigned access) {
  constexpr unsigned known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING;
  require_call((access & ~known) == 0, EINVAL);
  require_call((access & IBV_ACCESS_REMOTE_WRITE) == 0 || (access & IBV_ACCESS_LOCAL_WRITE) != 0,
               EINVAL);
}

/// Returns the largest page that the kernel may choose (devx_umem_find_best_pgsize), for memory
/// that is contiguous for the device. Whether it is contiguous depends on the machine, and clients
/// must work in both cases. The kernel refuses a choice without any page up to the host's page
/// size, because memory may consist of such pages (ib_umem_find_best_pgsz).
std::uint64_t choose_page(std::uint64_t host_page, std::uintptr_t address, std::uint64_t bytes,
                          std::uint64_t allowed) {
  allowed &= ~(kAdapterPageBytes - 1);
  require_call((allowed & (2 * host_page - 1)) != 0, EINVAL);
  const std::uint64_t least = std::bit_floor(allowed & (2 * host_page - 1));
  const std::uint64_t largest = std::bit_ceil(std::max(bytes, least));
  std::uint64_t page = std::bit_floor(allowed & (largest | (largest - 1)));
  if (address % host_page != 0) page = least;
  while (page > least && (bytes % page != 0 || (allowed & page) == 0)) page /= 2;
  return page;
}

UarPool::Kind uar_kind(std::uint32_t flags) {
  if (flags == MLX5DV_UAR_ALLOC_TYPE_BF) return UarPool::Kind::kBlueFlame;
  if (flags == MLX5DV_UAR_ALLOC_TYPE_NC) return UarPool::Kind::kShared;
  require_call(flags == kDedicatedUar, EOPNOTSUPP);
  return UarPool::Kind::kDedicated;
}

/// Errors: EREMOTEIO when the firmware refuses; then `out` has its reasons. EIO when the device is
/// gone.
void run(ibv_context* context, const Bytes& input, void* out, std::size_t out_bytes) {
  // A destroying command succeeds then: the object is gone already (rdma-core libibverbs/cmd.h
  // verbs_is_destroy_err).
  const bool destroys = command_class(opcode_of(input)) == CommandClass::kDestroy;
  require_call(destroys || !engine_of(context).gone(), EIO);
  const Status status =
      state_of(context).firmware.execute(input, {static_cast<std::uint8_t*>(out), out_bytes});
  require_call(status == Status::kOk, EREMOTEIO);
}

struct Message {
  const void* input;
  std::size_t in_bytes;
  void* out;
  std::size_t out_bytes;
};
/// Runs a command on an object. It may not name another object (devx_is_valid_obj_id).
int run_on_object(ibv_context* context, std::uint32_t number, CommandClass wanted,
                  const Message& message) {
  return errno_call([&] {
    const Bytes input = copy_input(message.input, message.in_bytes, message.out_bytes);
    check_class(input, wanted);
    require_call(get(input.data(), object::number) == number, EINVAL);
    run(context, input, message.out, message.out_bytes);
  });
}

}  // namespace
}  // namespace gshmem::soft

using namespace gshmem::soft;

extern "C" {

int mlx5dv_devx_general_cmd(ibv_context* context, const void* input, std::size_t in_bytes,
                            void* out, std::size_t out_bytes) {
  return errno_call([&] {
    const Bytes bytes = copy_input(input, in_bytes, out_bytes);
    check_class(bytes, CommandClass::kGeneral);
    run(context, bytes, out, out_bytes);
  });
}

mlx5dv_devx_obj* mlx5dv_devx_obj_create(ibv_context* context, const void* input,
                                        std::size_t in_bytes, void* out, std::size_t out_bytes) {
  return pointer_call([&] {
    Bytes bytes = copy_input(input, in_bytes, out_bytes);
    check_class(bytes, CommandClass::kCreate);
    set_umem_valid(bytes);
    auto obj = std::make_unique<mlx5dv_devx_obj>();
    run(context, bytes, out, out_bytes);
    *obj = {context, opcode_of(bytes), get(static_cast<const std::uint8_t*>(out), object::number)};
    return obj.release();
  });
}

int mlx5dv_devx_obj_modify(mlx5dv_devx_obj* obj, const void* input, std::size_t in_bytes, void* out,
                           std::size_t out_bytes) {
  return run_on_object(obj->context, obj->number, CommandClass::kModify,
                       {input, in_bytes, out, out_bytes});
}
int mlx5dv_devx_obj_query(mlx5dv_devx_obj* obj, const void* input, std::size_t in_bytes, void* out,
                          std::size_t out_bytes) {
  return run_on_object(obj->context, obj->number, CommandClass::kQuery,
                       {input, in_bytes, out, out_bytes});
}

// These calls are for queue pairs that verbs has created.
int mlx5dv_devx_qp_modify(ibv_qp* qp, const void* input, std::size_t in_bytes, void* out,
                          std::size_t out_bytes) {
  return run_on_object(qp->context, qp->qp_num, CommandClass::kModify,
                       {input, in_bytes, out, out_bytes});
}
int mlx5dv_devx_qp_query(ibv_qp* qp, const void* input, std::size_t in_bytes, void* out,
                         std::size_t out_bytes) {
  return run_on_object(qp->context, qp->qp_num, CommandClass::kQuery,
                       {input, in_bytes, out, out_bytes});
}

int mlx5dv_devx_obj_destroy(mlx5dv_devx_obj* obj) {
  return errno_call([&] {
    Bytes input(kHeaderBytes), out(kHeaderBytes);
    set(input.data(), in::opcode, destroying_opcode(obj->created_by));
    set(input.data(), object::number, obj->number);
    run(obj->context, input, out.data(), out.size());
    delete obj;
  });
}

mlx5dv_devx_umem* mlx5dv_devx_umem_reg_ex(ibv_context* context, mlx5dv_devx_umem_in* input) {
  return pointer_call([&]() -> mlx5dv_devx_umem* {
    require_call(input->comp_mask == 0, EOPNOTSUPP);  // MLX5DV_UMEM_MASK_DMABUF, or newer
    require_call(input->size > 0, EINVAL);
    // GPU memory is refused, as without a module that pins it (pin_user_pages).
    require_call(gpu_memory(input->addr) == nullptr, EFAULT);
    check_umem_access(input->access);
    auto umem = std::make_unique<SoftUmem>();
    const std::uint64_t page =
        choose_page(engine_of(context).device().profile.page_bytes,
                    reinterpret_cast<std::uintptr_t>(input->addr), input->size, input->pgsz_bitmap);
    umem->verbs.umem_id = state_of(context).firmware.register_umem(input->addr, input->size, page);
    umem->context = context;
    return &umem.release()->verbs;
  });
}

int mlx5dv_devx_umem_dereg(mlx5dv_devx_umem* verbs) {
  return errno_call([&] {
    auto* umem = whole<SoftUmem>(verbs);
    require_call(state_of(umem->context).firmware.release_umem(verbs->umem_id), EBUSY);
    delete umem;
  });
}

mlx5dv_devx_umem* mlx5dv_devx_umem_reg(ibv_context* context, void* address, std::size_t bytes,
                                       std::uint32_t access) {
  mlx5dv_devx_umem_in input{};
  input.addr = address;
  input.size = bytes;
  input.access = access;
  input.pgsz_bitmap = ~(kAdapterPageBytes - 1);
  return mlx5dv_devx_umem_reg_ex(context, &input);
}

int mlx5dv_devx_query_eqn(ibv_context*, std::uint32_t vector, std::uint32_t* number) {
  if (vector >= kEventQueues) return EINVAL;
  *number = kFirstEventQueue + vector;
  return 0;
}

mlx5dv_devx_uar* mlx5dv_devx_alloc_uar(ibv_context* context, std::uint32_t flags) {
  return pointer_call([&] {
    auto uar = std::make_unique<SoftUar>();
    uar->context = context;
    uar->kind = uar_kind(flags);
    uar->bell = state_of(context).uars.take(uar->kind);
    uar->verbs.base_addr = uar->bell.page;
    uar->verbs.reg_addr = static_cast<char*>(uar->bell.page) + uar->bell.offset;
    uar->verbs.page_id = uar->bell.uar;
    uar->verbs.mmap_off = static_cast<off_t>(uar->bell.uar * kUarBytes);
    return &uar.release()->verbs;
  });
}

void mlx5dv_devx_free_uar(mlx5dv_devx_uar* verbs) {
  auto* uar = whole<SoftUar>(verbs);
  state_of(uar->context).uars.give_back(uar->kind, uar->bell);
  delete uar;
}

}  // extern "C"
