// A connection to another PE. Included by the code that makes connections and by the monitor.
#pragma once

#include "host/base/fd.h"

namespace gshmem::control {

struct Link {
  int pe = -1;
  bool other_host = false;
  Fd fd;
};

}  // namespace gshmem::control
