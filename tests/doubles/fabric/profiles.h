// The providers that the double of libfabric plays, and the fi_info that a caller gets. Written
// from the manual pages (fi_efa(7), fi_cxi(7), fi_rxm(7), fi_tcp(7)) and from what the providers'
// code returns.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <cstddef>
#include <cstdint>

namespace gshmem::test {

struct Profile {
  const char* name;  ///< name in rules (FabricDouble::offer)
  const char* provider;
  const char* fabric;
  std::uint64_t caps;
  std::uint64_t orders;    ///< msg_order that a caller may request
  std::uint64_t op_flags;  ///< flags that a caller may request
  std::uint64_t mode;      ///< bits that the caller must accept
  int mr_mode;             ///< likewise
  fi_progress progress;
  std::size_t places;   ///< number of operations, and of receives
  std::size_t inject;   ///< bytes
  std::size_t cq_data;  ///< bytes
  std::uint64_t largest, largest_send;
  bool has_addresses;     ///< has IP addresses
  bool cuda_unless_told;  ///< calls CUDA for GPU memory unless FI_OPT_CUDA_API_PERMITTED is false
  fi_ep_type type = FI_EP_RDM;
};

/// Returns the profile of an info that this library has made.
[[nodiscard]] const Profile& profile_of(const fi_info& info);
/// Returns the index of the info's NIC.
[[nodiscard]] int nic_of(const fi_info& info);

[[nodiscard]] fi_info* duplicate(const fi_info* info);
void release(fi_info* info);
int find_infos(std::uint32_t version, const char* node, std::uint64_t flags, const fi_info* hints,
               fi_info** found);

/// Returns the value of a variable; null if it is unset or empty.
[[nodiscard]] const char* variable(const char* name);

}  // namespace gshmem::test
