# How tests are started: in this process (Catch2), under mpirun, under Slurm. Included once by
# tests/CMakeLists.txt; every folder below uses these functions, so labels, environment, skip code
# and time limits are the same everywhere.

# Suppressions of leaks that are PMIx's and Open MPI's own; harmless without sanitizers.
set(GSHMEM_TEST_ENVIRONMENT "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/sanitizers/lsan.supp")

# gshmem_discover_tests(TARGET LABEL): every test case of a Catch2 program, labelled "cpu" and LABEL.
function(gshmem_discover_tests target label)
  # The list passes three evaluations on its way to ctest: fewer backslashes lose the second label.
  catch_discover_tests(${target} TEST_PREFIX "${label}." PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77
    ENVIRONMENT "${GSHMEM_TEST_ENVIRONMENT}" LABELS "cpu\\\\\\\\;${label}")
endfunction()
