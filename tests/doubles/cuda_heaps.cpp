#include "tests/doubles/cuda_heaps.h"

#include "host/runtime/gpu/grid_kernels.h"
#include "host/runtime/gpu/list_kernel.h"

#include <cuda.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

namespace gshmem::test {
namespace {

constexpr std::size_t kGranularity = 2 << 20;
constexpr unsigned kFd = 1, kFabric = 8;  // CU_MEM_HANDLE_TYPE_*
constexpr int kFabricSupported = 128;     // CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED
constexpr int kMpsEnabled = 133;          // CU_DEVICE_ATTRIBUTE_MPS_ENABLED
constexpr std::size_t kFabricBytes = 64;

struct Memory {
  int device = -1, file = -1;
  std::size_t bytes = 0;
  unsigned types = 0;
  CUmemLocationType where = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle made = 0;  ///< by cuMemCreate
};
struct Mapping {
  std::size_t memory;
  std::size_t bytes;
};

std::mutex mutex;
CudaHeaps seen;
std::vector<Memory> memories;  // kept until the process ends
std::map<CUmemGenericAllocationHandle, std::size_t> handles;
std::map<std::uintptr_t, Mapping> mappings;
std::map<std::uintptr_t, std::size_t> ranges;
std::map<std::uintptr_t, std::size_t> allocated;  ///< memory outside of heaps
std::set<void*> registered_pages;
std::set<const void*> busy_streams;
CUmemGenericAllocationHandle last_handle = 0;

CUresult violated(const std::string& what) {
  seen.violations.push_back(what);
  return CUDA_ERROR_INVALID_VALUE;
}

CUmemGenericAllocationHandle new_handle(std::size_t memory) {
  handles[++last_handle] = memory;
  ++seen.handles;
  return last_handle;
}

CUresult attribute(int* value, CUdevice_attribute which, CUdevice) {
  const std::lock_guard lock(mutex);
  *value = 1;
  if (static_cast<int>(which) == kFabricSupported) *value = seen.fabric_supported ? 1 : 0;
  if (static_cast<int>(which) == kMpsEnabled) *value = seen.mps ? 1 : 0;
  if (which == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) *value = seen.reaches_all ? 1 : 0;
  if (which == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) *value = seen.no_pools ? 0 : 1;
  if (which == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) *value = seen.writes_ordering;
  return CUDA_SUCCESS;
}

CUresult granularity(std::size_t* bytes, const CUmemAllocationProp*,
                     CUmemAllocationGranularity_flags) {
  return *bytes = kGranularity, CUDA_SUCCESS;
}

CUresult memory_info(std::size_t* free, std::size_t* total) {
  return *free = 1, *total = 2, CUDA_SUCCESS;
}

CUresult create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                const CUmemAllocationProp* properties, unsigned long long) {
  const std::lock_guard lock(mutex);
  const int device = properties->location.id;
  const auto types = static_cast<unsigned>(properties->requestedHandleTypes);
  if (bytes == 0 || bytes % kGranularity != 0) return violated("a size that is no multiple");
  if ((types & ~(kFd | kFabric)) != 0) return violated("a handle type of another system");
  if ((types & kFabric) != 0 && !seen.fabric_supported) return CUDA_ERROR_NOT_SUPPORTED;
  if ((types & kFabric) != 0 && seen.without_channel.count(device) != 0)
    return CUDA_ERROR_NOT_PERMITTED;
  if (seen.full.count(device) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const int file = ::memfd_create("cuda_heaps", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  ++((types & kFabric) != 0 ? seen.with_fabric : seen.without_fabric);
  memories.push_back({device, file, bytes, types, properties->location.type});
  memories.back().made = *handle = new_handle(memories.size() - 1);
  return CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(mutex);
  if (handles.erase(handle) == 0) return violated("release of an invalid handle");
  --seen.handles;
  return CUDA_SUCCESS;
}

CUresult export_handle(void* out, CUmemGenericAllocationHandle handle,
                       CUmemAllocationHandleType type, unsigned long long) {
  const std::lock_guard lock(mutex);
  const auto found = handles.find(handle);
  if (found == handles.end()) return violated("export of an invalid handle");
  const Memory& memory = memories[found->second];
  if ((static_cast<unsigned>(type) & memory.types) == 0)
    return violated("export of a kind that was not asked for");
  if (static_cast<unsigned>(type) == kFd) {
    const int fd = ::dup(memory.file);
    std::memcpy(out, &fd, sizeof(fd));
    return CUDA_SUCCESS;
  }
  if (seen.no_export.count(memory.device) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  char text[kFabricBytes] = "fabric handle";  // followed by the number at the end
  std::memcpy(text + kFabricBytes - sizeof(found->second), &found->second, sizeof(found->second));
  std::memcpy(out, text, sizeof(text));
  return CUDA_SUCCESS;
}

/// Returns memories.size() if the descriptor is not of a heap.
std::size_t memory_of(int fd) {
  struct stat theirs {};
  if (::fstat(fd, &theirs) != 0) return memories.size();
  for (std::size_t i = 0; i < memories.size(); ++i) {
    struct stat mine {};
    ::fstat(memories[i].file, &mine);
    if (mine.st_ino == theirs.st_ino && mine.st_dev == theirs.st_dev) return i;
  }
  return memories.size();
}

CUresult import_handle(CUmemGenericAllocationHandle* handle, void* os_handle,
                       CUmemAllocationHandleType type) {
  const std::lock_guard lock(mutex);
  std::size_t memory = memories.size();
  if (static_cast<unsigned>(type) == kFd) {
    memory = memory_of(static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle)));
    if (memory == memories.size()) return violated("import of a descriptor that is no heap");
    ++seen.fd_imports;
  } else {
    const char* text = static_cast<const char*>(os_handle);
    if (std::strcmp(text, "fabric handle") != 0) return violated("import of 64 other bytes");
    std::memcpy(&memory, text + kFabricBytes - sizeof(memory), sizeof(memory));
    if (seen.no_import.count(memories[memory].device) != 0) return CUDA_ERROR_NOT_PERMITTED;
    // A driver fails here, too, even if the memory is still in use.
    if (handles.count(memories[memory].made) == 0) return CUDA_ERROR_NOT_SUPPORTED;
    ++seen.fabric_imports;
  }
  *handle = new_handle(memory);
  return CUDA_SUCCESS;
}

CUresult reserve(CUdeviceptr* address, std::size_t bytes, std::size_t, CUdeviceptr,
                 unsigned long long) {
  const std::lock_guard lock(mutex);
  void* const range = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(range);
  ranges[reinterpret_cast<std::uintptr_t>(range)] = bytes;
  ++seen.ranges;
  return CUDA_SUCCESS;
}

CUresult free_range(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto found = ranges.find(address);
  if (found == ranges.end() || found->second != bytes) return violated("free of another range");
  const auto inside = mappings.lower_bound(address);
  if (inside != mappings.end() && inside->first < address + bytes)
    return violated("free of a range in which something is mapped");
  ::munmap(reinterpret_cast<void*>(address), bytes);
  ranges.erase(found);
  --seen.ranges;
  return CUDA_SUCCESS;
}

CUresult map(CUdeviceptr address, std::size_t bytes, std::size_t offset,
             CUmemGenericAllocationHandle handle, unsigned long long) {
  const std::lock_guard lock(mutex);
  const auto found = handles.find(handle);
  if (found == handles.end()) return violated("map of an invalid handle");
  const Memory& memory = memories[found->second];
  auto range = ranges.upper_bound(address);
  if (range == ranges.begin()) return violated("map outside of a reserved range");
  --range;
  if (address + bytes > range->first + range->second)
    return violated("map beyond the end of a reserved range");
  if (offset != 0 || bytes != memory.bytes) return violated("map of a part of a heap");
  const auto next = mappings.lower_bound(address);
  if (next != mappings.end() && next->first < address + bytes)
    return violated("map over another mapping");
  ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory.file,
         0);
  mappings[address] = {found->second, bytes};
  ++seen.mappings;
  return CUDA_SUCCESS;
}

CUresult unmap(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto found = mappings.find(address);
  if (found == mappings.end() || found->second.bytes != bytes)
    return violated("unmap of what is not mapped");
  ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  mappings.erase(found);
  --seen.mappings;
  return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                    std::size_t count) {
  const std::lock_guard lock(mutex);
  const auto found = mappings.find(address);
  if (found == mappings.end() || found->second.bytes != bytes || count != 1)
    return violated("access to what is not mapped");
  const int owner = memories[found->second.memory].device;
  if (seen.no_access.count({access->location.id, owner}) != 0) return CUDA_ERROR_INVALID_DEVICE;
  ::mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}

/// Returns the mapping at `address`, or mappings.end().
std::map<std::uintptr_t, Mapping>::iterator mapping_at(std::uintptr_t address) {
  const auto above = mappings.upper_bound(address);
  if (above == mappings.begin()) return mappings.end();
  const auto found = std::prev(above);
  return address - found->first < found->second.bytes ? found : mappings.end();
}

// The range is one mapping, and other memory has no handle, as with driver 580.
CUresult address_range(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  const std::lock_guard lock(mutex);
  if (const auto found = mapping_at(address); found != mappings.end())
    return *base = found->first, *bytes = found->second.bytes, CUDA_SUCCESS;
  const auto next = allocated.upper_bound(address);
  if (next == allocated.begin()) return CUDA_ERROR_NOT_FOUND;
  const auto& [first, size] = *std::prev(next);
  if (address - first >= size) return CUDA_ERROR_NOT_FOUND;
  return *base = first, *bytes = size, CUDA_SUCCESS;
}
CUresult retain_allocation(CUmemGenericAllocationHandle* handle, void* address) {
  const std::lock_guard lock(mutex);
  const auto found = mapping_at(reinterpret_cast<std::uintptr_t>(address));
  if (found == mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  return *handle = new_handle(found->second.memory), CUDA_SUCCESS;
}
CUresult properties_of(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(mutex);
  const auto found = handles.find(handle);
  if (found == handles.end()) return violated("properties of an invalid handle");
  const Memory& memory = memories[found->second];
  *properties = {};
  properties->location = {memory.where, {memory.device}};
  properties->requestedHandleTypes = static_cast<CUmemAllocationHandleType>(memory.types);
  return CUDA_SUCCESS;
}

// Other functions that a PE calls.

CUresult total_memory(std::size_t* bytes, CUdevice) { return *bytes = 64 << 20, CUDA_SUCCESS; }

CUresult device_count(int* count) { return *count = seen.gpus, CUDA_SUCCESS; }
CUresult device_name(char* name, int bytes, CUdevice device) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "double %d", device);
  return CUDA_SUCCESS;
}
CUresult device_uuid(CUuuid* uuid, CUdevice device) {
  std::memset(uuid, device + 1, sizeof(*uuid));
  return CUDA_SUCCESS;
}
CUresult device_pci(char* pci, int bytes, CUdevice device) {
  std::snprintf(pci, static_cast<std::size_t>(bytes), "00ff:%02x:00.0", device);  // not real
  return CUDA_SUCCESS;
}
CUresult p2p_attribute(int* value, CUdevice_P2PAttribute which, CUdevice device, CUdevice peer) {
  const std::lock_guard lock(mutex);
  if (device == peer) return CUDA_ERROR_INVALID_DEVICE;
  const bool atomics = which == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
  return *value = !atomics || seen.no_atomics.count({device, peer}) == 0, CUDA_SUCCESS;
}
CUresult load(CUmodule* module, const void*) { return *module = nullptr, CUDA_SUCCESS; }
const CUfunction kServiceFunction = nullptr, kGridFunction = reinterpret_cast<CUfunction>(1),
                 kListFunction = reinterpret_cast<CUfunction>(2);
