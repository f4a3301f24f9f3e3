// Text files that the build puts into the binary (cmake/EmbedText.cmake): tables of {name, text}.
#pragma once

namespace torch_slang {

struct EmbeddedText {
  const char* name;  // the file's, without its folder
  const char* text;
};

}  // namespace torch_slang
