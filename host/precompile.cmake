# GSHMEM_PRECOMPILE: the standard library's headers, which take longer to read than most files of this
# tree, are precompiled once for all targets. Off by default: behind it the compiler sees no forgotten #include of
# theirs (tests/lint does), and the owners of ccache lose its hits. All legs but release and clang compile the
# files of a target in batches, too (CMAKE_UNITY_BUILD): names without linkage must differ in a target.
set(GSHMEM_PRECOMPILED_HEADERS
  algorithm array atomic cerrno charconv chrono condition_variable cstdint cstdio cstdlib cstring deque
  filesystem fstream functional map memory mutex optional random set sstream stdexcept string string_view
  thread utility vector)

# gshmem_precompiled(TARGET): what a target that uses a precompiled header needs beside it.
function(gshmem_precompiled target)
  # g++ 12 sees overruns inside std::string (its bug 105329), more of them behind a precompiled header.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread>)
endfunction()

# gshmem_precompile(FOLDER): gives it to all C++20 targets with our flags below FOLDER that have none.
function(gshmem_precompile folder)
  if(NOT TARGET gshmem_precompiled_library)
    # Each way to compile has an owner: programs are -fPIE, libraries -fPIC, some show all their names.
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "int main() {}\n")
    add_executable(gshmem_precompiled_program ${CMAKE_BINARY_DIR}/precompiled.cpp)
    add_library(gshmem_precompiled_library OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
    add_library(gshmem_precompiled_visible OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
    set_target_properties(gshmem_precompiled_visible PROPERTIES CXX_VISIBILITY_PRESET default)
    foreach(owner gshmem_precompiled_program gshmem_precompiled_library gshmem_precompiled_visible)
      target_link_libraries(${owner} PRIVATE gshmem_build_flags)
      foreach(header ${GSHMEM_PRECOMPILED_HEADERS})
        target_precompile_headers(${owner} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:<${header}$<ANGLE-R>>)
      endforeach()
    endforeach()
  endif()
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
    # Files that only builds with CUDA compile go without, so that their forgotten #includes are seen.
    list(FILTER sources INCLUDE REGEX "\\.c$|cuda|gpu")
    set_source_files_properties(${sources} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
      SKIP_UNITY_BUILD_INCLUSION ON)
    get_target_property(visibility ${target} CXX_VISIBILITY_PRESET)
    set(owner library)
    if(type STREQUAL "EXECUTABLE")
      set(owner program)
    elseif(visibility STREQUAL "default")
      set(owner visible)
    endif()
    target_precompile_headers(${target} REUSE_FROM gshmem_precompiled_${owner})
    gshmem_precompiled(${target})
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below ${folders})
    gshmem_precompile(${below})
  endforeach()
endfunction()
