# gshmem_quick_programs(): called by the folders of programs. With GSHMEM_QUICK_TESTS the targets below are
# compiled quickly rather than well, in batches and little optimized: for runs whose speed nobody looks at.
macro(gshmem_quick_programs)
  if(GSHMEM_QUICK_TESTS)
    set(CMAKE_UNITY_BUILD ON)
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-O1> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-O1>)
  endif()
  if(GSHMEM_QUICK_TESTS AND GSHMEM_CUDA)
    include(CheckCompilerFlag)
    check_compiler_flag(CUDA --Ofast-compile=min GSHMEM_NVCC_COMPILES_FAST)  # not before CUDA 12.9
    if(GSHMEM_NVCC_COMPILES_FAST)
      add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--Ofast-compile=min>)
    endif()
  endif()
endmacro()
