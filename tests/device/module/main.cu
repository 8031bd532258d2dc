// Tests modules loaded by hand (CUDA driver API) and kernels outside init. Usage: module_test CUBIN
// [CASE]. Without CASE it runs each case in a process of its own and compares the output: a kernel
// that traps destroys the CUDA context of its process.
#include <gshmem/gshmem.h>

#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

__global__ void tell_pe_plain(int* out) { *out = gshmem_my_pe(); }

/// Returns a function of the driver by name, so that the test need not link libcuda.
template <class Function>
Function driver(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found) !=
          cudaSuccess ||
      !address) {
    std::printf("no %s in this driver\n", name);
    std::exit(3);
  }
  return reinterpret_cast<Function>(address);
}

class Module {
 public:
  explicit Module(const char* file) {
    const auto load = driver<CUresult (*)(CUmodule*, const char*)>("cuModuleLoad");
    const auto find =
        driver<CUresult (*)(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction");
    if (load(&module_, file) != CUDA_SUCCESS ||
        find(&kernel_, module_, "tell_pe") != CUDA_SUCCESS) {
      std::printf("cannot load %s\n", file);
      std::exit(3);
    }
  }
  CUmodule handle() const { return module_; }
  /// Returns the result of the kernel, or -1 if it trapped.
  int run() const {
    using LaunchKernel = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, unsigned, CUstream, void**, void**);
    int* out = nullptr;
    if (cudaMallocHost(&out, sizeof(int)) != cudaSuccess) return -2;
    void* args[] = {&out};
    const auto launch = driver<LaunchKernel>("cuLaunchKernel");
    if (launch(kernel_, 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr) != CUDA_SUCCESS) return -2;
    return cudaDeviceSynchronize() == cudaSuccess ? *out : -1;
  }

 private:
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
};

int initialized(const char* file) {
  gshmem_init();
  int result = 1;
  {
    const Module module(file);
    const int status = gshmemx_cumodule_init(module.handle());
    const int told = module.run();
    std::printf("cumodule_init: status %d, kernel tells %d\n", status, told);
    if (status == GSHMEMX_SUCCESS && told == gshmem_my_pe() * 100 + gshmem_n_pes()) result = 0;
    if (gshmemx_cumodule_finalize(module.handle()) != GSHMEMX_SUCCESS) result = 1;
  }
  gshmem_finalize();
  return result;
}

/// Loads the file as a library, by cuLibraryLoadFromFile.
int library(const char* file) {
  gshmem_init();
  const auto load = driver<decltype(&cuLibraryLoadFromFile)>("cuLibraryLoadFromFile");
  const auto find = driver<decltype(&cuLibraryGetKernel)>("cuLibraryGetKernel");
  const auto launch = driver<decltype(&cuLaunchKernel)>("cuLaunchKernel");
  CUlibrary loaded = nullptr;
  CUkernel kernel = nullptr;
  int* out = nullptr;
  if (load(&loaded, file, nullptr, nullptr, 0, nullptr, nullptr, 0) != CUDA_SUCCESS ||
      find(&kernel, loaded, "tell_pe") != CUDA_SUCCESS ||
      cudaMallocHost(&out, sizeof(int)) != cudaSuccess) {
    return 3;
  }
  const int status = gshmemx_culibrary_init(loaded);
  void* args[] = {&out};
  const bool ran = launch(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, args,
                          nullptr) == CUDA_SUCCESS &&
                   cudaDeviceSynchronize() == cudaSuccess;
  const int told = ran ? *out : -1;
  std::printf("culibrary_init: status %d, kernel tells %d\n", status, told);
  const bool good = told == gshmem_my_pe() * 100 + gshmem_n_pes() &&
                    gshmemx_culibrary_finalize(loaded) == GSHMEMX_SUCCESS;
  gshmem_finalize();
  return good ? 0 : 1;
}

/// The kernel must trap; the parent checks the message. There is no finalize: the context is lost.
int not_initialized(const char* file) {
  gshmem_init();
  return Module(file).run() == -1 ? 0 : 1;
}

int finalized(const char* file) {
  gshmem_init();
  const Module module(file);
  if (gshmemx_cumodule_init(module.handle()) != GSHMEMX_SUCCESS || module.run() < 0) return 1;
  if (gshmemx_cumodule_finalize(module.handle()) != GSHMEMX_SUCCESS) return 1;
  return module.run() == -1 ? 0 : 1;
}

/// The module's number becomes that of another version, and its own again.
int other_version(const char* file) {
  gshmem_init();
  const Module module(file);
  const auto find = driver<decltype(&cuModuleGetGlobal)>("cuModuleGetGlobal");
  CUdeviceptr symbol = 0;
  std::size_t bytes = 0;
  std::uint64_t number = 0;
  if (find(&symbol, &bytes, module.handle(), "gshmemi_device_state") != CUDA_SUCCESS) return 3;
  void* const word = reinterpret_cast<void*>(symbol + bytes - sizeof(number));
  const auto write = [&] {
    return cudaMemcpy(word, &number, sizeof(number), cudaMemcpyDefault) == cudaSuccess;
  };
  if (cudaMemcpy(&number, word, sizeof(number), cudaMemcpyDefault) != cudaSuccess) return 3;
  ++number;
  if (!write() || gshmemx_cumodule_init(module.handle()) != GSHMEMX_ERROR_NOT_SUPPORTED) return 1;
  --number;
  if (!write() || gshmemx_cumodule_init(module.handle()) != GSHMEMX_SUCCESS) return 1;
  const bool good = module.run() == gshmem_my_pe() * 100 + gshmem_n_pes() &&
                    gshmemx_cumodule_finalize(module.handle()) == GSHMEMX_SUCCESS;
  gshmem_finalize();
  return good ? 0 : 1;
}

int before_init(const char*) {
  int* out = nullptr;
  if (cudaMallocHost(&out, sizeof(int)) != cudaSuccess) return 1;
  tell_pe_plain<<<1, 1>>>(out);
  return cudaDeviceSynchronize() == cudaSuccess ? 1 : 0;
}

struct Case {
  const char* name;
  int (*run)(const char* file);
  const char* says;  ///< must be in its output
};
constexpr const char* kTrapped = "gshmem_my_pe: the library is not initialized";
constexpr Case kCases[] = {
    {"initialized", initialized, "kernel tells"},          {"library", library, "kernel tells"},
    {"not_initialized", not_initialized, kTrapped},        {"finalized", finalized, kTrapped},
    {"other_version", other_version, "of another gshmem"}, {"before_init", before_init, kTrapped}};

/// Returns exit status and output of this program with a case.
int run_child(const std::string& self, const std::string& file, const Case& test) {
  const std::string command = "'" + self + "' '" + file + "' " + test.name + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return 1;
  std::string output;
  char line[512];
  while (std::fgets(line, sizeof(line), pipe)) output += line;
  const int status = pclose(pipe);
  const bool passed = status == 0 && output.find(test.says) != std::string::npos;
  std::printf("%s: %s (status %d)\n%s", test.name, passed ? "passed" : "FAILED", status,
              output.c_str());
  return passed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  for (const Case& test : kCases) {
    if (argc > 2 && std::strcmp(argv[2], test.name) == 0) return test.run(argv[1]);
  }
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::printf("skipped: module_test needs a GPU\n");
    return 77;
  }
  int failures = 0;
  for (const Case& test : kCases) failures += run_child(argv[0], argv[1], test);
  return failures == 0 ? 0 : 1;
}
