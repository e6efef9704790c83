# What the rooms that are built need: Highway, JSON, LibTorch, jaxlib's headers, an interpreter for tests. Each is missed in a sentence.
set(HEED_PYTHON "" CACHE FILEPATH "Python interpreter that tests run with and whose torch is used (default: .venv, then PATH)")
if(NOT HEED_PYTHON)
  if(DEFINED SKBUILD)
    set(HEED_PYTHON ${Python_EXECUTABLE})
  elseif(EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
    set(HEED_PYTHON ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  else()
    find_program(HEED_PYTHON_ON_PATH python3)
    set(HEED_PYTHON ${HEED_PYTHON_ON_PATH})
  endif()
endif()

# Sets HEED_JAXLIB_INCLUDES, unless it was given: the folder with the headers of XLA's foreign-function interface in an interpreter's
# jaxlib, or "".
function(heed_find_jaxlib python)
  if(HEED_JAXLIB_INCLUDES AND EXISTS ${HEED_JAXLIB_INCLUDES}/xla/ffi/api/ffi.h)
    return()
  endif()
  set(HEED_JAXLIB_INCLUDES "" PARENT_SCOPE)
  execute_process(COMMAND ${python} -c "import importlib.util as i; print(i.find_spec('jaxlib').submodule_search_locations[0])"
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(folder AND EXISTS ${folder}/include/xla/ffi/api/ffi.h)
    set(HEED_JAXLIB_INCLUDES ${folder}/include PARENT_SCOPE)
  endif()
endfunction()

find_package(hwy QUIET)
if(NOT hwy_FOUND)
  message(FATAL_ERROR "heed needs Google Highway, which was not found: install it (Debian's libhwy-dev) or name its prefix in "
    "CMAKE_PREFIX_PATH")
endif()

if(HEED_INFERENCE AND NOT nlohmann_json_FOUND)
  message(FATAL_ERROR "heed's rooms beyond the engine need nlohmann-json, which was not found: install it (Debian's "
    "nlohmann-json3-dev), name its prefix in CMAKE_PREFIX_PATH, or build the engine alone with -DHEED_NN=OFF -DHEED_INFERENCE=OFF")
endif()

if(HEED_NN)
  include(heedTorch)
  heed_find_torch("${HEED_PYTHON}")
  if(heed_torch_lacks)
    message(FATAL_ERROR "${heed_torch_lacks} What needs no LibTorch is built with -DHEED_NN=OFF.")
  endif()
  message(STATUS "LibTorch ${HEED_TORCH_VERSION}: ${HEED_TORCH_FOLDER}")
endif()

if(HEED_LAB)
  find_package(Boost QUIET CONFIG)
  find_package(ZLIB QUIET)
  if(NOT Boost_FOUND OR NOT ZLIB_FOUND)
    message(FATAL_ERROR "heed's laboratory needs Boost and zlib, and not both were found: install them (Debian's libboost-dev and "
      "zlib1g-dev), or leave the laboratory out with -DHEED_LAB=OFF")
  endif()
endif()

# From here on HEED_JAX is ON or OFF in this folder and those below; the cache keeps what was asked for.
if(HEED_JAX STREQUAL AUTO AND NOT PROJECT_IS_TOP_LEVEL)
  set(HEED_JAX OFF)
endif()
if(HEED_JAX)
  heed_find_jaxlib("${HEED_PYTHON}")
  if(HEED_JAXLIB_INCLUDES)
    message(STATUS "jaxlib's headers: ${HEED_JAXLIB_INCLUDES}")
    set(HEED_JAX ON)
  elseif(HEED_JAX STREQUAL AUTO)
    message(STATUS "No jaxlib: heed.jax is left out")
    set(HEED_JAX OFF)
  else()
    message(FATAL_ERROR "HEED_JAX is ON, and ${HEED_PYTHON} has no jaxlib of 0.5 or newer: install it there (pip install jax) or give "
      "-DHEED_JAX=OFF")
  endif()
endif()
