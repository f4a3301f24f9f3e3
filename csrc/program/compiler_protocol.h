// What torch-slangc and the library that runs it agree on, apart from the JSON of program.h. `torch-slangc --serve` reads
// a CompileRequest on stdin, writes the Program on stdout and everything for people on stderr, where a line that begins
// with kProgressMark names the step that it begins: that line is all that is left of a compiler that dies. Of a whole
// module, the Program without its texts is written before those are made, as a line of its own.
#pragma once

namespace torch_slang {

inline constexpr const char* kServeOption = "--serve";
// With --serve: answers any number of requests, each by a fork: Note [fork server].
inline constexpr const char* kForksOption = "--forks";
inline constexpr const char* kProgressMark = "@at ";
inline constexpr int kStatusCompileError = 1;  // stderr holds the message for the user, whole

}  // namespace torch_slang
