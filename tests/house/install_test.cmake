# Installs heed into a fresh prefix, builds the consumer against nothing but that prefix, runs it, and looks at what
# find_package says where something is missing.
#   cmake -DSOURCE=heed's tree -DBUILD=its build folder -DWORK=scratch folder -DCOMPONENT=engine|nn -DCOMPILER=c++
#     -DREADME_LINES=the CMake lines of README.md -DREADELF=readelf [-DTORCH_FOLDER=the folder of LibTorch's libraries] [-DCLI=ON] -P this
foreach(argument SOURCE BUILD WORK COMPONENT COMPILER README_LINES READELF)
  if(NOT DEFINED ${argument})
    message(FATAL_ERROR "-D${argument} is missing")
  endif()
endforeach()

set(prefix ${WORK}/prefix)
set(ENV{CMAKE_PREFIX_PATH} ${WORK}/moved)
set(components engine)
set(search -DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON)
if(COMPONENT STREQUAL nn)
  list(APPEND components nn)
  set(search "")
  # As torch.utils.cmake_prefix_path names it.
  cmake_path(SET torch_prefix NORMALIZE ${TORCH_FOLDER}/../share/cmake)
  set(ENV{CMAKE_PREFIX_PATH} ${WORK}/moved:${torch_prefix})
endif()

# run(STATUS COMMAND...): runs it, sees that it ends with STATUS, 0 or 1, and leaves what it says in `output`.
function(run expected)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL expected)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${status}, not with ${expected}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# What is installed must outlive the tree, in which the build folder may lie or not.
function(forget_trees what text)
  foreach(tree ${SOURCE} ${BUILD})
    string(FIND "${text}" "${tree}" place)
    if(NOT place EQUAL -1)
      message(FATAL_ERROR "${what} points into ${tree}:\n${text}")
    endif()
  endforeach()
endfunction()

file(REMOVE_RECURSE ${WORK})
foreach(component ${components})
  run(0 ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component ${component})
endforeach()
# The prefix moves: a package that remembers where it was installed, or built, is found out.
file(RENAME ${prefix} ${WORK}/moved)
file(GLOB_RECURSE package ${WORK}/moved/*.cmake)
foreach(file ${package})
  file(READ ${file} text)
  forget_trees(${file} "${text}")
endforeach()
file(GLOB_RECURSE binaries ${WORK}/moved/bin/* ${WORK}/moved/*.so)
foreach(file ${binaries})
  run(0 ${READELF} -d ${file})
  forget_trees(${file} "${output}")
endforeach()

file(READ ${README_LINES} lines)
string(REGEX REPLACE "(COMPONENTS |heed::)nn" "\\1${COMPONENT}" lines "${lines}")
file(WRITE ${WORK}/readme.cmake "${lines}")
set(consumer ${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK}/consumer
  -DPROGRAM=${COMPONENT}.cc -DREADME_LINES=${WORK}/readme.cmake -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release ${search})
run(1 ${consumer} -DCMAKE_DISABLE_FIND_PACKAGE_hwy=ON)
if(NOT output MATCHES "heed needs Google Highway")
  message(FATAL_ERROR "CMake does not say that Highway is missing:\n${output}")
endif()
run(0 ${consumer} -DCMAKE_DISABLE_FIND_PACKAGE_hwy=OFF)
run(0 ${CMAKE_COMMAND} --build ${WORK}/consumer)
run(0 ${WORK}/consumer/my_program)
run(0 ${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR}/finder -B ${WORK}/finder -DCOMPONENT=${COMPONENT}
  -DCMAKE_CXX_COMPILER=${COMPILER})
if(CLI)
  run(0 ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${TORCH_FOLDER} ${WORK}/moved/bin/heed --help)
endif()
