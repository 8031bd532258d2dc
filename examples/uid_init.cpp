// Init without a launcher: rank 0 makes a unique id and shares it, here through a file. A program
// with a store of its own (torchrun, a job server) sends the same bytes through that. The program
// starts its own PEs by fork, so it runs as it is:
//   bin/uid_init 4
#include <gshmem/gshmem.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

// A rename makes the complete file appear at once.
bool write_id(const std::string& path, const gshmemx_uniqueid_t& id) {
  const std::string fresh = path + ".new";
  std::FILE* file = std::fopen(fresh.c_str(), "wb");
  if (!file) return false;
  const bool written = std::fwrite(&id, sizeof(id), 1, file) == 1;
  return std::fclose(file) == 0 && written && std::rename(fresh.c_str(), path.c_str()) == 0;
}

// Waits up to ten seconds: rank 0 may start later.
bool read_id(const std::string& path, gshmemx_uniqueid_t& id) {
  std::FILE* file = nullptr;
  for (int i = 0; i < 1000 && !(file = std::fopen(path.c_str(), "rb")); ++i) usleep(10000);
  const bool read = file && std::fread(&id, sizeof(id), 1, file) == 1;
  if (file) std::fclose(file);
  return read;
}

int pe_main(int rank, int size, const std::string& path) {
  gshmemx_uniqueid_t id = GSHMEMX_UNIQUEID_INITIALIZER;
  if (rank == 0 && (gshmemx_get_uniqueid(&id) != GSHMEMX_SUCCESS || !write_id(path, id))) return 1;
  if (rank != 0 && !read_id(path, id)) return 1;

  gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
  if (gshmemx_set_attr_uniqueid_args(rank, size, &id, &attr) != GSHMEMX_SUCCESS) return 1;
  if (gshmemx_init_attr(GSHMEMX_INIT_WITH_UNIQUEID, &attr) != GSHMEMX_SUCCESS) {
    gshmemx_fault_t why;
    gshmemx_last_fault(&why);
    std::fprintf(stderr, "uid_init: rank %d: %s\n", rank, why.message);
    return 1;
  }
  long* sum = static_cast<long*>(gshmem_calloc(1, sizeof(long)));
  gshmem_long_atomic_add(sum, rank + 1, 0);
  gshmem_barrier_all();
  const long got = gshmem_long_g(sum, 0), want = size * (size + 1L) / 2;
  std::printf("uid_init: PE %d of %d, sum %ld\n", gshmem_my_pe(), gshmem_n_pes(), got);
  gshmem_free(sum);
  gshmem_finalize();
  return got == want ? 0 : 1;
}

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  char folder[] = "/tmp/gshmem-uid.XXXXXX";
  if (size < 1 || !mkdtemp(folder)) return 2;
  const std::string path = std::string(folder) + "/id";
  for (int rank = 0; rank < size; ++rank) {
    if (fork() == 0) std::exit(pe_main(rank, size, path));  // before any use of CUDA
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed += status != 0;
  std::remove(path.c_str());
  rmdir(folder);
  return failed == 0 ? 0 : 1;
}
