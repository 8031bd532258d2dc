#include "transport/nic/mlx5/dynamic_target.h"

#include <cerrno>
#include <cstring>

namespace gshmem::nic::mlx5 {
namespace {

/// Marks the long form of an address vector, of 48 bytes (rdma-core providers/mlx5/wqe.h,
/// MLX5_EXTENDED_UD_AV).
constexpr std::uint32_t kLongVector = 0x80000000;

void require_calls(const VerbsApi& api) {
  require(api.create_cq && api.destroy_cq && api.create_srq && api.destroy_srq && api.create_dc &&
              api.modify_qp && api.destroy_qp,
          GSHMEMX_ERROR_NOT_SUPPORTED,
          "GSHMEM_CONNECT=dc: libibverbs or libmlx5 lacks calls for dynamic connections; use "
          "GSHMEM_CONNECT=init, or a newer rdma-core");
}

}  // namespace

void require_dynamic(const Caps& caps, const std::string& device) {
  std::string missing;
  const auto need = [&](bool present, const char* name) {
    if (!present) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  need(caps.has_dynamic, "dynamic connections (capability dct)");
  // Sizes: mlx5_ifc_atomic_caps_bits, atomic_size_dc.
  need((caps.atomic_sizes_dynamic & 4) != 0, "atomics of 4 bytes over them (atomic_size_dc)");
  need((caps.atomic_sizes_dynamic & 8) != 0, "atomics of 8 bytes over them (atomic_size_dc)");
  require(missing.empty(), GSHMEMX_ERROR_CONFIG,
          "GSHMEM_CONNECT=dc: " + device + " lacks " + missing +
              "; use GSHMEM_CONNECT=init or use, or choose another device by GSHMEM_NIC_DEVICES");
}

DynamicTarget::DynamicTarget(const Device& device, std::uint64_t key) : device_(device), key_(key) {
  const VerbsApi& api = device.api;
  require_calls(api);
  cq_ = own(check_verbs(api.create_cq(device.context.get(), 1, nullptr, nullptr, 0),
                        "ibv_create_cq (for a target)"),
            api.destroy_cq, "ibv_destroy_cq");
  ibv_srq_init_attr receives{};
  receives.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  receives_ = own(check_verbs(api.create_srq(device.pd.get(), &receives), "ibv_create_srq"),
                  api.destroy_srq, "ibv_destroy_srq");
  mlx5dv_srq srq{};
  srq.comp_mask = MLX5DV_SRQ_MASK_SRQN;
  mlx5dv_obj object{};
  object.srq.in = receives_.get();
  object.srq.out = &srq;
  check_verbs(api.init_obj(&object, MLX5DV_OBJ_SRQ), "mlx5dv_init_obj(SRQ)");
  receive_queue_ = srq.srqn;

  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_DRIVER;
  init.send_cq = init.recv_cq = cq_.get();
  init.srq = receives_.get();
  init.pd = device.pd.get();
  init.comp_mask = IBV_QP_INIT_ATTR_PD;
  mlx5dv_qp_init_attr special{};
  special.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
  special.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
  special.dc_init_attr.dct_access_key = key;
  target_ = own(check_verbs(api.create_dc(device.context.get(), &init, &special),
                            "mlx5dv_create_qp (a target)"),
                api.destroy_qp, "ibv_destroy_qp");
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.pkey_index = static_cast<std::uint16_t>(device.config.ib_pkey_index);
  to.port_num = static_cast<std::uint8_t>(device.port);
  to.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_ATOMIC;
  check_verbs(api.modify_qp(target_.get(), &to,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              "ibv_modify_qp (a target to INIT)");
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = device.port_attributes.active_mtu;
  to.min_rnr_timer = 12;
  to.ah_attr = device.way_to(0, device.gid.gid);  // answers go back to the senders of entries
  check_verbs(api.modify_qp(target_.get(), &to,
                            IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV),
              "ibv_modify_qp (a target to RTR)");
}

abi::AddressVector DynamicTarget::vector_to(int pe, std::uint32_t number, std::uint16_t lid,
                                            const Gid& gid) const {
  abi::AddressVector vector = device_.vector_to(lid, gid, pe);
  const abi::Be64 key(key_);
  const abi::Be32 target(kLongVector | number);
  auto* const bytes = reinterpret_cast<std::uint8_t*>(&vector);
  std::memcpy(bytes, &key, sizeof(key));
  std::memcpy(bytes + sizeof(key), &target, sizeof(target));
  return vector;
}

}  // namespace gshmem::nic::mlx5
