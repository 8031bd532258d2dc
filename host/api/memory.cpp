#include <gshmem/gshmem.h>

#include "host/api/edge.h"

using gshmem::guard_value;
using gshmem::Pe;

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
    if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;  // no heap has that much
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
  (void)guard_value<int>("gshmem_free", 0, [&](Pe& pe) {
    pe.heap().free("gshmem_free", ptr);
    return 0;
  });
}

}  // extern "C"
