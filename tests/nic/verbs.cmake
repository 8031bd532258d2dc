# libibverbs and libmlx5 of the soft NIC. The firmware's tests run over an engine that does nothing.
set(verbs_folder ${CMAKE_BINARY_DIR}/lib/gshnic)
if(GSHMEM_TESTS_OF_ONE_THREAD)
  add_library(gshnic_fake_engine OBJECT verbs_fake_engine.cpp)
  target_link_libraries(gshnic_fake_engine PUBLIC gshmem_base PRIVATE gshmem_build_flags)
  set_target_properties(gshnic_fake_engine PROPERTIES CXX_VISIBILITY_PRESET default)
  gshmem_nic_test(verbs_firmware_test verbs_firmware_test.cpp verbs_firmware_qp_test.cpp verbs_firmware_answers_test.cpp
    LIBS gshnic_firmware gshnic_fake_engine gshmem_base)
endif()

# Programs that were written for rdma-core: its headers, its libraries' names, no include path and
# no target of ours.
function(gshmem_verbs_program name)
  add_executable(${name} ${name}.c)
  target_link_libraries(${name} PRIVATE ${ARGN} gshmem_build_flags)
  target_link_directories(${name} PRIVATE ${verbs_folder})
  set_target_properties(${name} PROPERTIES BUILD_RPATH ${verbs_folder})
  add_dependencies(${name} gshnic_ibverbs gshnic_mlx5)
  add_test(NAME ${GSHMEM_TEST_PREFIX}${name} COMMAND ${name})
  set_tests_properties(${GSHMEM_TEST_PREFIX}${name} PROPERTIES TIMEOUT ${GSHMEM_TEST_LIMIT} LABELS "cpu;nic"
    ENVIRONMENT "LD_LIBRARY_PATH=${verbs_folder}")
endfunction()

gshmem_verbs_program(verbs_client -libverbs -lmlx5)
gshmem_verbs_program(verbs_dlopen ${CMAKE_DL_LIBS})

if(GSHMEM_PYTHON)
  add_test(NAME ${GSHMEM_TEST_PREFIX}verbs_symbols
    COMMAND ${GSHMEM_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/verbs_symbols.py ${verbs_folder})
  set_tests_properties(${GSHMEM_TEST_PREFIX}verbs_symbols PROPERTIES TIMEOUT ${GSHMEM_TEST_LIMIT} LABELS "cpu;nic"
    SKIP_RETURN_CODE 77)
  if(GSHMEM_FIRST_LEG)
    gshmem_test(prm_fields COMMAND ${GSHMEM_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/prm_fields_check.py
      ${CMAKE_SOURCE_DIR}/transport/softnic/verbs/prm_fields.def LABELS cpu nic)
  endif()
endif()

# Programs of others, from their Debian packages. They load no libraries that want a sanitizer.
if(GSHMEM_PYTHON AND NOT GSHMEM_SANITIZE)
  foreach(client devices devinfo pingpong srq_pingpong perftest ucx rdma_core)
    gshmem_test(verbs_clients.${client} COMMAND ${GSHMEM_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/clients/run.py ${verbs_folder} ${client}
      LABELS cpu nic)
  endforeach()
endif()

# Tests that are linked with the soft NIC's libraries as any program is with rdma-core's.
function(gshmem_verbs_test name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE -libverbs -lmlx5)
  gshmem_use_catch(${name})
  target_link_directories(${name} PRIVATE ${verbs_folder})
  set_target_properties(${name} PROPERTIES BUILD_RPATH ${verbs_folder})
  add_dependencies(${name} gshnic_ibverbs gshnic_mlx5)
  catch_discover_tests(${name} TEST_PREFIX "${GSHMEM_TEST_PREFIX}${name}." PROPERTIES
    TIMEOUT ${GSHMEM_TEST_LIMIT} LABELS [==[cpu\\;nic]==] ENVIRONMENT "LD_LIBRARY_PATH=${verbs_folder}")
endfunction()

gshmem_verbs_test(verbs_api_test verbs_api_test.cpp verbs_attributes_test.cpp verbs_entries_test.cpp verbs_events_test.cpp verbs_mlx5dv_test.cpp verbs_post_test.cpp verbs_receive_test.cpp)
gshmem_verbs_test(verbs_profile_test verbs_profile_test.cpp)
if(GSHMEM_TESTS_OF_ONE_THREAD)
  # The engine that is none stands before libgshnic's for the libraries, too.
  gshmem_verbs_test(verbs_engine_calls_test verbs_engine_calls_test.cpp)
  target_link_libraries(verbs_engine_calls_test PRIVATE gshnic_fake_engine gshmem_base)
endif()
