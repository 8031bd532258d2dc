// open_ofi in builds without libfabric's headers.
#include "transport/nic/nic.h"

namespace gshmem::nic {

std::unique_ptr<Nic> open_ofi(const OpenOptions&) {
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
              "GSHMEM_NIC=ofi: built without libfabric; install its headers (Debian: "
              "libfabric-dev) and build again");
}

}  // namespace gshmem::nic
