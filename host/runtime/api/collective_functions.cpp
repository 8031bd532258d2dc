// The exported collectives.
#include "host/runtime/api/export_function.h"
#include "host/runtime/api/long_double.h"

#define GSHMEM_SECTION 3
#include <gshmem/functions.def>
