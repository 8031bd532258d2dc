# How tests are started: in this process (Catch2), under mpirun, under Slurm. Included once by
# tests/CMakeLists.txt; every folder below uses these functions, so labels, environment, skip code
# time limits and the prefix of the leg are the same everywhere.

# Suppressions of leaks that are PMIx's and Open MPI's own; harmless without sanitizers.
# The sanitizers split their options at spaces, too. With this glibc, clang 14 keeps a wrong list of thread-local
# memory of loaded libraries: LeakSanitizer would follow it and crash ("Tracer caught signal 11").
set(GSHMEM_TEST_ENVIRONMENT
  "LSAN_OPTIONS=suppressions='${CMAKE_SOURCE_DIR}/tests/sanitizers/lsan.supp':print_suppressions=0:intercept_tls_get_addr=0")
# The time limit of PEs that wait for each other, unless a test sets its own.
math(EXPR bootstrap_timeout "60 * ${GSHMEM_TEST_PATIENCE}")
set(GSHMEM_TEST_BOOTSTRAP GSHMEM_BOOTSTRAP_TIMEOUT=${bootstrap_timeout})
set(GSHMEM_TEST_TSAN
  "TSAN_OPTIONS=suppressions='${CMAKE_SOURCE_DIR}/tests/sanitizers/tsan.supp':print_suppressions=0")
# For tests over libfabric; the long history makes threads expensive.
set(GSHMEM_LIBFABRIC_TSAN "${GSHMEM_TEST_TSAN}:history_size=7")

# Open MPI (4 or 5) brings a PMIx server; the mpirun of other MPIs does not.
find_program(GSHMEM_MPIRUN mpirun DOC "Open MPI's mpirun, for tests with several processes")
set(GSHMEM_MPIRUN_USABLE OFF)
if(GSHMEM_MPIRUN)
  execute_process(COMMAND ${GSHMEM_MPIRUN} --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(version MATCHES "Open MPI|PRRTE")
    set(GSHMEM_MPIRUN_USABLE ON)
  endif()
endif()

# gshmem_use_catch(TARGET): links Catch2, whose one header takes longer to compile than most tests. All programs share
# one precompiled form of it, whose owner has only definitions that they have, too.
function(gshmem_use_catch target)
  if(NOT TARGET catch_header)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tests/catch_header.cpp
      CONTENT "// Owner of the precompiled header.\n")
    add_executable(catch_header ${CMAKE_BINARY_DIR}/tests/catch_header.cpp)
    target_link_libraries(catch_header PRIVATE Catch2::Catch2WithMain gshmem_build_flags)
    if(Catch2_VERSION VERSION_GREATER_EQUAL 3)
      target_include_directories(Catch2::Catch2 INTERFACE ${CMAKE_SOURCE_DIR}/tests/launch/catch3)
    endif()
    target_precompile_headers(catch_header PRIVATE <catch2/catch.hpp>)
    if(GSHMEM_PRECOMPILE)
      list(TRANSFORM GSHMEM_PRECOMPILED_HEADERS REPLACE "(.+)" "<\\1>" OUTPUT_VARIABLE headers)
      target_precompile_headers(catch_header PRIVATE ${headers})
    endif()
  endif()
  target_link_libraries(${target} PRIVATE Catch2::Catch2WithMain gshmem_build_flags)
  target_precompile_headers(${target} REUSE_FROM catch_header)
  gshmem_precompiled(${target})
endfunction()

# gshmem_discover_tests(TARGET LABEL [NAME=value...] [SPEC tests]): every test case of a Catch2 program,
# labelled "cpu" and LABEL, with those variables in its environment too; those tagged [gpu] in builds
# with CUDA only, and labelled "gpu" instead. A case that prints a line with "skipped: <why>" counts as
# skipped. SPEC: other cases; a program may be run several times with another one each.
function(gshmem_discover_tests target label)
  cmake_parse_arguments(ARG "" "SPEC" "" ${ARGN})
  if(NOT ARG_SPEC)
    set(ARG_SPEC "~[gpu]")
  endif()
  set(environment ${GSHMEM_TEST_ENVIRONMENT} ${GSHMEM_TEST_BOOTSTRAP} ${ARG_UNPARSED_ARGUMENTS})
  gshmem_discover_cases(${target} ${label} cpu "${ARG_SPEC}" "${environment}")
  if(GSHMEM_CUDA AND ARG_SPEC STREQUAL "~[gpu]")
    gshmem_take_gpus(1 lock mine)
    if(mine)
      list(PREPEND mine ENVIRONMENT_MODIFICATION)
    endif()
    gshmem_discover_cases(${target} ${label} gpu "[gpu]" "${environment}" RESOURCE_LOCK ${lock} ${mine})
  endif()
