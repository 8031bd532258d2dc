// The caller of an API function. Included by the layer between the APIs and the device library.
#pragma once

#include "../core/state.h"

namespace gshmem::api {

using namespace gshmem::device;

/// The caller: a PE, and the name of the API function for messages.
struct Caller {
  const State& state;
  const char* name;
};
/// Returns the PE of the calling thread, for the C API.
GSHMEM_FN Caller ambient_caller(const char* name) { return {ambient_state(name), name}; }

}  // namespace gshmem::api

/// The expanded name of a function as text.
#define GSHMEM_TEXT(X) GSHMEM_TEXT_(X)
#define GSHMEM_TEXT_(X) #X
