# A leg is one build folder with its tests: quick, release, asan, tsan, gpu, clang. tests/run gathers them in
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

# The leg that a contributor waits for: one job of each kind, and no programs that take long to build or to run.
set(GSHMEM_QUICK_LEG OFF)
if(GSHMEM_LEG STREQUAL "quick")
  set(GSHMEM_QUICK_LEG ON)
endif()

# gshmem_time_limit(VARIABLE SECONDS): the time after which ctest ends a test that takes at most SECONDS on a quiet
# machine. A slower machine has more time (tests/patience.h), but half an hour is enough for all.
file(STRINGS ${CMAKE_SOURCE_DIR}/tests/patience.h patience REGEX "constexpr int kPatience")
string(REGEX REPLACE "[^0-9]" "" GSHMEM_TEST_PATIENCE "${patience}")
function(gshmem_time_limit variable seconds)
  math(EXPR limit "${seconds} * ${GSHMEM_TEST_PATIENCE}")
  if(limit GREATER 1800)
    set(limit 1800)
  endif()
  set(${variable} ${limit} PARENT_SCOPE)
endfunction()
# The limit of tests that set none.
gshmem_time_limit(GSHMEM_TEST_LIMIT 60)

# The GPUs of this machine, or those that CUDA_VISIBLE_DEVICES names, when it is configured.
set(GSHMEM_TEST_GPUS "")
if(GSHMEM_CUDA)
  execute_process(COMMAND nvidia-smi --query-gpu=index --format=csv,noheader OUTPUT_VARIABLE GSHMEM_TEST_GPUS
    OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    set(GSHMEM_TEST_GPUS "")
  elseif(DEFINED ENV{CUDA_VISIBLE_DEVICES})
    set(GSHMEM_TEST_GPUS $ENV{CUDA_VISIBLE_DEVICES})
  endif()
  string(REGEX REPLACE "[\n,]" ";" GSHMEM_TEST_GPUS "${GSHMEM_TEST_GPUS}")
endif()
# gshmem_take_gpus(COUNT LOCKS ENVIRONMENT): the locks of the next test that needs COUNT GPUs, and a change of its
# environment that names them. One test at a time uses a GPU, because jobs that share one slow each other down many
# times. Without GPUs at configuration, it is not known which there are where the tests run, so they share one lock.
function(gshmem_take_gpus count locks environment)
  list(LENGTH GSHMEM_TEST_GPUS all)
  if(all EQUAL 0)
    set(${locks} gpus PARENT_SCOPE)
    set(${environment} "" PARENT_SCOPE)
    return()
  endif()
  get_property(first GLOBAL PROPERTY GSHMEM_NEXT_GPU)
  if(first)
    math(EXPR end "${first} + ${count}")
  endif()
  if(NOT first OR end GREATER all)
    set(first 0)
    set(end ${count})
  endif()
  set_property(GLOBAL PROPERTY GSHMEM_NEXT_GPU ${end})
  list(SUBLIST GSHMEM_TEST_GPUS ${first} ${count} mine)
  list(JOIN mine "," names)
  list(TRANSFORM mine PREPEND gpu)
  set(${locks} ${mine} PARENT_SCOPE)
  set(${environment} CUDA_VISIBLE_DEVICES=set:${names} PARENT_SCOPE)
endfunction()
# gshmem_test_takes_gpus(TEST COUNT)
function(gshmem_test_takes_gpus test count)
  gshmem_take_gpus(${count} locks environment)
  set_property(TEST ${test} PROPERTY RESOURCE_LOCK ${locks})
  set_property(TEST ${test} PROPERTY ENVIRONMENT_MODIFICATION ${environment})
endfunction()

# gshmem_test(NAME COMMAND... [LABELS l...] [PROCESSORS n] [GPUS n] [TIMEOUT s] [PROPERTIES p v...]): a test that is a
# program. Exit 77 is a skip, with the reason in its output. PROCESSORS is how many PEs keep a core busy, so that
# ctest -j does not oversubscribe the machine. A test with the label gpu takes GPUS, or 1.
function(gshmem_test name)
  cmake_parse_arguments(ARG "" "PROCESSORS;GPUS;TIMEOUT" "COMMAND;LABELS;PROPERTIES" ${ARGN})
  if(NOT ARG_GPUS)
    set(ARG_GPUS 1)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  # ctest starts tests of large COST first where it has seen no run before. The few that take long use one core each:
  # started last, one of them would leave the other cores idle.
  set(cost ${ARG_TIMEOUT})
  if(cost LESS_EQUAL 60)
    set(cost 0)
  endif()
  gshmem_time_limit(ARG_TIMEOUT ${ARG_TIMEOUT})
  set(name ${GSHMEM_TEST_PREFIX}${name})
  # A test that keeps a core busy takes the cores that jobs leave, whose PEs wait for each other.
  list(POP_FRONT ARG_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  add_test(NAME ${name} COMMAND nice ${program} ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${ARG_TIMEOUT}
    PROCESSORS ${ARG_PROCESSORS} COST ${cost} LABELS "${ARG_LABELS}" ${ARG_PROPERTIES})
  if("gpu" IN_LIST ARG_LABELS)
    gshmem_test_takes_gpus(${name} ${ARG_GPUS})
  endif()
endfunction()
