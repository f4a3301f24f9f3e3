# The operators of ops/: each .slang is compiled by torch-slangc at build time, so that importing torch_slang starts no
# compiler. Both the source and its Program are part of the package.
file(GLOB operator_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/ops/*.slang)
if(NOT operator_sources OR NOT TARGET torch-slangc)
  return()
endif()
set(operator_dir ${CMAKE_BINARY_DIR}/torch_slang/ops)
set(operator_files "")

# torch_slang_operator(<name> DEPENDS <files> COMMAND <what writes ${operator_dir}/<name>.slang>)
function(torch_slang_operator name)
  cmake_parse_arguments(PARSE_ARGV 1 given "" "" "DEPENDS;COMMAND")
  set(stem ${operator_dir}/${name})
  add_custom_command(
    OUTPUT ${stem}.json ${stem}.slang
    COMMAND ${given_COMMAND}
    COMMAND torch-slangc ${stem}.slang --all-types -o ${stem}.json
    DEPENDS ${given_DEPENDS} torch-slangc
    COMMENT "torch-slangc ops/${name}.slang" VERBATIM)
  set(operator_files ${operator_files} ${stem}.json PARENT_SCOPE)
endfunction()

foreach(source IN LISTS operator_sources)
  get_filename_component(name ${source} NAME_WE)
  torch_slang_operator(${name} DEPENDS ${source}
    COMMAND ${CMAKE_COMMAND} -E copy ${source} ${operator_dir}/${name}.slang)
endforeach()

# Epilogues of products: a function of linear.slang, and the kernels of matmul.slang or block_sparse.slang with that in them.
file(MAKE_DIRECTORY ${operator_dir}/epilogues)
set(epilogue_source ${CMAKE_SOURCE_DIR}/ops/epilogues/linear.slang)
set(epilogue_writer ${CMAKE_SOURCE_DIR}/torch_slang/products/epilogue_text.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${epilogue_source})
file(STRINGS ${epilogue_source} activations REGEX "^LINEAR\\(.*\\)$")
list(TRANSFORM activations REPLACE "^LINEAR\\((.*)\\)$" "linear_\\1")
set(epilogues linear_bias ${activations})
list(TRANSFORM activations APPEND "_bias")
list(APPEND epilogues ${activations})

# torch_slang_epilogues(<product> <suffix>): of ops/<product>.slang, as epilogues/<name><suffix>
function(torch_slang_epilogues product suffix)
  set(product_source ${CMAKE_SOURCE_DIR}/ops/${product}.slang)
  foreach(name IN LISTS epilogues)
    torch_slang_operator(epilogues/${name}${suffix} DEPENDS ${epilogue_source} ${epilogue_writer} ${product_source}
      COMMAND ${Python_EXECUTABLE} -I ${epilogue_writer} ${epilogue_source} ${product_source} ${name}
              ${operator_dir}/epilogues/${name}${suffix}.slang)
  endforeach()
  set(operator_files ${operator_files} PARENT_SCOPE)
endfunction()
torch_slang_epilogues(matmul "")
torch_slang_epilogues(block_sparse _block_sparse)
add_custom_target(torch_slang_operators ALL DEPENDS ${operator_files})
