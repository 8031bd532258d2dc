// Shared by tests of Mlx5Nic over functions of the test: a configuration, memory, and the life of a
// NIC with two queues. One fake per test (fake_verbs_reset).
#pragma once

#include "bootstrap/bootstrap.h"
#include "tests/doubles/verbs_double.h"
#include "transport/nic/mlx5/mlx5_nic.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gshmem::nic::mlx5 {

inline Config config_with(const std::vector<std::pair<std::string, std::string>>& values = {}) {
  static const std::vector<std::pair<std::string, std::string>>* now = nullptr;
  now = &values;
  return Config::from(
      [](const char* name, void*) -> const char* {
        for (const auto& [key, value] : *now) {
          if (key == name) return value.c_str();
        }
        return nullptr;
      },
      nullptr);
}

/// Memory of two queues and a heap.
struct Memory {
  alignas(4096) std::array<std::uint8_t, 4096 * 6> queues{};
  alignas(4096) std::array<std::uint8_t, 4096> heap{};
  [[nodiscard]] Region queue_region() {
    return {queues.data(), queues.size(), MemoryKind::kHost, -1};
  }
  [[nodiscard]] Region heap_region() { return {heap.data(), heap.size(), MemoryKind::kHost, -1}; }
  [[nodiscard]] static QueuePlace place(int queue) {
    const std::uint64_t base = static_cast<std::uint64_t>(queue) * 3 * 4096;
    return {.entries = base,
            .completion = base + 4096,
            .record = base + 8192,
            .cq_record = base + 8200,
            .depth = 64};
  }
};

struct Setup {
  Config config;
  VerbsApi api = fake_verbs_api();
  std::unique_ptr<bootstrap::Bootstrap> boot = bootstrap::create_single();
  Memory memory;
  std::function<void(const Error&, int)> on_error = [](const Error&, int) {}, on_refusal;
  MemoryKind heap_kind = MemoryKind::kHost;
  bool gpu_orders_writes = false;

  explicit Setup(Config with = config_with()) : config(std::move(with)) {}

  [[nodiscard]] std::unique_ptr<Mlx5Nic> open() {
    const OpenOptions options{.config = config,
                              .boot = *boot,
                              .heap_kind = heap_kind,
                              .gpu_orders_writes = gpu_orders_writes,
                              .on_error = on_error,
                              .on_refusal = on_refusal};
    return std::make_unique<Mlx5Nic>(api, DeviceWish{.config = config, .sysfs = "/nowhere"},
                                     options);
  }
  /// From open to destruction: two queues of this PE, connected to each other.
  void whole_life() {
    const std::unique_ptr<Mlx5Nic> nic = open();
    nic->use_queue_memory(memory.queue_region());
    const Keys keys = nic->register_memory(memory.heap_region());
    for (int queue : {0, 1}) (void)nic->create_queue(Memory::place(queue));
    const ConnectInfo a = nic->connect_info(0), b = nic->connect_info(1);
    nic->connect(0, 1, b, keys.remote);
    nic->connect(1, 0, a, keys.remote);
    nic->start();
    nic->stop();
  }
};

inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace gshmem::nic::mlx5