CUresult function_of(CUfunction* function, CUmodule, const char* name) {
  const bool is_grid = std::string_view(name).substr(0, 12) == "gshmem_grid_";
  if (name == std::string_view(kListKernel)) return *function = kListFunction, CUDA_SUCCESS;
  return *function = is_grid ? kGridFunction : kServiceFunction, CUDA_SUCCESS;
}
/// Returns the request that the service kernel would have received.
ServiceRequest as_service(const GridRequest& grid) {
  ServiceRequest request{device::Call(grid.kind, ""), grid.answer, ""};
  request.call.team = static_cast<gshmem_team_t>(grid.team.handle);
  request.call.dest = grid.call.dest;
  request.call.source = grid.call.source;
  request.call.bytes = grid.call.bytes;
  std::memcpy(request.name, grid.call.name, sizeof request.name);
  return request;
}
/// Adds the stream; returns whether there are others.
bool makes_busy(const void* stream) {
  busy_streams.insert(stream);
  return busy_streams.size() > 1;
}
/// Moves the pieces for a mapped PE, whose `bytes` count those before them, too.
void move_pieces(const ListRequest& request) {
  const gshmemx_piece_t* const pieces = request.list != nullptr ? request.list : request.pieces;
  for (std::uint32_t i = 0; i < request.count; ++i) {
    const std::uint64_t before = i == 0 ? 0 : pieces[i - 1].bytes;
    std::memcpy(pieces[i].dest, pieces[i].source, pieces[i].bytes - before);
  }
}
/// Other kernels do nothing: a PE without any operation runs one at its end, which leaves zeros
/// anyway. They report success for the proof of a queue at its beginning, and for collectives.
CUresult launch(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads,
                unsigned, unsigned, unsigned, CUstream stream, void** parameters, void**) {
  const std::lock_guard lock(mutex);
  const ServiceRequest request = function == kGridFunction
                                     ? as_service(*static_cast<const GridRequest*>(parameters[1]))
                                     : *static_cast<const ServiceRequest*>(parameters[1]);
  if (request.answer != nullptr)
    *request.answer = request.call.kind == device::CallKind::kProve ? 1 : 0;
  seen.in_streams.push_back({stream, true, threads, request, 0, 0, makes_busy(stream), blocks});
  if (function != kListFunction) return CUDA_SUCCESS;
  const auto& list = *static_cast<const ListRequest*>(parameters[1]);
  seen.in_streams.back().pieces = list.count;
  seen.in_streams.back().reads_memory = list.list != nullptr;
  if (seen.moves_lists) move_pieces(list);
  return CUDA_SUCCESS;
}
CUresult set_bytes(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream) {
  return std::memset(reinterpret_cast<void*>(to), value, bytes), CUDA_SUCCESS;
}
CUresult set_words(CUdeviceptr to, unsigned value, std::size_t words, CUstream) {
  return std::fill_n(reinterpret_cast<unsigned*>(to), words, value), CUDA_SUCCESS;
}
CUresult copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  const std::lock_guard lock(mutex);
  const ServiceRequest none{device::Call(device::CallKind::kCopy, ""), nullptr, ""};
  seen.in_streams.push_back({stream, false, 0, none, to, bytes, makes_busy(stream)});
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}

