// A program for NVSHMEM: MPI carries a unique id, then host threads of the PEs signal and wait.
#include <mpi.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <cstdint>
#include <cstdio>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, nranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &nranks);

  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
  if (rank == 0 && nvshmemx_get_uniqueid(&id) != 0) return 1;
  MPI_Bcast(&id, sizeof(nvshmemx_uniqueid_t), MPI_UINT8_T, 0, MPI_COMM_WORLD);
  nvshmemx_set_attr_uniqueid_args(rank, nranks, &id, &attr);
  if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr) != 0) return 1;

  const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
  auto* message = static_cast<long*>(nvshmem_calloc(2, sizeof(long)));
  auto* signal = static_cast<uint64_t*>(nvshmem_calloc(1, sizeof(uint64_t)));
  const long mine[2] = {mype, mype * 2L};
  nvshmem_long_put_signal(message, mine, 2, signal, 1, NVSHMEM_SIGNAL_ADD, (mype + 1) % npes);
  nvshmem_signal_wait_until(signal, NVSHMEM_CMP_EQ, 1);
  const int from = (mype + npes - 1) % npes;
  const long got = nvshmem_long_g(message + 1, mype);
  std::printf("%d of %d: %ld from %d\n", mype, npes, got, from);

  nvshmem_barrier_all();
  nvshmem_free(signal);
  nvshmem_free(message);
  nvshmem_finalize();
  MPI_Finalize();
  return got == from * 2L ? 0 : 1;
}
