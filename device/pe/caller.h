// The caller of an API function. Included by the layer between the APIs and the device library.
#pragma once

#include "../core/order_check.h"
#include "../core/state.h"

namespace gshmem::api {

using namespace gshmem::device;

/// The caller: a PE, and the name of the API function for messages.
struct Caller {
  const State& state;
  const char* name;
#if defined(GSHMEM_WATCH_ON)
  const char* file = nullptr;
  int line = 0;
#endif
};
/// Returns the PE of the calling thread, for the C API.
GSHMEM_FN Caller ambient_caller(const char* name) { return {ambient_state(name), name}; }

}  // namespace gshmem::api

/// The expanded name of a function as text.
#define GSHMEM_TEXT(X) GSHMEM_TEXT_(X)
#define GSHMEM_TEXT_(X) #X

// The source location of a call, for order_watch.h. Where it checks calls, functions of the API
// have it as last parameters: GSHMEM_SITE after other parameters, GSHMEM_ONLY_SITE alone.
// GSHMEM_HERE passes it on to GSHMEM_SITE_PARAMS.
#if defined(GSHMEM_WATCH_ON)
#define GSHMEM_ONLY_SITE \
  const char *gshmem_file = __builtin_FILE(), int gshmem_line = __builtin_LINE()
#define GSHMEM_SITE , GSHMEM_ONLY_SITE
#define GSHMEM_HERE , gshmem_file, gshmem_line
#define GSHMEM_SITE_PARAMS , const char *gshmem_file, int gshmem_line
#else
#define GSHMEM_SITE_PARAMS
#define GSHMEM_ONLY_SITE
#define GSHMEM_SITE
#define GSHMEM_HERE
#endif
