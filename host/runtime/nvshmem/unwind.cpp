// Makes exceptions inside libgshmem work if libnvshmem_host was opened by dlopen. For the unwinder,
// glibc 2.35 and later lists the libraries that dlopen has loaded, beginning with the opened
// library. But the filtee of a filter library comes before the filter in that list. So an exception
// of libgshmem would not be caught, and the process would end. Therefore this file registers the
// frames of libgshmem in that case.
#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstring>

extern "C" {
void gshmem_finalize(void);
// A function of libgcc_s, which has no header for it.
void __register_frame(void* begin);    // NOLINT(bugprone-reserved-identifier)
void __deregister_frame(void* begin);  // NOLINT(bugprone-reserved-identifier)
}

namespace {

struct Search {
  std::uintptr_t code;                    ///< an address in the library
  const unsigned char* header = nullptr;  ///< its .eh_frame_hdr
};

int look_at(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const unsigned char* header = nullptr;
  bool here = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_GNU_EH_FRAME) header = reinterpret_cast<const unsigned char*>(begin);
    here = here ||
           (part.p_type == PT_LOAD && search.code >= begin && search.code - begin < part.p_memsz);
  }
  if (here) search.header = header;
  return here ? 1 : 0;
}

/// Linux Standard Base 5.0, core, section 10.6.2: the header has a version, the encodings of three
/// fields, and the first field, which is the start of .eh_frame. Linkers write it relative to its
/// address, in 4 bytes.
void* frames_of(const unsigned char* header) {
  constexpr unsigned char kVersion = 1, kRelativeOf4Bytes = 0x1b;
  if (!header || header[0] != kVersion || header[1] != kRelativeOf4Bytes) return nullptr;
  std::int32_t distance = 0;
  std::memcpy(&distance, header + 4, sizeof(distance));
  return const_cast<unsigned char*>(header) + 4 + distance;
}

void* registered = nullptr;

__attribute__((constructor)) void register_frames() {
  void* const code = reinterpret_cast<void*>(&gshmem_finalize);
  using Find = int(void* address, void* result);
  const auto find = reinterpret_cast<Find*>(dlsym(RTLD_DEFAULT, "_dl_find_object"));
  alignas(16) char result[256];  // struct dl_find_object
  if (!find || find(code, result) == 0) return;
  Search search{reinterpret_cast<std::uintptr_t>(code)};
  dl_iterate_phdr(look_at, &search);
  registered = frames_of(search.header);
  if (registered) __register_frame(registered);
}

__attribute__((destructor)) void deregister_frames() {
  if (registered) __deregister_frame(registered);
}

}  // namespace