endfunction()
function(gshmem_discover_cases target label kind spec environment)
  set(cases cases_of_${target}_${label}_${kind})
  catch_discover_tests(${target} TEST_SPEC "${spec}" TEST_LIST ${cases} TEST_PREFIX "${GSHMEM_TEST_PREFIX}${label}."
    PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: " ${ARGN} TIMEOUT ${GSHMEM_TEST_LIMIT})
  # Some versions of Catch2 evaluate such a list several times: all but its first element are lost. So ctest sets
  # these two after it has read the cases.
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${cases}.cmake "set(environment [==[${environment}]==])
foreach(case IN LISTS ${cases})
  set_tests_properties(\${case} PROPERTIES LABELS \"${kind};${label}\" ENVIRONMENT \"\${environment}\")
endforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${cases}.cmake)
endfunction()

# gshmem_add_launched_test(NAME LABEL PROCESSES TIMEOUT command...): shared by the launchers. More than 4 PEs count as
# 4: they wait for each other, and ctest would run a test that takes all of its slots last and alone.
# Where LABEL has gpu, the test takes as many GPUs as the command's `--gpus n` says, or 1.
function(gshmem_add_launched_test name label processes timeout)
  math(EXPR cost "${processes} + ${timeout} / 100")  # jobs that may take long first (gshmem_test)
  gshmem_time_limit(timeout ${timeout})
  set(name ${GSHMEM_TEST_PREFIX}${name})
  if(processes GREATER 4)
    set(processes 4)
  endif()
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "cpu;${label}" SKIP_RETURN_CODE 77
    TIMEOUT ${timeout} PROCESSORS ${processes} COST ${cost}
    ENVIRONMENT "${GSHMEM_TEST_ENVIRONMENT};${GSHMEM_TEST_BOOTSTRAP}")
  if("gpu" IN_LIST label)
    cmake_parse_arguments(PARSE_ARGV 4 OF "" "--gpus" "")
    if(NOT OF_--gpus)
      set(OF_--gpus 1)
    endif()
    gshmem_test_takes_gpus(${name} ${OF_--gpus})
  endif()
endfunction()

