// The exported functions that update, wait for and order words: atomics, waits, barriers, queries
// and locks.
#include "host/runtime/api/export_function.h"

#define GSHMEM_SECTION 2
#include <gshmem/functions.def>
