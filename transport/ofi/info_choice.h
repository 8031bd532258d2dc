// Chooses entries of a list by fi_getinfo, which has one for each network or NIC of a provider.
// Used by provider.cpp, which requests the list.
#pragma once

#include <rdma/fabric.h>

#include <string>
#include <vector>

namespace gshmem::ofi {

struct EntryWish {
  std::string domain = {};  ///< empty = any
  /// Addresses by which other hosts reach this one, best first.
  std::vector<std::string> addresses = {};
  std::string gpu_pci = {};  ///< empty = none
  int local_rank = 0;
  int count = 1;  ///< at most this many; 0: all NICs under the root port of the GPU, `most` at most
  int most = 1;
  std::string sysfs = "/sys";
};

/// Returns the entries to use, best first, or none when no entry matches. It returns the entry of
/// the wanted domain; otherwise that of the first address that has an entry; otherwise one that is
/// not loopback. Several NICs without IP addresses (efa, cxi) reach the same peers. Of those it
/// returns the nearest to the GPU, as many as the wish requests. Of equally near ones the PEs of
/// the host get different ones in turn.
[[nodiscard]] std::vector<const fi_info*> choose_entries(const fi_info* list,
                                                         const EntryWish& wish);

/// Returns for example "0000:1b:00.0"; empty when the entry has no PCI address.
[[nodiscard]] std::string pci_of(const fi_info& info);
/// Returns the IP address of an entry; empty when it has none.
[[nodiscard]] std::string source_of(const fi_info& info);
/// Is it a provider on top of another one that only observes it?
[[nodiscard]] bool is_layered(const char* name);

}  // namespace gshmem::ofi
