// Tests GSHMEM_BOOTSTRAP and how "auto" reads the environment. Each case changes the environment of
// its process and restores it.
#include "host/base/net/socket.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/capture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// Sets a variable until the end of the scope.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    setenv(name_.c_str(), value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { unsetenv(name_.c_str()); }

 private:
  std::string name_;
};

Config automatic(double timeout_seconds = 5) {
  Config config = uid_config(timeout_seconds);
  config.bootstrap = BootstrapKind::kAuto;
  config.uid_rank = config.uid_size = -1;
  return config;
}

/// Returns false, and prints the reason, if libpmix is missing or not built in.
bool have_pmix() {
  const Error error = expect_error([] { (void)bootstrap::create_pmix(uid_config(5)); });
  if (error.code() != GSHMEMX_ERROR_NOT_SUPPORTED) return true;
  std::printf("skipped: %s\n", error.what());
  return false;
}

}  // namespace

TEST_CASE("create_auto_without_a_launcher_is_single", "[create]") {
  const auto boot = bootstrap::create(automatic());
  CHECK(std::string(boot->name()) == "single");
  CHECK(boot->size() == 1);
}

// Each process would be a job of one PE, with wrong results and exit status 0.
TEST_CASE("a_process_that_was_launched_as_one_of_several_and_cannot_join_fails", "[create]") {
  struct Row {
    const char *rank, *size, *way_out;
  };
  const Row rows[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun -x GSHMEM_UID"},
                      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun --mpi=pmix"},
                      {"PALS_RANKID", "PALS_LOCAL_SIZE", "mpiexec --pmi=pmix"},
                      {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "flux run -o pmi=pmix"},
                      {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "jsrun -E GSHMEM_UID_ADDRESS"},
                      {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "mpirun_rsh ... GSHMEM_UID"},
                      {"MPIRUN_RANK", "MPIRUN_NPROCS", "mpirun_rsh ... GSHMEM_UID_ADDRESS"},
                      {"PMI_RANK", "PMI_SIZE", "mpiexec -genv GSHMEM_UID_ADDRESS"},
                      {"RANK", "WORLD_SIZE", "MASTER_ADDR and MASTER_PORT"}};
  for (const auto& [rank, size, way_out] : rows) {
    CAPTURE(rank);
    const Variable first(rank, "0");
    for (const char* one : {"0", "1", "two"}) {
      const Variable count(size, one);
      CHECK(std::string(bootstrap::create(automatic())->name()) == "single");
    }
    const Variable count(size, "30");
    const auto join = [] { (void)bootstrap::create(automatic()); };
    expect_error(GSHMEMX_ERROR_BOOTSTRAP, std::string(size) + "=30", join);
    expect_error(GSHMEMX_ERROR_BOOTSTRAP, way_out, join);
    expect_error(GSHMEMX_ERROR_BOOTSTRAP, "GSHMEM_BOOTSTRAP=single", join);
    Config single = automatic();
    single.bootstrap = BootstrapKind::kSingle;
    CHECK(bootstrap::create(single)->size() == 1);
  }
  // A shell of an allocation is no step.
  const Variable tasks("SLURM_NTASKS", "4"), job("SLURM_JOB_ID", "7");
  CHECK(std::string(bootstrap::create(automatic())->name()) == "single");
}

