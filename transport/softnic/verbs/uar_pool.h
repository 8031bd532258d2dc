// Doorbell registers, assigned as rdma-core does. The registers of a page of the host are assigned
// one by one, and a page stays until the context closes. Owned by a context. Threads: any.
#pragma once

#include "transport/softnic/engine.h"
#include "transport/softnic/verbs/resources.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace gshmem::soft {

struct DoorbellRegister {
  void* page = nullptr;    ///< of the host
  std::uint32_t uar = 0;   ///< its number, of which a page of 64 KiB has 16
  std::size_t offset = 0;  ///< in the page
};

class UarPool {
 public:
  /// MLX5DV_UAR_ALLOC_TYPE_*: two BlueFlame windows in a UAR; one register for all users that need
  /// no window; or four registers of 8 bytes in a UAR.
  enum class Kind : std::uint8_t { kBlueFlame, kShared, kDedicated };

  UarPool(Engine& engine, Resources& resources) : engine_(engine), resources_(resources) {}

  /// Errors: EngineError when there is no memory for a page.
  [[nodiscard]] DoorbellRegister take(Kind kind);
  /// Returns a register. The next caller of take() gets it, even if the old user still uses it.
  void give_back(Kind kind, const DoorbellRegister& one);

 private:
  void add_page(Kind kind);

  Engine& engine_;
  Resources& resources_;
  std::mutex mutex_;
  std::array<std::vector<DoorbellRegister>, 3> free_;
};

}  // namespace gshmem::soft
