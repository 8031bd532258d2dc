// Owners of objects that verbs and DevX calls create. There is one alias per kind, and the library
// that made an object releases it. Included by all files of this folder. Invariant: release never
// throws; a failure is logged, because the owner can do nothing about it.
#pragma once

#include "host/base/log.h"
#include "transport/nic/mlx5/verbs_api.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <type_traits>

namespace gshmem::nic::mlx5 {

/// A deleter that calls a function of a loaded library, which returns an error number or nothing.
template <class T, class Result = int>
struct Release {
  Result (*function)(T*) = nullptr;
  const char* name = "";
  void operator()(T* object) const noexcept {
    if constexpr (std::is_void_v<Result>) {
      function(object);
    } else if (const int error = function(object); error != 0) {
      GSHMEM_WARN("%s failed: %s", name, std::strerror(error < 0 ? errno : error));
    }
  }
};
template <class T, class Result = int>
using Owned = std::unique_ptr<T, Release<T, Result>>;

using OwnedContext = Owned<ibv_context>;
using OwnedPd = Owned<ibv_pd>;
using OwnedMr = Owned<ibv_mr>;
using OwnedAh = Owned<ibv_ah>;
using OwnedCq = Owned<ibv_cq>;
using OwnedQp = Owned<ibv_qp>;
using OwnedSrq = Owned<ibv_srq>;
using OwnedObject = Owned<mlx5dv_devx_obj>;
using OwnedUmem = Owned<mlx5dv_devx_umem>;
using OwnedUar = Owned<mlx5dv_devx_uar, void>;
using OwnedEventChannel = Owned<mlx5dv_devx_event_channel, void>;

template <class T, class Result>
[[nodiscard]] Owned<T, Result> own(T* object, Result (*release)(T*), const char* name) {
  return Owned<T, Result>(object, Release<T, Result>{release, name});
}

}  // namespace gshmem::nic::mlx5
