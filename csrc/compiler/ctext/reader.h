// Reads emitted text as a tree, by a strict grammar: text that the grammar does not have becomes an UnknownForm of the tree.
#pragma once

#include "compiler/ctext/tree.h"
#include "compiler/text/code.h"

namespace torch_slang {

// Note [strict reading]
//   Passes look for forms that Slang writes. One that met another form would do nothing, and leave a wrong gradient as it is. So the
//   reader knows every form of the texts (Note [known forms] for expressions), and says which is the first that it does not know:
//   a text with derivatives is then refused (passes.cpp). A text without is compiled as it stands: users may have written what
//   it has, by __intrinsic_asm. The reader goes on behind an unknown statement, whose end is the next `;` outside of brackets.
EmittedTree read_tree(const Code& code);

}  // namespace torch_slang
