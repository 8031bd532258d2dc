// A program for NVSHMEM that uses its headers as programs often do: nvshmem.h alone, which brings
// the nvshmemx_ names and <assert.h>, and attributes and ids without initializers, with any bytes
// of the stack. It runs as two processes with an id in a pipe, then as one process by the
// environment.
#include <nvshmem.h>

#include <sys/wait.h>
#include <unistd.h>

namespace {

int by_uniqueid(int rank, int nranks, const nvshmemx_uniqueid_t* id, int fill) {
  assert(rank < nranks);
  nvshmemx_init_attr_t attr;
  memset(&attr, fill, sizeof(attr));
  nvshmemx_set_attr_uniqueid_args(rank, nranks, id, &attr);
  if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr) != NVSHMEMX_SUCCESS) return 1;
  if (nvshmem_my_pe() != rank || nvshmem_n_pes() != nranks) return 2;
  auto* word = static_cast<int*>(nvshmem_calloc(1, sizeof(int)));
  nvshmem_int_atomic_add(word, rank + 1, 0);
  nvshmem_barrier_all();
  const int sum = nvshmem_int_g(word, 0);
  nvshmem_barrier_all();
  nvshmem_free(word);
  nvshmem_finalize();
  return sum == nranks * (nranks + 1) / 2 ? 0 : 3;
}

/// Returns the exit status of the process that fails first, 0 if none does.
int two_processes(int fill) {
  int ends[2];
  if (pipe(ends) != 0) return 10;
  const pid_t child = fork();
  nvshmemx_uniqueid_t id;
  memset(&id, fill, sizeof(id));
  if (child == 0) {
    close(ends[1]);
    if (read(ends[0], &id, sizeof(id)) != static_cast<ssize_t>(sizeof(id))) _exit(4);
    _exit(by_uniqueid(1, 2, &id, fill));
  }
  close(ends[0]);
  int mine = nvshmemx_get_uniqueid(&id) != NVSHMEMX_SUCCESS ? 5 : 0;
  if (write(ends[1], &id, sizeof(id)) != static_cast<ssize_t>(sizeof(id))) mine = 6;
  close(ends[1]);
  if (mine == 0) mine = by_uniqueid(0, 2, &id, fill);
  int status = 0;
  if (waitpid(child, &status, 0) != child) return 7;
  return mine != 0 ? mine : status;
}

/// The flags name no attribute, so none is read.
int by_environment(int fill) {
  nvshmemx_init_attr_t attr;
  memset(&attr, fill, sizeof(attr));
  if (nvshmemx_init_attr(0, &attr) != NVSHMEMX_SUCCESS) return 8;
  const int n = nvshmem_n_pes();
  nvshmem_finalize();
  return n == 1 ? 0 : 9;
}

}  // namespace

int main() {
  for (const int fill : {0x00, 0x7f, 0xff}) {
    // Each runs in a process of its own: TSan follows no thread over two forks.
    const pid_t child = fork();
    if (child == 0) {
      const int failed = two_processes(fill);
      _exit(failed != 0 ? failed : by_environment(fill));
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
      fprintf(stderr, "attributes of 0x%02x: %d\n", static_cast<unsigned>(fill), status);
      return 1;
    }
  }
  printf("%s\n", nvshmemx_status_string(NVSHMEMX_SUCCESS));
  return 0;
}
