// Which RDMA device and port a PE uses: the nearest that the configuration allows. Distances and
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
/// Index of the candidate for the PE with `local_rank`: of the nearest ones, in order of name and
/// port, a different one for each rank in turn. -1 when there are none.
[[nodiscard]] int choose_device(const std::vector<Candidate>& candidates, int local_rank);

}  // namespace gshmem::nic::mlx5
