# find_package(torch_slang): the target torch_slang::torch_slang, the run-time that loads Slang kernels as operators of
# torch without Python. Torch itself comes from find_package(Torch), or, where that asks for a CUDA toolkit that is not
# there, from TORCH_DIR (the folder of the torch package, or of an unpacked libtorch).
#     cmake -Dtorch_slang_DIR=<package>/share/cmake/torch_slang ...
# where <package> is the folder of the Python package torch_slang.
get_filename_component(torch_slang_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET torch_slang::torch_slang)
  add_library(torch_slang::torch_slang SHARED IMPORTED)
  set_target_properties(torch_slang::torch_slang PROPERTIES IMPORTED_LOCATION ${torch_slang_root}/lib/libtorch_slang.so)
  target_include_directories(torch_slang::torch_slang INTERFACE
    ${torch_slang_root}/include)
  target_compile_features(torch_slang::torch_slang INTERFACE cxx_std_20)
  # Torch's libraries use the shared libstdc++. A compiler that links a static one by default would put a second into the
  # process, whose streams then crash.
  target_link_libraries(torch_slang::torch_slang INTERFACE -l:libstdc++.so.6)

  if(NOT TORCH_DIR)
    get_filename_component(torch_slang_sibling "${torch_slang_root}/../torch" ABSOLUTE)
    if(EXISTS ${torch_slang_sibling}/lib/libtorch_cpu.so)
      set(TORCH_DIR ${torch_slang_sibling})
    endif()
  endif()
  if(TORCH_DIR)
    target_include_directories(torch_slang::torch_slang SYSTEM INTERFACE
      ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
    file(GLOB torch_slang_torch_libraries ${TORCH_DIR}/lib/libtorch.so ${TORCH_DIR}/lib/libtorch_cpu.so
      ${TORCH_DIR}/lib/libc10.so)
    target_link_libraries(torch_slang::torch_slang INTERFACE ${torch_slang_torch_libraries})
  else()
    include(CMakeFindDependencyMacro)
    find_dependency(Torch)
    target_link_libraries(torch_slang::torch_slang INTERFACE ${TORCH_LIBRARIES})
  endif()
endif()
set(torch_slang_FOUND TRUE)
