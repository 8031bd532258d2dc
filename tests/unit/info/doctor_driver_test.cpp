#include "tests/unit/info/fake_machine.h"

namespace gshmem::info {
namespace {

constexpr char kOpen[] = "Open Kernel Module for x86_64";
constexpr char kProprietary[] = "x86_64 Kernel Module";

}  // namespace

TEST_CASE("driver_is_good_when_cuda_answers") {
  FakeMachine fake;
  fake.driver(kOpen, "6.8.0");
  fake.cuda_gpu(0, "0000:01:00.0");
  expect_one(check_nvidia_driver(fake.machine), Verdict::kOk, "driver 580.95.05, 1 GPU(s)");
}

TEST_CASE("driver_is_no_subject_without_gpu_but_a_problem_when_asked_for") {
  FakeMachine fake;
  expect_one(check_nvidia_driver(fake.machine), Verdict::kSkipped, "CPU mode");
  fake.machine.config.device = DeviceChoice::kCuda;
  expect_one(check_nvidia_driver(fake.machine), Verdict::kProblem, "modprobe nvidia");
}

TEST_CASE("gpu_without_driver_is_a_problem_whose_fix_depends_on_the_container") {
  FakeMachine fake;
  fake.gpu(kGpu);
  expect_one(check_nvidia_driver(fake.machine), Verdict::kProblem, "0000:01:00.0");
  fake.write("/.dockerenv", "");
  expect_one(check_nvidia_driver(fake.machine), Verdict::kProblem, "--gpus all");
  fake.machine.config.device = DeviceChoice::kCpu;
  expect_one(check_nvidia_driver(fake.machine), Verdict::kSkipped, "GSHMEM_DEVICE=cpu");
}

TEST_CASE("kernel_driver_without_libcuda_and_build_without_cuda_differ") {
  FakeMachine fake;
  fake.gpu(kGpu);
  fake.driver(kOpen, "6.8.0");
  expect_one(check_nvidia_driver(fake.machine), Verdict::kHint, "--preset gpu");
  fake.machine.cuda.built = true;
  expect_one(check_nvidia_driver(fake.machine), Verdict::kProblem, "no driver here");
}

TEST_CASE("kernel_module_is_open_proprietary_or_absent") {
  FakeMachine fake;
  expect_one(check_kernel_module(fake.machine), Verdict::kSkipped, "/proc/driver/nvidia");
  fake.driver(kOpen, "6.8.0");
  expect_one(check_kernel_module(fake.machine), Verdict::kOk, "open kernel module 580.95.05");
  fake.driver(kProprietary, "6.8.0");
  expect_one(check_kernel_module(fake.machine), Verdict::kOk, "proprietary");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  expect_one(check_kernel_module(fake.machine), Verdict::kHint, "nvidia-open");
}

TEST_CASE("dmabuf_needs_gpu_driver_nic_and_kernel") {
  FakeMachine fake;
  expect_one(check_dmabuf(fake.machine), Verdict::kSkipped, "no NVIDIA GPU");
  fake.gpu(kGpu);
  expect_one(check_dmabuf(fake.machine), Verdict::kSkipped, "no NVIDIA driver");
  fake.driver(kOpen, "6.8.0-45-generic");
  expect_one(check_dmabuf(fake.machine), Verdict::kSkipped, "no RDMA device");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  expect_one(check_dmabuf(fake.machine), Verdict::kOk, "6.8.0-45-generic");
  fake.driver(kOpen, "5.4.0");
  expect_one(check_dmabuf(fake.machine), Verdict::kHint, "older than 5.12");
  fake.driver(kProprietary, "6.8.0");
  expect_one(check_dmabuf(fake.machine), Verdict::kHint, "proprietary");
  fake.machine.config.gdr = Switch::kOff;
  expect_one(check_dmabuf(fake.machine), Verdict::kSkipped, "GSHMEM_GDR=off");
  fake.machine.config.nic = NicKind::kMlx5;
  expect_one(check_dmabuf(fake.machine), Verdict::kProblem, "init fails with GSHMEM_NIC=mlx5");
  fake.machine.config.gdr = Switch::kOn;
  for (const NicKind nic : {NicKind::kNone, NicKind::kSoft}) {
    fake.machine.config.nic = nic;
    expect_one(check_dmabuf(fake.machine), Verdict::kSkipped, "GSHMEM_NIC=" + word_of(nic));
  }
}

TEST_CASE("queues_in_gpu_memory_need_a_newer_kernel_than_heaps") {
  FakeMachine fake;
  fake.gpu(kGpu);
  fake.nic("mlx5_0", kNic, "InfiniBand");
  fake.driver(kOpen, "5.15.0-100-generic");
  expect_one(check_dmabuf(fake.machine), Verdict::kOk, "5.15.0");
  fake.machine.config.queue_memory = QueueMemoryChoice::kGpu;
  const Findings findings = check_dmabuf(fake.machine);
  REQUIRE(findings.size() == 2);
  CHECK(findings[1].verdict == Verdict::kHint);
  CHECK_THAT(findings[1].cause, Catch::Contains("older than 6.1"));
  fake.driver(kOpen, "6.1.0-13-amd64");
  expect_one(check_dmabuf(fake.machine), Verdict::kOk, "6.1.0");
}

TEST_CASE("kernels_are_new_enough_by_their_two_first_numbers") {
  FakeMachine fake;
  fake.gpu(kGpu);
  fake.nic("mlx5_0", kNic, "InfiniBand");
  struct Row {
    const char* release;
    bool heaps, queues;
  };
  for (const Row& row :
       {Row{"4.19.1", false, false}, Row{"5.11.22", false, false}, Row{"5.12.0-rc1", true, false},
        Row{"6.0.19", true, false}, Row{"6.1", true, true}, Row{"7.0.1", true, true}}) {
    INFO(row.release);
    fake.driver(kOpen, row.release);
    fake.machine.config.queue_memory = QueueMemoryChoice::kAuto;
    expect_one(check_dmabuf(fake.machine), row.heaps ? Verdict::kOk : Verdict::kHint, row.release);
    fake.machine.config.queue_memory = QueueMemoryChoice::kGpu;
    CHECK(check_dmabuf(fake.machine).size() == (row.heaps && !row.queues ? 2 : 1));
  }
}

TEST_CASE("a_driver_is_named_by_its_version_or_by_what_is_known") {
  FakeMachine fake;
  const auto version = [&](const std::string& line) {
    fake.write("/proc/driver/nvidia/version", "NVRM version: Open Kernel Module " + line + "\n");
    return check_kernel_module(fake.machine).at(0).text;
  };
  CHECK(version("for x86_64 570.1 by 12.2") == "open kernel module 570.1");
  CHECK(version("v1.2 580 9.9x 575.57.08") == "open kernel module 575.57.08");
  CHECK(version("580 v1.2") == "open kernel module of unknown version");
  // Files of the driver without a GPU, and a GPU that answers without them.
  expect_one(check_nvidia_driver(fake.machine), Verdict::kHint, "of unknown version");
  std::filesystem::remove_all(fake.machine.at("/proc/driver/nvidia"));
  fake.machine.config.device = DeviceChoice::kCuda;
  expect_one(check_nvidia_driver(fake.machine), Verdict::kProblem, "cuda: no GPU is seen");
  fake.cuda_gpu(0, "0000:01:00.0");
  expect_one(check_nvidia_driver(fake.machine), Verdict::kOk, "driver answers, 1 GPU(s)");
}

TEST_CASE("dmabuf_believes_cuda_more_than_the_module") {
  FakeMachine fake;
  fake.driver(kProprietary, "6.8.0");
  CudaGpu& gpu = fake.cuda_gpu(0, "0000:01:00.0");
  expect_one(check_dmabuf(fake.machine), Verdict::kSkipped, "no RDMA device");
  expect_one(check_dmabuf(fake.machine), Verdict::kSkipped, "all GPUs export dma-buf");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  expect_one(check_dmabuf(fake.machine), Verdict::kOk, "all GPUs export");
  gpu.dma_buf = false;
  expect_one(check_dmabuf(fake.machine), Verdict::kHint, "DMA_BUF_SUPPORTED = 0");
  gpu.dma_buf = true;
  gpu.gpudirect_rdma = false;
  const Findings findings = check_dmabuf(fake.machine);
  REQUIRE(findings.size() == 2);
  CHECK(findings[1].verdict == Verdict::kProblem);
}

TEST_CASE("peermem_is_needed_only_without_dmabuf") {
  FakeMachine fake;
  expect_one(check_peermem(fake.machine), Verdict::kSkipped, "no NVIDIA GPU");
  fake.gpu(kGpu);
  fake.nic("mlx5_0", kNic, "InfiniBand");
  fake.driver(kOpen, "6.8.0");
  expect_one(check_peermem(fake.machine), Verdict::kOk, "not needed");
  fake.driver(kProprietary, "6.8.0");
  expect_one(check_peermem(fake.machine), Verdict::kProblem, "modprobe nvidia-peermem");
  expect_one(check_peermem(fake.machine), Verdict::kProblem, "staged through host memory");
  fake.machine.config.nic = NicKind::kMlx5;
  expect_one(check_peermem(fake.machine), Verdict::kProblem, "init fails with GSHMEM_NIC=mlx5");
  fake.machine.config.nic = NicKind::kAuto;
  fake.write("/sys/module/nv_peer_mem/version", "1.1");
  expect_one(check_peermem(fake.machine), Verdict::kProblem, "GSHMEM_QUEUE_MEMORY=host");
  fake.write("/sys/module/nvidia_peermem/version", "580");
  expect_one(check_peermem(fake.machine), Verdict::kOk, "is loaded");
}

TEST_CASE("the_legacy_peermem_does_no_harm_beside_dmabuf") {
  FakeMachine fake;
  fake.gpu(kGpu);
  fake.nic("mlx5_0", kNic, "InfiniBand");
  fake.driver(kOpen, "6.8.0");
  fake.write("/sys/module/nv_peer_mem/version", "1.1");
  expect_one(check_peermem(fake.machine), Verdict::kOk, "superfluous");
}

TEST_CASE("doorbell_needs_the_registry_key_or_sys_admin_or_the_agent") {
  FakeMachine fake;
  expect_one(check_doorbell(fake.machine), Verdict::kSkipped, "no NVIDIA GPU");
  fake.gpu(kGpu);
  expect_one(check_doorbell(fake.machine), Verdict::kSkipped, "no mlx5 NIC");
  fake.nic("rocep2s0", kNic, "Ethernet");  // as udev renames them
  expect_one(check_doorbell(fake.machine), Verdict::kSkipped, "not readable");
  fake.write("/proc/driver/nvidia/params", "EnableMSI: 1\nRegistryDwords: \"\"\n");
  fake.capabilities(kNoCapabilities);
  expect_one(check_doorbell(fake.machine), Verdict::kProblem, "/etc/modprobe.d/gshmem.conf");
  fake.capabilities(kAllCapabilities);
  expect_one(check_doorbell(fake.machine), Verdict::kOk, "CAP_SYS_ADMIN");
  fake.write("/proc/self/uid_map", "0 1000 1\n");  // a rootless container's root
  expect_one(check_doorbell(fake.machine), Verdict::kProblem, "GSHMEM_DOORBELL=agent");
  fake.write("/proc/driver/nvidia/params", "RegistryDwords: \"PeerMappingOverride=1;\"\n");
  expect_one(check_doorbell(fake.machine), Verdict::kOk, "without root");
  fake.write("/proc/driver/nvidia/params", "RegistryDwords: \"\"\n");
  fake.machine.config.doorbell = DoorbellChoice::kAgent;
  expect_one(check_doorbell(fake.machine), Verdict::kOk, "agent");
  fake.machine.config.nic = NicKind::kOfi;
  expect_one(check_doorbell(fake.machine), Verdict::kSkipped, "GSHMEM_NIC=ofi");
}

}  // namespace gshmem::info
