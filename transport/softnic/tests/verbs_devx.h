// A queue pair that a client of DevX has created, with memory, a doorbell page and a completion
// queue.
#pragma once

#include "transport/softnic/tests/verbs_api_rig.h"
#include "transport/softnic/tests/verbs_commands.h"

#include <endian.h>

#include <cstring>
#include <vector>

namespace verbs_test {

struct DevxQueuePair {
  Pages memory = pages(16384);
  mlx5dv_devx_umem* umem;
  mlx5dv_devx_uar* uar;
  mlx5dv_devx_obj *pd, *cq, *qp;
  std::uint32_t pdn, cqn, qpn;

  /// `service`: qpc.st, 0 for a reliable connection.
  explicit DevxQueuePair(ibv_context* context, std::uint32_t service = 0)
      : umem(nullptr), uar(mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC)) {
    std::memset(memory.get(), 0, 16384);
    umem = mlx5dv_devx_umem_reg(context, memory.get(), 16384, kLocalWrite);
    REQUIRE((umem != nullptr && uar != nullptr));
    std::uint32_t eqn = 0;
    REQUIRE(mlx5dv_devx_query_eqn(context, 0, &eqn) == 0);
    pd = make(context, command(0x800));
    pdn = number();
    cq = make(context, create_cq({.umem = umem->umem_id,
                                  .uar = uar->page_id,
                                  .eqn = eqn,
                                  .buffer = 4096,
                                  .record = 64}));
    cqn = number();
    qp = make(context, create_qp({.pd = pdn,
                                  .umem = umem->umem_id,
                                  .uar = uar->page_id,
                                  .cq = cqn,
                                  .log_entries = 2,
                                  .queue = 8192,
                                  .record = 0,
                                  .service = service}));
    qpn = number();
  }
  void modify(const std::vector<Bytes>& steps) {
    for (const Bytes& step : steps)
      REQUIRE(mlx5dv_devx_obj_modify(qp, step.data(), step.size(), out_, sizeof(out_)) == 0);
  }
  void destroy() const {
    for (mlx5dv_devx_obj* const object : {qp, cq, pd}) CHECK(mlx5dv_devx_obj_destroy(object) == 0);
    mlx5dv_devx_free_uar(uar);
    CHECK(mlx5dv_devx_umem_dereg(umem) == 0);
  }

 private:
  [[nodiscard]] mlx5dv_devx_obj* make(ibv_context* context, const Bytes& in) {
    mlx5dv_devx_obj* object =
        mlx5dv_devx_obj_create(context, in.data(), in.size(), out_, sizeof(out_));
    REQUIRE(object != nullptr);
    return object;
  }
  /// Returns the number of the newest object.
  [[nodiscard]] std::uint32_t number() const {
    return static_cast<std::uint32_t>(out_[9] << 16 | out_[10] << 8 | out_[11]);
  }
  std::uint8_t out_[0x10] = {};
};

}  // namespace verbs_test
