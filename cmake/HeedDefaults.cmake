# What every target of heed is compiled with. Variables set here end with heed's folders and do not reach a project above.
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# How to build, and where to, is for the whole project to say.
if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

  # ccache takes objects that use a precompiled header only when told that the header's time stamps do not matter, and gcc
  # must then keep the header visible in preprocessed output.
  find_program(HEED_CCACHE ccache)
  # gcc looks for memory to free whenever its heap has doubled. Below 1 GiB, which LibTorch's headers come near, that costs a fifth
  # of the time and frees next to nothing. What is compiled stays the same, so ccache need not know.
  set(heed_memory --param=ggc-min-heapsize=1000000)
  if(HEED_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_IGNOREOPTIONS=${heed_memory}
      ${HEED_CCACHE})
    add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  endif()
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:${heed_memory}>)
endif()

if(HEED_SANITIZE)
  # What sanitizers add to the code makes gcc see uninitialised values that are not there.
  add_compile_options(-fsanitize=${HEED_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_link_options(-fsanitize=${HEED_SANITIZE})
  # LibTorch keeps the type information of some of its classes to itself.
  if(HEED_NN)
    add_compile_options(-fno-sanitize=vptr)
  endif()
endif()

# Most of the time of a small file goes into headers and into templates that gcc instantiates once for each file: files that are
# compiled as one save it. A group has up to `size` files of one target, in the order given, which share their unnamed namespaces.
function(heed_join target group size)
  if(NOT HEED_JOIN)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # gcc takes files that are compiled together for headers, where a member of an unnamed namespace's type would be a mistake.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  set(count 0)
  foreach(source IN LISTS ARGN)
    math(EXPR index "${count} / ${size}")
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group}_${index})
    math(EXPR count "${count} + 1")
  endforeach()
endfunction()

# Programs spend their time in the engine and in LibTorch. What calls these, in this folder and below, is optimised less: it
# compiles in two thirds of the time.
macro(heed_compile_quickly)
  string(REGEX REPLACE "-O[23]" "-O1" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
endmacro()

# Interface target with the warnings of heed's own code.
add_library(heed_warnings INTERFACE)
target_compile_options(heed_warnings INTERFACE -Wall -Wextra -Wno-unused-parameter)
if(HEED_WERROR)
  target_compile_options(heed_warnings INTERFACE -Werror)
  # gcc 12 sees overlaps and overflows in `"text" + std::string` that are not there (its bugs 105329, 105651 and 105762).
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(heed_warnings INTERFACE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
  endif()
endif()
