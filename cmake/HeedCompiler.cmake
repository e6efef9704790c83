# A compiler, missed in a sentence.
include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  message(FATAL_ERROR "heed needs a C++20 compiler, and none was found: install one (Debian's g++) or name it in CXX")
endif()
enable_language(CXX)
