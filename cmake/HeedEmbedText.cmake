# All headers that are made here.
add_custom_target(heed_embedded_texts)

# Turns text files into C++ string constants, so that a script or a style sheet is a file of its own in the tree:
#
#   heed_embed_text(TARGET HEADER FILE...)
#
# gives TARGET the header HEADER to include, with `inline constexpr std::string_view kPageCss` for page.css, in
# namespace heed::lab::text. Built again when a file changes.
function(heed_embed_text target header)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded/${header})
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} "-DFILES=${files}" -P ${PROJECT_SOURCE_DIR}/cmake/WriteEmbeddedText.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/WriteEmbeddedText.cmake
    COMMENT "Embedding ${header}"
    VERBATIM)
  # A target, because the folder of the text need not be that of ${target}.
  string(MAKE_C_IDENTIFIER "${target}_${header}" embedding)
  add_custom_target(${embedding} DEPENDS ${out})
  add_dependencies(${target} ${embedding})
  add_dependencies(heed_embedded_texts ${embedding})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/embedded)
endfunction()