/// The streams that programs make are no legacy stream; a copy of a batch is recorded as any other.
CUresult copy_batch(CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes, std::size_t count,
                    void*, std::size_t* starts, std::size_t attributes, std::size_t*,
                    CUstream stream) {
  if (stream == nullptr || attributes != 1 || *starts != 0)
    return violated("cuMemcpyBatchAsync with wrong arguments");
  for (std::size_t i = 0; i < count; ++i) (void)copy(to[i], from[i], sizes[i], stream);
  return CUDA_SUCCESS;
}

/// Allocates memory outside of heaps, which the test may access.
CUresult allocate(CUdeviceptr* address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  *address = reinterpret_cast<CUdeviceptr>(std::calloc(1, bytes));
  allocated[*address] = bytes;
  ++seen.allocations;
  return CUDA_SUCCESS;
}
CUresult free_memory(CUdeviceptr address) {
  const std::lock_guard lock(mutex);
  std::free(reinterpret_cast<void*>(address));
  allocated.erase(address);
  --seen.allocations;
  return CUDA_SUCCESS;
}

CUresult create_pool(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  const std::lock_guard lock(mutex);
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || seen.no_pools)
    return violated("a pool of another kind");
  ++seen.pools;
  return *pool = reinterpret_cast<CUmemoryPool>(&seen), CUDA_SUCCESS;
}
CUresult destroy_pool(CUmemoryPool) { return --seen.pools, CUDA_SUCCESS; }
CUresult set_pool(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }
CUresult allocate_from_pool(CUdeviceptr* address, std::size_t bytes, CUmemoryPool, CUstream) {
  if (seen.full_pools) return CUDA_ERROR_OUT_OF_MEMORY;
  ++seen.from_pools;
  ++seen.ever_from_pools;
  return allocate(address, bytes);
}
/// Its memory has no use from now on, since launches have read it.
CUresult free_in_stream(CUdeviceptr address, CUstream) {
  --seen.from_pools;
  return free_memory(address);
}

