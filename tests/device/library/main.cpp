// device_library link|run LIBRARY ARCHITECTURE: NVRTC compiles a kernel of declarations only, and
// nvJitLink links it with the device library, a file of LTO-IR or PTX or a fatbin. `link`: the
// machine code has the kernel and the device state. `run`: its puts, gets, atomics and signals work
// on a single PE. Exit 77 without a GPU. A LIBRARY.cubin is such machine code, from the kernel that
// `device_library kernel` prints (bitcode_test.py).
#include <gshmem/gshmem.h>

#include <cuda_runtime_api.h>
#include <nvJitLink.h>
#include <nvrtc.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using Bytes = std::vector<char>;
constexpr unsigned kRelease[] = {NVSHMEM_MAJOR, NVSHMEM_MINOR, NVSHMEM_PATCH};

constexpr char kKernel[] = R"(
typedef unsigned long long u64;
extern "C" {
__device__ int nvshmem_my_pe(void);
__device__ int gshmem_n_pes(void);
__device__ void nvshmem_putmem(void* dest, const void* source, unsigned long bytes, int pe);
__device__ void nvshmemx_int_get_block(int* dest, const int* source, unsigned long n, int pe);
__device__ unsigned long nvshmem_uint64_atomic_fetch_add(unsigned long* dest, unsigned long value, int pe);
__device__ void nvshmemx_signal_op(unsigned long* word, unsigned long value, int op, int pe);
__device__ unsigned long gshmem_signal_wait_until(unsigned long* word, int cmp, unsigned long value);
__device__ void nvshmem_quiet(void);
__device__ int gshmemx_barrier_block(int team);

// `words`: 32 source, 32 put, 32 got, a counter, a signal.
__global__ void work(int* words, unsigned long* counter, unsigned long* signal, int set, int equal, u64* report) {
  const int pe = (nvshmem_my_pe() + 1) % gshmem_n_pes();
  if (threadIdx.x == 0) {
    nvshmem_putmem(words + 32, words, 32 * sizeof(int), pe);
    nvshmem_quiet();
  }
  report[1 + threadIdx.x] = nvshmem_uint64_atomic_fetch_add(counter, 3, pe);
  if (threadIdx.x == 0) {
    nvshmemx_signal_op(signal, 5, set, pe);
    report[0] = gshmem_signal_wait_until(signal, equal, 5);
  }
  __syncthreads();
  nvshmemx_int_get_block(words + 64, words + 32, 32, pe);
  if (gshmemx_barrier_block(0) != 0) report[0] = 0;
}
}
)";

[[noreturn]] void fail(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::exit(1);
}

