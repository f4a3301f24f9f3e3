// Compilers quote the lines that they complain of, whatever file they are in: an `#include` of a file that is no code at all
// would show its contents to readers of the message.
//
// Note [the user's files]
//   A message shows lines, and words of them, from the user's files: those inside the folder of the module's file, inside
//   a folder of include_dirs, or inside the working directory. (`/` does not count as such a folder.) A source that was given
//   as text is shown too. Of any other file the message has the file's name and line number alone.
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

// The messages of Slang, a C++ compiler or NVRTC, without the lines and words of files that may not be quoted.
std::string without_foreign_lines(const std::string& diagnostics, const UsersFiles& users);

}  // namespace torch_slang
