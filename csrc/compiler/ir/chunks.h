// A RIFF file as a tree of chunks: the container of a module in Slang's own form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace torch_slang {

// Data, or a list of chunks. Tags have four characters.
struct Chunk {
  std::string tag;
  std::string type;  // of a list; else empty
  std::string data;  // of a chunk without children
  std::vector<Chunk> children;
};

// Both throw where the bytes are not of that form.
Chunk read_chunks(std::string_view file);
std::string write_chunks(const Chunk& root);

Chunk* find_data(Chunk& root, std::string_view tag);  // the first in the order of the file; null: there is none

}  // namespace torch_slang