/// Ordinary memory is no register, and the driver says so (gpu_cuda.cpp register_page).
CUresult register_host(void* page, std::size_t, unsigned flags) {
  if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(mutex);
  if (seen.registered_by_others || !registered_pages.insert(page).second)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  ++seen.registered;
  ++seen.ever_registered;
  return CUDA_SUCCESS;
}
CUresult unregister_host(void* page) {
  const std::lock_guard lock(mutex);
  if (registered_pages.erase(page) == 0) return violated("cuMemHostUnregister of somebody else's");
  --seen.registered;
  unsigned char resident = 0;
  if (mincore(page, 1, &resident) != 0) return violated("cuMemHostUnregister of unmapped memory");
  return CUDA_SUCCESS;
}
CUresult device_pointer(CUdeviceptr* address, void* host, unsigned) {
  return *address = reinterpret_cast<CUdeviceptr>(host), CUDA_SUCCESS;
}

template <class F>
void* address_of(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

bool is_of_gpu(std::uintptr_t address) {
  const std::lock_guard lock(mutex);
  const auto next = allocated.upper_bound(address);
  if (next != allocated.begin() && address - std::prev(next)->first < std::prev(next)->second)
    return true;
  return mapping_at(address) != mappings.end();
}

bool is_allocated(std::uintptr_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto next = allocated.upper_bound(address);
  if (next == allocated.begin()) return false;
  const auto& [base, size] = *std::prev(next);
  return address - base <= size && bytes <= size - (address - base);
}

void note_wait(const void* stream) {
  const std::lock_guard lock(mutex);
  busy_streams.erase(stream);
}

bool has_collective(const void* stream) {
  const std::lock_guard lock(mutex);
  return std::any_of(seen.in_streams.begin(), seen.in_streams.end(), [&](const InStream& made) {
    return made.is_launch && made.stream == stream && device::is_collective(made.request.call.kind);
  });
}

void* find_in_heaps(const std::string& name) {
  static const std::map<std::string, void*> functions{
      {"cuDeviceGetAttribute", address_of(attribute)},
      {"cuMemGetAllocationGranularity", address_of(granularity)},
      {"cuMemGetInfo", address_of(memory_info)},
      {"cuMemCreate", address_of(create)},
      {"cuMemRelease", address_of(release)},
      {"cuMemExportToShareableHandle", address_of(export_handle)},
      {"cuMemImportFromShareableHandle", address_of(import_handle)},
      {"cuMemAddressReserve", address_of(reserve)},
      {"cuMemAddressFree", address_of(free_range)},
      {"cuMemMap", address_of(map)},
      {"cuMemUnmap", address_of(unmap)},
      {"cuMemSetAccess", address_of(set_access)},
      {"cuMemGetAddressRange", address_of(address_range)},
      {"cuMemRetainAllocationHandle", address_of(retain_allocation)},
      {"cuMemGetAllocationPropertiesFromHandle", address_of(properties_of)},
      {"cuDeviceTotalMem", address_of(total_memory)},
      {"cuDeviceGetCount", address_of(device_count)},
      {"cuDeviceGetName", address_of(device_name)},
      {"cuDeviceGetUuid", address_of(device_uuid)},
      {"cuDeviceGetPCIBusId", address_of(device_pci)},
      {"cuDeviceGetP2PAttribute", address_of(p2p_attribute)},
      {"cuModuleLoadData", address_of(load)},
      {"cuModuleGetFunction", address_of(function_of)},
      {"cuLaunchKernel", address_of(launch)},
      {"cuMemHostRegister", address_of(register_host)},
      {"cuMemHostUnregister", address_of(unregister_host)},
      {"cuMemHostGetDevicePointer", address_of(device_pointer)},
      {"cuMemAlloc", address_of(allocate)},
      {"cuMemFree", address_of(free_memory)},
      {"cuMemPoolCreate", address_of(create_pool)},
      {"cuMemPoolDestroy", address_of(destroy_pool)},
      {"cuMemPoolSetAttribute", address_of(set_pool)},
      {"cuMemAllocFromPoolAsync", address_of(allocate_from_pool)},
      {"cuMemFreeAsync", address_of(free_in_stream)},
      {"cuMemsetD8Async", address_of(set_bytes)},
      {"cuMemcpyBatchAsync", std::getenv("CUDA_DOUBLE_OLD") ? nullptr : address_of(copy_batch)},
      {"cuMemsetD32Async", address_of(set_words)},
      {"cuMemcpyAsync", address_of(copy)}};
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : found->second;
}

}  // namespace gshmem::test

extern "C" __attribute__((visibility("default"))) gshmem::test::CudaHeaps* cuda_double_heaps() {
  return &gshmem::test::seen;
}
