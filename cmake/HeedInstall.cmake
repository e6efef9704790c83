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

# Where what is installed looks for LibTorch besides LD_LIBRARY_PATH: where CMAKE_INSTALL_RPATH says, else where it was found. A
# folder that the loader knows anyway is not named, nor one that goes when the source or the build tree goes.
function(heed_torch_rpath result)
  if(DEFINED CMAKE_INSTALL_RPATH)
    set(${result} ${CMAKE_INSTALL_RPATH} PARENT_SCOPE)
    return()
  endif()
  set(${result} "" PARENT_SCOPE)
  foreach(tree ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    file(REAL_PATH ${tree} tree)
    cmake_path(IS_PREFIX tree ${HEED_TORCH_FOLDER} inside)
    if(inside)
      install(CODE "message(STATUS \"LibTorch is left to LD_LIBRARY_PATH, because ${HEED_TORCH_FOLDER} lies in the source \"
        \"or build tree; to name another folder in what is installed, configure with -DCMAKE_INSTALL_RPATH=FOLDER\")"
        COMPONENT nn)
      return()
    endif()
  endforeach()
  if(NOT HEED_TORCH_FOLDER IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    set(${result} ${HEED_TORCH_FOLDER} PARENT_SCOPE)
  endif()
endfunction()

set_target_properties(heed_engine PROPERTIES EXPORT_NAME engine)
heed_install_library(engine)
if(HEED_NN)
  heed_torch_rpath(heed_rpath)
  set_target_properties(heed_nn PROPERTIES EXPORT_NAME nn)
  set_property(TARGET heed_nn PROPERTY INSTALL_RPATH $ORIGIN ${heed_rpath})
  heed_install_library(nn)
  # What pip installs beside the package's sources, and what the package asks before it loads the library.
  install(TARGETS heed_nn LIBRARY DESTINATION heed/lib COMPONENT python EXCLUDE_FROM_ALL)
  get_target_property(heed_folder heed_nn LIBRARY_OUTPUT_DIRECTORY)
  if(NOT heed_folder)
    set(heed_folder ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  file(CONFIGURE OUTPUT ${heed_folder}/libheed_nn.torch CONTENT "${HEED_TORCH_VERSION}\n")
  install(FILES ${heed_folder}/libheed_nn.torch DESTINATION heed/lib COMPONENT python EXCLUDE_FROM_ALL)
  # Another machine may lack Highway, and the loader looks beside the library that asks for it.
  get_target_property(heed_highway hwy::hwy LOCATION)
  get_target_property(heed_configurations hwy::hwy IMPORTED_CONFIGURATIONS)
  list(GET heed_configurations 0 heed_configuration)
  get_target_property(heed_soname hwy::hwy IMPORTED_SONAME_${heed_configuration})
  if(heed_highway MATCHES "[.]so" AND heed_soname)
    file(REAL_PATH ${heed_highway} heed_highway)
    install(FILES ${heed_highway} RENAME ${heed_soname} DESTINATION heed/lib COMPONENT python EXCLUDE_FROM_ALL)
  endif()
endif()
if(HEED_CLI)
  file(RELATIVE_PATH heed_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_property(TARGET heed PROPERTY INSTALL_RPATH $ORIGIN/${heed_bin_to_lib} ${heed_rpath})
  install(TARGETS heed COMPONENT nn)
endif()

string(REGEX MATCH "^[0-9]+[.][0-9]+" HEED_TORCH_SERIES "${HEED_TORCH_VERSION}")
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/heedConfig.cmake.in ${PROJECT_BINARY_DIR}/heedConfig.cmake
  INSTALL_DESTINATION ${heed_cmake_dir})
# Before 1.0 a minor version may change names.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heedConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heedConfig.cmake ${PROJECT_BINARY_DIR}/heedConfigVersion.cmake
  DESTINATION ${heed_cmake_dir} COMPONENT engine)
if(HEED_NN)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/heedTorch.cmake DESTINATION ${heed_cmake_dir} COMPONENT nn)
endif()
