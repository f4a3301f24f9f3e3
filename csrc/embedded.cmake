# Texts that become part of a binary.
if(TARGET torch_slang_compiler)
  file(GLOB slang_library_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/slang/*.slang)
  torch_slang_embed(torch_slang_compiler HEADER compiler/library.h TABLE kSlangLibrary FILES ${slang_library_files})
endif()
