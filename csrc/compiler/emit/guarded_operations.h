// A pass: divisions, indices and sizes of views get names. The prelude gives these a meaning, with a check or without.
#pragma once

#include "compiler/text/code.h"

namespace torch_slang {

// Note [guarded operations]
//   Emitted text spells divisions, indices and sizes as C++ does, without a word that a prelude could give a meaning to. They
//   become
//     a / b            a TSL_DIVIDE b, where TSL_DIVIDE is `/`, or `/ tsl::Divide{...} /`: an object that both operators know,
//                      so that precedence is what it was. Also `%`, TSL_REMAINDER. Left alone where the divisor can be seen
//                      to be of floats, or a literal other than zero.
//     a[i]             a[TSL_INDEX(i)]
//     m->rows + (i)    m->rows + (TSL_INDEX(i)), Slang's way to a matrix's row
//     x.sizes[i]       x.size_of(i), and strides
//   What they mean: prelude/division.h, prelude/local_index.h. An index into what a derivative keeps of a loop's iterations
//   is guarded already: Note [loop state].
//   To be applied after all passes that read the text.
int guard_operations(Code& code);

}  // namespace torch_slang
