/* A program for NVSHMEM in C: MPI and NVSHMEM side by side. The attributes are set as in old
 * programs, which leave everything but mpi_comm uninitialized. */
#include <mpi.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>

int main(int argc, char** argv) {
  nvshmemx_init_attr_t attr;
  MPI_Comm mpi_comm = MPI_COMM_WORLD;
  int rank, nranks, i, sum = 0;
  int *value, *all;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &nranks);
  attr.mpi_comm = &mpi_comm;
  if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr) != 0) return 1;
  if (nvshmem_my_pe() != rank || nvshmem_n_pes() != nranks) return 1;
  if (nvshmemx_init_status() < NVSHMEM_STATUS_IS_INITIALIZED) return 1;

  /* A second init is of the same job, or an error. */
  mpi_comm = MPI_COMM_SELF;
  if (nranks > 1 &&
      nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr) != NVSHMEMX_ERROR_INVALID_VALUE)
    return 1;

  value = (int*)nvshmem_malloc(sizeof(int));
  all = (int*)nvshmem_calloc((size_t)nranks, sizeof(int));
  nvshmem_int_p(value, 10 * rank, rank);
  nvshmem_barrier_all();
  for (i = 0; i < nranks; ++i) nvshmem_int_p(all + rank, nvshmem_int_g(value, rank), i);
  nvshmem_barrier_all();
  for (i = 0; i < nranks; ++i) sum += nvshmem_int_g(all + i, rank);
  MPI_Barrier(MPI_COMM_WORLD);
  printf("%d of %d: sum %d, local %d of %d\n", rank, nranks, sum,
         nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE), nvshmem_team_n_pes(NVSHMEMX_TEAM_NODE));

  nvshmem_free(all);
  nvshmem_free(value);
  nvshmem_finalize();
  MPI_Finalize();
  return sum == 10 * nranks * (nranks - 1) / 2 ? 0 : 1;
}
