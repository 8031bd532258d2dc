// Calls of libmlx5.so.1, linked by their names as any program links them.
#include "tests/nic/verbs_api_rig.h"
#include "tests/nic/verbs_commands.h"

#include <fcntl.h>

using namespace verbs_test;

TEST_CASE("UARs have a page each, whatever their kind") {
  const Nic nic;
  mlx5dv_devx_uar* uars[3];
  const std::uint32_t kinds[] = {MLX5DV_UAR_ALLOC_TYPE_BF, MLX5DV_UAR_ALLOC_TYPE_NC, 1u << 31};
  for (int i = 0; i < 3; ++i) {
    uars[i] = mlx5dv_devx_alloc_uar(nic.context, kinds[i]);
    REQUIRE(uars[i] != nullptr);
    CHECK(static_cast<char*>(uars[i]->reg_addr) == static_cast<char*>(uars[i]->base_addr) + 0x800);
    for (int k = 0; k < i; ++k) CHECK(uars[k]->page_id != uars[i]->page_id);
  }
  errno = 0;
  CHECK(mlx5dv_devx_alloc_uar(nic.context, 2) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  for (mlx5dv_devx_uar* uar : uars) mlx5dv_devx_free_uar(uar);
}

TEST_CASE("user memory and event queues of DevX") {
  const Nic nic;
  const Pages memory = pages(8192);
  mlx5dv_devx_umem_in in{};
  in.addr = memory.get();
  in.size = 8192;
  in.access = kLocalWrite;
  in.pgsz_bitmap = 4096;
  mlx5dv_devx_umem* umem = mlx5dv_devx_umem_reg_ex(nic.context, &in);
  REQUIRE(umem != nullptr);
  CHECK(umem->umem_id != 0);
  CHECK(mlx5dv_devx_umem_dereg(umem) == 0);
  in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
  errno = 0;
  CHECK(mlx5dv_devx_umem_reg_ex(nic.context, &in) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  CHECK(mlx5dv_devx_umem_reg(nic.context, memory.get(), 0, 0) == nullptr);
  CHECK(mlx5dv_devx_umem_reg(nic.context, memory.get(), 64, IBV_ACCESS_REMOTE_ATOMIC) == nullptr);
  std::uint32_t eqn = 0;
  CHECK(mlx5dv_devx_query_eqn(nic.context, 0, &eqn) == 0);
  CHECK(eqn != 0);
  CHECK(mlx5dv_devx_query_eqn(nic.context,
                              static_cast<std::uint32_t>(nic.context->num_comp_vectors),
                              &eqn) == EINVAL);
}

TEST_CASE("DevX calls refuse what the kernel refuses, and report what the firmware refuses") {
  const Nic nic;
  std::uint8_t in[0x110] = {}, out[0x10] = {};
  const auto opcode = [&](std::uint16_t code) {
    in[0] = static_cast<std::uint8_t>(code >> 8);
    in[1] = static_cast<std::uint8_t>(code);
  };
  opcode(0x500);
  CHECK(mlx5dv_devx_general_cmd(nic.context, in, sizeof(in), out, sizeof(out)) == EINVAL);
  CHECK(mlx5dv_devx_general_cmd(nic.context, in, 8, out, sizeof(out)) == EINVAL);
  opcode(0x777);
  CHECK(mlx5dv_devx_general_cmd(nic.context, in, sizeof(in), out, sizeof(out)) == EREMOTEIO);
  CHECK(out[0] == 0x2);
  opcode(0x800);
  mlx5dv_devx_obj* pd = mlx5dv_devx_obj_create(nic.context, in, 0x10, out, sizeof(out));
  REQUIRE(pd != nullptr);
  opcode(0x507);
  CHECK(mlx5dv_devx_obj_modify(pd, in, 0x10, out, sizeof(out)) == EINVAL);  // another object
  CHECK(mlx5dv_devx_obj_destroy(pd) == 0);
  opcode(0x100);
  errno = 0;
  CHECK(mlx5dv_devx_obj_create(nic.context, in, 0x10, out, sizeof(out)) == nullptr);
  CHECK(errno == EINVAL);
}

TEST_CASE("contexts do not see each other's objects") {
  const Nic nic, other;
  const Pages memory = pages(8192);
  mlx5dv_devx_umem* umem = mlx5dv_devx_umem_reg(nic.context, memory.get(), 8192, 1);
  mlx5dv_devx_uar* uar = mlx5dv_devx_alloc_uar(nic.context, MLX5DV_UAR_ALLOC_TYPE_NC);
  REQUIRE((umem != nullptr && uar != nullptr));
  std::uint32_t eqn = 0;
  REQUIRE(mlx5dv_devx_query_eqn(nic.context, 0, &eqn) == 0);
  const Bytes in = create_cq(
      {.umem = umem->umem_id, .uar = uar->page_id, .eqn = eqn, .buffer = 4096, .record = 0});
  std::uint8_t out[0x10] = {};
  errno = 0;
  CHECK(mlx5dv_devx_obj_create(other.context, in.data(), in.size(), out, sizeof(out)) == nullptr);
  CHECK(errno == EREMOTEIO);
  CHECK(out[0] == 0x5);
  mlx5dv_devx_obj* cq = mlx5dv_devx_obj_create(nic.context, in.data(), in.size(), out, sizeof(out));
  REQUIRE(cq != nullptr);
  CHECK(mlx5dv_devx_umem_dereg(umem) == EBUSY);
  CHECK(mlx5dv_devx_obj_destroy(cq) == 0);
  CHECK(mlx5dv_devx_umem_dereg(umem) == 0);
  mlx5dv_devx_free_uar(uar);
}

TEST_CASE("a context closes with what is left in it") {
  const Nic nic;
  ibv_context* other = ibv_open_device(nic.context->device);
  REQUIRE(other != nullptr);
  static const Pages memory = pages(4096);
  // Static, since nobody can free them once the context is closed.
  static ibv_pd* const pd = ibv_alloc_pd(other);
  REQUIRE(pd != nullptr);
  static ibv_mr* const region = ibv_reg_mr(pd, memory.get(), 4096, kLocalWrite);
  REQUIRE(region != nullptr);
  static mlx5dv_devx_uar* const uar = mlx5dv_devx_alloc_uar(other, MLX5DV_UAR_ALLOC_TYPE_NC);
  REQUIRE(uar != nullptr);
  CHECK(ibv_close_device(other) == 0);
}

TEST_CASE("no asynchronous event comes by itself") {
  const Nic nic;
  const int flags = fcntl(nic.context->async_fd, F_GETFL);
  REQUIRE(fcntl(nic.context->async_fd, F_SETFL, flags | O_NONBLOCK) == 0);
  ibv_async_event event;
  errno = 0;
  CHECK(ibv_get_async_event(nic.context, &event) == -1);
  CHECK(errno == EAGAIN);
}

TEST_CASE("the special calls of mlx5dv answer, or say no") {
  const Nic nic;
  mlx5dv_context attributes{};
  CHECK(mlx5dv_query_device(nic.context, &attributes) == 0);
  CHECK((attributes.flags & MLX5DV_CONTEXT_FLAGS_CQE_V1) != 0);
  CHECK(attributes.comp_mask == 0);
  mlx5dv_context_attr wanted{};
  wanted.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  ibv_context* second = mlx5dv_open_device(nic.context->device, &wanted);
  REQUIRE(second != nullptr);
  CHECK(ibv_close_device(second) == 0);
  wanted.comp_mask = 1;
  CHECK(mlx5dv_open_device(nic.context->device, &wanted) == nullptr);
  ibv_qp_init_attr_ex qp{};
  mlx5dv_qp_init_attr special{};
  special.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
  errno = 0;
  CHECK(mlx5dv_create_qp(nic.context, &qp, &special) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}
