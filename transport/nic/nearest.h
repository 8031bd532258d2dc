// Which of several NICs a PE uses: those nearest to its GPU, and of equally near ones others than
// its neighbours. Included by what chooses a NIC (mlx5, ofi). Pure functions.
#pragma once

#include "transport/nic/pci_distance.h"

#include <string>
#include <vector>

namespace gshmem::nic {

struct Candidate {
  std::string device;
  int port = 1;
  Distance distance = Distance::kUnknown;
  double gbits = 0;  ///< a second; 0 = unknown
};
/// Indices of the candidates for the PE with `local_rank`, at most `count`, the nearest first, of
/// equally near ones the fastest. Of equal ones, in order of name and port, each rank in turn gets
/// others. Where they come to the same ones again, each gets another one of them first. Empty when
/// there are none.
[[nodiscard]] std::vector<int> choose_devices(const std::vector<Candidate>& candidates,
                                              int local_rank, int count);

}  // namespace gshmem::nic
