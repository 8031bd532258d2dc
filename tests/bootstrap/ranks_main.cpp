// One rank of a job that a launcher started: bootstrap_ranks MODE. Exit 0 = this rank saw what it
// should, 1 = it did not, 77 = not possible here.
#include "tests/bootstrap/conformance.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace gshmem;
using namespace gshmem::test;

namespace {

Config config_with_timeout(double seconds) {
  Config config;
  config.bootstrap = "pmix";
  config.bootstrap_timeout = seconds;
  return config;
}

void pmix_conforms() {
  conformance([] { return bootstrap::create_pmix(config_with_timeout(60)); });
}

/// The last rank never calls: the others' calls end within the timeout, twice.
void pmix_missing_rank() {
  const auto boot = bootstrap::create_pmix(config_with_timeout(1));
  boot->barrier();
  if (boot->rank() == boot->size() - 1) {
    pause();  // ended by the launcher once another rank has exited with its verdict
    return;
  }
  expect_error(GSHMEMX_ERROR_TIMEOUT, "barrier", [&] { boot->barrier(); });
  expect_error(GSHMEMX_ERROR_TIMEOUT, "barrier", [&] { boot->barrier(); });
  std::puts("missing rank seen");
  boot->abort(42, "verdict: missing rank seen");
}

/// The last rank dies in a collective; the others end, by an error or by the launcher's signal.
void pmix_killed_rank() {
  const auto boot = bootstrap::create_pmix(config_with_timeout(20));
  boot->barrier();
  if (boot->rank() == boot->size() - 1) (void)raise(SIGKILL);
  (void)expect_error([&] { boot->barrier(); });
}

void pmix_abort() {
  const auto boot = bootstrap::create_pmix(config_with_timeout(20));
  boot->barrier();
  if (boot->rank() == boot->size() - 1)
    boot->abort(42, "the reason given");
  else
    boot->barrier();
  pause();  // only the launcher ends us
}

/// Without a launcher.
void pmix_unreachable() {
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "not started by a PMIx launcher",
               [] { (void)bootstrap::create_pmix(config_with_timeout(5)); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> modes{{"pmix", pmix_conforms},
                                                {"pmix-missing", pmix_missing_rank},
                                                {"pmix-killed", pmix_killed_rank},
                                                {"pmix-abort", pmix_abort},
                                                {"pmix-unreachable", pmix_unreachable}};
  const auto mode = modes.find(argc == 2 ? argv[1] : "");
  if (mode == modes.end()) return 2;
  try {
    mode->second();
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code() == GSHMEMX_ERROR_NOT_SUPPORTED ? 77 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
