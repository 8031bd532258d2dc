// Tests how heaps in GPU memory are registered with a ConnectX: by which dmabuf, and by which call.
#include "tests/nic/mlx5_nic_rig.h"
#include "tests/unit/gpu_memory/rig.h"

#include <catch2/catch.hpp>

#include <algorithm>

namespace gshmem::nic::mlx5 {
namespace {

constexpr std::size_t kBytes = 2 << 20;

struct GpuHeap {
  explicit GpuHeap(const char* data_direct)
      : setup(config_with({{"GSHMEM_IB_DATA_DIRECT", data_direct}})) {
    fake_verbs_reset();
    test::cuda_double().reset();
    setup.heap_kind = MemoryKind::kGpu;
    setup.gpu_orders_writes = true;
    nic = setup.open();
    nic->use_queue_memory({test::gpu_allocate(kBytes), kBytes, MemoryKind::kGpu, 0});
    test::cuda_double().plain_dmabufs = 0;
  }
  Keys enter() {
    return nic->register_memory({test::gpu_allocate(kBytes), kBytes, MemoryKind::kGpu, 0});
  }
  [[nodiscard]] static bool called(const char* call) {
    const auto& calls = fake_verbs().calls;
    return std::find(calls.begin(), calls.end(), call) != calls.end();
  }
  Setup setup;
  std::unique_ptr<Mlx5Nic> nic;
};

}  // namespace

TEST_CASE("heaps_are_registered_by_their_dmabuf") {
  GpuHeap heap("off");
  (void)heap.enter();
  CHECK(test::cuda_double().plain_dmabufs == 1);
  CHECK(test::cuda_double().pcie_dmabufs == 0);
  CHECK(GpuHeap::called("ibv_reg_dmabuf_mr"));
  CHECK_FALSE(GpuHeap::called("mlx5dv_reg_dmabuf_mr"));
  CHECK((heap.nic->limits().flags & abi::kNicReadNeedsDump) == 0);
  CHECK_FALSE(GpuHeap::called("ibv_reg_mr_iova2"));
}

/// The double exports whole pages only, as CUDA does.
TEST_CASE("local_memory_that_begins_in_a_page_is_registered_by_the_dmabuf_of_its_pages") {
  GpuHeap heap(GENERATE("off", "on"));
  auto* const allocation = static_cast<char*>(test::gpu_allocate(kBytes));
  Region region{allocation + 4096 + 100, 5000, MemoryKind::kGpu, 0};
  region.offset = reinterpret_cast<std::uintptr_t>(region.base);
  region.local = true;
  (void)heap.nic->register_memory(region);
  CHECK(test::cuda_double().plain_dmabufs + test::cuda_double().pcie_dmabufs == 1);
  CHECK(fake_verbs().begin == std::vector<std::size_t>{100});
  CHECK_FALSE(GpuHeap::called("ibv_reg_mr_iova2"));
}

TEST_CASE("data_direct_has_a_mapping_and_a_call_of_its_own") {
  GpuHeap heap(GENERATE("on", "auto"));
  (void)heap.enter();
  CHECK(test::cuda_double().plain_dmabufs == 0);
  CHECK(test::cuda_double().pcie_dmabufs == 1);
  CHECK(GpuHeap::called("mlx5dv_reg_dmabuf_mr"));
  CHECK(fake_verbs().direct_access == 1);
  // Completions arrive by the other path.
  CHECK((heap.nic->limits().flags & abi::kNicReadNeedsDump) != 0);
}

TEST_CASE("only_requested_data_direct_is_required") {
  const std::string missing = GENERATE("mapping", "call", "card");
  const bool asked = GENERATE(true, false);
  GpuHeap heap(asked ? "on" : "auto");
  if (missing == "mapping") test::cuda_double().no_pcie_mapping = true;
  if (missing == "call") heap.setup.api.reg_dmabuf_direct = nullptr;
  if (missing == "card") {
    fake_verbs().fail_named = "mlx5dv_reg_dmabuf_mr";
    fake_verbs().fail_errno = EOPNOTSUPP;
  }
  const std::string error = error_of([&] { (void)heap.enter(); });
  if (!asked) {
    CHECK(error.empty());
    CHECK(test::cuda_double().plain_dmabufs == 1);
    CHECK(GpuHeap::called("ibv_reg_dmabuf_mr"));
    CHECK((heap.nic->limits().flags & abi::kNicReadNeedsDump) == 0);
    return;
  }
  CHECK_THAT(error, Catch::Contains("GSHMEM_IB_DATA_DIRECT=on needs"));
  CHECK_THAT(error, Catch::Contains(missing == "mapping" ? "cuMemGetHandleForAddressRange"
                                                         : "mlx5dv_reg_dmabuf_mr"));
  CHECK_FALSE(GpuHeap::called("ibv_reg_mr_iova2"));
}

TEST_CASE("queues_are_registered_by_their_dmabuf_or_otherwise_by_their_address") {
  GpuHeap heap("off");
  CHECK(fake_verbs().umem_mask == MLX5DV_UMEM_MASK_DMABUF);
  CHECK(test::cuda_double().pcie_dmabufs == 0);
  fake_verbs().umem_dmabuf = false;
  heap.nic->use_queue_memory({test::gpu_allocate(kBytes), kBytes, MemoryKind::kGpu, 0});
  CHECK(test::cuda_double().plain_dmabufs == 1);
  CHECK(fake_verbs().umem_mask == 0);
  CHECK_FALSE(GpuHeap::called("mlx5dv_devx_umem_reg"));
}

}  // namespace gshmem::nic::mlx5
