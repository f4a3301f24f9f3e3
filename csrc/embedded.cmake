# Texts that become part of a binary.
if(TARGET torch_slang_compiler)
  file(GLOB slang_library_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/slang/*.slang)
  torch_slang_embed(torch_slang_compiler HEADER compiler/library.h TABLE kSlangLibrary FILES ${slang_library_files})
endif()

# The Slang library once more, compiled, beside the program: see compiler/library.h.
if(TARGET torch-slangc)
  add_custom_command(TARGET torch-slangc POST_BUILD
    COMMAND torch-slangc --compile-library ${package_dir}/bin
    COMMENT "Compiling the Slang library" VERBATIM)
  install(DIRECTORY ${package_dir}/bin/ DESTINATION bin FILES_MATCHING PATTERN "*.slang-module")
endif()
