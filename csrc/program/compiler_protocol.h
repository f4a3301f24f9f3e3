// What torch-slangc and the library that runs it agree on, apart from the JSON of program.h. `torch-slangc --serve` reads
// a CompileRequest on stdin, writes the Program on stdout and everything for people on stderr, where a line that begins
// with kProgressMark names the step that it begins: that line is all that is left of a compiler that dies.
//
// Note [a compiler that forks]
//   Two thirds of a small compile go into loading Slang and its core module. So `torch-slangc --serve-many`, whose stdin is
//   a socket (common/messages.h), loads them once, and then forks for each message: its text is the words of a command
//   line (a line each), its files are RequestFile. The fork does what a torch-slangc with that command line and these
//   files would, and ends. The server sends the status that the fork ended with (waitpid's, as text) to the answer's
//   socket; a fork whose answer's other side is closed or shut down is killed, and all are, and the server ends, when
//   nobody holds the other side of stdin. It leaves the process that started it: nobody's wait() sees it.
//   Slang starts no thread: so a fork of a process that has loaded it is whole.
#pragma once

namespace torch_slang {

inline constexpr const char* kServeOption = "--serve";
inline constexpr const char* kDescribeOption = "--describe";  // with --serve: descriptors only, no texts
inline constexpr const char* kServeManyOption = "--serve-many";
inline constexpr const char* kProgressMark = "@at ";
inline constexpr int kStatusCompileError = 1;  // stderr holds the message for the user, whole

enum RequestFile { kInputFile, kOutputFile, kErrorFile, kAnswerSocket, kRequestFiles };

}  // namespace torch_slang
