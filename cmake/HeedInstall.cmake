# cmake --install: headers, libraries, the program, and a package for find_package(heed COMPONENTS engine nn).
include(CMakePackageConfigHelpers)
set(heed_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/heed)

# Install components carry the names of the package's: `cmake --install build --component engine` needs no LibTorch built.
function(heed_install_library component)
  install(TARGETS heed_${component} EXPORT heed-${component} COMPONENT ${component})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${component}/include/ TYPE INCLUDE COMPONENT ${component} FILES_MATCHING PATTERN "*.h")
  install(EXPORT heed-${component} NAMESPACE heed:: FILE heed-${component}.cmake DESTINATION ${heed_cmake_dir}
    COMPONENT ${component})
endfunction()

set_target_properties(heed_engine PROPERTIES EXPORT_NAME engine)
heed_install_library(engine)
if(HEED_NN)
  # Installed programs look for heed beside themselves, and for LibTorch where it was at build time.
  file(RELATIVE_PATH heed_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(heed_nn PROPERTIES EXPORT_NAME nn INSTALL_RPATH "$ORIGIN;${TORCH_INSTALL_PREFIX}/lib")
  heed_install_library(nn)
  if(TARGET heed)
    set_target_properties(heed PROPERTIES INSTALL_RPATH "$ORIGIN/${heed_bin_to_lib};${TORCH_INSTALL_PREFIX}/lib")
    install(TARGETS heed COMPONENT nn)
  endif()
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/heedConfig.cmake.in ${PROJECT_BINARY_DIR}/heedConfig.cmake
  INSTALL_DESTINATION ${heed_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heedConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heedConfig.cmake ${PROJECT_BINARY_DIR}/heedConfigVersion.cmake
  DESTINATION ${heed_cmake_dir} COMPONENT engine)
