// Which RDMA devices and ports a PE uses: the nearest that the configuration allows. Distances and
// GIDs are a matter of transport/nic/pci_distance.h and gid_choice.h. Pure functions; device.cpp
// gives them what there is, tests what they like.
#pragma once

#include "transport/nic/pci_distance.h"

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

struct Candidate {
  std::string device;
  int port = 1;
  Distance distance = Distance::kUnknown;
};
/// Indices of the candidates for the PE with `local_rank`, at most `count`, the nearest first. Of
/// equally near ones, in order of name and port, each rank in turn gets others, and where they come
/// to the same ones again, another one of them first. Empty when there are none.
[[nodiscard]] std::vector<int> choose_devices(const std::vector<Candidate>& candidates,
                                              int local_rank, int count);

}  // namespace gshmem::nic::mlx5
