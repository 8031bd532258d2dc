# GSHMEM_PRECOMPILE: the standard library's headers, which take longer to read than most files of this
# tree, are precompiled once for all targets. It is off by default: with it the compiler does not see a forgotten
# #include of them (tests/lint does), and the owners of ccache lose its hits. All legs but release and clang also
# compile the files of a target in batches (CMAKE_UNITY_BUILD): names without linkage must differ in a target.
set(GSHMEM_PRECOMPILED_HEADERS
  algorithm array atomic cerrno charconv chrono condition_variable cstdint cstdio cstdlib cstring deque
  filesystem fstream functional map memory mutex optional random set sstream stdexcept string string_view
  thread utility vector)

# gshmem_precompiled(TARGET): adds what a target that uses a precompiled header needs.
function(gshmem_precompiled target)
  # g++ 12 reports overruns inside std::string (its bug 105329), more of them after a precompiled header. With -O3,
  # g++ 13 reports that the destructor of a std::vector frees memory that was not allocated.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
      -Wno-free-nonheap-object>)
endfunction()

# gshmem_precompiled_owner(OWNER KIND): the target that precompiles for KIND; program is -fPIE, library -fPIC, visible
# shows all its names, _quick is with the options of tests/build/quick.cmake: clang, and g++ since 13, want the same optimization.
function(gshmem_precompiled_owner result kind)
  set(owner gshmem_precompiled_${kind})
  set(${result} ${owner} PARENT_SCOPE)
  if(TARGET ${owner})
    return()
  endif()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "int main() {}\n")
  if(kind MATCHES "program")
    add_executable(${owner} ${PROJECT_BINARY_DIR}/precompiled.cpp)
  else()
    add_library(${owner} OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  endif()
  if(kind MATCHES "visible")
    set_target_properties(${owner} PROPERTIES CXX_VISIBILITY_PRESET default)
  endif()
  if(kind MATCHES "_quick")
    target_compile_options(${owner} PRIVATE ${GSHMEM_QUICK_LEVEL})
  endif()
  target_link_libraries(${owner} PRIVATE gshmem_build_flags)
  foreach(header ${GSHMEM_PRECOMPILED_HEADERS})
    target_precompile_headers(${owner} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:<${header}$<ANGLE-R>>)
  endforeach()
endfunction()

# gshmem_precompile(FOLDER): gives it to all C++20 targets with the tree's flags below FOLDER that have none.
function(gshmem_precompile folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    get_target_property(standard ${target} CXX_STANDARD)
    get_target_property(own ${target} PRECOMPILE_HEADERS)
    get_target_property(reused ${target} PRECOMPILE_HEADERS_REUSE_FROM)
    get_target_property(sources ${target} SOURCES)
    if(own OR reused OR NOT standard EQUAL 20 OR NOT libraries MATCHES "gshmem_build_flags" OR
        NOT sources MATCHES "\\.cpp(;|$)" OR type STREQUAL "INTERFACE_LIBRARY")
      continue()
    endif()
    # Some targets do without it: files with options of their own, and files that only builds with CUDA compile, so
    # that their forgotten #includes are seen.
    get_target_property(place ${target} SOURCE_DIR)
    foreach(source ${sources})
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${place} OUTPUT_VARIABLE file)
      get_source_file_property(options ${file} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
      if(options OR source MATCHES "\\.c$|cuda|gpu")
        set_source_files_properties(${file} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
          SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
    get_target_property(visibility ${target} CXX_VISIBILITY_PRESET)
    set(kind library)
    if(type STREQUAL "EXECUTABLE")
      set(kind program)
    elseif(visibility STREQUAL "default")
      set(kind visible)
    endif()
    get_target_property(options ${target} COMPILE_OPTIONS)
    list(FILTER options EXCLUDE REGEX "COMPILE_LANGUAGE:CUDA")
    string(REGEX REPLACE ".*(-O[0-9]).*" "\\1" level "${options}")
    if(GSHMEM_QUICK_TESTS AND level STREQUAL GSHMEM_QUICK_LEVEL)
      string(APPEND kind _quick)
    endif()
    gshmem_precompiled_owner(owner ${kind})
    target_precompile_headers(${target} REUSE_FROM ${owner})
    gshmem_precompiled(${target})
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below ${folders})
    gshmem_precompile(${below})
  endforeach()
endfunction()
