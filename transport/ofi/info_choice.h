// Entries of a list by fi_getinfo: one for each network or NIC that a provider has. Used by
// provider.cpp, which asks for the list.
#pragma once

#include <rdma/fabric.h>

#include <string>
#include <vector>

namespace gshmem::ofi {

struct EntryWish {
  std::string domain = {};                  ///< empty = any
  std::vector<std::string> addresses = {};  ///< those first by which other hosts reach this one
  std::string gpu_pci = {};                 ///< empty = none
  int local_rank = 0;
  std::string sysfs = "/sys";
};

/// The entry to use, null when none will do: of the domain that is wanted, else the first of the
/// addresses that an entry has, else one that is not loopback. Several NICs without addresses of IP
/// (efa, cxi) reach the same peers: then it is the one nearest to the GPU. Of equally near ones
/// each PE of the host in turn gets another.
[[nodiscard]] const fi_info* choose_entry(const fi_info* list, const EntryWish& wish);

/// The IP address that an entry stands for; empty when it has none.
[[nodiscard]] std::string source_of(const fi_info& info);
/// A provider on top of another that only watches it.
[[nodiscard]] bool is_layered(const char* name);

}  // namespace gshmem::ofi
