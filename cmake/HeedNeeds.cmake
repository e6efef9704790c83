# What the rooms that are built need: Highway, JSON, LibTorch, an interpreter for tests. Each is missed in a sentence.
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
