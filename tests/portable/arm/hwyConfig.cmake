# Highway for a program that is built for another processor: the headers of this machine, which are the same everywhere, and what
# its library has of them (hwy_library.cc).
set(hwy_FOUND TRUE)
if(TARGET hwy::hwy)
  return()
endif()
find_path(HEED_HIGHWAY_HEADERS hwy/highway.h PATHS /usr/include /usr/local/include NO_CMAKE_FIND_ROOT_PATH REQUIRED)
# The rest of /usr/include is not the same.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/headers)
file(CREATE_LINK ${HEED_HIGHWAY_HEADERS}/hwy ${PROJECT_BINARY_DIR}/headers/hwy SYMBOLIC)
add_library(hwy_for_arm STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/hwy_library.cc)
target_compile_features(hwy_for_arm PUBLIC cxx_std_20)
target_include_directories(hwy_for_arm SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/headers)
# What heed's own packages name comes from outside.
add_library(hwy::hwy INTERFACE IMPORTED GLOBAL)
target_link_libraries(hwy::hwy INTERFACE hwy_for_arm)
