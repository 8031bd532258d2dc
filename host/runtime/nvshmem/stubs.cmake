# cmake -DNM=... -DLIBRARY=libgshmem.so -DOUT=stubs.c -P stubs.cmake: every function that the library exports,
# with a body that nobody reaches. libnvshmem_host needs them to be linked with (CMakeLists.txt).
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " T gshmem[A-Za-z0-9_]+" symbols "${symbols}")
list(TRANSFORM symbols REPLACE " T (.*)" "STUB(\\1)")
list(JOIN symbols "\n" stubs)
file(WRITE ${OUT}
  "#define STUB(name) __attribute__((visibility(\"default\"))) void name(void) { __builtin_trap(); }\n${stubs}\n")
