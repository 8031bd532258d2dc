# perftest_in_batches(NAME...): compiles several of the programs NAME.cpp together with nvcc, because headers take
# most of its time. Used in builds for tests only (GSHMEM_QUICK_TESTS): a program then has the kernels of its batch.
# Each program is in a namespace of its own, after the headers that all of them include.
function(perftest_in_batches)
  set(number 0)
  while(ARGN)
    list(SUBLIST ARGN 0 5 names)
    list(REMOVE_ITEM ARGN ${names})
    math(EXPR number "${number} + 1")
    set(headers)
    set(bodies)
    foreach(name ${names})
      file(STRINGS ${name}.cpp includes REGEX "^#include ")
      list(APPEND headers ${includes})
      string(APPEND bodies "namespace batch_${name} {\nnamespace perftest {\nusing namespace ::perftest;\n}\n"
        "#define main program\n#include \"perftest/${name}.cpp\"\n#undef main\n}\n")
      file(CONFIGURE OUTPUT main_${name}.cpp CONTENT "namespace batch_${name} {\nint program(int argc, char** argv);
}\nint main(int argc, char** argv) { return batch_${name}::program(argc, argv); }\n")
    endforeach()
    list(REMOVE_DUPLICATES headers)
    list(JOIN headers "\n" headers)
    file(CONFIGURE OUTPUT batch_${number}.cpp CONTENT "${headers}\n${bodies}")
    set(batch ${CMAKE_CURRENT_BINARY_DIR}/batch_${number}.cpp)
    set_source_files_properties(${batch} PROPERTIES LANGUAGE CUDA)
    add_library(perftest_batch_${number} OBJECT ${batch})
    set_target_properties(perftest_batch_${number} PROPERTIES CUDA_STANDARD 20)
    target_link_libraries(perftest_batch_${number} PRIVATE perftest_common gshmem gshmem_build_flags)
    foreach(name ${names})
      perftest_program(${name} ${CMAKE_CURRENT_BINARY_DIR}/main_${name}.cpp
        $<TARGET_OBJECTS:perftest_batch_${number}>)
    endforeach()
  endwhile()
endfunction()
