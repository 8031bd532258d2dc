// What the perftests ask the CUDA runtime for; gpu_none.cpp answers in builds without CUDA.
#pragma once

#include <cstdint>
#include <string>

namespace perftest {

/// Name of the calling thread's current GPU.
[[nodiscard]] std::string gpu_name();
/// A number that two PEs share if and only if they share the GPU; fits in a double.
[[nodiscard]] std::uint64_t gpu_identity();

}  // namespace perftest
