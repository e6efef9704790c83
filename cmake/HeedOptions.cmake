# What can be chosen, and what is built when nothing is said: all of heed where it is the whole project, the libraries alone
# where it is part of another one or where a room is left out.

# An option that is on where heed is the whole project and the room ROOM is built.
function(heed_option name room description)
  if(PROJECT_IS_TOP_LEVEL AND ${room})
    option(${name} "${description}" ON)
  else()
    option(${name} "${description}" OFF)
  endif()
endfunction()

function(heed_require_room name room)
  if(${name} AND NOT ${room})
    message(FATAL_ERROR "${name} is on and needs ${room}, which is off: give -D${room}=ON or -D${name}=OFF")
  endif()
endfunction()

option(HEED_NN "Build the LibTorch room" ON)
# It reads JSON, which nobody has to install who wants the engine alone.
find_package(nlohmann_json QUIET)
if(HEED_NN OR nlohmann_json_FOUND)
  option(HEED_INFERENCE "Build the room that runs trained models without a framework" ON)
else()
  option(HEED_INFERENCE "Build the room that runs trained models without a framework" OFF)
endif()
heed_require_room(HEED_NN HEED_INFERENCE)
# AUTO: on where jaxlib is found and heed is the whole project; settled in HeedNeeds.
set(HEED_JAX AUTO CACHE STRING "Build the Python package's library for JAX: ON, OFF or AUTO")
set_property(CACHE HEED_JAX PROPERTY STRINGS AUTO ON OFF)
heed_option(HEED_LAB HEED_NN "Build the laboratory")
heed_option(HEED_CLI HEED_LAB "Build the program heed")
heed_require_room(HEED_LAB HEED_NN)
heed_require_room(HEED_CLI HEED_LAB)
heed_option(HEED_TESTS HEED_LAB "Build the tests of the rooms that are built")
heed_option(HEED_EXAMPLES HEED_LAB "Build the examples of the rooms that are built")
option(HEED_HASHES "Build the program that prints a hash of each call's results, even without the tests" OFF)
option(HEED_BENCH "Build the micro-benchmarks of the rooms that are built" OFF)
# Tools that look at files one by one want it off.
option(HEED_JOIN "Compile small files of one folder together" ON)
option(HEED_WERROR "Treat warnings as errors" OFF)
option(HEED_FUZZ "Make the test of readers a fuzzer; needs clang and fuzzer-no-link among the sanitizers" OFF)
set(HEED_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize takes them")
