// The interface between libgshmem and libgshmem_bootstrap_mpi.so, which is compiled against one
// MPI's mpi.h. It has plain C types only: the two sides share no allocator, no exception and no MPI
// type. Included by mpi.cpp (host side) and plugin.cpp (MPI side).
#pragma once

#include <stddef.h>

#define GSHMEM_MPI_PLUGIN_VERSION 4
/// The plugin's only symbol: const struct gshmem_mpi_plugin* gshmem_bootstrap_mpi_plugin(void).
#define GSHMEM_MPI_PLUGIN_SYMBOL "gshmem_bootstrap_mpi_plugin"

struct gshmem_mpi_text {
  char text[1024];
};

/// Calls return a gshmemx_status and, unless it is success, fill in `why`. `seconds` <= 0 = no
/// limit.
struct gshmem_mpi_plugin {
  int version;  ///< GSHMEM_MPI_PLUGIN_VERSION
  /// `comm` is an MPI_Comm*. The job uses a duplicate of it. The call is collective.
  int (*open)(const void* comm, double seconds, void** job, int* rank, int* size,
              struct gshmem_mpi_text* why);
  /// Returns rank and size of this process in `comm`, an MPI_Comm*. The call is local.
  int (*place)(const void* comm, int* rank, int* size, struct gshmem_mpi_text* why);
  int (*allgather)(void* job, const void* send, void* recv, size_t bytes, double seconds,
                   struct gshmem_mpi_text* why);
  int (*barrier)(void* job, double seconds, struct gshmem_mpi_text* why);
  void (*close)(void* job);
};
