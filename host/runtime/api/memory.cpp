#include <gshmem/gshmem.h>

#include "host/runtime/api/edge.h"

using namespace gshmem;

namespace {
constexpr std::size_t kDefaultAlignment = gshmem::OffsetAllocator::kGranularity;
}

extern "C" {

void* gshmem_malloc(size_t size) {
  return guard_value<void*>("gshmem_malloc", nullptr, [&](Pe& pe) {
    return pe.heap().allocate("gshmem_malloc", size, kDefaultAlignment, false);
  });
}

void* gshmem_calloc(size_t count, size_t size) {
  return guard_value<void*>("gshmem_calloc", nullptr, [&](Pe& pe) -> void* {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) {
      const auto alone = pe.heap().enter("gshmem_calloc", {"count * size", SIZE_MAX});
      GSHMEM_WARN(
          "gshmem_calloc: the product of argument count = %zu and argument size = %zu overflows",
          count, size);
      return nullptr;
    }
    return pe.heap().allocate("gshmem_calloc", bytes, kDefaultAlignment, true);
  });
}

void* gshmem_align(size_t alignment, size_t size) {
  return guard_value<void*>("gshmem_align", nullptr, [&](Pe& pe) {
    return pe.heap().allocate("gshmem_align", size, alignment, false);
  });
}

void* gshmem_malloc_with_hints(size_t size, long /*hints*/) {
  return guard_value<void*>("gshmem_malloc_with_hints", nullptr, [&](Pe& pe) {
    return pe.heap().allocate("gshmem_malloc_with_hints", size, kDefaultAlignment, false);
  });
}

void* gshmem_realloc(void* ptr, size_t size) {
  return guard_value<void*>("gshmem_realloc", nullptr, [&](Pe& pe) {
    return pe.heap().reallocate("gshmem_realloc", ptr, size);
  });
}

void gshmem_free(void* ptr) {
  guard_release("gshmem_free", [&](Pe& pe) { pe.heap().free("gshmem_free", ptr); });
}

int gshmemx_buffer_register(void* addr, size_t length) {
  return guard_status([&] {
    constexpr const char* kCall = "gshmemx_buffer_register";
    Pe& pe = require_pe(kCall);
    require_not_null(kCall, "addr", addr);
    require(length > 0, GSHMEMX_ERROR_INVALID_VALUE, strprintf("%s: argument length = 0", kCall));
    require(length <= UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(addr),
            GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("%s: argument length = %zu is more than there is from addr = %p", kCall,
                      length, addr));
    require(!pe.overlaps_symmetric(addr, length), GSHMEMX_ERROR_INVALID_VALUE, [&] {
      return strprintf(
          "%s: argument addr = %p (%zu bytes) is in the symmetric heap, which needs no "
          "registration",
          kCall, addr, length);
    });
    pe.local_ranges().add(kCall, addr, length);
  });
}

int gshmemx_buffer_unregister(void* addr) {
  return guard_status([&] {
    constexpr const char* kCall = "gshmemx_buffer_unregister";
    require(require_pe(kCall).local_ranges().remove(addr), GSHMEMX_ERROR_INVALID_VALUE,
            [&] { return strprintf("%s: argument addr = %p is not registered", kCall, addr); });
  });
}

void gshmemx_buffer_unregister_all(void) {
  guard_release("gshmemx_buffer_unregister_all", [](Pe& pe) { pe.local_ranges().clear(); });
}

void* gshmemx_buffer_register_symmetric(void* buf_ptr, size_t size, int flags) {
  constexpr const char* kCall = "gshmemx_buffer_register_symmetric";
  void* symmetric = nullptr;
  (void)guard_status([&] {
    symmetric = require_pe(kCall).register_symmetric(kCall, {buf_ptr, size, nullptr, flags});
  });
  return symmetric;
}

void* gshmemx_buffer_register_symmetric_at_preferred_address(void* buf_ptr, size_t size,
                                                             void* preferred_addr, int flags) {
  constexpr const char* kCall = "gshmemx_buffer_register_symmetric_at_preferred_address";
  void* symmetric = nullptr;
  (void)guard_status([&] {
    symmetric = require_pe(kCall).register_symmetric(kCall, {buf_ptr, size, preferred_addr, flags});
  });
  return symmetric;
}

int gshmemx_buffer_unregister_symmetric(void* mmap_ptr, size_t size) {
  return guard_status([&] {
    constexpr const char* kCall = "gshmemx_buffer_unregister_symmetric";
    require_pe(kCall).unregister_symmetric(kCall, mmap_ptr, size);
  });
}

}  // extern "C"
