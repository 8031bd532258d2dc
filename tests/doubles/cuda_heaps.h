// The part of the libcuda double that creates, shares and maps heaps (cuda_heaps.cpp): virtual
// memory management for any number of GPUs, with file descriptors and fabric handles, and the other
// functions that a PE without kernels calls. A test may access a mapped heap by its address after
// access is set; other accesses raise SIGSEGV.
#pragma once

#include "host/runtime/gpu/service.h"

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gshmem::test {

/// A launch of the service kernel or of a kernel of collectives or lists, or a copy, in a stream.
struct InStream {
  const void* stream;
  bool is_launch;
  unsigned threads;           ///< for a launch
  ServiceRequest request;     ///< for a launch; of collectives: as for the service kernel
  std::uint64_t to, bytes;    ///< for a copy
  bool beside_others;         ///< other streams had work that no call had waited for
  unsigned blocks = 0;        ///< for a launch
  unsigned pieces = 0;        ///< for a launch of the kernel of lists
  bool reads_memory = false;  ///< for that launch: the pieces are not parameters
};

struct CudaHeaps {
  // Rules, by GPU index.
  int gpus = 1;
  bool fabric_supported = true;
  bool mps = false;                   ///< contexts are shared through MPS
  bool reaches_all = false;           ///< GPUs reach any memory of the process
  bool registered_by_others = false;  ///< every host page is registered already
  bool moves_lists = false;           ///< the kernel of lists moves pieces of a PE's own memory
  bool no_pools = false;              ///< GPUs have no memory pools
  bool full_pools = false;            ///< no memory is left for pools
  int writes_ordering = 200;          ///< CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES
  std::set<int> without_channel;      ///< cuMemCreate with a fabric handle is not permitted
  std::set<int> full;                 ///< GPUs without free memory
  std::set<int> no_export;            ///< the fabric handle cannot be exported
  std::set<int> no_import;            ///< no process can import fabric handles of this GPU's memory
  std::set<std::pair<int, int>> no_access;   ///< the first cannot reach memory of the second
  std::set<std::pair<int, int>> no_atomics;  ///< native ones, of the first on memory of the second

  // Records.
  int with_fabric = 0, without_fabric = 0;                     ///< cuMemCreate
  int fd_imports = 0, fabric_imports = 0;                      ///< successful imports
  int handles = 0, mappings = 0, ranges = 0, allocations = 0;  ///< current numbers
  int pools = 0, from_pools = 0;  ///< current numbers; the second is in `allocations`, too
  int ever_from_pools = 0;        ///< allocations
  int registered = 0, ever_registered = 0;  ///< host pages (cuMemHostRegister): now, and ever
  std::vector<InStream> in_streams;         ///< since reset
  std::vector<std::string> violations;      ///< violations of the driver's contract

  void reset() { *this = CudaHeaps(); }
  [[nodiscard]] bool clean() const {
    return handles == 0 && mappings == 0 && ranges == 0 && allocations == 0 && registered == 0 &&
           pools == 0 && violations.empty();
  }
};

/// Exported by the double. Rules change and records are read while no PE runs.
using CudaHeapsRecord = CudaHeaps*();

/// Is the address in a heap, or in other memory of a GPU?
bool is_of_gpu(std::uintptr_t address);
/// Is the range in memory of a GPU outside of heaps?
bool is_allocated(std::uintptr_t address, std::size_t bytes);
/// Was a collective launched in the stream since the last reset?
bool has_collective(const void* stream);
/// Records that a call has waited for the stream.
void note_wait(const void* stream);
/// Returns a function of this part by its name, or null.
void* find_in_heaps(const std::string& name);

}  // namespace gshmem::test
