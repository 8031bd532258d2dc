// The unique id that lets PEs started by any means find each other (gshmemx_get_uniqueid). It is
// plain bytes: make it on one PE, and send it to the others by any channel. C11, C++17 and CUDA.
#pragma once

typedef struct gshmemx_uniqueid {
  int version;
  char internal[124];
} gshmemx_uniqueid_t;
