// Finds backwards in which a [PreferRecompute] function loads from a view again. The run-time refuses them where the view is an
// output that was stored to in between.
#pragma once

#include "compiler/emit/emitted_text.h"

namespace torch_slang {

// Note [read again]
//   Slang's backward is the forward once more, which keeps what the gradients need, and then the gradients. A function that is
//   [PreferRecompute] keeps nothing and is called a second time among the gradients: behind the kernel's last store. Its
//   loads from an output may then give other values than before. Inputs do not change, but views are not told apart here.

// Whether in this backward's text, as Slang emits it, a function that loads from a view is called among the gradients.
bool loads_among_gradients(EmittedText& emitted);

}  // namespace torch_slang
