// The plugin for MPI that is found beside this program belongs to another build.
#include "bootstrap/bootstrap.h"
#include "bootstrap/mpi/plugin.h"
#include "tests/bootstrap/conformance.h"

#include <catch2/catch.hpp>

using namespace gshmem;
using namespace gshmem::test;

TEST_CASE("mpi_plugin_of_another_version_is_refused", "[mpi]") {
  const Error error = expect_error([] { (void)bootstrap::create_mpi("", Config()); });
  CHECK(error.code() == GSHMEMX_ERROR_NOT_SUPPORTED);
  CHECK(std::string(error.what()) ==
        strprintf("libgshmem_bootstrap_mpi.so has version %d, this library needs version %d",
                  GSHMEM_MPI_PLUGIN_VERSION + 1, GSHMEM_MPI_PLUGIN_VERSION));
}
