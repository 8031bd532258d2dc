// Replaces pmix.cpp when the build found no pmix.h.
#include "bootstrap/bootstrap.h"

namespace gshmem::bootstrap {

std::unique_ptr<Bootstrap> create_pmix(const Config&) {
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
              "built without PMIx: configure with GSHMEM_PMIX_INCLUDE_DIR=<folder of pmix.h>, or "
              "choose GSHMEM_BOOTSTRAP=uid");
}

}  // namespace gshmem::bootstrap
