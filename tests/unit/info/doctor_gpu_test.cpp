#include "tests/unit/info/fake_machine.h"

namespace gshmem::info {
namespace {

/// BARs as an H200's: 64 MiB registers, the window to memory, 32 MiB.
std::string resources(const std::string& window) {
  return "0x0000000044000000 0x0000000047ffffff 0x000000000014220c\n"
         "0x0000000000000000 0x0000000000000000 0x0000000000000000\n" +
         window +
         "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
         "0x0000000048000000 0x0000000049ffffff 0x000000000014220c\n"
         "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
}
constexpr char k256GiB[] = "0x0000200000000000 0x0000203fffffffff 0x000000000014220c\n";
constexpr char k256MiB[] = "0x0000000030000000 0x000000003fffffff 0x000000000014220c\n";

}  // namespace

TEST_CASE("bar1_must_hold_the_heaps_where_a_nic_reads_them") {
  FakeMachine fake;
  expect_one(check_bar1(fake.machine), Verdict::kSkipped, "no NVIDIA GPU");
  fake.gpu(kGpu, {{"resource", resources(k256GiB)}});
  expect_one(check_bar1(fake.machine), Verdict::kSkipped, "BAR1 256 GiB, but no RDMA device");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  expect_one(check_bar1(fake.machine), Verdict::kOk, "BAR1 256 GiB, heaps on it 1 GiB");
  fake.gpu(kGpu, {{"resource", resources(k256MiB)}});
  expect_one(check_bar1(fake.machine), Verdict::kProblem, "GSHMEM_SYMMETRIC_SIZE=192M");
  fake.machine.config.max_pes_per_gpu = 3;
  expect_one(check_bar1(fake.machine), Verdict::kProblem, "GSHMEM_SYMMETRIC_SIZE=64M");
  fake.machine.config.max_pes_per_gpu = 1;
  fake.machine.config.symmetric_size = 256u << 20;
  expect_one(check_bar1(fake.machine), Verdict::kProblem, "cannot hold");
  --fake.machine.config.symmetric_size;
  expect_one(check_bar1(fake.machine), Verdict::kOk, "BAR1 256 MiB");
  // The sixth is a BAR, what follows is not.
  const std::string none = "0x0 0x0 0x0\n";
  fake.gpu(kGpu, {{"resource", none + none + none + none + none + k256MiB + k256GiB}});
  expect_one(check_bar1(fake.machine), Verdict::kOk, "BAR1 256 MiB");
  fake.gpu(kGpu, {{"resource", none + none}});
  expect_one(check_bar1(fake.machine), Verdict::kSkipped, "no resource file");
  fake.gpu(kGpu, {{"resource", ""}});
  expect_one(check_bar1(fake.machine), Verdict::kSkipped, "no resource file");
}

TEST_CASE("bar1_counts_all_pes_of_a_gpu") {
  FakeMachine fake;
  fake.gpu(kGpu, {{"resource", resources(k256GiB)}});
  fake.nic("mlx5_0", kNic, "InfiniBand");
  fake.machine.config.symmetric_size = std::uint64_t{100} << 30;
  CHECK(check_bar1(fake.machine)[0].verdict == Verdict::kOk);
  fake.machine.config.max_pes_per_gpu = 3;
  expect_one(check_bar1(fake.machine), Verdict::kProblem, "300 GiB");
}

TEST_CASE("peer_access_is_named_pair_by_pair") {
  FakeMachine fake;
  expect_one(check_peer_access(fake.machine), Verdict::kSkipped, "no driver here");
  fake.cuda_gpu(0, "0000:01:00.0").info.peer_access = {true, true};
  expect_one(check_peer_access(fake.machine), Verdict::kSkipped, "one GPU");
  fake.cuda_gpu(1, "0000:02:00.0").info.peer_access = {true, true};
  for (CudaGpu& gpu : fake.machine.cuda.gpus) gpu.info.peer_atomics = {true, true};
  expect_one(check_peer_access(fake.machine), Verdict::kOk, "NVLink");
  fake.machine.cuda.gpus[0].info.peer_atomics = {true, false};
  expect_one(check_peer_access(fake.machine), Verdict::kProblem, "PEs on GPUs 0-1 go by a network");
  fake.machine.cuda.gpus[1].info.peer_access = {false, true};
  expect_one(check_peer_access(fake.machine), Verdict::kProblem,
             "GPU 1 cannot map memory of GPU 0");
}

TEST_CASE("memory_calls_are_synchronous_by_the_context_from_cuda_12_1_on") {
  FakeMachine fake;
  expect_one(check_memory_calls(fake.machine), Verdict::kSkipped, "no driver here");
  fake.cuda_gpu(0, "0000:01:00.0");
  expect_one(check_memory_calls(fake.machine), Verdict::kHint, "older than CUDA 12.1");
  fake.machine.cuda.sync_memops = true;
  expect_one(check_memory_calls(fake.machine), Verdict::kOk, "CU_CTX_SYNC_MEMOPS");
}

TEST_CASE("gpus_that_do_not_order_inbound_writes_are_named") {
  FakeMachine fake;
  expect_one(check_inbound_writes(fake.machine), Verdict::kSkipped, "no driver here");
  CudaGpu& gpu = fake.cuda_gpu(3, "0000:01:00.0");
  expect_one(check_inbound_writes(fake.machine), Verdict::kProblem, "GPU 3: over GSHMEM_NIC=mlx5");
  gpu.orders_writes = true;
  expect_one(check_inbound_writes(fake.machine), Verdict::kOk, "order");
  fake.cuda_gpu(5, "0000:02:00.0");
  expect_one(check_inbound_writes(fake.machine), Verdict::kProblem, "GPU 5: over");
}

TEST_CASE("compute_mode_matters_with_several_pes_per_gpu") {
  FakeMachine fake;
  expect_one(check_compute_mode(fake.machine), Verdict::kSkipped, "no driver here");
  CudaGpu& gpu = fake.cuda_gpu(0, "0000:01:00.0");
  expect_one(check_compute_mode(fake.machine), Verdict::kOk, "Default");
  gpu.mode = ComputeMode::kExclusiveProcess;
  expect_one(check_compute_mode(fake.machine), Verdict::kOk, "one PE per GPU suits");
  fake.machine.config.max_pes_per_gpu = 2;
  expect_one(check_compute_mode(fake.machine), Verdict::kProblem, "nvidia-cuda-mps-control");
  gpu.mps = true;
  expect_one(check_compute_mode(fake.machine), Verdict::kOk, "MPS");
  gpu.mode = ComputeMode::kProhibited;
  expect_one(check_compute_mode(fake.machine), Verdict::kProblem,
             "nvidia-smi -i 0000:01:00.0 -c DEFAULT");
}

TEST_CASE("mig_instances_are_listed") {
  FakeMachine fake;
  expect_one(check_mig(fake.machine), Verdict::kSkipped, "no NVIDIA GPU");
  fake.gpu(kGpu);
  fake.write("/proc/driver/nvidia/capabilities/mig/config", "");
  fake.write("/proc/driver/nvidia/capabilities/gpu0/mig/config", "");
  fake.write("/proc/driver/nvidia/capabilities/nic0/mig/gi1/access", "");
  expect_one(check_mig(fake.machine), Verdict::kOk, "no MIG");
  fake.write("/proc/driver/nvidia/capabilities/gpu0/mig/gi3/access", "");
  expect_one(check_mig(fake.machine), Verdict::kHint, "gpu0/gi3");
}

}  // namespace gshmem::info
