// Note [generic tensors]
//   Slang does not come to an end with the derivative of a function that has control flow and a parameter of an interface of
//   SlangPy's differentiable tensors: `float f(IDiffTensor<float, 1> t)`. With a type parameter that has the interface,
//   `float f<B : IDiffTensor<float, 1>>(B t)`, which callers need not name, it does. So the module is described as it is
//   written, and texts are made of it in that form: of its own file in the same session, and where files that it includes or
//   imports have such functions, too, in a session that reads all of them so.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/source/source_code.h"

namespace torch_slang {

// Whether this is such an interface, by its name or by a type's.
bool is_differentiable_tensor_interface(std::string_view type);

// Whether functions in the source have such parameters.
bool takes_tensors(const SourceCode& code);

// Puts type parameters in place of such parameters. Lines keep their numbers.
void make_tensors_generic(SourceCode& code);
std::string with_generic_tensors(const std::string& source);

// Whether that may be done in all of these sources: overloads that stay as they are would be chosen otherwise beside generic ones.
bool may_have_generic_tensors(const std::vector<const SourceCode*>& sources);

}  // namespace torch_slang
