#include "tests/unit/info/fake_machine.h"

#include <cerrno>

namespace gshmem::info {
namespace {

constexpr char kChannel[] = "/dev/nvidia-caps-imex-channels/channel0";
constexpr char kDevices[] = "Character devices:\n  1 mem\n234 nvidia-caps-imex-channels\n";

/// A GPU in a fabric of several hosts.
void gpu_in_fabric(FakeMachine& fake) {
  CudaGpu& gpu = fake.cuda_gpu(0, "0000:01:00.0");
  gpu.fabric_handles = true;
  gpu.fabric.why_none.clear();
}

}  // namespace

TEST_CASE("fabric_handles_matter_where_load_store_reaches_other_hosts") {
  FakeMachine fake;
  expect_one(check_fabric(fake.machine), Verdict::kSkipped, "no driver here");
  CudaGpu& gpu = fake.cuda_gpu(0, "0000:01:00.0");
  expect_one(check_fabric(fake.machine), Verdict::kSkipped, "no GPU here has fabric handles");
  gpu.fabric_handles = true;
  gpu.fabric.why_none = "it ends here";
  expect_one(check_fabric(fake.machine), Verdict::kSkipped, "GPU 0: it ends here");
  gpu.fabric.why_none.clear();
  expect_one(check_fabric(fake.machine), Verdict::kProblem, "go by the network");
  fake.machine.config.fabric = Switch::kOff;
  expect_one(check_fabric(fake.machine), Verdict::kSkipped, "GSHMEM_FABRIC=off");
}

TEST_CASE("fabric_on_is_checked_on_any_gpu") {
  FakeMachine fake;
  fake.machine.config.fabric = Switch::kOn;
  CudaGpu& gpu = fake.cuda_gpu(0, "0000:01:00.0");
  expect_one(check_fabric(fake.machine), Verdict::kProblem, "HANDLE_TYPE_FABRIC_SUPPORTED is 0");
  gpu.fabric_handles = true;
  expect_one(check_fabric(fake.machine), Verdict::kProblem, "GSHMEM_FABRIC=on: init fails");
  fake.write(kChannel, "");
  expect_one(check_fabric(fake.machine), Verdict::kOk, kChannel);  // one host needs no more
}

TEST_CASE("a_missing_imex_channel_has_its_cause") {
  FakeMachine fake;
  gpu_in_fabric(fake);
  expect_one(check_fabric(fake.machine), Verdict::kProblem, "550 or later");
  fake.write("/proc/devices", kDevices);
  expect_one(check_fabric(fake.machine), Verdict::kProblem, "/channel0 c 234 0");
  fake.write("/.dockerenv", "");
  expect_one(check_fabric(fake.machine), Verdict::kProblem, "docker run --device=");
}

TEST_CASE("a_channel_must_open") {
  FakeMachine fake;
  gpu_in_fabric(fake);
  fake.write("/proc/devices", kDevices);
  fake.write("/etc/nvidia-imex/nodes_config.cfg", "10.0.0.1\n10.0.0.2\n");
  fake.write(kChannel, "");
  const auto exists = fake.machine.open_errno;
  fake.machine.open_errno = [](const std::filesystem::path&) { return EACCES; };
  expect_one(check_fabric(fake.machine), Verdict::kProblem, "Permission denied");
  fake.machine.open_errno = exists;
  expect_one(check_fabric(fake.machine), Verdict::kOk, kChannel);
  // What is no channel does not count, and another channel than the first will do.
  fake.write("/dev/nvidia-caps-imex-channels/about", "");
  expect_one(check_fabric(fake.machine), Verdict::kOk, kChannel);
  fake.write("/dev/nvidia-caps-imex-channels/channel5", "");
  fake.machine.open_errno = [](const std::filesystem::path& file) {
    return file.filename() == "channel5" ? 0 : EACCES;
  };
  expect_one(check_fabric(fake.machine), Verdict::kOk, "channel5");
  fake.machine.open_errno = [](const std::filesystem::path&) { return EACCES; };
  expect_one(check_fabric(fake.machine), Verdict::kProblem, "channel0: Permission denied");
  fake.machine.open_errno = exists;
  expect_one(check_fabric(fake.machine), Verdict::kOk, kChannel);  // of several the first
}

TEST_CASE("several_hosts_need_nvidia_imex") {
  FakeMachine fake;
  gpu_in_fabric(fake);
  fake.write(kChannel, "");
  const Findings findings = check_fabric(fake.machine);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].verdict == Verdict::kOk);
  expect_one({findings[1]}, Verdict::kHint, "nodes_config.cfg");
  fake.write("/.dockerenv", "");  // it runs outside
  expect_one(check_fabric(fake.machine), Verdict::kOk, kChannel);
}

}  // namespace gshmem::info