TEST_CASE("the_variables_of_torchrun_are_enough_to_join", "[create]") {
  const std::string free = free_address();
  const int port = std::stoi(free.substr(free.find(':') + 1)) - bootstrap::kTorchrunPortOffset;
  const Variable size("WORLD_SIZE", "2"), host("MASTER_ADDR", "127.0.0.1"),
      at("MASTER_PORT", std::to_string(port)), torchrun("TORCHELASTIC_RUN_ID", "none");
  // These belong to the mpirun that started an agent of torchrun on each host.
  const Variable pmix_rank("PMIX_RANK", "0"), nspace("PMIX_NAMESPACE", "of-the-agents");
  const auto joins_as = [](int number) {
    const Variable rank("RANK", std::to_string(number));
    const auto boot = bootstrap::create(automatic(20));
    boot->barrier();
    return boot->size() == 2 && boot->rank() == number;
  };
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      ::_exit(joins_as(1) ? 0 : 1);
    } catch (const Error&) {
      ::_exit(2);
    }
  }
  CHECK(joins_as(0));
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a_used_port_of_torchrun_is_named_with_the_variable_that_sets_another", "[create]") {
  net::Endpoint loopback;
  loopback.ip = {127, 0, 0, 1};
  const auto taken = net::listen_on(loopback);
  const std::string where = net::endpoint_text(taken.endpoint);
  const int port = std::stoi(where.substr(where.find(':') + 1)) - bootstrap::kTorchrunPortOffset;
  const Variable size("WORLD_SIZE", "2"), rank("RANK", "0"), host("MASTER_ADDR", "127.0.0.1"),
      at("MASTER_PORT", std::to_string(port));
  const auto join = [] { (void)bootstrap::create(automatic(0.3)); };
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "another process listens on " + where, join);
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "GSHMEM_UID_ADDRESS=<host of rank 0>:<port>", join);
}

TEST_CASE("an_address_takes_rank_and_size_from_the_launcher", "[create]") {
  const Variable size("PMI_SIZE", "1000"), rank("PMI_RANK", "7");
  Config config = automatic(0.2);
  config.uid_address = free_address();
  expect_error(GSHMEMX_ERROR_TIMEOUT, "no root service at",
               [&] { (void)bootstrap::create(config); });
}

TEST_CASE("create_uses_the_configured_bootstrap", "[create]") {
  Config config = automatic();
  config.bootstrap = BootstrapKind::kSingle;
  const Variable rank("PMIX_RANK", "0"), nspace("PMIX_NAMESPACE", "left-over");
  CHECK(std::string(bootstrap::create(config)->name()) == "single");
}

TEST_CASE("create_auto_asks_pmix_only_where_a_launcher_has_set_both_of_its_variables", "[create]") {
  for (const std::string name : {"PMIX_RANK", "PMIX_NAMESPACE"}) {
    const Variable variable(name, "0");
    StderrCapture capture;
    CHECK(std::string(bootstrap::create(automatic())->name()) == "single");
    CHECK(capture.writes().empty());
  }
}

TEST_CASE("create_auto_ignores_a_stale_pmix_environment", "[create]") {
  if (!have_pmix()) return;
  const Variable rank("PMIX_RANK", "0"), nspace("PMIX_NAMESPACE", "left-over");
  CHECK(std::string(bootstrap::create(automatic())->name()) == "single");
  Config pmix = automatic();
  pmix.bootstrap = BootstrapKind::kPmix;
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "not started by a PMIx launcher",
               [&] { (void)bootstrap::create(pmix); });
}

TEST_CASE("create_pmix_with_a_silent_server_times_out", "[create]") {
  if (!have_pmix()) return;
  net::Endpoint loopback;
  loopback.ip = {127, 0, 0, 1};
  const auto server = net::listen_on(loopback);  // accepts connections and sends nothing
  const std::string uri = "server.0;tcp4://" + net::endpoint_text(server.endpoint);
  std::deque<Variable> environment;
  environment.emplace_back("PMIX_RANK", "0");
  environment.emplace_back("PMIX_NAMESPACE", "silent");
  environment.emplace_back("PMIX_SECURITY_MODE", "native");
  environment.emplace_back("PMIX_GDS_MODULE", "hash");
  for (const char* version : {"2", "21", "3", "4", "41"})
    environment.emplace_back(std::string("PMIX_SERVER_URI") + version, uri);
  // auto must not skip it: the other ranks of this job may have succeeded.
  expect_error(GSHMEMX_ERROR_TIMEOUT, "did not answer within 0.5 s",
               [] { (void)bootstrap::create(automatic(0.5)); });
  // An address is different: it says which ranks there are.
  Config config = address_config(free_address(), 0, 1, 0.5);
  config.bootstrap = BootstrapKind::kAuto;
  StderrCapture capture;
  CHECK(std::string(bootstrap::create(config)->name()) == "uid");
  const auto lines = capture.writes();
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("PMIX_RANK is set, but PMIx is not usable: the launcher's "
                                       "PMIx server did not answer"));
}
