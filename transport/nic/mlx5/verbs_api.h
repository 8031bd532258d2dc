// libibverbs and libmlx5, loaded at run time: one function pointer per row of verbs_api.def, so
// that a program linked with gshmem starts on a machine that has neither. Included by all of this
// folder. Invariant: in a VerbsApi that load() or get() returns, every pointer that is not optional
// is set. The members have names of their own because verbs.h makes macros of some of the
// functions.
#pragma once

#include "host/base/dynamic_library.h"
#include "host/base/error.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

/// Functions of newer rdma-core (man mlx5dv_reg_dmabuf_mr) that older headers do not declare.
extern "C" ibv_mr* mlx5dv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                                        std::uint64_t iova, int fd, int access, int mlx5_access);

namespace gshmem::nic::mlx5 {

struct VerbsApi {
#define GSHMEM_VERBS(member, symbol, version) decltype(&::symbol) member = nullptr;
#define GSHMEM_VERBS_OPTIONAL GSHMEM_VERBS
#define GSHMEM_MLX5DV GSHMEM_VERBS
#define GSHMEM_MLX5DV_OPTIONAL GSHMEM_VERBS
#include "transport/nic/mlx5/verbs_api.def"

  /// The libraries in `folder` (empty: the system's), loaded by the first call and never unloaded:
  /// libibverbs registers providers and fork handlers that must not go away. Errors:
  /// GSHMEMX_ERROR_NOT_SUPPORTED naming library and symbol, and for the system's libraries when the
  /// process has others of their name from a folder. Threads: any.
  [[nodiscard]] static const VerbsApi& get(const std::string& folder);
  /// Loads the libraries, which get() does once. In a folder the libraries are opened by absolute
  /// path, so that another libibverbs which is in the process already is not taken for them.
  [[nodiscard]] static std::unique_ptr<const VerbsApi> load(const std::string& folder);

 private:
  DynamicLibrary verbs_, mlx5_;
};

/// Throws GSHMEMX_ERROR_NIC "<call>: <text of error>; <advice>". `error` is an errno.
[[noreturn]] void fail_verbs(const std::string& call, int error, const std::string& advice = {},
                             Where where = {});
/// The error of a function that returns 0, an errno (also below 0), or -1 with errno set.
[[nodiscard]] int error_of(int result);
/// For them.
void check_verbs(int result, const std::string& call, const std::string& advice = {},
                 Where where = {});
/// For functions that return a pointer, or null with errno set.
template <class T>
T* check_verbs(T* result, const std::string& call, const std::string& advice = {},
               Where where = {}) {
  if (result == nullptr) fail_verbs(call, errno, advice, where);
  return result;
}

}  // namespace gshmem::nic::mlx5
