// GSHMEM_BOOTSTRAP and what "auto" makes of the environment. Each case changes the environment of
// its process and leaves it as it was.
#include "host/base/net/socket.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/capture.h"

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
  return config;
}

/// False, with the reason printed, where libpmix is not there or not built in.
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

TEST_CASE("create_auto_warns_of_a_launcher_of_several_processes_without_pmix", "[create]") {
  for (const std::string name : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_SIZE"}) {
    for (const std::string size : {"0", "1", "two", "2", "30"}) {
      const Variable variable(name, size);
      StderrCapture capture;
      CHECK(std::string(bootstrap::create(automatic())->name()) == "single");
      std::string said;
      for (const std::string& line : capture.writes()) said += line;
      const bool several = size == "2" || size == "30";
      CHECK(said.empty() == !several);
      if (several) CHECK_THAT(said, Catch::Contains(name + "=" + size + ", but there is no PMIx"));
    }
  }
}

TEST_CASE("create_takes_the_choice_that_is_set", "[create]") {
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

TEST_CASE("create_auto_passes_over_a_left_over_pmix_environment", "[create]") {
  if (!have_pmix()) return;
  const Variable rank("PMIX_RANK", "0"), nspace("PMIX_NAMESPACE", "left-over");
  CHECK(std::string(bootstrap::create(automatic())->name()) == "single");
  Config pmix = automatic();
  pmix.bootstrap = BootstrapKind::kPmix;
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "not started by a PMIx launcher",
               [&] { (void)bootstrap::create(pmix); });
}

TEST_CASE("create_pmix_with_a_silent_server_ends_in_time", "[create]") {
  if (!have_pmix()) return;
  net::Endpoint loopback;
  loopback.ip = {127, 0, 0, 1};
  const auto server = net::listen_on(loopback);  // takes connections and says nothing
  const std::string uri = "server.0;tcp4://" + net::endpoint_text(server.endpoint);
  std::deque<Variable> environment;
  environment.emplace_back("PMIX_RANK", "0");
  environment.emplace_back("PMIX_NAMESPACE", "silent");
  environment.emplace_back("PMIX_SECURITY_MODE", "native");
  environment.emplace_back("PMIX_GDS_MODULE", "hash");
  for (const char* version : {"2", "21", "3", "4", "41"})
    environment.emplace_back(std::string("PMIX_SERVER_URI") + version, uri);
  // Not passed over by auto: the other ranks of this job may have got through.
  expect_error(GSHMEMX_ERROR_TIMEOUT, "did not answer within 0.5 s",
               [] { (void)bootstrap::create(automatic(0.5)); });
  // Except by an address: that says who the others are.
  Config config = address_config(free_address(), 0, 1, 0.5);
  config.bootstrap = BootstrapKind::kAuto;
  StderrCapture capture;
  CHECK(std::string(bootstrap::create(config)->name()) == "uid");
  const auto lines = capture.writes();
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("PMIX_RANK is set, but PMIx is not usable: the launcher's "
                                       "PMIx server did not answer"));
}
