// Memory of Mlx5Nic over a table of functions of the test's own: how it is registered, and what is
// said when it cannot be.
#include "tests/nic/mlx5_nic_rig.h"

#include <catch2/catch.hpp>

#include <unistd.h>

namespace gshmem::nic::mlx5 {

TEST_CASE("pages_of_queue_memory_are_small_enough_for_offsets_in_them") {
  fake_verbs_reset();
  Setup setup;
  setup.open()->use_queue_memory(setup.memory.queue_region());
  const std::uint64_t sizes = fake_verbs().page_sizes;
  CHECK((sizes & 4096) != 0);
  CHECK((sizes & static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))) != 0);
  CHECK((sizes & 4095) == 0);
  CHECK(sizes < 2 * 64 * 4096);
}

TEST_CASE("page_sizes_are_left_to_who_knows_no_choice_of_them") {
  for (const int refusal : {0, EPROTONOSUPPORT, EOPNOTSUPP, ENOMEM}) {
    fake_verbs_reset();
    Setup setup;
    if (refusal == 0) setup.api.umem_reg_ex = nullptr;
    fake_verbs().fail_named = "mlx5dv_devx_umem_reg_ex";
    fake_verbs().fail_errno = refusal;
    const std::unique_ptr<Mlx5Nic> nic = setup.open();
    const std::string error = error_of([&] { nic->use_queue_memory(setup.memory.queue_region()); });
    CAPTURE(refusal, error);
    CHECK(error.empty() == (refusal != ENOMEM));
    CHECK((fake_verbs().calls.back() == "mlx5dv_devx_umem_reg") == (refusal != ENOMEM));
  }
}

TEST_CASE("gpu_memory_says_what_it_needs") {
  fake_verbs_reset();
  fake_verbs().fail_named = "ibv_reg_mr_iova2";
  fake_verbs().fail_errno = EFAULT;
  Setup setup;
  const std::unique_ptr<Mlx5Nic> nic = setup.open();
  Region region = setup.memory.heap_region();
  region.kind = MemoryKind::kGpu;
  region.gpu = 0;
  CHECK_THAT(error_of([&] { (void)nic->register_memory(region); }),
             Catch::Contains("GPU memory") && Catch::Contains("ibv_reg_mr_iova2: Bad address") &&
                 Catch::Contains("modprobe nvidia-peermem") &&
                 Catch::Contains("dmabuf (Linux 5.12, rdma-core 34") &&
                 Catch::Contains("GSHMEM_NIC=ofi"));
  fake_verbs().fail_named = "mlx5dv_devx_umem_reg_ex";
  CHECK_THAT(error_of([&] { nic->use_queue_memory(region); }),
             Catch::Contains("for work queues") &&
                 Catch::Contains("dmabuf (Linux 6.1, rdma-core 44") &&
                 Catch::Contains("GSHMEM_QUEUE_MEMORY=host") && !Catch::Contains("GSHMEM_NIC=ofi"));
}

TEST_CASE("only_payload_has_a_key_by_which_pcie_may_reorder") {
  for (const bool relaxed : {false, true}) {
    fake_verbs_reset();
    Setup setup(config_with({{"GSHMEM_IB_RELAXED_ORDERING", relaxed ? "1" : "0"}}));
    const Keys keys = setup.open()->register_memory(setup.memory.heap_region());
    const auto may_reorder = [](std::uint32_t key) {
      return (fake_verbs().access.at(key - 0x55) & IBV_ACCESS_RELAXED_ORDERING) != 0;
    };
    CHECK(may_reorder(keys.remote) == relaxed);
    CHECK_FALSE(may_reorder(keys.atomic));
    CHECK_FALSE(may_reorder(keys.local));
  }
}

TEST_CASE("gdr_off_forbids_gpu_memory") {
  fake_verbs_reset();
  Setup setup(config_with({{"GSHMEM_GDR", "off"}}));
  const std::unique_ptr<Mlx5Nic> nic = setup.open();
  Region region = setup.memory.heap_region();
  region.kind = MemoryKind::kGpu;
  CHECK_THAT(error_of([&] { (void)nic->register_memory(region); }),
             Catch::Contains("GSHMEM_GDR=off"));
}

TEST_CASE("bad_option_does_not_make_a_port_unusable") {
  fake_verbs_reset();
  Setup setup(config_with({{"GSHMEM_IB_PKEY_INDEX", "5"}}));
  const OpenOptions options{.config = setup.config, .boot = *setup.boot};
  const DeviceWish wish{.config = setup.config, .sysfs = "/nowhere"};
  CHECK(usable_ports(setup.api, wish, options).why_not.empty());
  CHECK_THAT(error_of([&] { (void)setup.open(); }), Catch::Contains("GSHMEM_IB_PKEY_INDEX=5"));
}

TEST_CASE("usable_is_only_a_port_that_opens_and_reaches_the_heap") {
  struct Case {
    const char* name;
    std::function<void(FakeVerbs&)> break_it;
    MemoryKind heap;
    const char* gdr;
    bool has_device;
    const char* why;  ///< part of the reason; empty: usable
  };
  const auto nothing = [](FakeVerbs&) {};
  const auto no_registration = [](FakeVerbs& fake) { fake.fail_named = "ibv_reg_mr_iova2"; };
  const Case cases[] = {
      {"all there", nothing, MemoryKind::kGpu, "auto", true, ""},
      {"host memory needs no trial", no_registration, MemoryKind::kHost, "off", true, ""},
      {"no port", [](FakeVerbs& fake) { fake.active = false; }, MemoryKind::kHost, "auto", false,
       "mlx5_7 port 1 is DOWN"},
      {"no masked atomics", [](FakeVerbs& fake) { fake.atomic_operations = 3; }, MemoryKind::kHost,
       "auto", true, "lacks masked compare-and-swap"},
      {"no DevX",
       [](FakeVerbs& fake) {
         fake.fail_named = "QUERY_HCA_CAP(GENERAL)";
         fake.fail_errno = EOPNOTSUPP;
       },
       MemoryKind::kHost, "auto", true, "DevX is off"},
      {"no GPUDirect", no_registration, MemoryKind::kGpu, "auto", true, "nvidia-peermem"},
      {"GPUDirect forbidden", nothing, MemoryKind::kGpu, "off", true, "GSHMEM_GDR=off"},
  };
  for (const Case& each : cases) {
    fake_verbs_reset();
    each.break_it(fake_verbs());
    Setup setup(config_with({{"GSHMEM_GDR", each.gdr}}));
    OpenOptions options{.config = setup.config, .boot = *setup.boot, .heap_kind = each.heap};
    options.heap = setup.memory.heap_region();
    options.heap.kind = each.heap;
    const Usable usable =
        usable_ports(setup.api, DeviceWish{.config = setup.config, .sysfs = "/nowhere"}, options);
    CAPTURE(each.name, usable.why_not);
    CHECK(usable.has_device == each.has_device);
    CHECK(usable.why_not.empty() == (*each.why == '\0'));
    CHECK_THAT(usable.why_not, Catch::Contains(each.why));
    CHECK(fake_verbs().live == 0);
  }
}

}  // namespace gshmem::nic::mlx5
