// A libgdrapi.so.2 without a GPU: it keeps the contract of the real one, by its public
// documentation, and records violations. Types and prototypes are its own, not gshmem's.
#include "tests/doubles/gdr_double.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

extern "C" {
struct gdr {
  int open;
};
struct gdr_mh_s {
  unsigned long h;
};
enum gdr_mapping_type { GDR_MAPPING_TYPE_NONE = 0, GDR_MAPPING_TYPE_WC = 1 };
struct gdr_info_v2 {
  std::uint64_t va;
  std::uint64_t mapped_size;
  std::uint32_t page_size;
  std::uint64_t tm_cycles;
  std::uint32_t cycles_per_ms;
  unsigned mapped : 1;
  unsigned wc_mapping : 1;
  gdr_mapping_type mapping_type;
};
}

namespace {

using gshmem::test::GdrDouble;

constexpr std::uint64_t kGpuPage = 64 * 1024;
constexpr std::uint64_t kAllocation = 2 << 20;

struct Memory {
  std::uint64_t bytes = 0;
  int file = -1;
};
struct Pinned {
  gdr* session = nullptr;
  std::uint64_t asked = 0, va = 0, bytes = 0;
  int file = -1;
  std::uint64_t file_offset = 0;
  std::uint8_t* view = nullptr;
  std::uint64_t view_bytes = 0;
};

std::mutex mutex;
GdrDouble record;
std::map<std::uint64_t, Memory> memories;
std::map<unsigned long, Pinned> pins;

int violated(const std::string& what) {
  record.violations.push_back(what);
  return EINVAL;
}

Pinned* find(gdr* session, gdr_mh_s handle, const char* call) {
  const auto found = pins.find(handle.h);
  if (found != pins.end() && (session == nullptr || found->second.session == session))
    return &found->second;
  violated(std::string(call) + " of a handle that is not pinned");
  return nullptr;
}

/// Is [at, at + bytes) in the view of a mapped pin?
bool inside(const Pinned& pin, const void* at, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(pin.view);
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  return pin.view != nullptr && begin >= first && bytes <= pin.view_bytes &&
         begin - first <= pin.view_bytes - bytes;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT GdrDouble* gdr_double_record() { return &record; }

EXPORT void gdr_double_reset() {
  const std::lock_guard lock(mutex);
  record = GdrDouble{};
}

EXPORT void* gdr_double_allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const int file = memfd_create("gdr_double", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* room = mmap(nullptr, bytes + kAllocation, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto raw = reinterpret_cast<std::uintptr_t>(room);
  const std::uintptr_t base = (raw + kAllocation - 1) / kAllocation * kAllocation;
  void* at = mmap(reinterpret_cast<void*>(base), bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_FIXED, file, 0);
  if (at == MAP_FAILED) return nullptr;
  memories[base] = {bytes, file};
  return at;
}

EXPORT gdr* gdr_open() {
  const std::lock_guard lock(mutex);
  if (record.no_driver) return nullptr;
  ++record.sessions, ++record.opened;
  return new gdr{1};
}

EXPORT int gdr_close(gdr* session) {
  const std::lock_guard lock(mutex);
  for (const auto& [number, pin] : pins)
    if (pin.session == session) return violated("gdr_close with a buffer pinned");
  delete session;
  --record.sessions;
  return 0;
}

EXPORT int gdr_pin_buffer(gdr* session, unsigned long address, std::size_t bytes,
                          std::uint64_t p2p_token, std::uint32_t va_space, gdr_mh_s* handle) {
  const std::lock_guard lock(mutex);
  if (record.pin_error != 0) return record.pin_error;
  if (bytes == 0 || p2p_token != 0 || va_space != 0) return violated("gdr_pin_buffer: arguments");
  const std::uint64_t first = address / record.page * record.page;
  const std::uint64_t end = (address + bytes + record.page - 1) / record.page * record.page;
  auto memory = memories.upper_bound(address);
  if (memory == memories.begin()) return violated("gdr_pin_buffer of memory that is not a GPU's");
  --memory;
  if (first < memory->first || end > memory->first + memory->second.bytes)
    return violated("gdr_pin_buffer of memory that is not a GPU's");
  static unsigned long next = 0;
  pins[++next] = {.session = session,
                  .asked = address,
                  .va = first,
                  .bytes = end - first,
                  .file = memory->second.file,
                  .file_offset = first - memory->first};
  handle->h = next;
  ++record.pins, ++record.pinned;
  return 0;
}

EXPORT int gdr_unpin_buffer(gdr* session, gdr_mh_s handle) {
  const std::lock_guard lock(mutex);
  const Pinned* pin = find(session, handle, "gdr_unpin_buffer");
  if (pin == nullptr) return EINVAL;
  if (pin->view != nullptr) return violated("gdr_unpin_buffer before gdr_unmap");
  pins.erase(handle.h);
  --record.pins;
  return 0;
}

EXPORT int gdr_get_info_v2(gdr* session, gdr_mh_s handle, gdr_info_v2* info) {
  const std::lock_guard lock(mutex);
  if (record.info_error != 0) return record.info_error;
  const Pinned* pin = find(session, handle, "gdr_get_info_v2");
  if (pin == nullptr) return EINVAL;
  info->va = pin->va + record.pins_later;
  info->mapped_size = pin->bytes - record.pins_less;
  info->page_size = kGpuPage;
  info->tm_cycles = 0;
  info->cycles_per_ms = 0;
  info->mapped = pin->view != nullptr;
  info->wc_mapping = pin->view != nullptr;
  info->mapping_type = pin->view != nullptr ? GDR_MAPPING_TYPE_WC : GDR_MAPPING_TYPE_NONE;
  return 0;
}

EXPORT int gdr_map(gdr* session, gdr_mh_s handle, void** address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  if (record.map_error != 0) return record.map_error;
  Pinned* pin = find(session, handle, "gdr_map");
  if (pin == nullptr) return EINVAL;
  if (pin->view != nullptr) return violated("gdr_map of a handle that is mapped"), EAGAIN;
  if (pin->asked % kGpuPage != 0) return violated("gdr_map of an address within a GPU page");
  if (bytes == 0 || bytes > pin->bytes) return violated("gdr_map of more than is pinned");
  void* view = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pin->file,
                    static_cast<off_t>(pin->file_offset));
  if (view == MAP_FAILED) return errno;
  pin->view = static_cast<std::uint8_t*>(view);
  pin->view_bytes = bytes;
  *address = record.view = pin->view;
  ++record.mappings, ++record.mapped;
  return 0;
}

EXPORT int gdr_unmap(gdr* session, gdr_mh_s handle, void* address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  Pinned* pin = find(session, handle, "gdr_unmap");
  if (pin == nullptr) return EINVAL;
  if (pin->view == nullptr || address != pin->view || bytes != pin->view_bytes)
    return violated("gdr_unmap of what gdr_map did not give");
  munmap(pin->view, pin->view_bytes);
  pin->view = nullptr;
  --record.mappings;
  return record.unmap_error;
}

EXPORT int gdr_copy_to_mapping(gdr_mh_s handle, void* to, const void* from, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex);
    ++record.copies_to;
    if (record.copy_error != 0) return record.copy_error;
    const Pinned* pin = find(nullptr, handle, "gdr_copy_to_mapping");
    if (pin == nullptr) return EINVAL;
    if (!inside(*pin, to, bytes)) return violated("gdr_copy_to_mapping outside of the mapping");
  }
  gshmem::test::copy_by_combining(to, from, bytes);
  return 0;
}

EXPORT int gdr_copy_from_mapping(gdr_mh_s handle, void* to, const void* from, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex);
    ++record.copies_from;
    if (record.copy_error != 0) return record.copy_error;
    const Pinned* pin = find(nullptr, handle, "gdr_copy_from_mapping");
    if (pin == nullptr) return EINVAL;
    if (!inside(*pin, from, bytes)) return violated("gdr_copy_from_mapping outside of the mapping");
  }
  std::memcpy(to, from, bytes);
  return 0;
}
