// Calls of rdma-core that the doubles do not have. They exist, so that programs which import them
// start; who calls one gets EOPNOTSUPP and a line that names it. Included by the files that
// symbols.cmake makes from *.symbols, which know no types of these calls: the value of one of any
// type is in the register of a long.
#pragma once

#include "host/base/log.h"

#include <cerrno>

namespace gshmem::soft {

inline long not_there(const char* call, long value) {
  GSHMEM_WARN("soft NIC: %s is not there: EOPNOTSUPP", call);
  errno = EOPNOTSUPP;
  return value;
}

}  // namespace gshmem::soft

#define GSHNIC_STUB_ERROR(call) \
  extern "C" long call() { return gshmem::soft::not_there(#call, EOPNOTSUPP); }
#define GSHNIC_STUB_NULL(call) \
  extern "C" long call() { return gshmem::soft::not_there(#call, 0); }
#define GSHNIC_STUB_MINUS(call) \
  extern "C" long call() { return gshmem::soft::not_there(#call, -1); }
#define GSHNIC_STUB_NOTHING(call) \
  extern "C" void call() {}
#define GSHNIC_STUB_FLAG(variable) \
  extern "C" bool variable;        \
  bool variable = false;
