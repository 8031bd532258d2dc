// Calls of rdma-core that the soft NIC's libraries do not support. They exist, so that programs
// which import them can start. A call returns EOPNOTSUPP and logs a line that names it. Included by
// the files that symbols.cmake makes from *.symbols, which do not know the types of these calls: a
// result of any type is in the register of a long.
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
