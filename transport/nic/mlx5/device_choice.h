// Which RDMA devices and ports a PE may use. The nearest of them and their GIDs are a matter of
// transport/nic/nearest.h and gid_choice.h. Pure; device.cpp gives it what there is, tests what
// they like.
#pragma once

#include "transport/nic/nearest.h"

#include <string>
#include <vector>

namespace gshmem::nic::mlx5 {

/// GSHMEM_NIC_DEVICES: "mlx5_0:1,mlx5_2" prefixes, "=mlx5_0" exact names, "^mlx5_1" all but these,
/// "^=..." all but exactly these; the sign stands once, at the front.
class DeviceFilter {
 public:
  /// Errors: GSHMEMX_ERROR_CONFIG.
  explicit DeviceFilter(const std::string& text);
  [[nodiscard]] bool accepts(const std::string& device, int port) const;

 private:
  struct Word {
    std::string device;
    int port = 0;  ///< 0: any
  };
  bool exclude_ = false, exact_ = false;
  std::vector<Word> words_;
};

}  // namespace gshmem::nic::mlx5
