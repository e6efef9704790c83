# Compiles the engine's kernels for 64-bit Arm, where a cross compiler is installed: NEON is promised by compilation.
#   cmake -DSOURCE=... -DWORK=... -DFOLDERS=... -P compile_for_arm.cmake
# FOLDERS: where the headers of positional schemes are.
find_program(compiler aarch64-linux-gnu-g++)
find_path(highway hwy/highway.h PATHS /usr/include /usr/local/include)
if(NOT compiler OR NOT highway)
  message("SKIPPED: aarch64-linux-gnu-g++ or Highway's headers are not installed")
  return()
endif()

# Highway's headers are the same for every processor; the rest of /usr/include is not.
file(MAKE_DIRECTORY ${WORK}/include)
file(CREATE_LINK ${highway}/hwy ${WORK}/include/hwy SYMBOLIC)
list(TRANSFORM FOLDERS PREPEND -I)
foreach(source dispatch/forward_kernel dispatch/backward_kernel position/hook_set dispatch/packed_matrix mixers/mixers)
  get_filename_component(kernel ${source} NAME)
  execute_process(
    COMMAND ${compiler} -std=c++20 -O1 -Wall -Wextra -Wno-unused-parameter -Werror -c ${SOURCE}/engine/src/${source}.cc
      -I ${SOURCE}/engine/src -I ${SOURCE}/engine/include ${FOLDERS} -isystem ${WORK}/include -o ${WORK}/${kernel}.o
      -DHWY_DISABLED_TARGETS=HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND aarch64-linux-gnu-nm -C ${WORK}/${kernel}.o OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  if(NOT symbols MATCHES "N_NEON")
    message(FATAL_ERROR "${kernel} has no NEON kernel")
  endif()
endforeach()
