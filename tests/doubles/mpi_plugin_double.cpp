// A plugin for MPI that belongs to another release of the library.
#include "bootstrap/mpi/plugin.h"

extern "C" [[gnu::visibility("default")]] const gshmem_mpi_plugin* gshmem_bootstrap_mpi_plugin() {
  static constexpr gshmem_mpi_plugin kPlugin{
      GSHMEM_MPI_PLUGIN_VERSION + 1,
      [](const void*, double, void**, int*, int*, gshmem_mpi_text*) { return 0; },
      nullptr,
      nullptr,
      nullptr,
      [](void*) {}};
  return &kPlugin;
}
