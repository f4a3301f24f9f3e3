// Compilers quote the lines that they complain of, whatever file they are in: an `#include` of a file that is no code at all
// would show what stands there to whoever sees the message.
//
// Note [the user's files]
//   Lines, and words of them, are shown only of files that are in, or below, the folder of the module's file, a folder of
//   include_dirs, or the working directory (unless one of these is `/`), and of what is no file, as a text that was given.
//   Of other files a message has the place alone.
#pragma once

#include <string>
#include <vector>

namespace torch_slang {

class UsersFiles {
 public:
  // `files`: some more, by name.
  explicit UsersFiles(const std::vector<std::string>& folders, std::vector<std::string> files = {});

  bool may_quote(const std::string& file) const;

 private:
  std::vector<std::string> folders_;  // canonical, each with a slash at its end
  std::vector<std::string> files_;
};

// What Slang, a C++ compiler or NVRTC has said, without what it cites of files that may not be quoted.
std::string without_foreign_lines(const std::string& diagnostics, const UsersFiles& users);

}  // namespace torch_slang