# gshmem_add_mpirun_test(NAME n command... [LABEL label...] [EXIT code] [TIMEOUT seconds] [MPI_PROGRAM]):
# `command` on n processes under mpirun, which must end with exit code 0, or EXIT. LABEL defaults to
# mpirun. MPI_PROGRAM: it calls MPI_Init, so its leaks are not looked for: Open MPI leaks from
# components that it has unloaded at exit, which no suppression can name.
function(gshmem_add_mpirun_test name processes)
  cmake_parse_arguments(ARG "MPI_PROGRAM" "EXIT;TIMEOUT" "LABEL" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL mpirun)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT DEFINED ARG_EXIT)
    set(ARG_EXIT 0)
  endif()
  if(GSHMEM_MPIRUN_USABLE)
    set(command ${CMAKE_SOURCE_DIR}/tests/launch/mpirun.sh ${ARG_EXIT} ${GSHMEM_MPIRUN} -np
      ${processes} ${ARG_UNPARSED_ARGUMENTS})
  else()
    set(command sh -c "echo 'skipped: no Open MPI mpirun' && exit 77")
  endif()
  gshmem_add_launched_test(${name} "${ARG_LABEL}" ${processes} ${ARG_TIMEOUT} ${command})
  if(ARG_MPI_PROGRAM)
    set_tests_properties(${GSHMEM_TEST_PREFIX}${name} PROPERTIES
      ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0;${GSHMEM_TEST_TSAN};${GSHMEM_TEST_BOOTSTRAP}")
  endif()
endfunction()

# gshmem_add_gpu_test(NAME n command...): runs `command` on n processes under mpirun with a GPU each, or on one GPU
# under MPS if there are fewer.
function(gshmem_add_gpu_test name processes)
  set(name ${GSHMEM_TEST_PREFIX}${name})
  set(command sh -c "echo 'skipped: no Open MPI mpirun' && exit 77")
  if(GSHMEM_MPIRUN_USABLE)
    set(command ${CMAKE_SOURCE_DIR}/tests/launch/with_gpus.sh ${processes}
      ${CMAKE_SOURCE_DIR}/tests/launch/mpirun.sh 0 ${GSHMEM_MPIRUN} -np ${processes} ${ARGN})
  endif()
  add_test(NAME ${name} COMMAND ${command})
  set_tests_properties(${name} PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 120
    ENVIRONMENT "${GSHMEM_TEST_ENVIRONMENT}")
  gshmem_test_takes_gpus(${name} ${processes})
endfunction()

# gshmem_add_one_gpu_test(NAME THREADS|MPS n command...): a job of n PEs on one GPU, by a command that runs all of them, or
# by one that mpirun starts n times under an MPS daemon of the test's own.
# Every stream of a process wants a hardware queue of its own, by default 8 in all; 128 of the
# contexts of all processes, of which each has one for copies, are more than MPS has.
function(gshmem_add_one_gpu_test name how processes)
  if(how STREQUAL "THREADS")
    set(command env CUDA_DEVICE_MAX_CONNECTIONS=32 ${ARGN})
  elseif(GSHMEM_MPIRUN_USABLE)
    math(EXPR queues "32 / ${processes}")
    set(command env CUDA_DEVICE_MAX_CONNECTIONS=${queues} ${CMAKE_SOURCE_DIR}/tests/launch/with_mps.sh
      ${CMAKE_SOURCE_DIR}/tests/launch/mpirun.sh 0 ${GSHMEM_MPIRUN} -np ${processes} ${ARGN})
  else()
    set(command sh -c "echo 'skipped: no Open MPI mpirun' && exit 77")
  endif()
  gshmem_add_launched_test(${name} "spmd;gpu" ${processes} 300 ${command})
endfunction()

# gshmem_add_slurm_test(NAME nodes tasks-per-node command... [LABEL label]): `command` under srun on
# virtual nodes of this machine; skipped where Slurm is not installed or the user is not root.
function(gshmem_add_slurm_test name nodes tasks)
  cmake_parse_arguments(ARG "" "LABEL" "" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL slurm)
  endif()
  math(EXPR processes "${nodes} * ${tasks}")
  gshmem_add_launched_test(${name} ${ARG_LABEL} ${processes} 180
    ${CMAKE_SOURCE_DIR}/tests/launch/slurm.sh ${nodes} ${tasks} ${ARG_UNPARSED_ARGUMENTS})
endfunction()

# gshmem_add_hosts_test(NAME HOSTS n PES m [LABEL label] [TIMEOUT seconds] [LAUNCHER uid|mpirun] [EXIT code]
# [DEAD pe,...] [EXPECT regex] [CUT port [HEAL seconds]] [NETWORKS several] COMMAND command...): `command` with m PEs on each of n hosts, which
# are network namespaces of this machine (tests/hosts/run.sh); skipped where there can be none.
function(gshmem_add_hosts_test name)
  cmake_parse_arguments(ARG "" "HOSTS;PES;LABEL;TIMEOUT;LAUNCHER;EXIT;DEAD;EXPECT;CUT;HEAL;NETWORKS" "COMMAND" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL hosts)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  gshmem_time_limit(limit ${ARG_TIMEOUT})
  math(EXPR limit "${limit} - 15")
  set(options --limit ${limit})
  foreach(option LAUNCHER EXIT DEAD EXPECT CUT HEAL NETWORKS)
    if(DEFINED ARG_${option})
      string(TOLOWER ${option} flag)
      list(APPEND options --${flag} ${ARG_${option}})
    endif()
  endforeach()
  math(EXPR processes "${ARG_HOSTS} * ${ARG_PES}")
  gshmem_add_launched_test(${name} ${ARG_LABEL} ${processes} ${ARG_TIMEOUT}
    ${CMAKE_SOURCE_DIR}/tests/hosts/run.sh ${options} ${ARG_HOSTS} ${ARG_PES} ${ARG_COMMAND})
endfunction()
