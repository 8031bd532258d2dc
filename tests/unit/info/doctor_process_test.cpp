#include "host/tools/info/report.h"
#include "tests/unit/info/fake_machine.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <utility>

namespace gshmem::info {
TEST_CASE("bad_and_unknown_variables_are_named") {
  FakeMachine fake;
  expect_one(check_variables(fake.machine), Verdict::kOk, "defaults");
  fake.machine.variables = {{"GSHMEM_TIMEOUT", "60", "1800", "", "", "GSHMEM_TIMEOUT"}};
  expect_one(check_variables(fake.machine), Verdict::kOk, "set: GSHMEM_TIMEOUT");
  fake.machine.variables = {{"GSHMEM_TIMEOUT", "abc", "1800", "", "", "GSHMEM_TIMEOUT"}};
  expect_one(check_variables(fake.machine), Verdict::kProblem, "GSHMEM_TIMEOUT=\"abc\"");
  fake.machine.variables.push_back({"GSHMEM_TEAMS", "8", "32", "", "", "GSHMEM_TEAMS"});
  expect_one(check_variables(fake.machine), Verdict::kProblem, "unset GSHMEM_TIMEOUT");
  fake.machine.variables[0] = {"GSHMEM_TIMEOUT", "60", "1800", "", "", "GSHMEM_TIMEOUT"};
  expect_one(check_variables(fake.machine), Verdict::kOk, "set: GSHMEM_TIMEOUT, GSHMEM_TEAMS");
  fake.machine.variables.clear();
  fake.machine.unknown_names = {"GSHMEM_X is not a variable of gshmem"};
  expect_one(check_variables(fake.machine), Verdict::kHint, "unset GSHMEM_X");
  fake.machine.unknown_names = {"NVSHMEM_QP_DEPTH=\"8\" is left alone"};
  expect_one(check_variables(fake.machine), Verdict::kHint, "unset NVSHMEM_QP_DEPTH");
}

TEST_CASE("memlock_counts_with_a_nic_and_without_the_capability") {
  FakeMachine fake;
  expect_one(check_memlock(fake.machine), Verdict::kOk, "unlimited");
  fake.machine.memlock = {.soft = 8u << 20, .hard = 8u << 20};
  expect_one(check_memlock(fake.machine), Verdict::kOk, "without an RDMA device");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  expect_one(check_memlock(fake.machine), Verdict::kProblem, "/etc/security/limits.d");
  fake.machine.memlock.soft = Limit::kUnlimited;
  expect_one(check_memlock(fake.machine), Verdict::kOk, "RLIMIT_MEMLOCK unlimited");
  fake.machine.memlock.soft = 8u << 20;
  fake.write("/run/.containerenv", "");
  expect_one(check_memlock(fake.machine), Verdict::kProblem, "--ulimit memlock=-1");
  fake.environment["SLURM_JOB_ID"] = "12";
  expect_one(check_memlock(fake.machine), Verdict::kProblem,
             "PropagateResourceLimitsExcept=MEMLOCK");
  fake.capabilities(kAllCapabilities);
  expect_one(check_memlock(fake.machine), Verdict::kOk, "CAP_IPC_LOCK lifts");
}

TEST_CASE("few_open_files_are_a_hint") {
  FakeMachine fake;
  expect_one(check_open_files(fake.machine), Verdict::kOk, "unlimited");
  fake.machine.open_files = {.soft = 1024, .hard = 524288};
  expect_one(check_open_files(fake.machine), Verdict::kHint, "ulimit -n 65536");
  fake.machine.open_files.hard = 2048;
  expect_one(check_open_files(fake.machine), Verdict::kHint, "--ulimit nofile");
}

TEST_CASE("open_files_are_enough_from_4096_on") {
  FakeMachine fake;
  struct Row {
    std::uint64_t soft, hard;
    Verdict verdict;
    const char* part;
  };
  for (const Row& row : {Row{4096, 4096, Verdict::kOk, "RLIMIT_NOFILE 4096"},
                         {4095, 4095, Verdict::kHint, "hard limit 4095docker run --ulimit nofile"},
                         {1024, 4096, Verdict::kHint, "ulimit -n 4096"},
                         {1024, 1 << 20, Verdict::kHint, "ulimit -n 65536"},
                         {64, Limit::kUnlimited, Verdict::kHint, "is 64, hard limit unlimited"}}) {
    fake.machine.open_files = {.soft = row.soft, .hard = row.hard};
    expect_one(check_open_files(fake.machine), row.verdict, row.part);
  }
}

TEST_CASE("dev_shm_of_docker_is_a_hint") {
  FakeMachine fake;
  expect_one(check_dev_shm(fake.machine), Verdict::kSkipped, "no /dev/shm");
  fake.shm_bytes = 64u << 20;
  expect_one(check_dev_shm(fake.machine), Verdict::kHint, "--shm-size=8g");
  fake.shm_bytes = (64u << 20) + 1;
  expect_one(check_dev_shm(fake.machine), Verdict::kOk, "64 MiB");
  fake.shm_bytes = 8ull << 30;
  expect_one(check_dev_shm(fake.machine), Verdict::kOk, "8 GiB");
}

TEST_CASE("memory_of_heaps_is_held_against_cgroup_and_machine") {
  FakeMachine fake;
  expect_one(check_memory(fake.machine), Verdict::kSkipped, "neither");
  fake.write("/proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable:   16777216 kB\n");
  expect_one(check_memory(fake.machine), Verdict::kOk, "1 GiB of 16 GiB (MemAvailable)");
  fake.environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "8";
  fake.write("/proc/self/cgroup", "0::/user/job\n");
  fake.write("/sys/fs/cgroup/user/job/memory.max", "max\n");
  fake.write("/sys/fs/cgroup/user/memory.max", "34359738368\n");
  expect_one(check_memory(fake.machine), Verdict::kOk, "8 GiB of 16 GiB (MemAvailable)");
  fake.write("/sys/fs/cgroup/user/memory.max", "4294967296\n");
  expect_one(check_memory(fake.machine), Verdict::kHint, "8 GiB of 4 GiB (cgroup memory.max)");
  expect_one(check_memory(fake.machine), Verdict::kHint, "GSHMEM_SYMMETRIC_SIZE=384M");
  fake.cuda_gpu(0, "0000:01:00.0");
  expect_one(check_memory(fake.machine), Verdict::kSkipped, "GPU memory");
}

TEST_CASE("heaps_may_take_all_memory_and_are_as_many_as_launchers_say") {
  FakeMachine fake;
  fake.write("/proc/meminfo", "MemAvailable: 1048576 kB\n");
  expect_one(check_memory(fake.machine), Verdict::kOk, "1 PE(s) here: 1 GiB of 1 GiB");
  fake.write("/proc/meminfo", "MemAvailable: 1048575 kB\n");
  expect_one(check_memory(fake.machine), Verdict::kHint, "GSHMEM_SYMMETRIC_SIZE=767M");
  const std::pair<const char*, const char*> tasks[] = {{"2(x3)", "2 PE(s)"},
                                                       {"1", "1 PE(s)"},
                                                       {"0", "1 PE(s)"},
                                                       {"-1", "1 PE(s)"},
                                                       {"?", "1 PE(s)"}};
  for (const auto& [text, part] : tasks) {
    fake.environment["SLURM_STEP_TASKS_PER_NODE"] = text;
    expect_one(check_memory(fake.machine), Verdict::kHint, part);
  }
  // A process of mpirun within a step of Slurm is one of mpirun's.
  fake.environment["SLURM_STEP_TASKS_PER_NODE"] = "2(x3)";
  fake.environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  expect_one(check_memory(fake.machine), Verdict::kHint, "1 PE(s)");
  fake.environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "3";
  expect_one(check_memory(fake.machine), Verdict::kHint, "3 PE(s) here: 3 GiB");
  fake.cuda_gpu(0, "0000:01:00.0");
  fake.machine.config.device = DeviceChoice::kCpu;
  expect_one(check_memory(fake.machine), Verdict::kHint, "3 PE(s)");
}

TEST_CASE("bytes_are_written_for_people") {
  CHECK(bytes_text(0) == "0 bytes");
  CHECK(bytes_text(8u << 20) == "8 MiB");
  CHECK(bytes_text(3ull << 29) == "1.5 GiB");
  CHECK(bytes_text(1023) == "1023 bytes");
  CHECK(bytes_text(1024) == "1 KiB");
  CHECK(bytes_text(1ull << 60) == "1 EiB");
  CHECK(bytes_text(Limit::kUnlimited - 1) == "16 EiB");  // no number has a larger unit
  CHECK(bytes_text(Limit::kUnlimited) == "unlimited");
}

TEST_CASE("capabilities_count_in_the_first_user_namespace") {
  struct Row {
    const char *effective, *map;
    bool lock, admin;
  };
  FakeMachine fake;
  for (const Row& row : {Row{"0000000000004000", "0 0 4294967295", true, false},
                         Row{"0000000000200000", "0 0 4294967295", false, true},
                         Row{"ffffffffffdfbfff", "0 0 4294967295", false, false},
                         Row{kAllCapabilities, "0 0 4294967294", false, false},
                         Row{kAllCapabilities, "1 0 4294967295", false, false},
                         Row{kAllCapabilities, "0 1 4294967295", false, false}}) {
    INFO(row.effective << ", " << row.map);
    fake.capabilities(row.effective);
    fake.write("/proc/self/uid_map", row.map);
    CHECK(has_capability(fake.machine, Capability::kIpcLock) == row.lock);
    CHECK(has_capability(fake.machine, Capability::kSysAdmin) == row.admin);
  }
}

TEST_CASE("each_mark_of_a_container_is_enough") {
  for (const char* mark : {"", "/.dockerenv", "/run/.containerenv", "/.singularity.d/x"}) {
    FakeMachine fake;
    CHECK_FALSE(in_container(fake.machine));
    if (*mark != 0)
      fake.write(mark, "");
    else
      fake.environment["KUBERNETES_SERVICE_HOST"] = "";
    CHECK(in_container(fake.machine));
  }
}

TEST_CASE("this_machine_is_what_the_kernel_says") {
  REQUIRE(setenv("GSHMEM_TIMEOUT", "soon", 1) == 0);
  // Not what a Machine has before anybody has looked.
  rlimit usual{};
  REQUIRE(getrlimit(RLIMIT_MEMLOCK, &usual) == 0);
  const rlimit low{std::min<rlim_t>(usual.rlim_cur, 1 << 16), usual.rlim_max};
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &low) == 0);
  REQUIRE(setenv("GSHMEM_SYMETRIC_SIZE", "1M", 1) == 0);
  const Machine machine = this_machine();
  REQUIRE(unsetenv("GSHMEM_SYMETRIC_SIZE") == 0);
  CHECK(machine.memlock.soft == low.rlim_cur);
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &usual) == 0);
  REQUIRE(unsetenv("GSHMEM_TIMEOUT") == 0);
  CHECK(machine.cuda.why_none == why_no_gpu());
  CHECK(machine.config.timeout == FakeMachine().machine.config.timeout);
  CHECK(machine.variables.size() > 30);
  CHECK(std::ranges::any_of(machine.unknown_names, [](const std::string& name) {
    return name.starts_with("GSHMEM_SYMETRIC_SIZE ");
  }));
  // The page of the build says the same.
  const std::vector<Fact> build = collect("/nowhere").build;
  const auto pmix = std::ranges::find(build, "pmix", &Fact::name);
  REQUIRE(pmix != build.end());
  CHECK(machine.built_with_pmix == (pmix->value != "no"));
  utsname names{};
  REQUIRE(uname(&names) == 0);
  CHECK(machine.host == names.nodename);
  CHECK(machine.architecture == names.machine);
  for (const auto& [limit, resource] :
       {std::pair{this_machine().memlock, RLIMIT_MEMLOCK}, {machine.open_files, RLIMIT_NOFILE}}) {
    rlimit now{};
    REQUIRE(getrlimit(resource, &now) == 0);
    CHECK(limit.soft == (now.rlim_cur == RLIM_INFINITY ? Limit::kUnlimited : now.rlim_cur));
    CHECK(limit.hard == (now.rlim_max == RLIM_INFINITY ? Limit::kUnlimited : now.rlim_max));
  }
  CHECK(std::string(machine.env("PATH")) == getenv("PATH"));
  CHECK(machine.open_errno("/dev/null") == 0);
  CHECK(machine.open_errno("/nowhere") == ENOENT);
  struct statvfs volume {};
  REQUIRE(statvfs("/dev", &volume) == 0);
  CHECK(machine.volume_bytes("/dev") == std::uint64_t{volume.f_blocks} * volume.f_frsize);
  CHECK_FALSE(machine.volume_bytes("/nowhere"));
  const Library library = machine.library("libc.so.6", {"malloc", "no_such_function"});
  CHECK(std::filesystem::path(library.file).filename() == "libc.so.6");
  CHECK(std::filesystem::exists(library.file));
  CHECK(library.missing == std::vector<std::string>{"no_such_function"});
  CHECK(contains(machine.library("libnowhere.so.1", {}).why_not, "libnowhere.so.1"));
}

