# One CTest test a file of GoogleTest: in a process for each case, most of the time would go into starting it.
#
#   heed_add_test_files(TARGET file... [LABELS label...] [ENVIRONMENT NAME=value...])
#
# makes `lab.verdict` of tests/lab/verdict_test.cc. Cases whose suite or instantiation has a name that begins with Long become
# `lab.verdict.long`, with the label `long`. Each process writes its cases to gtest/NAME.xml in the build folder, where
# tests/house/tally.py counts them.
function(heed_add_test_files target)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "" "LABELS;ENVIRONMENT")
  get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  foreach(source IN LISTS test_UNPARSED_ARGUMENTS)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} lines REGEX "^(TEST|TEST_F|TEST_P)\\(")
    file(STRINGS ${source} long_targets REGEX "HEED_ON_TARGETS|INSTANTIATE_TEST_SUITE_P\\(Long")
    set(cases "")
    set(long "")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+), *([A-Za-z0-9_]+)\\).*" "\\1.\\2" case "${line}")
      # Alone, with a parameter, and with a parameter of a named instantiation.
      if(case MATCHES "^Long")
        list(APPEND long "${case}" "${case}/*" "*/${case}/*")
      else()
        list(APPEND cases "${case}" "${case}/*" "*/${case}/*")
      endif()
      if(long_targets)
        list(APPEND long "Long*/${case}/*")
      endif()
    endforeach()
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "_test$" "" name "${room}.${name}")
    if(cases)
      list(JOIN cases ":" filter)
      heed_add_gtest(${name} ${target} "${filter}:-Long*")
    endif()
    if(long)
      list(JOIN long ":" filter)
      list(APPEND test_LABELS long)
      heed_add_gtest(${name}.long ${target} "${filter}")
      list(REMOVE_ITEM test_LABELS long)
    endif()
  endforeach()
endfunction()

# A part of it, with the labels and the environment of its caller.
macro(heed_add_gtest name target filter)
  add_test(NAME ${name} COMMAND ${target} --gtest_brief=1 "--gtest_filter=${filter}")
  set_tests_properties(${name} PROPERTIES LABELS "${test_LABELS}"
    ENVIRONMENT "GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/gtest/${name}.xml;${test_ENVIRONMENT}")
endmacro()
