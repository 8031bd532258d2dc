// A framework that knows NVSHMEM by name only: a weak symbol if it was linked, otherwise the
// library that it loads. An extension that is linked to NVSHMEM must find the same job. Usage:
// framework weak | framework load [EXTENSION]
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void nvshmem_init() __attribute__((weak));
int nvshmem_my_pe() __attribute__((weak));
int nvshmem_n_pes() __attribute__((weak));
void nvshmem_finalize() __attribute__((weak));
}

namespace {

template <class Function>
Function* find(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (!found) std::printf("no %s: %s\n", name, dlerror());
  return reinterpret_cast<Function*>(found);
}

int weak() {
  if (!nvshmem_init || !nvshmem_my_pe || !nvshmem_n_pes || !nvshmem_finalize) {
    std::printf("not linked\n");
    return 0;
  }
  nvshmem_init();
  std::printf("PE %d of %d\n", nvshmem_my_pe(), nvshmem_n_pes());
  nvshmem_finalize();
  return 0;
}

int load(const char* extension) {
  void* library = dlopen("libnvshmem_host.so.3", RTLD_LAZY);
  if (!library) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  const auto init = find<int(unsigned, void*)>(library, "nvshmemx_hostlib_init_attr");
  const auto finalize = find<void()>(library, "nvshmemx_hostlib_finalize");
  const auto my_pe = find<int()>(library, "nvshmem_my_pe");
  const auto n_pes = find<int()>(library, "nvshmem_n_pes");
  const auto allocate = find<void*(std::size_t)>(library, "nvshmem_malloc");
  const auto release = find<void(void*)>(library, "nvshmem_free");
  if (!init || !finalize || !my_pe || !n_pes || !allocate || !release) return 1;
  // The error is a status, not an exception.
  setenv("GSHMEM_SYMMETRIC_SIZE", "much", 1);
  if (init(0, nullptr) == 0) return 1;
  unsetenv("GSHMEM_SYMMETRIC_SIZE");
  if (init(0, nullptr) != 0) return 1;
  auto* word = static_cast<long*>(allocate(sizeof(long)));
  *word = 5;
  bool good = true;
  if (extension) {
    void* module = dlopen(extension, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
      std::printf("%s\n", dlerror());
      return 1;
    }
    const auto add = find<long(long*, int)>(module, "extension_add");
    good = add && add(word, my_pe()) == 5 && *word == 42;
  }
  if (good) std::printf("PE %d of %d\n", my_pe(), n_pes());
  release(word);
  finalize();
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "load") == 0) return load(argc > 2 ? argv[2] : nullptr);
  return weak();
}
