// If a clang compiles this file, it can make bitcode of library.cu (CMakeLists.txt).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#if __clang_major__ < 18
#error "it knows no PTX of CUDA 12.2"
#endif
