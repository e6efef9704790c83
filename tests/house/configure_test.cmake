# Configures heed with rooms left out, and as part of another project: only what the rooms need is asked for.
#   cmake -DSOURCE=heed's tree -DWORK=scratch folder -DCOMPILER=c++ [-DTORCH_FOLDER=the folder of LibTorch's libraries] -P this
foreach(argument SOURCE WORK COMPILER)
  if(NOT DEFINED ${argument})
    message(FATAL_ERROR "-D${argument} is missing")
  endif()
endforeach()

# configure(FOLDER STATUS SENTENCE ARGUMENTS...): ends with STATUS, 0 or 1, and says SENTENCE, where CMake may break the line.
# Targets may link targets alone: a room that is left out would else be taken for a library of the system.
function(configure folder status sentence)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -G Ninja -S ${folder} -B ${WORK}/build ${compiler} -DTorch_ROOT=${TORCH_FOLDER}/..
      -DCMAKE_LINK_LIBRARIES_ONLY_TARGETS=ON ${ARGN}
    RESULT_VARIABLE ended OUTPUT_VARIABLE output ERROR_VARIABLE output)
  file(REMOVE_RECURSE ${WORK}/build)
  string(REGEX REPLACE "[ \n]+" " " words "${output}")
  if(NOT ended EQUAL status OR NOT words MATCHES "${sentence}")
    message(FATAL_ERROR "cmake -S ${folder} ${ARGN}\nended with ${ended}, not with ${status} and '${sentence}':\n${output}")
  endif()
endfunction()

# lacking(RESULT PACKAGES...): the arguments that make CMake fail where one of them is asked for.
function(lacking result)
  list(TRANSFORM ARGN REPLACE "(.+)" "-DCMAKE_DISABLE_FIND_PACKAGE_\\1=ON")
  set(${result} ${ARGN} PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
set(compiler -DCMAKE_CXX_COMPILER=${COMPILER})
configure(${SOURCE} 1 "HEED_LAB is on and needs HEED_NN, which is off: give" -DHEED_NN=OFF -DHEED_LAB=ON)
configure(${SOURCE} 1 "HEED_CLI is on and needs HEED_LAB, which is off: give" -DHEED_LAB=OFF -DHEED_CLI=ON)

configure(${SOURCE} 1 "heed needs Google Highway, which was not found: install it .Debian's libhwy-dev." -DCMAKE_DISABLE_FIND_PACKAGE_hwy=ON)
configure(${SOURCE} 1 "need nlohmann-json, which was not found" -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)
configure(${SOURCE} 1 "LibTorch was not found: install PyTorch .* What needs no LibTorch is built with -DHEED_NN=OFF."
  -DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON)
file(WRITE ${WORK}/old/include/torch/csrc/api/include/torch/version.h
  "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 9\n#define TORCH_VERSION_PATCH 1\n")
file(WRITE ${WORK}/old/lib/libtorch_cpu.so "")
file(WRITE ${WORK}/old/lib/libc10.so "")
configure(${SOURCE} 1 "LibTorch 2.9.1 was found in .*old.*, and heed needs 2.10 or newer." -DTorch_ROOT=${WORK}/old)

set(compiler "")
set(ENV{CXX} no-such-compiler)
configure(${SOURCE} 1 "heed needs a C..20 compiler, and none was found")
set(compiler -DCMAKE_CXX_COMPILER=${COMPILER})

lacking(engine_alone Torch nlohmann_json CLI11 ZLIB fmt Boost Python3)
configure(${SOURCE} 0 "" -DHEED_NN=OFF ${engine_alone} -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON)
configure(${SOURCE} 0 "" -DHEED_NN=OFF ${engine_alone} -DHEED_TESTS=ON -DHEED_EXAMPLES=ON -DHEED_BENCH=ON)
configure(${CMAKE_CURRENT_LIST_DIR}/parent 0 "" -DHEED=${SOURCE} -DCOMPONENT=engine
  -DPROGRAM=${CMAKE_CURRENT_LIST_DIR}/consumer/engine.cc -DHEED_NN=OFF ${engine_alone} -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON)

configure(${SOURCE} 1 "HEED_NN is on and needs HEED_INFERENCE, which is off: give" -DHEED_INFERENCE=OFF)
lacking(inference_alone Torch CLI11 ZLIB fmt Boost Python3)
configure(${SOURCE} 0 "" -DHEED_NN=OFF -DHEED_INFERENCE=ON ${inference_alone} -DHEED_TESTS=ON -DHEED_EXAMPLES=ON)

if(TORCH_FOLDER)
  lacking(libraries CLI11 ZLIB fmt Boost)
  configure(${SOURCE} 0 "" -DHEED_LAB=OFF ${libraries} -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON)
  configure(${SOURCE} 0 "" -DHEED_LAB=OFF ${libraries} -DHEED_TESTS=ON -DHEED_EXAMPLES=ON -DHEED_BENCH=ON)
  configure(${SOURCE} 0 "" -DHEED_CLI=OFF -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON)
  configure(${CMAKE_CURRENT_LIST_DIR}/parent 0 "looks for libraries in .ORIGIN;/opt/libtorch/lib " -DHEED=${SOURCE} -DCOMPONENT=nn
    -DCMAKE_INSTALL_RPATH=/opt/libtorch/lib -DPROGRAM=${CMAKE_CURRENT_LIST_DIR}/released/0.1/nn.cc ${libraries} -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON)
endif()
