# Slang's errors differ from version to version, and so do the texts that their repairs read: a Slang that the ledger
# (tests/slang_bugs) was not run with is an error, unless it is accepted.
option(TORCH_SLANG_ANY_SLANG "Build with a Slang that the ledger of its errors was not run with" OFF)

# torch_slang_check_version(<name of Slang's library> <header that names the tested versions>)
function(torch_slang_check_version library header)
  file(STRINGS ${header} tested REGEX "kTestedSlang\\[\\] = ")
  string(REGEX MATCHALL "[0-9]+\\.[0-9.]*[0-9]" versions "${tested}")
  if(NOT versions)
    message(FATAL_ERROR "torch_slang: ${header} names no version of Slang")
  endif()
  string(REGEX MATCH "[0-9][0-9][0-9][0-9]\\.[0-9.]*[0-9]" version ${library})
  if(version IN_LIST versions)
    return()
  endif()
  list(JOIN versions ", " versions)
  set(problem "torch_slang: ${library} is no Slang that its derivatives were tested with (${versions})")
  if(NOT TORCH_SLANG_ANY_SLANG)
    message(FATAL_ERROR "${problem}. Run tests/slang_bugs/test_slang_bugs.py with it: "
      "TORCH_SLANG_CMAKE_ARGS=-DTORCH_SLANG_ANY_SLANG=ON builds all the same")
  endif()
  message(WARNING "${problem}")
endfunction()
