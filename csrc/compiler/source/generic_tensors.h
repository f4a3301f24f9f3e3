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

// Puts type parameters in place of such parameters. Lines keep their numbers.
void make_tensors_generic(SourceCode& code);
std::string with_generic_tensors(const std::string& source);

// In which of a module's files functions become generic: in none, in the file of the text `own`, or in others too. In none where
// overloads would stay as they are: beside generic ones others of them would be chosen.
enum class GenericTensors { None, OwnFile, AllFiles };
GenericTensors generic_tensors(const std::vector<const SourceCode*>& sources, std::string_view own);

}  // namespace torch_slang
