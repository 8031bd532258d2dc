// The exported functions that transfer data: puts, gets and signals.
#include "host/runtime/api/export_function.h"

#include <gshmem/device/api/strided_blocks.h>

#define GSHMEM_SECTION 1
#include <gshmem/functions.def>
