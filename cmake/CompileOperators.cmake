# The operators of ops/: each .slang is compiled by torch-slangc at build time, so that importing torch_slang starts no
# compiler. Both the source and its Program are part of the package.
file(GLOB operator_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/ops/*.slang)
if(NOT operator_sources OR NOT TARGET torch-slangc)
  return()
endif()
set(operator_dir ${CMAKE_BINARY_DIR}/torch_slang/ops)
set(operator_files "")
foreach(source IN LISTS operator_sources)
  get_filename_component(name ${source} NAME_WE)
  set(program ${operator_dir}/${name}.json)
  add_custom_command(
    OUTPUT ${program} ${operator_dir}/${name}.slang
    COMMAND ${CMAKE_COMMAND} -E copy ${source} ${operator_dir}/${name}.slang
    COMMAND torch-slangc ${operator_dir}/${name}.slang --all-types -o ${program}
    DEPENDS ${source} torch-slangc
    COMMENT "torch-slangc ops/${name}.slang" VERBATIM)
  list(APPEND operator_files ${program})
endforeach()
add_custom_target(torch_slang_operators ALL DEPENDS ${operator_files})
