# gshmem_quick_programs(): called by the folders of programs. With GSHMEM_QUICK_TESTS the targets below are
# compiled quickly rather than well, in batches and without optimization, for runs whose speed does not matter. The
# library keeps its own flags.
set(GSHMEM_QUICK_LEVEL -O0)
# gshmem_quick_targets(TARGET...): no optimization, too, but file by file, as tests/mutation requires.
function(gshmem_quick_targets)
  if(GSHMEM_QUICK_TESTS)
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE ${GSHMEM_QUICK_LEVEL})
    endforeach()
  endif()
endfunction()
macro(gshmem_quick_programs)
  if(GSHMEM_QUICK_TESTS)
    set(CMAKE_UNITY_BUILD ON)
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:${GSHMEM_QUICK_LEVEL}>)
  endif()
  if(GSHMEM_QUICK_TESTS AND GSHMEM_CUDA)
    # nvcc passes its own -O to the host's compiler, after all of -Xcompiler.
    string(REGEX REPLACE "-O[0-9]" "" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
    add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-O0>)
  endif()
  if(GSHMEM_QUICK_TESTS AND GSHMEM_CUDA)
    include(CheckCompilerFlag)
    check_compiler_flag(CUDA --Ofast-compile=min GSHMEM_NVCC_COMPILES_FAST)  # not before CUDA 12.9
    if(GSHMEM_NVCC_COMPILES_FAST)
      add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--Ofast-compile=min>
        $<$<COMPILE_LANGUAGE:CUDA>:-DGSHMEM_FIT_REGISTERS=0>)  # device/core/register_bounds.h
    endif()
  endif()
endmacro()
