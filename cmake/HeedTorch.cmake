# LibTorch: where CMAKE_PREFIX_PATH or Torch_DIR say, else the one inside a Python environment that has torch. Its targets are
# global, so that a project above heed can link heed::nn.
set(HEED_PYTHON "" CACHE FILEPATH "Python interpreter that tests run with and whose torch is used (default: .venv, then PATH)")
if(NOT HEED_PYTHON)
  if(EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
    set(HEED_PYTHON ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  else()
    find_program(HEED_PYTHON_ON_PATH python3)
    set(HEED_PYTHON ${HEED_PYTHON_ON_PATH})
  endif()
endif()

if(HEED_NN)
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)  # torch warns about libraries that it does not need
  find_package(Torch QUIET GLOBAL)
  if(NOT Torch_FOUND AND HEED_PYTHON)
    execute_process(COMMAND ${HEED_PYTHON} -c "import torch; print(torch.utils.cmake_prefix_path)"
      OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_package(Torch QUIET GLOBAL PATHS ${torch_prefix})
  endif()
  unset(CMAKE_MESSAGE_LOG_LEVEL)
  if(NOT Torch_FOUND)
    message(FATAL_ERROR "LibTorch was not found: set CMAKE_PREFIX_PATH, or HEED_PYTHON to an interpreter that has torch, "
      "or build the engine alone with -DHEED_NN=OFF")
  endif()
  message(STATUS "LibTorch ${Torch_VERSION}: ${TORCH_INSTALL_PREFIX}")
  # The folder of its libraries, which need not be lib below the prefix; links followed.
  get_target_property(HEED_TORCH_FOLDER torch_cpu LOCATION)
  file(REAL_PATH ${HEED_TORCH_FOLDER} HEED_TORCH_FOLDER)
  cmake_path(GET HEED_TORCH_FOLDER PARENT_PATH HEED_TORCH_FOLDER)
endif()
