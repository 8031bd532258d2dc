// Tests wrong arguments on a PE that has a GPU: in kernels (this unit is compiled with
// GSHMEM_DEVICE_CHECKS=1) and on host threads. The calls are those of every_call.h, for one type,
// one size, and calls that have neither. Exit 0, 1 with the errors, 77 without a GPU.
#include "tests/device/faults/jobs.h"
#include "tests/spmd/bad_input/every_call.h"

#include <gshmem/blocks.h>

#include <algorithm>
#include <iterator>
#include <string_view>

// Calls one function of this many. It is more than 1 where the kernel only has to compile.
#ifndef GSHMEM_ONE_CALL_OF
#define GSHMEM_ONE_CALL_OF 1
#endif

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}
/// Selects one call of each family: the others differ only in their type. Atomics of floating-point
/// types have code of their own.
consteval bool is_sampled(std::string_view stem) {
  unsigned sum = 0;
  for (const char c : stem) sum += static_cast<unsigned char>(c);
  if (sum % GSHMEM_ONE_CALL_OF != 0) return false;
  if (starts_with(stem, "uint64_") || starts_with(stem, "float_atomic_")) return true;
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) \
  if (starts_with(stem, #NAME "_")) return false;
#include <gshmem/types.def>
  for (const char* sized : {"put", "get", "iput", "iget", "ibput", "ibget"}) {
    for (const char* bits : {"8", "16", "64", "128"}) {
      const std::string_view start = sized;
      if (starts_with(stem, start) && starts_with(stem.substr(start.size()), bits)) return false;
    }
  }
  return true;
}

/// Calls function `index` of the table. It is a template, so that the others are not compiled.
template <class Nothing>
GSHMEM_FN std::uint64_t call_function(std::size_t index, const std::uint64_t* raw) {
  std::size_t at = 0;
#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL)                                     \
  if constexpr (is_sampled(#STEM)) {                                                              \
    if (at == index) return call_raw(static_cast<RET(*) PARAMS>(&GSHMEM_NAME_##KIND(STEM)), raw); \
  }                                                                                               \
  ++at;
#include <gshmem/functions.def>
  return 0;
}
const bool kSampled[] = {
#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) is_sampled(#STEM),
#include <gshmem/functions.def>
};

/// The memory that calls use: its current content, and the expected one.
struct Memory {
  char *symmetric, *local;
  const char *old_symmetric, *old_local;
};

/// A call of a kernel, and its result.
struct Call {
  std::size_t function;
  std::uint64_t raw[8];
  bool by_group;
  bool has_effect;
  std::uint64_t result;
  std::uint32_t fault[sizeof(abi::FaultRecord) / sizeof(std::uint32_t)];
};

__device__ bool restore(char* memory, const char* old) {
  bool differs = false;
  for (std::size_t i = threadIdx.x; i < Ground::kBytes; i += blockDim.x) {
    auto* at = reinterpret_cast<std::uint8_t*>(memory + i);
    const auto before = static_cast<std::uint8_t>(old[i]);
    if (device::load_relaxed(at) != before) differs = true;
    device::store_relaxed(at, before);
  }
  return differs;
}

/// Makes the calls with one warp, which is also a block.
__global__ void make(Call* calls, std::size_t n, Memory memory) {
  abi::Control* control = device::ambient_state("make").control;
  auto* record = reinterpret_cast<std::uint32_t*>(&control->fault);
  constexpr std::size_t kWords = sizeof(abi::FaultRecord) / sizeof(std::uint32_t);
  for (std::size_t i = 0; i < n; ++i) {
    Call& call = calls[i];
    if (threadIdx.x == 0) {
      for (std::size_t k = 0; k < kWords; ++k) device::store_relaxed(record + k, 0u);
      device::store_relaxed(&control->stop, 0u);
      __threadfence_system();
    }
    __syncthreads();
    if (threadIdx.x == 0 || call.by_group) {
      const std::uint64_t result = call_function<void>(call.function, call.raw);
      if (threadIdx.x == 0) call.result = result;
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) {
      for (std::size_t k = 0; k < kWords; ++k) call.fault[k] = device::load_relaxed(record + k);
    }
    const bool differs = restore(memory.symmetric, memory.old_symmetric);
    call.has_effect = __syncthreads_or(restore(memory.local, memory.old_local) || differs) != 0;
  }
}

/// Counts the errors and prints the first ones.
class Judge {
 public:
  void look(const Case& one, const abi::FaultRecord& fault, std::uint64_t result, bool effect) {
    std::string complaint = one.complaint(fault, result);
    if (complaint.empty() && !one.argument.empty() && effect)
      complaint = one.text() + ": the call had an effect";
    ++made_;
    if (!complaint.empty() && ++wrong_ <= 20) std::puts(complaint.c_str());
  }
  int report(const char* by) const {
    std::printf("%s: %d calls, %d wrong\n", by, made_, wrong_);
    return wrong_ == 0 && made_ > 0 ? 0 : 1;
  }

 private:
  int made_ = 0, wrong_ = 0;
};

/// Returns what kernels report: the memory of the cases is not the shared memory of a block.
Case in_kernel(Case one) {
  const std::string_view name = functions()[one.function].name;
  if (name != "gshmemx_give_smem" || !one.argument.empty()) return one;
  char value[32];
  std::snprintf(value, sizeof(value), "0x%llx is not shared memory",
                static_cast<unsigned long long>(one.raw[0]));
  one.argument = "smem";
  one.value = value;
  return one;
}

int by_kernel(std::vector<Case> cases, const Memory& memory) {
  std::transform(cases.begin(), cases.end(), cases.begin(), in_kernel);
  std::vector<Call> calls;
  for (const Case& one : cases) {
    Call call{};
    call.function = one.function;
    std::copy(one.raw.begin(), one.raw.end(), call.raw);
    const std::string_view name = functions()[one.function].name;
    call.by_group =
        name.ends_with("_warp") || name.ends_with("_warpgroup") || name.ends_with("_block");
    calls.push_back(call);
  }
  const std::size_t bytes = calls.size() * sizeof(Call);
  Call* there = nullptr;
  cudaMalloc(&there, bytes);
  cudaMemcpy(there, calls.data(), bytes, cudaMemcpyDefault);
  make<<<1, 32>>>(there, calls.size(), memory);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    std::printf("kernel: %s\n", cudaGetErrorName(error));
    return report_and_leave();
  }
  cudaMemcpy(calls.data(), there, bytes, cudaMemcpyDefault);
  cudaFree(there);
  Judge judge;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    abi::FaultRecord fault;
    std::memcpy(&fault, calls[i].fault, sizeof(fault));
    judge.look(cases[i], fault, calls[i].result, calls[i].has_effect);
  }
  return judge.report("kernel");
}

/// Uses a control area of its own, as test_every_call.cpp does.
int by_host(const std::vector<Case>& cases, const Memory& memory) {
  const abi::DeviceState* of_pe = gshmemi_ambient()->state;
  abi::DeviceState state = *of_pe;
  abi::Control control{};
  state.control = &control;
  gshmemi_ambient()->state = &state;
  const auto restored = [](char* to, const char* old) {
    std::array<char, Ground::kBytes> now{}, before{};
    cudaMemcpy(now.data(), to, now.size(), cudaMemcpyDefault);
    cudaMemcpy(before.data(), old, before.size(), cudaMemcpyDefault);
    cudaMemcpy(to, old, Ground::kBytes, cudaMemcpyDefault);
    return now != before;
  };
  Judge judge;
  for (const Case& one : cases) {
    control = {};
    const std::uint64_t result = call_function<void>(one.function, one.raw.data());
    const bool differs = restored(memory.symmetric, memory.old_symmetric);
    judge.look(one, control.fault, result, restored(memory.local, memory.old_local) || differs);
  }
  gshmemi_ambient()->state = of_pe;
  return judge.report("host");
}

int job(int) {
  gshmem_init();
  const abi::DeviceState& state = *gshmemi_ambient()->state;
  Memory memory{};
  memory.symmetric = static_cast<char*>(gshmem_align(Ground::kBytes, Ground::kBytes));
  char* local = nullptr;  // host threads and kernels read it
  cudaMallocHost(&local, Ground::kBytes);
  memory.local = local;
  char *old_symmetric = nullptr, *old_local = nullptr;
  cudaMallocHost(&old_symmetric, Ground::kBytes);
  cudaMallocHost(&old_local, Ground::kBytes);
  Ground::fill(old_symmetric, old_local, memory.symmetric, memory.local);
  memory.old_symmetric = old_symmetric;
  memory.old_local = old_local;
  cudaMemcpy(memory.symmetric, old_symmetric, Ground::kBytes, cudaMemcpyDefault);
  std::memcpy(local, old_local, Ground::kBytes);

  const Ground ground{memory.symmetric, local, state.heap, state.heap + state.heap_bytes};
  std::vector<Case> cases;
  for (std::size_t i = 0; i < std::size(kSampled); ++i) {
    if (!kSampled[i]) continue;
    for (const Case& one : cases_of(i, ground)) cases.push_back(one);
  }
  const int status = by_kernel(cases, memory) + by_host(cases, memory);
  gshmem_finalize();
  return status;
}

}  // namespace

int main() {
  if (count_gpus() < 1) {
    std::puts("skipped: no GPU");
    return 77;
  }
  const Outcome one = run_pes(1, "report", "60", job)[0];
  expect("wrong arguments are faults that name them", one, 0, "host: ");
  std::fputs(one.output.c_str(), stdout);
  return failures == 0 ? 0 : 1;
}
