// A libibverbs and libmlx5 that were linked without a version script: all names, and calls that
// fail, except those of verbs_nine_ports.cpp.
#include <cerrno>

#define GSHMEM_NAME(symbol) \
  extern "C" __attribute__((visibility("default"), weak)) int symbol() { return EINVAL; }
#define GSHMEM_VERBS(member, symbol, version) GSHMEM_NAME(symbol)
#define GSHMEM_VERBS_OPTIONAL(member, symbol, version) GSHMEM_NAME(symbol)
#define GSHMEM_MLX5DV(member, symbol, version) GSHMEM_NAME(symbol)
#define GSHMEM_MLX5DV_OPTIONAL(member, symbol, version) GSHMEM_NAME(symbol)
#include "transport/nic/mlx5/verbs_api.def"
#undef GSHMEM_NAME
