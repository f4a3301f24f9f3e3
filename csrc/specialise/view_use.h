// What compiled code showed of how a kernel or plain function uses its views: Note [marks] in prelude/mark.h.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operators/signature.h"
#include "specialise/kernel_key.h"
#include "specialise/loaded_kernel.h"

namespace torch_slang {

using Marks = std::set<std::string>;  // of a kernel: Note [marks] in prelude/mark.h

// Whether a mark of this word ("writes ") and view is there. None is of no view.
bool shows(const Marks& marks, const char* word, std::optional<int> view);

// Whether a kernel of this text reads an absent view, or stores to one that is not to be written. Where its compiled code does not show
// which view that is done to, the text says which ones it may be: no kernel is refused for what a compiler, or a level of
// optimisation, leaves open.
bool may_read(const DeviceText& text, const Marks& marks, std::optional<int> view);
bool may_write(const DeviceText& text, const Marks& marks, std::optional<int> view);

// Whether this kernel's lanes may sum what they add to the same elements (Note [wave sums] in prelude/wave_sums.h), if it turns
// out to add something.
bool may_have_wave_sums(const KernelKey& key, const KernelSource& source);

// By leaf: what a derivative's kernel was seen to do with gradients. `checked`: the marks of the kernel that will run.
std::vector<GradientUse> gradient_uses(const Signature& op, const KernelKey& key, const Marks& marks,
                                       const Marks& checked);

// Whether facts are the marks of the same kernel without checks, not these: checks add branches, which may hide from the compiler
// what the code otherwise shows. Then the marks name stores to a view that is no output, or an impossible use: where the
// compiler did not see which view an access is to, it left the marks of all. `own`, by leaf: gradients that the kernel keeps in
// registers. Only for these does the mark "shares" change the kernel, so only for these must it be certain.
bool may_say_too_much(const Signature& op, const KernelSource& source, const Marks& marks,
                      const std::vector<bool>& own);
KernelSource without_checks(KernelSource source);

// Throws CompileError if a kernel takes a gradient's numbers for those of another type.
void check_gradient_types(const Signature& op, const KernelKey& key, const Marks& marks);

// The expression of `view`, which has the gradient of elements that are so many numbers of this type; `slots`: its first slot.
std::string gradient_view_text(const std::string& view, ElementType type, int64_t components, int slots);

}  // namespace torch_slang
