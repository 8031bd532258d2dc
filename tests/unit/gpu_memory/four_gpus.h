// Four GPUs of the libcuda double, and the variables of a job of four PEs on them. Included by
// tests of whole PEs.
#pragma once

#include "tests/capture.h"
#include "tests/doubles/cuda_heaps.h"
#include "tests/unit/gpu_memory/rig.h"

#include <cstdlib>
#include <map>
#include <string>

namespace gshmem::test {

inline CudaHeaps& heaps() {
  return *cuda_library().function<CudaHeapsRecord>("cuda_double_heaps")();
}
/// Returns what has been logged.
inline std::string text_of(StderrCapture& capture) {
  std::string all;
  for (const std::string& line : capture.writes()) all += line;
  return all;
}
/// Sets the variables of a job of four PEs, on two simulated hosts of two PEs each.
inline void four_gpus(const std::map<std::string, std::string>& variables) {
  heaps().reset();
  heaps().gpus = 4;
  cuda_double().reset();
  for (const char* name : {"GSHMEM_P2P", "GSHMEM_FABRIC", "GSHMEM_BOOTSTRAP"}) unsetenv(name);
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"GSHMEM_DEVICE", "cuda"},
                                          {"GSHMEM_NIC", "none"},
                                          {"GSHMEM_P2P_GROUP", "2"},
                                          {"GSHMEM_SYMMETRIC_SIZE", "1M"},
                                          {"GSHMEM_BOOTSTRAP_TIMEOUT", "20"}})
    setenv(name.c_str(), value.c_str(), 1);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace gshmem::test
