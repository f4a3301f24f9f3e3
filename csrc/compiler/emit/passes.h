// All rewriting of the text that Slang emits: one list of passes, each of which returns how often it applied. The header of
// each pass says what it does.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/emit/emitted_text.h"
#include "compiler/text/left_out_repairs.h"
#include "program/program.h"

namespace torch_slang {

// Note [passes]
//   Slang's text is C++ for CUDA, of declarations at file scope. It becomes members of a kernel object, is repaired where Slang
//   is known to be wrong, and gets words to which the prelude can give a meaning (divisions, loops, lines).
//     - A pass looks for forms that Slang is known to write. Where a new Slang may write something else and the text would be
//       wrong without the pass, the pass itself throws RefusedText if it does not find what has to be there (unknown_text). Of derivatives
//       all forms are known: Note [strict reading] in ctext/reader.h.
//     - What each pass needs, gives, reads and changes: Note [table of passes] in pass_table.h.
//     - A repair applies to few texts. What Slang wrote for the sources in tests/golden, and how often each pass applied there,
//       is kept, and tests/slang_bugs/test_golden.py compares.
struct PassCount {
  std::string_view name;
  int count = 0;
};

// Fills body, file_scope, files and the facts of a text from what Slang emitted for one entry point, whose code then is that of the
// body. Throws UnsupportedGlobal or RefusedText.
std::vector<PassCount> apply_passes(EmittedText& emitted, DeviceText& text, const LeftOutRepairs& left_out = {});

// Names of the passes that mend errors of Slang's.
std::vector<std::string_view> repairs_of_texts();

// The C++ of a module's host functions after their passes. `left_out`: the names of functions whose definitions go.
std::string apply_host_passes(std::string text, std::set<std::string> left_out);

}  // namespace torch_slang
