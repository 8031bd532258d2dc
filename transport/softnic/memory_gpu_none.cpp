// No GPU support in this build.
#include "transport/softnic/memory.h"

namespace gshmem::soft {
MemoryAccess* gpu_memory(const void*) { return nullptr; }
}  // namespace gshmem::soft
