// The part of the libcuda double that makes, shares and maps heaps (cuda_heaps.cpp): virtual memory
// management for any number of GPUs, with file descriptors and fabric handles, and what else a PE
// without kernels asks of them. A mapped heap is memory that the test may touch by its address,
// once access is set; all else gets SIGSEGV.
#pragma once

#include "host/runtime/gpu/service.h"

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gshmem::test {

/// A launch of the service kernel or of a kernel of collectives, or a copy, as it was put into a
/// stream.
struct InStream {
  const void* stream;
  bool is_launch;
  unsigned threads;         ///< of a launch
  ServiceRequest request;   ///< of a launch; of collectives: what the service kernel would get
  std::uint64_t to, bytes;  ///< of a copy
  bool beside_others;       ///< in other streams was what nobody had waited for
};

struct CudaHeaps {
  // Rules, by number of GPU.
  int gpus = 1;
  bool fabric_supported = true;
  bool mps = false;                   ///< contexts are shared through MPS
  bool reaches_all = false;           ///< GPUs reach any memory of the process
  bool registered_by_others = false;  ///< whatever host page is to be registered
  int writes_ordering = 200;          ///< CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES
  std::set<int> without_channel;      ///< cuMemCreate with a fabric handle is not permitted
  std::set<int> full;                 ///< no memory left
  std::set<int> no_export;            ///< the fabric handle cannot be exported
  std::set<int> no_import;            ///< nobody can import fabric handles of this one's memory
  std::set<std::pair<int, int>> no_access;   ///< the first cannot reach memory of the second
  std::set<std::pair<int, int>> no_atomics;  ///< native ones, of the first on memory of the second

  // Records.
  int with_fabric = 0, without_fabric = 0;                     ///< cuMemCreate
  int fd_imports = 0, fabric_imports = 0;                      ///< that succeeded
  int handles = 0, mappings = 0, ranges = 0, allocations = 0;  ///< now
  int registered = 0, ever_registered = 0;  ///< host pages (cuMemHostRegister): now, and so far
  std::vector<InStream> in_streams;         ///< since reset
  std::vector<std::string> violations;      ///< of the driver's contract, in words

  void reset() { *this = CudaHeaps(); }
  [[nodiscard]] bool clean() const {
    return handles == 0 && mappings == 0 && ranges == 0 && allocations == 0 && registered == 0 &&
           violations.empty();
  }
};

/// Exported by the double. Rules change and records are read while no PE runs.
using CudaHeapsRecord = CudaHeaps*();

/// The address is in a heap, or in other memory of a GPU.
bool is_of_gpu(std::uintptr_t address);
/// A collective has been launched in the stream since the last reset.
bool has_collective(const void* stream);
/// Somebody has waited for the stream.
void note_wait(const void* stream);
/// Functions of this part by their name; null: not one of them.
void* find_in_heaps(const std::string& name);

}  // namespace gshmem::test
