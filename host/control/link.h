// A connection to another PE. Included by what makes connections and what watches them.
#pragma once

#include "host/base/fd.h"

namespace gshmem::control {

struct Link {
  int pe = -1;
  bool other_host = false;
  Fd fd;
};

}  // namespace gshmem::control
