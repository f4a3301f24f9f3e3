# torch_slang_embed(<target> HEADER <header> TABLE <variable> FILES <files...>)
#
# Adds a generated source to the target that defines the table which the header declares, with one {name, text} for each
# file, in the order given:
#     extern const EmbeddedText <variable>[];         // common/embedded_text.h
# and its length, `extern const int <variable>Count;`. The name is the file's, without its folder.
function(torch_slang_embed target)
  cmake_parse_arguments(PARSE_ARGV 1 embed "" "HEADER;TABLE" "FILES")
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded/${embed_TABLE}.cpp)
  list(JOIN embed_FILES "|" files)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DHEADER=${embed_HEADER} -DTABLE=${embed_TABLE} -DOUTPUT=${output} "-DFILES=${files}"
            -P ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake
    DEPENDS ${embed_FILES} ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake
    COMMENT "Embedding ${embed_TABLE}" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
