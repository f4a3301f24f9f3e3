# `cmake --install build --prefix <package folder>` puts everything native into the Python package torch_slang, where
# setup.py, C++ users (find_package) and torch_slang itself look for it.
install(TARGETS torch_slang EXPORT torch_slangTargets LIBRARY DESTINATION lib)
if(TARGET torch-slangc)
  install(TARGETS torch-slangc RUNTIME DESTINATION bin)
  install(PROGRAMS ${slang_library} DESTINATION bin)
endif()
if(TARGET _C)
  install(TARGETS _C LIBRARY DESTINATION .)
endif()
if(TARGET torch_slang_operators)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/torch_slang/ops DESTINATION . FILES_MATCHING PATTERN "*.slang" PATTERN "*.json")
endif()
# The public headers.
install(DIRECTORY csrc/torch_slang DESTINATION include FILES_MATCHING PATTERN "*.h")

include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/torch_slangConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/torch_slangConfig.cmake ${CMAKE_BINARY_DIR}/torch_slangConfigVersion.cmake
  DESTINATION share/cmake/torch_slang)
