// The signature of a plain function, which runs for each element of its broadcast arguments: Note [elementwise functions] in
// program/program.h.
#pragma once

#include "operators/layout.h"
#include "operators/signature.h"

namespace torch_slang {

struct ElementwiseSignature final : Signature {
  // One that has values beside tangents is an operator in a namespace of its own, "slang_dual".
  ElementwiseSignature(const std::string& ns, Function function, std::shared_ptr<TextSource> texts,
                       KernelOptions options, const std::set<std::string>& names = {});

  const Layout layout;
};

}  // namespace torch_slang
