// Open files that processes are given, and that no program inherits unasked.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "common/descriptor.h"

namespace torch_slang {

// Never 0, 1 or 2: those are overwritten in a child, and may be free in a process that closed its own.
Descriptor above_standard(Descriptor descriptor);

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};
std::optional<Pipe> make_pipe();

// Standard input is a file in memory, not a pipe: nothing needs feeding, and no SIGPIPE comes if the child reads none.
Descriptor make_input(const std::string& text);

// Reads the available bytes; closes the descriptor at the end of the stream.
void take_output(Descriptor& from, std::string& to);
// One round of waiting for either; true if anything came or ended.
bool wait_for_output(Descriptor& output, Descriptor& error, std::string& said, std::string& complained, int milliseconds);

}  // namespace torch_slang