TEST_CASE("launcher_without_pmix_is_a_problem") {
  FakeMachine fake;
  expect_one(check_launcher(fake.machine), Verdict::kOk, "without a launcher");
  fake.environment = {{"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_NUM_TASKS", "4"}};
  expect_one(check_launcher(fake.machine), Verdict::kProblem, "srun --mpi=pmix");
  fake.environment["PMIX_RANK"] = "3";
  expect_one(check_launcher(fake.machine), Verdict::kOk, "srun (job 7) as PMIx rank 3");
  fake.environment = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}};
  expect_one(check_launcher(fake.machine), Verdict::kProblem, "PMI_SIZE=2");
  fake.machine.config.uid_address = "h:1";
  expect_one(check_launcher(fake.machine), Verdict::kOk, "GSHMEM_UID_ADDRESS=h:1");
}

TEST_CASE("launchers_are_told_apart_by_their_variables") {
  using Variables = std::map<std::string, std::string>;
  const Variables open_mpi{{"OMPI_COMM_WORLD_SIZE", "1"}}, hydra{{"PMI_RANK", "0"}},
      srun{{"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "7"}}, pmix{{"PMIX_RANK", "3"}};
  struct Row {
    std::vector<Variables> set;
    const char* text;
  };
  const Row rows[] = {{{open_mpi}, "started by Open MPI's mpirun"},
                      {{hydra}, "started by a PMI launcher (hydra)"},
                      {{srun}, "started by srun (job 7)"},
                      {{srun, hydra}, "started by srun (job 7)"},
                      {{open_mpi, srun}, "started by srun (job 7)"},
                      {{open_mpi, pmix}, "started by Open MPI's mpirun as PMIx rank 3"},
                      {{pmix}, "started by a PMIx launcher as PMIx rank 3"},
                      {{hydra, pmix}, "started by a PMI launcher (hydra) as PMIx rank 3"}};
  FakeMachine fake;
  for (const Row& row : rows) {
    fake.environment.clear();
    for (const Variables& some : row.set) fake.environment.insert(some.begin(), some.end());
    const Findings findings = check_launcher(fake.machine);
    expect_one(findings, Verdict::kOk, row.text);
    CHECK(findings[0].text == row.text);
  }
  fake.environment = {{"OMPI_COMM_WORLD_SIZE", "2"}};
  expect_one(check_launcher(fake.machine), Verdict::kProblem, "Open MPI's mpirun; or GSHMEM");
}

TEST_CASE("pmix_is_a_problem_only_where_it_is_needed") {
  FakeMachine fake;
  expect_one(check_pmix(fake.machine), Verdict::kHint, "libpmix2");
  fake.environment["PMIX_RANK"] = "0";
  expect_one(check_pmix(fake.machine), Verdict::kProblem, "cannot load");
  fake.libraries["libpmix.so.2"] = {.file = "/lib/libpmix.so.2.9.3", .why_not = "", .missing = {}};
  expect_one(check_pmix(fake.machine), Verdict::kOk, "2.9.3");
  fake.machine.built_with_pmix = false;
  expect_one(check_pmix(fake.machine), Verdict::kHint, "built without PMIx");
}

TEST_CASE("mpirun_is_looked_for_in_path") {
  FakeMachine fake;
  expect_one(check_mpirun(fake.machine), Verdict::kHint, "openmpi-bin");
  fake.write("/opt/bin/mpirun", "");
  fake.environment["PATH"] = "/nowhere:" + fake.machine.at("/opt/bin").string();
  expect_one(check_mpirun(fake.machine), Verdict::kOk, "/opt/bin/mpirun");
  std::filesystem::remove_all(fake.machine.at("/opt/bin/mpirun"));
  fake.write("/opt/bin/mpirun/a_folder", "");
  expect_one(check_mpirun(fake.machine), Verdict::kHint, "openmpi-bin");
  fake.write("/opt/bin/srun", "");
  fake.write("/opt/bin/prterun", "");
  const std::string bin = fake.machine.at("/opt/bin").string();
  expect_one(check_mpirun(fake.machine), Verdict::kOk, bin + "/prterun, " + bin + "/srun");
}

TEST_CASE("verbs_libraries_must_be_there_and_new_enough_for_a_nic") {
  FakeMachine fake;
  expect_one(check_verbs_libraries(fake.machine), Verdict::kSkipped, "no mlx5 NIC");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  const auto verdicts = [&] {
    std::vector<Verdict> all;
    for (const Finding& finding : check_verbs_libraries(fake.machine)) {
      all.push_back(finding.verdict);
    }
    return all;
  };
  CHECK(verdicts() == std::vector{Verdict::kProblem, Verdict::kProblem});
  fake.libraries["libibverbs.so.1"] = {.file = "libibverbs.so.1.14", .why_not = "", .missing = {}};
  fake.libraries["libmlx5.so.1"] = {
      .file = "libmlx5.so.1.18", .why_not = "", .missing = {"mlx5dv_devx_umem_reg_ex"}};
  CHECK(verdicts() == std::vector{Verdict::kOk, Verdict::kProblem});
  CHECK_THAT(check_verbs_libraries(fake.machine)[1].text, Catch::Contains("work queues"));
  CHECK_THAT(check_verbs_libraries(fake.machine)[1].cause, Catch::Contains("older than 35"));
  fake.libraries["libmlx5.so.1"].missing.clear();
  CHECK(verdicts() == std::vector{Verdict::kOk, Verdict::kOk});
  fake.libraries["libibverbs.so.1"].missing = {"ibv_reg_dmabuf_mr"};
  CHECK_THAT(check_verbs_libraries(fake.machine)[0].text, Catch::Contains("heaps in GPU memory"));
  CHECK_THAT(check_verbs_libraries(fake.machine)[0].cause, Catch::Contains("older than 34"));
}

TEST_CASE("libfabric_is_optional") {
  FakeMachine fake;
  expect_one(check_libfabric(fake.machine), Verdict::kSkipped, "only GSHMEM_NIC=ofi");
  fake.machine.config.nic = NicKind::kOfi;
  expect_one(check_libfabric(fake.machine), Verdict::kProblem, "libfabric1");
  fake.libraries["libfabric.so.1"] = {.file = "libfabric.so.1.20", .why_not = "", .missing = {}};
  expect_one(check_libfabric(fake.machine), Verdict::kOk, "1.20");
}

TEST_CASE("libfabric_needs_the_cuda_runtime_by_its_plain_name") {
  FakeMachine fake;
  fake.libraries["libfabric.so.1"] = {.file = "libfabric.so.1.20", .why_not = "", .missing = {}};
  fake.gpu(kGpu);
  const auto second = [&](Verdict verdict, const std::string& part) {
    const Findings findings = check_libfabric(fake.machine);
    REQUIRE(findings.size() == 2);
    expect_one({findings[1]}, verdict, part);
  };
  second(Verdict::kHint, "install the CUDA runtime");
  fake.libraries["libcudart.so.12"] = {
      .file = "/c/lib/libcudart.so.12.8", .why_not = "", .missing = {}};
  second(Verdict::kHint, "ln -s libcudart.so.12 /c/lib/libcudart.so");
  fake.libraries["libcudart.so.13"] = {
      .file = "/d/lib/libcudart.so.13.0", .why_not = "", .missing = {}};
  second(Verdict::kHint, "ln -s libcudart.so.13 /d/lib/libcudart.so");
  fake.machine.config.gdr = Switch::kOn;
  second(Verdict::kProblem, "GSHMEM_GDR=on");
  fake.libraries["libcudart.so"] = {
      .file = "/c/lib/libcudart.so.12.8", .why_not = "", .missing = {}};
  second(Verdict::kOk, "heaps in GPU memory");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  expect_one(check_libfabric(fake.machine), Verdict::kOk, "1.20");
  fake.machine.config.nic = NicKind::kOfi;
  second(Verdict::kOk, "heaps in GPU memory");
  fake.machine.config.gdr = Switch::kOff;
  expect_one(check_libfabric(fake.machine), Verdict::kOk, "1.20");
}

TEST_CASE("jobs_on_slingshot_need_a_vni") {
  FakeMachine fake;
  fake.libraries["libfabric.so.1"] = {.file = "libfabric.so.1.20", .why_not = "", .missing = {}};
  fake.environment["PMIX_RANK"] = "0";
  expect_one(check_libfabric(fake.machine), Verdict::kOk, "1.20");
  fake.write("/sys/class/cxi/cxi0/uevent", "");
  Findings findings = check_libfabric(fake.machine);
  REQUIRE(findings.size() == 2);
  expect_one({findings[1]}, Verdict::kHint, "FI_CXI_DEFAULT_VNI=");
  for (const char* name : {"FI_CXI_DEFAULT_VNI", "SLINGSHOT_VNIS"}) {
    fake.environment[name] = "1024";
    findings = check_libfabric(fake.machine);
    REQUIRE(findings.size() == 2);
    expect_one({findings[1]}, Verdict::kOk, std::string(name) + "=1024");
  }
  fake.environment.erase("PMIX_RANK");  // no launcher
  expect_one(check_libfabric(fake.machine), Verdict::kOk, "1.20");
}

TEST_CASE("gdrcopy_needs_library_symbols_and_device_and_is_optional") {
  FakeMachine fake;
  expect_one(check_gdrcopy(fake.machine), Verdict::kSkipped, "no NVIDIA GPU");
  fake.gpu("pci0000:00/0000:00:01.0/0000:1b:00.0");
  expect_one(check_gdrcopy(fake.machine), Verdict::kSkipped, "not installed");
  fake.machine.config.gdrcopy = Switch::kOn;
  expect_one(check_gdrcopy(fake.machine), Verdict::kProblem, "libgdrapi of GDRCopy 2");
  expect_one(check_gdrcopy(fake.machine), Verdict::kProblem, "init fails on GPUs");
  fake.machine.config.gdrcopy = Switch::kAuto;
  Library& library = fake.libraries["libgdrapi.so.2"];
  library = {.file = "libgdrapi.so.2.4", .why_not = "", .missing = {}};
  expect_one(check_gdrcopy(fake.machine), Verdict::kHint, "modprobe gdrdrv");
  expect_one(check_gdrcopy(fake.machine), Verdict::kHint, "by the copy engine alone");
  fake.write("/.dockerenv", "");
  expect_one(check_gdrcopy(fake.machine), Verdict::kHint, "docker run --device=/dev/gdrdrv");
  fake.write("/dev/gdrdrv", "");
  expect_one(check_gdrcopy(fake.machine), Verdict::kOk, "libgdrapi.so.2.4");
  library.missing = {"gdr_get_info_v2"};
  expect_one(check_gdrcopy(fake.machine), Verdict::kHint, "lacks gdr_get_info_v2");
  library.missing.clear();
  fake.machine.open_errno = [](const std::filesystem::path&) { return EACCES; };
  expect_one(check_gdrcopy(fake.machine), Verdict::kHint, "chmod 666 /dev/gdrdrv");
  fake.machine.config.gdrcopy = Switch::kOn;
  expect_one(check_gdrcopy(fake.machine), Verdict::kProblem, "Permission denied");
  library = {.file = "", .why_not = "cannot load", .missing = {}};
  fake.machine.config.gdrcopy = Switch::kAuto;
  expect_one(check_gdrcopy(fake.machine), Verdict::kHint, "cannot load");
  fake.machine.config.gdrcopy = Switch::kOff;
  expect_one(check_gdrcopy(fake.machine), Verdict::kSkipped, "GSHMEM_GDRCOPY=off");
}

}  // namespace gshmem::info
