# The mlx5 transport: its parts, failures of every call, and all of it on the soft NIC's libraries.
set(mlx5_libs gshmem_nic_mlx5 gshmem_nic_choice gshmem_bootstrap gshmem_base)
if(GSHMEM_TESTS_OF_ONE_THREAD)
  gshmem_nic_test(mlx5_choice_test mlx5_choice_test.cpp LIBS ${mlx5_libs})
  gshmem_nic_test(mlx5_prm_test mlx5_prm_test.cpp LIBS ${mlx5_libs})
  gshmem_nic_test(mlx5_nic_test mlx5_nic_test.cpp mlx5_device_test.cpp mlx5_events_test.cpp mlx5_memory_test.cpp
    ${CMAKE_SOURCE_DIR}/tests/doubles/verbs_double.cpp
    LIBS ${mlx5_libs})
endif()

# They are found as by an installed gshmem: in the lib folder beside the program's bin.
gshmem_nic_test(mlx5_soft_test mlx5_soft_test.cpp mlx5_dynamic_test.cpp mlx5_pe.cpp LIBS gshmem_nic_open ${mlx5_libs})
add_dependencies(mlx5_soft_test gshnic_ibverbs gshnic_mlx5)
set(unversioned_folder ${CMAKE_BINARY_DIR}/lib/unversioned)
target_compile_definitions(mlx5_soft_test PRIVATE GSHNIC_FOLDER="${CMAKE_BINARY_DIR}/lib/gshnic"
  UNVERSIONED_FOLDER="${unversioned_folder}")
foreach(name ibverbs mlx5)
  add_library(unversioned_${name} SHARED verbs_unversioned.cpp verbs_nine_ports.cpp)
  target_include_directories(unversioned_${name} PRIVATE ${CMAKE_SOURCE_DIR} ${GSHMEM_RDMA_INCLUDE_DIR})
  set_target_properties(unversioned_${name} PROPERTIES OUTPUT_NAME ${name} SOVERSION 1 UNITY_BUILD OFF
    LIBRARY_OUTPUT_DIRECTORY ${unversioned_folder})
  add_dependencies(mlx5_soft_test unversioned_${name})
endforeach()

# A program of its own: its hooks between the transport and the library stay there.
gshmem_nic_test(mlx5_mutants_test mlx5_mutants_test.cpp mlx5_pe.cpp LIBS gshmem_nic_open ${mlx5_libs})
add_dependencies(mlx5_mutants_test gshnic_ibverbs gshnic_mlx5)
target_compile_definitions(mlx5_mutants_test PRIVATE GSHNIC_FOLDER="${CMAKE_BINARY_DIR}/lib/gshnic")

gshmem_nic_test(rails_test rails_test.cpp LIBS gshmem_nic_open gshmem_nic_queues ${mlx5_libs})
add_dependencies(rails_test gshnic_ibverbs gshnic_mlx5)

add_executable(mlx5_processes mlx5_processes_main.cpp mlx5_pe.cpp)
target_link_libraries(mlx5_processes PRIVATE gshmem_nic_open gshmem_control ${mlx5_libs} gshmem_build_flags)
add_dependencies(mlx5_processes gshnic_ibverbs gshnic_mlx5)
foreach(count 2 3)
  set(name ${GSHMEM_TEST_PREFIX}mlx5_processes.${count})
  add_test(NAME ${name} COMMAND mlx5_processes ${count})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${GSHMEM_TEST_LIMIT} LABELS "cpu;nic")
endforeach()
