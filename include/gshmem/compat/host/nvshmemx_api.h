// For programs that include NVSHMEM under this name.
#pragma once

#include "../nvshmemx.h"
