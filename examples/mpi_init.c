// An MPI program that uses gshmem together with MPI: PE numbers are the ranks of the given
// communicator, here MPI_COMM_WORLD. The MPI library is the application's; libgshmem itself does
// not link to one.
//   mpirun -np 4 bin/mpi_init
#include <gshmem/gshmem.h>

#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm comm = MPI_COMM_WORLD;
  gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
  int status = gshmemx_set_attr_mpi_comm_args(&comm, &attr);
  if (status == GSHMEMX_SUCCESS) status = gshmemx_init_attr(GSHMEMX_INIT_WITH_MPI_COMM, &attr);
  if (status != GSHMEMX_SUCCESS) {
    fprintf(stderr, "mpi_init: %s\n", gshmemx_status_string(status));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  int rank = -1;
  MPI_Comm_rank(comm, &rank);
  const int me = gshmem_my_pe(), n = gshmem_n_pes();
  int* counter = gshmem_calloc(1, sizeof(int));
  gshmem_int_atomic_add(counter, rank + 1, (me + 1) % n);
  gshmem_barrier_all();
  const int got = gshmem_int_g(counter, me);  // 1 + rank of the left neighbour

  int sum = 0;
  MPI_Allreduce(&got, &sum, 1, MPI_INT, MPI_SUM, comm);
  const int correct = me == rank && got == (me + n - 1) % n + 1 && sum == n * (n + 1) / 2;
  printf("mpi_init: rank %d is PE %d of %d, sum %d\n", rank, me, n, sum);

  gshmem_free(counter);
  gshmem_finalize();
  MPI_Finalize();
  return correct ? 0 : 1;
}