Bytes read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(std::string("cannot read ") + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the output of NVRTC or nvJitLink for `handle`: `size` returns its size, `data` copies
/// it.
template <class Text, class Handle, class Size, class Data>
Text result_of(Handle handle, Size size, Data data) {
  std::size_t bytes = 0;
  (void)size(handle, &bytes);
  Text text(bytes, '\0');
  (void)data(handle, text.data());
  return text;
}

Bytes compile(const std::string& architecture) {
  nvrtcProgram program = nullptr;
  if (nvrtcCreateProgram(&program, kKernel, "work.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS)
    fail("NVRTC");
  const std::string arch = "-arch=sm_" + architecture;
  const char* options[] = {arch.c_str(), "-dlto", "-rdc=true"};
  if (nvrtcCompileProgram(program, 3, options) != NVRTC_SUCCESS)
    fail(result_of<std::string>(program, nvrtcGetProgramLogSize, nvrtcGetProgramLog));
  const Bytes code = result_of<Bytes>(program, nvrtcGetLTOIRSize, nvrtcGetLTOIR);
  (void)nvrtcDestroyProgram(&program);
  return code;
}

nvJitLinkInputType type_of(const std::string& path) {
  if (path.ends_with(".ptx")) return NVJITLINK_INPUT_PTX;
  return path.ends_with(".fatbin") ? NVJITLINK_INPUT_FATBIN : NVJITLINK_INPUT_LTOIR;
}

Bytes linked_with(const char* path, const std::string& architecture) {
  Bytes library = read(path);
  if (std::string(path).ends_with(".cubin")) return library;
  const Bytes kernel = compile(architecture);
  if (type_of(path) == NVJITLINK_INPUT_PTX) library.push_back('\0');
  const std::string arch = "-arch=sm_" + architecture;
  const char* options[] = {arch.c_str(), "-lto"};
  nvJitLinkHandle linker = nullptr;
  if (nvJitLinkCreate(&linker, 2, options) != NVJITLINK_SUCCESS) fail("nvJitLinkCreate");
  const bool linked = nvJitLinkAddData(linker, NVJITLINK_INPUT_LTOIR, kernel.data(), kernel.size(),
                                       "work") == NVJITLINK_SUCCESS &&
                      nvJitLinkAddData(linker, type_of(path), library.data(), library.size(),
                                       path) == NVJITLINK_SUCCESS &&
                      nvJitLinkComplete(linker) == NVJITLINK_SUCCESS;
  if (!linked) fail(result_of<std::string>(linker, nvJitLinkGetErrorLogSize, nvJitLinkGetErrorLog));
  const Bytes cubin =
      result_of<Bytes>(linker, nvJitLinkGetLinkedCubinSize, nvJitLinkGetLinkedCubin);
  (void)nvJitLinkDestroy(&linker);
  return cubin;
}

void expect(const char* what, std::uint64_t got, std::uint64_t wanted) {
  if (got != wanted)
    fail(std::string(what) + ": " + std::to_string(got) + " instead of " + std::to_string(wanted));
}

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) fail(std::string(call) + ": " + cudaGetErrorString(error));
}

int run(const Bytes& cubin) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("skipped: no GPU");
    return 77;
  }
  gshmem_init();
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  check(cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cudaLibraryLoadData");
  check(cudaLibraryGetKernel(&kernel, library, "work"), "cudaLibraryGetKernel");
  expect("gshmemx_culibrary_init", static_cast<unsigned>(gshmemx_culibrary_init(library)),
         GSHMEMX_SUCCESS);

  void* version = nullptr;
  std::size_t version_bytes = 0;
  check(cudaLibraryGetGlobal(&version, &version_bytes, library, "nvshmemi_device_lib_version_d"),
        "cudaLibraryGetGlobal");
  int release[3] = {};
  expect("bytes of the version", version_bytes, sizeof(release));
  check(cudaMemcpy(release, version, sizeof(release), cudaMemcpyDefault), "cudaMemcpy");
  for (int i = 0; i < 3; ++i) expect("the version", static_cast<unsigned>(release[i]), kRelease[i]);

  constexpr int kThreads = 64;
  auto* words = static_cast<int*>(gshmem_calloc(96, sizeof(int)));
  auto* counter = static_cast<std::uint64_t*>(gshmem_calloc(2, sizeof(std::uint64_t)));
  std::uint64_t *signal = counter + 1, *report = nullptr;
  int host[96];
  for (int i = 0; i < 32; ++i) host[i] = 1000 + i;
  check(cudaMemcpy(words, host, 32 * sizeof(int), cudaMemcpyDefault), "cudaMemcpy");
  void* pinned = nullptr;
  check(cudaMallocHost(&pinned, (1 + kThreads) * sizeof(std::uint64_t)), "cudaMallocHost");
  report = static_cast<std::uint64_t*>(pinned);
  int set = GSHMEM_SIGNAL_SET, equal = GSHMEM_CMP_EQ;
  void* arguments[] = {&words, &counter, &signal, &set, &equal, &report};
  check(cudaLaunchKernel(kernel, dim3(1), dim3(kThreads), arguments, 0, nullptr),
        "cudaLaunchKernel");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");

  check(cudaMemcpy(host, words, sizeof(host), cudaMemcpyDefault), "cudaMemcpy");
  for (int i = 0; i < 32; ++i) {
    expect("put", static_cast<unsigned>(host[32 + i]), 1000u + static_cast<unsigned>(i));
    expect("got", static_cast<unsigned>(host[64 + i]), 1000u + static_cast<unsigned>(i));
  }
  std::uint64_t sum = 0, total = 0;
  for (int i = 0; i < kThreads; ++i) sum += report[1 + i];
  expect("what fetch_add returned, in all", sum, 3 * kThreads * (kThreads - 1) / 2);
  check(cudaMemcpy(&total, counter, sizeof(total), cudaMemcpyDefault), "cudaMemcpy");
  expect("the counter", total, 3 * kThreads);
  expect("the signal", report[0], 5);
  expect("gshmemx_culibrary_finalize", static_cast<unsigned>(gshmemx_culibrary_finalize(library)),
         GSHMEMX_SUCCESS);
  check(cudaFreeHost(report), "cudaFreeHost");
  gshmem_free(words);
  gshmem_free(counter);
  gshmem_finalize();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == std::string("kernel")) return std::puts(kKernel) < 0;
  if (argc != 4) fail("usage: device_library link|run LIBRARY ARCHITECTURE");
  const Bytes cubin = linked_with(argv[2], argv[3]);
  const std::string text(cubin.begin(), cubin.end());
  for (const char* name : {"gshmemi_device_state", "nvshmemi_device_lib_version_d", "work"}) {
    if (text.find(name) == std::string::npos)
      fail(std::string("no ") + name + " in the machine code");
  }
  return argv[1] == std::string("run") ? run(cubin) : 0;
}
