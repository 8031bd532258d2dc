# A leg is one build folder with its tests: release, asan, tsan, gpu, clang. tests/run gathers them in
# one ctest, so every test name starts with the leg's; a folder of its own has no prefix.
set(GSHMEM_LEG "" CACHE STRING "Name of this leg, put in front of every test name")
set(GSHMEM_TEST_PREFIX "")
if(GSHMEM_LEG)
  set(GSHMEM_TEST_PREFIX "${GSHMEM_LEG}/")
endif()

# Tests of the sources themselves are the same in every leg: run them in one.
set(GSHMEM_FIRST_LEG OFF)
if(GSHMEM_LEG STREQUAL "" OR GSHMEM_LEG STREQUAL "release")
  set(GSHMEM_FIRST_LEG ON)
endif()

# gshmem_time_limit(VARIABLE SECONDS): when ctest ends a test that takes SECONDS at most on a quiet machine. A slower one
# has time (tests/patience.h), but half an hour is enough for all.
file(STRINGS ${CMAKE_SOURCE_DIR}/tests/patience.h patience REGEX "constexpr int kPatience")
string(REGEX REPLACE "[^0-9]" "" GSHMEM_TEST_PATIENCE "${patience}")
function(gshmem_time_limit variable seconds)
  math(EXPR limit "${seconds} * ${GSHMEM_TEST_PATIENCE}")
  if(limit GREATER 1800)
    set(limit 1800)
  endif()
  set(${variable} ${limit} PARENT_SCOPE)
endfunction()
# Of what has no limit of its own.
gshmem_time_limit(GSHMEM_TEST_LIMIT 60)

# gshmem_test(NAME COMMAND... [LABELS l...] [PROCESSORS n] [TIMEOUT s] [PROPERTIES p v...]): a test
# that is a program. Exit 77 is a skip, with the reason on its output. PROCESSORS is how many PEs
# keep a core busy, so that ctest -j does not oversubscribe the machine.
function(gshmem_test name)
  cmake_parse_arguments(ARG "" "PROCESSORS;TIMEOUT" "COMMAND;LABELS;PROPERTIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  gshmem_time_limit(ARG_TIMEOUT ${ARG_TIMEOUT})
  set(name ${GSHMEM_TEST_PREFIX}${name})
  # What keeps a core busy takes what jobs leave, whose PEs wait for each other.
  list(POP_FRONT ARG_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  add_test(NAME ${name} COMMAND nice ${program} ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${ARG_TIMEOUT}
    PROCESSORS ${ARG_PROCESSORS} LABELS "${ARG_LABELS}" ${ARG_PROPERTIES})
endfunction()
