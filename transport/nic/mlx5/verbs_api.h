// libibverbs and libmlx5, loaded at run time, with one function pointer per row of verbs_api.def.
// So a program linked with gshmem starts on a machine that has neither. Included by all files of
// this folder. Invariant: in a VerbsApi that load() or get() returns, every pointer that is not
// optional is set. The members have names of their own because verbs.h defines macros for some of
// the functions.
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
extern "C" int ibv_query_port_speed(ibv_context* context, std::uint32_t port, std::uint64_t* speed);

namespace gshmem::nic::mlx5 {

struct VerbsApi {
#define GSHMEM_VERBS(member, symbol, version) decltype(&::symbol) member = nullptr;
#define GSHMEM_VERBS_OPTIONAL GSHMEM_VERBS
#define GSHMEM_MLX5DV GSHMEM_VERBS
#define GSHMEM_MLX5DV_OPTIONAL GSHMEM_VERBS
#include "transport/nic/mlx5/verbs_api.def"

  /// Returns the libraries in `folder` (empty: the system's). The first call loads them, and they
  /// are never unloaded: libibverbs registers providers and fork handlers that must stay. Errors:
  /// GSHMEMX_ERROR_NOT_SUPPORTED, which names library and symbol. This also happens for the
  /// system's libraries when the process has loaded others of their name from a folder. Threads:
  /// any.
  [[nodiscard]] static const VerbsApi& get(const std::string& folder);
  /// Loads the libraries; get() calls it once. In a folder the libraries are opened by absolute
  /// path, so that another libibverbs in the process is not used instead.
  [[nodiscard]] static std::unique_ptr<const VerbsApi> load(const std::string& folder);

 private:
  DynamicLibrary verbs_, mlx5_;
};

/// Throws GSHMEMX_ERROR_NIC "<call>: <text of error>; <advice>". `error` is an errno.
[[noreturn]] void fail_verbs(const std::string& call, int error, const std::string& advice = {},
                             Where where = {});
/// Returns the error of a function that returns 0, an errno (also negative), or -1 with errno set.
[[nodiscard]] int error_of(int result);
/// Checks the result of such a function.
void check_verbs(int result, const std::string& call, const std::string& advice = {},
                 Where where = {});
/// Checks the result of a function that returns a pointer, or null with errno set.
template <class T>
T* check_verbs(T* result, const std::string& call, const std::string& advice = {},
               Where where = {}) {
  if (result == nullptr) fail_verbs(call, errno, advice, where);
  return result;
}

}  // namespace gshmem::nic::mlx5
