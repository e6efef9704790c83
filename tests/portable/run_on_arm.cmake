# Builds the engine, inference and portable_hashes for 64-bit Arm and compares what the program prints under qemu with the file.
#   cmake -DSOURCE=... -DWORK=... -P run_on_arm.cmake
find_program(compiler aarch64-linux-gnu-g++)
find_program(emulator NAMES qemu-aarch64-static qemu-aarch64)
if(NOT compiler OR NOT emulator)
  message("SKIPPED: aarch64-linux-gnu-g++ or qemu-aarch64-static is not installed")
  return()
endif()
set(here ${SOURCE}/tests/portable)
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK} -G Ninja -DCMAKE_TOOLCHAIN_FILE=${here}/arm/toolchain.cmake
    -Dhwy_DIR=${here}/arm -Dnlohmann_json_DIR=${here}/arm -DHEED_NN=OFF -DHEED_INFERENCE=ON -DHEED_LAB=OFF -DHEED_JAX=OFF
    -DHEED_HASHES=ON -DCMAKE_BUILD_TYPE=Release
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK} --target portable_hashes COMMAND_ERROR_IS_FATAL ANY)
set(RUNNER ${emulator})
set(PROGRAM ${WORK}/bin/portable_hashes)
set(EXPECTED ${here}/hashes.txt)
include(${here}/compare_hashes.cmake)
