# Finds torch, the Slang compiler and Boost's headers.
#
# Note [torch without find_package]
#   find_package(Torch) of a CUDA build of torch asks for the whole CUDA toolkit, which we need neither to build nor to
#   run. Headers and libraries are taken from the torch package directly.
#
# Each dependency comes from its Python package, or from the folder that a variable of CMake or of the environment
# names: TORCH_DIR (torch's package folder, or an unpacked libtorch), SLANG_DIR (slang.h and libslang-compiler.so*),
# BOOST_DIR (boost/).

set(python_components Interpreter)
if(TORCH_SLANG_PYTHON_MODULE)
  list(APPEND python_components Development.Module)
endif()
find_package(Python 3.11 REQUIRED COMPONENTS ${python_components})

# torch_slang_root(<variable> <Python package>): the folder named by the variable, else the installed package's, else "".
function(torch_slang_root variable package)
  if(${variable})
    return()
  endif()
  set(folder "$ENV{${variable}}")
  if(NOT folder)
    execute_process(
      COMMAND ${Python_EXECUTABLE} -I ${CMAKE_SOURCE_DIR}/cmake/locate.py ${package}
      OUTPUT_VARIABLE folder COMMAND_ERROR_IS_FATAL ANY)
  endif()
  set(${variable} "${folder}" PARENT_SCOPE)
endfunction()

# torch_slang_find(<result> NAME <header> IN <folders...> [SUFFIXES <subfolders...>] HINT <what to do without it>)
function(torch_slang_find result)
  cmake_parse_arguments(PARSE_ARGV 1 find "" "NAME;HINT" "IN;SUFFIXES")
  find_path(${result} NAMES ${find_NAME} HINTS ${find_IN} PATH_SUFFIXES ${find_SUFFIXES} NO_CACHE)
  if(NOT ${result})
    message(FATAL_ERROR "torch_slang: no ${find_NAME} found. ${find_HINT}")
  endif()
  set(${result} "${${result}}" PARENT_SCOPE)
endfunction()

# --- torch: targets torch_slang::c10, torch_slang::torch, torch_slang::torch_python
torch_slang_root(TORCH_DIR torch)
torch_slang_find(torch_include NAME c10/core/Device.h IN ${TORCH_DIR}/include
  HINT "Install torch, or set TORCH_DIR to its package folder or to an unpacked libtorch.")
set(torch_library_dir ${TORCH_DIR}/lib)
message(STATUS "torch_slang: torch from ${TORCH_DIR}")

function(torch_slang_import_library target file)
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "torch_slang: torch has no ${file}")
  endif()
  add_library(${target} SHARED IMPORTED)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${file})
  target_include_directories(${target} SYSTEM INTERFACE
    ${torch_include} ${torch_include}/torch/csrc/api/include ${CMAKE_SOURCE_DIR}/csrc/stubs)
  # torch has used the C++11 ABI since 2.7; some distributions' compilers still default to the old one.
  target_compile_definitions(${target} INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
endfunction()

torch_slang_import_library(torch_slang::c10 ${torch_library_dir}/libc10.so)
torch_slang_import_library(torch_slang::torch ${torch_library_dir}/libtorch_cpu.so)
target_link_libraries(torch_slang::torch INTERFACE torch_slang::c10)
# Note [one libstdc++]
#   Some compilers link libstdc++ statically unless told otherwise. Beside torch's shared one that makes two sets of locale
#   facets in the process, and printing a number into an error message crashes. Named first, the shared one is taken.
target_link_libraries(torch_slang::c10 INTERFACE -l:libstdc++.so.6)
# at::parallel_for is a template over OpenMP, so whoever includes it must be compiled with -fopenmp. The OpenMP library
# must be torch's own: a second one in the process would have threads of its own.
target_compile_options(torch_slang::torch INTERFACE -fopenmp)
file(GLOB torch_openmp ${torch_library_dir}/libgomp*.so*)
if(torch_openmp)
  target_link_libraries(torch_slang::torch INTERFACE ${torch_openmp})
else()
  target_link_options(torch_slang::torch INTERFACE -fopenmp)
endif()

# --- The Slang compiler: target torch_slang::slang, and the file to copy beside torch-slangc
torch_slang_root(SLANG_DIR slangpy)
set(slang_hint "Install the slangpy package, or set SLANG_DIR to a folder with slang.h and libslang-compiler.so*.")
torch_slang_find(slang_include NAME slang.h IN ${SLANG_DIR} SUFFIXES include HINT "${slang_hint}")
file(GLOB slang_libraries ${SLANG_DIR}/libslang-compiler.so* ${SLANG_DIR}/lib/libslang-compiler.so*)
if(NOT slang_libraries)
  message(FATAL_ERROR "torch_slang: no libslang-compiler.so in ${SLANG_DIR}. ${slang_hint}")
endif()
list(GET slang_libraries -1 slang_library)  # the longest name is the real file, the others are links to it
file(REAL_PATH ${slang_library} slang_library)
get_filename_component(slang_library_name ${slang_library} NAME)
message(STATUS "torch_slang: Slang from ${slang_library}")
include(${CMAKE_CURRENT_LIST_DIR}/TestedSlang.cmake)
torch_slang_check_version(${slang_library_name} ${CMAKE_SOURCE_DIR}/csrc/compiler/slang/library.h)
add_library(torch_slang::slang SHARED IMPORTED)
set_target_properties(torch_slang::slang PROPERTIES IMPORTED_LOCATION ${slang_library})
target_include_directories(torch_slang::slang SYSTEM INTERFACE ${slang_include})

# --- Boost's headers: target torch_slang::boost
torch_slang_root(BOOST_DIR boost_headers)
torch_slang_find(boost_include NAME boost/json.hpp IN ${BOOST_DIR} ${SLANG_DIR} SUFFIXES include
  HINT "Install the boost-headers package, or set BOOST_DIR to a folder with boost/.")
add_library(torch_slang::boost INTERFACE IMPORTED)
target_include_directories(torch_slang::boost SYSTEM INTERFACE ${boost_include})

# --- torch's Python library. torch brings the headers of the pybind11 that it was built with; with those our module
# shares torch's registry of types.
if(TORCH_SLANG_PYTHON_MODULE)
  torch_slang_import_library(torch_slang::torch_python ${torch_library_dir}/libtorch_python.so)
  target_link_libraries(torch_slang::torch_python INTERFACE torch_slang::torch)
endif()
