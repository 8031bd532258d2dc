// Calls of the CUDA runtime for perftests; gpu_none.cpp answers in builds without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

struct CUstream_st;

namespace perftest {

/// Name of the calling thread's current GPU.
[[nodiscard]] std::string gpu_name();
/// A number that two PEs share if and only if they share the GPU; fits in a double.
[[nodiscard]] std::uint64_t gpu_identity();

/// The place of memory that kernels of the current GPU reach: in the host's, pinned, or in the
/// GPU's.
enum class MemorySide { kHost, kGpu };
using Memory = std::unique_ptr<std::byte, void (*)(std::byte*)>;
/// Zeroed, on a page boundary; for PEs on GPUs only. Errors: std::runtime_error.
[[nodiscard]] Memory gpu_memory(MemorySide side, std::size_t bytes);
using Stream = std::unique_ptr<CUstream_st, void (*)(CUstream_st*)>;
/// A stream of the current GPU that waits for no other; null where the PE is on none. Its end waits
/// for what is in it.
[[nodiscard]] Stream gpu_stream(bool on_gpu);
/// Between any two kinds of memory, for PEs on GPUs only; done on return.
void copy_gpu_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace perftest
