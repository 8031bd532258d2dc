// The functions of nvshmem.h as symbols, for programs and loaders that look them up by name.
#include <gshmem/types.h>

#define NVSHMEM_HOST_FN extern "C" GSHMEM_EXPORT
#include <gshmem/compat/nvshmem.h>
