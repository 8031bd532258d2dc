#include "perftest/common/gpu.h"

#include <stdexcept>

namespace perftest {

std::string gpu_name() { return "no GPU"; }
std::uint64_t gpu_identity() { return 0; }
Stream gpu_stream(bool) {
  return {nullptr, [](CUstream_st*) {}};
}
// No PE has a GPU in this build, so these are never called.
Memory gpu_memory(MemorySide, std::size_t) { throw std::logic_error("built without CUDA"); }
void copy_gpu_bytes(void*, const void*, std::size_t) {
  throw std::logic_error("built without CUDA");
}

}  // namespace perftest
