// Calls of the CUDA runtime for perftests; gpu_none.cpp implements them in builds without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

struct CUstream_st;

namespace perftest {

/// Returns the name of the calling thread's current GPU.
[[nodiscard]] std::string gpu_name();
/// Returns a number that two PEs share if and only if they share the GPU; it fits in a double.
[[nodiscard]] std::uint64_t gpu_identity();

/// Where memory is that kernels of the current GPU access: in host memory, pinned, or in GPU
/// memory.
enum class MemorySide { kHost, kGpu };
using Memory = std::unique_ptr<std::byte, void (*)(std::byte*)>;
/// Allocates zeroed memory on a page boundary; for PEs on GPUs only. Errors: std::runtime_error.
[[nodiscard]] Memory gpu_memory(MemorySide side, std::size_t bytes);
using Stream = std::unique_ptr<CUstream_st, void (*)(CUstream_st*)>;
/// Makes a stream of the current GPU that waits for no other; null for a PE without a GPU. Its
/// destructor waits for the work in it.
[[nodiscard]] Stream gpu_stream(bool on_gpu);
/// Copies between any two kinds of memory, for PEs on GPUs only; it is complete on return.
void copy_gpu_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace perftest
