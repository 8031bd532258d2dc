// Tests memory of Mlx5Nic over a table of functions of the test: how it is registered, and the
// errors when it cannot be.
#include "tests/nic/mlx5_nic_rig.h"
#include "tests/capture.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>

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
  // Memory of the host may be registered by its own page size.
  CHECK(sizes < 2 * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
}

TEST_CASE("memory_that_cannot_be_registered_is_described_with_the_remedy") {
  struct Case {
    int error;
    const char *text, *advice;
    int code;
  };
  const char* const kLimit =
      "Raise the limit of locked memory (ulimit -l unlimited; docker: --ulimit memlock=-1). ";
  const char* const kAccess = "The user needs read and write access to /dev/infiniband/uverbs*. ";
  const Case cases[] = {
      {ENOMEM, "Cannot allocate memory", kLimit, GSHMEMX_ERROR_OUT_OF_MEMORY},
      {EAGAIN, "Resource temporarily unavailable", kLimit, GSHMEMX_ERROR_OUT_OF_MEMORY},
      {EPERM, "Operation not permitted", kAccess, GSHMEMX_ERROR_NIC},
      {EACCES, "Permission denied", kAccess, GSHMEMX_ERROR_NIC},
      {EFAULT, "Bad address", "", GSHMEMX_ERROR_NIC},
      {0, "failed without an error number", "", GSHMEMX_ERROR_NIC}};
  for (const Case& each : cases) {
    fake_verbs_reset();
    Setup setup;
    const std::unique_ptr<Mlx5Nic> nic = setup.open();
    fake_verbs().fail_errno = each.error;
    const auto check = [&](const char* call, const Region& region, const char* use,
                           const std::function<void()>& enter) {
      fake_verbs().fail_named = call;
      int code = 0;
      const std::string error = error_of([&] {
        try {
          enter();
        } catch (const Error& thrown) {
          code = thrown.code();
          throw;
        }
      });
      CHECK(error == strprintf("cannot register %lu bytes of host memory at %p for %s: %s: %s. %s",
                               region.bytes, region.base, use, call, each.text, each.advice));
      CHECK(code == each.code);
    };
    const Region heap = setup.memory.heap_region(), queues = setup.memory.queue_region();
    check("ibv_reg_mr_iova2", heap, "remote access", [&] { (void)nic->register_memory(heap); });
    if (each.error == 0) continue;  // for queues, the error number decides what is tried next
    const auto enter = [&] { nic->use_queue_memory(queues); };
    check("mlx5dv_devx_umem_reg_ex", queues, "work queues", enter);
    CHECK(fake_verbs().umem_access == IBV_ACCESS_LOCAL_WRITE);
  }
}

TEST_CASE("error_for_gpu_memory_says_what_it_needs") {
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

#if !defined(GSHMEM_HAVE_CUDA)
#endif

TEST_CASE("a_port_is_tried_alone_and_with_a_page_of_the_heap") {
  fake_verbs_reset();
  fake_verbs().devices = 2;
  Setup setup(config_with({{"GSHMEM_NICS_PER_PE", "2"}}));
  OpenOptions options{.config = setup.config, .boot = *setup.boot, .heap_kind = MemoryKind::kGpu};
  options.heap = setup.memory.heap_region();
  options.heap.kind = MemoryKind::kGpu;
  options.heap.bytes = 1 << 20;
  const Usable usable =
      usable_ports(setup.api, DeviceWish{.config = setup.config, .sysfs = "/nowhere"}, options);
  CHECK(usable.why_not.empty());
  CHECK(fake_verbs().bytes == std::vector<std::size_t>(2, 65536));
  const auto& calls = fake_verbs().calls;
  // Both devices are opened for a look, then each as the only one.
  CHECK(std::count(calls.begin(), calls.end(), "ibv_open_device") == 4);
}

TEST_CASE("other_pes_may_not_access_local_memory") {
  fake_verbs_reset();
  Setup setup(config_with({{"GSHMEM_IB_RELAXED_ORDERING", "1"}}));
  Region local = setup.memory.heap_region();
  local.offset = 3;
  local.local = true;
  (void)setup.open()->register_memory(local);
  CHECK(fake_verbs().access == std::vector<unsigned>{IBV_ACCESS_LOCAL_WRITE});
}

TEST_CASE("only_payload_has_a_key_by_which_pcie_may_reorder") {
  for (const bool relaxed : {false, true}) {
    fake_verbs_reset();
    Setup setup(config_with({{"GSHMEM_IB_RELAXED_ORDERING", relaxed ? "1" : "0"}}));
    const Keys keys = setup.open()->register_memory(setup.memory.heap_region());
    const auto may_reorder = [](std::uint32_t key) {
      return (fake_verbs().access.at(key - 0x55) & IBV_ACCESS_RELAXED_ORDERING) != 0;
    };
    for (const unsigned access : fake_verbs().access)
      CHECK((access & ~unsigned{IBV_ACCESS_RELAXED_ORDERING}) ==
            (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
             IBV_ACCESS_REMOTE_ATOMIC));
    CHECK(may_reorder(keys.remote) == relaxed);
    CHECK_FALSE(may_reorder(keys.atomic));
    CHECK_FALSE(may_reorder(keys.local));
  }
}

TEST_CASE("only_a_port_that_opens_and_reaches_the_heap_is_usable") {
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
