// libfabric, loaded at run time: its six exported functions and an owner for its objects. The rest
// of the interface is inline functions over tables of pointers (fabric(7)). Included by
// transport/ofi only. Invariant: in a Library that get() returns, every pointer is set.
#pragma once

#include "host/base/dynamic_library.h"
#include "host/base/error.h"
#include "host/base/log.h"

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace gshmem::ofi {

class Library {
 public:
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_version) version = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;

  /// Returns the library of this process. The first call loads it, and it is never unloaded:
  /// providers keep threads and exit handlers. Errors: GSHMEMX_ERROR_NOT_SUPPORTED, with what to
  /// install. Threads: any.
  [[nodiscard]] static const Library& get();

  /// Returns the version of the loaded library, for example "1.17".
  [[nodiscard]] std::string version_text() const;
  /// Returns the text of a libfabric error number of either sign.
  [[nodiscard]] std::string text(long error) const;
  /// Throws unless `result` is 0 or more: GSHMEMX_ERROR_NIC with "fi_mr_reg(base 0x.., 4096 bytes):
  /// Cannot allocate memory. remedy".
  void check(long result, const std::string& call, const char* remedy, Where where = {}) const;

 private:
  Library();
  DynamicLibrary library_;
};

struct FreeInfo {
  void operator()(fi_info* info) const { Library::get().freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, FreeInfo>;

/// Does the name of the provider, or of a layer of it ("tcp;ofi_rxm"), contain `part`?
[[nodiscard]] inline bool is_named(const fi_info& info, const char* part) {
  return std::strstr(info.fabric_attr->prov_name, part) != nullptr;
}

/// Owns one object of libfabric (fid_ep, fid_mr, ...).
template <class T>
class Fid {
 public:
  Fid() = default;
  Fid(Fid&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Fid& operator=(Fid&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Fid() { close(); }

  /// For calls that create the object.
  [[nodiscard]] T** out() { return &object_; }
  [[nodiscard]] T* get() const { return object_; }
  T* operator->() const { return object_; }
  [[nodiscard]] explicit operator bool() const { return object_ != nullptr; }

  void close() noexcept {
    T* object = std::exchange(object_, nullptr);
    if (object == nullptr) return;
    const int result = object->fid.ops->close(&object->fid);
    // ofi_rxm keeps registrations for operations to a peer that was lost, and then reports region
    // and domain as busy. They remain until the process ends.
    if (result != 0) GSHMEM_DEBUG("fi_close: %s", Library::get().strerror(-result));
  }

 private:
  T* object_ = nullptr;
};

}  // namespace gshmem::ofi
