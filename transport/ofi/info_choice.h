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
  int count = 1;  ///< at most; 0: all NICs under the root port of the GPU, `most` at most
  int most = 1;
  std::string sysfs = "/sys";
};

/// The entries to use, the first one first; none when none will do: of the domain that is wanted,
/// else the first of the addresses that an entry has, else one that is not loopback. Several NICs
/// without addresses of IP (efa, cxi) reach the same peers: then it is those nearest to the GPU, as
/// many as the wish says. Of equally near ones each PE of the host in turn gets others.
[[nodiscard]] std::vector<const fi_info*> choose_entries(const fi_info* list,
                                                         const EntryWish& wish);

/// "0000:1b:00.0"; empty when the entry does not say.
[[nodiscard]] std::string pci_of(const fi_info& info);
/// The IP address that an entry stands for; empty when it has none.
[[nodiscard]] std::string source_of(const fi_info& info);
/// A provider on top of another that only watches it.
[[nodiscard]] bool is_layered(const char* name);

}  // namespace gshmem::ofi
