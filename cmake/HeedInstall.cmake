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

# heed_install_pkgconfig(COMPONENT NAMES...): NAME.pc beside the library of a component. They find the prefix from where they lie.
function(heed_install_pkgconfig component)
  set(folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH HEED_PC_PREFIX /${folder} /)
  string(REGEX REPLACE "/$" "" HEED_PC_PREFIX "${HEED_PC_PREFIX}")
  foreach(name IN LISTS ARGN)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/pkgconfig/${name}.pc.in ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc DESTINATION ${folder} COMPONENT ${component})
  endforeach()
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
heed_install_pkgconfig(engine heed-engine)
if(HEED_INFERENCE)
  set_target_properties(heed_inference PROPERTIES EXPORT_NAME inference)
  set_target_properties(heed_c PROPERTIES EXPORT_NAME c)
  install(TARGETS heed_c EXPORT heed-inference COMPONENT inference)
  heed_install_library(inference)
  heed_install_pkgconfig(inference heed-inference heed)
endif()
if(HEED_NN)
  heed_torch_rpath(heed_rpath)
  set_target_properties(heed_nn PROPERTIES EXPORT_NAME nn)
  set_property(TARGET heed_nn PROPERTY INSTALL_RPATH $ORIGIN ${heed_rpath})
  heed_install_library(nn)
endif()
if(HEED_CLI)
  file(RELATIVE_PATH heed_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_property(TARGET heed PROPERTY INSTALL_RPATH $ORIGIN/${heed_bin_to_lib} ${heed_rpath})
  install(TARGETS heed COMPONENT nn)
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/heedConfig.cmake.in ${PROJECT_BINARY_DIR}/heedConfig.cmake
  INSTALL_DESTINATION ${heed_cmake_dir})
# Before 1.0 a minor version may change names.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heedConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heedConfig.cmake ${PROJECT_BINARY_DIR}/heedConfigVersion.cmake
  DESTINATION ${heed_cmake_dir} COMPONENT engine)
