# Installs heed into a fresh prefix, builds the consumer against nothing but that prefix, and runs it.
#   cmake -DBUILD=build folder of heed -DWORK=scratch folder -DCOMPONENT=engine|nn -DCOMPILER=c++ [-DTORCH=Torch_DIR] -P this
foreach(argument BUILD WORK COMPONENT COMPILER)
  if(NOT DEFINED ${argument})
    message(FATAL_ERROR "-D${argument} is missing")
  endif()
endforeach()

set(prefix ${WORK}/prefix)
set(components engine)
set(search -DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON)
if(COMPONENT STREQUAL nn)
  list(APPEND components nn)
  set(search -DTorch_DIR=${TORCH})
endif()

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${status}:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
foreach(component ${components})
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component ${component})
endforeach()
# The prefix moves: a package that remembers where it was installed, or built, is found out.
file(RENAME ${prefix} ${WORK}/moved)
run(${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK}/consumer -DCOMPONENT=${COMPONENT}
  -DCMAKE_PREFIX_PATH=${WORK}/moved -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release ${search})
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${WORK}/consumer/consumer)
if(COMPONENT STREQUAL nn)
  run(${WORK}/moved/bin/heed --help)
endif()
