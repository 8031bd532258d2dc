# What `cmake --install` puts where, and how others find it: find_package(gshmem), pkg-config gshmem.
# Everything is relative to the prefix, so an installed tree can be moved. Components, which packages.cmake makes packages of:
# runtime, dev (headers, device library), nvshmem, mpi (the plugin), tools, softnic.
if(NOT TARGET gshmem)
  return()
endif()
include(CMakePackageConfigHelpers)

# gshmem_install_headers(FOLDER COMPONENT): the public headers, as <gshmem/...> below FOLDER.
function(gshmem_install_headers folder component)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/gshmem DESTINATION ${folder} COMPONENT ${component}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.def" PATTERN compat EXCLUDE)
  foreach(made functions.h stream_functions.h generic_names.h)
    install(FILES ${PROJECT_BINARY_DIR}/include/gshmem/${made} DESTINATION ${folder}/gshmem COMPONENT ${component})
  endforeach()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/device/ DESTINATION ${folder}/gshmem/device COMPONENT ${component}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.def")
endfunction()
gshmem_install_headers(${CMAKE_INSTALL_INCLUDEDIR} dev)
add_subdirectory(${CMAKE_CURRENT_LIST_DIR}/runtime/nvshmem)

add_library(gshmem::gshmem ALIAS gshmem)

# Before 1.0 any minor version may change the ABI.
set_target_properties(gshmem PROPERTIES VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
install(TARGETS gshmem gshmem_nvshmem gshmem_abi gshmem_device EXPORT gshmem-targets
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT dev)

# The plugin lies beside the library, which looks for it in its own folder.
if(TARGET gshmem_bootstrap_mpi)
  install(TARGETS gshmem_bootstrap_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi)
endif()
# The soft NIC, in a folder of its own: only who asks for it may find these names.
if(TARGET gshnic)
  set(gshnic_libraries gshnic)
  if(TARGET gshnic_mlx5)
    list(APPEND gshnic_libraries gshnic_ibverbs gshnic_mlx5)
  endif()
  # With libibverbs.so and libmlx5.so, which NCCL and NVSHMEM look for before the versioned names.
  install(TARGETS ${gshnic_libraries} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/gshnic
    COMPONENT softnic)
endif()
if(TARGET gshmem-info)
  set_target_properties(gshmem-info PROPERTIES INSTALL_RPATH
    "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS gshmem-info RUNTIME COMPONENT tools)
endif()

if(GSHMEM_SANITIZE STREQUAL "thread")
  set_target_properties(gshmem-check-main PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS gshmem-check-main)
  install(PROGRAMS ${CMAKE_CURRENT_LIST_DIR}/tools/check/gshmem-check DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# They are made where find_package does not look: a build folder is no installed gshmem.
set(gshmem_config_made ${PROJECT_BINARY_DIR}/host/config)
set(gshmem_config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/gshmem)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/gshmem-config.cmake.in
  ${gshmem_config_made}/gshmem-config.cmake INSTALL_DESTINATION ${gshmem_config_folder})
write_basic_package_version_file(${gshmem_config_made}/gshmem-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${gshmem_config_made}/gshmem-config.cmake
  ${gshmem_config_made}/gshmem-config-version.cmake DESTINATION ${gshmem_config_folder} COMPONENT dev)
install(EXPORT gshmem-targets NAMESPACE gshmem:: DESTINATION ${gshmem_config_folder} COMPONENT dev)

file(RELATIVE_PATH GSHMEM_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH GSHMEM_PC_LIBDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH GSHMEM_PC_INCLUDEDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(${CMAKE_CURRENT_LIST_DIR}/gshmem.pc.in ${PROJECT_BINARY_DIR}/gshmem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gshmem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
