// An open device of the soft NIC, for tests that call its libraries by name.
#pragma once

#include <catch2/catch.hpp>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace verbs_test {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Pages = std::unique_ptr<void, Free>;
inline Pages pages(std::size_t bytes) { return Pages(std::aligned_alloc(4096, bytes)); }

/// An int: the macros of verbs.h combine it with a flag of another enumeration.
constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;
constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                     IBV_ACCESS_REMOTE_ATOMIC;

struct Nic {
  Nic() {
    ibv_device** list = ibv_get_device_list(nullptr);
    REQUIRE(list != nullptr);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    REQUIRE(context != nullptr);
    pd = ibv_alloc_pd(context);
    REQUIRE(pd != nullptr);
  }
  Nic(const Nic&) = delete;
  ~Nic() {
    if (pd != nullptr) ibv_dealloc_pd(pd);
    ibv_close_device(context);
  }
  ibv_context* context;
  ibv_pd* pd;
};

}  // namespace verbs_test
