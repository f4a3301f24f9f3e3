// What all calls of one kernel or plain function have in common: what it declares, the schemas of its operators, where its
// arguments lie in the argument block, and where its device texts come from. Immutable; knows nothing of compiled kernels.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "signature/declaration.h"
#include "signature/kernel_options.h"
#include "signature/layout.h"
#include "signature/op_signature.h"
#include "signature/text_source.h"
#include "signature/thread_share.h"

namespace torch_slang {

struct Signature : Declaration, std::enable_shared_from_this<Signature> {
  // `names`: of the module's kernels and functions, which launch operators ("sqr_bwd") leave to them.
  Signature(std::string ns, Function function, const std::vector<std::pair<std::string, int64_t>>& constants,
            std::shared_ptr<TextSource> texts, KernelOptions options, const std::set<std::string>& names = {});
  Signature(const Signature&) = delete;
  Signature& operator=(const Signature&) = delete;

  const OpSignature* signature(OpKind kind) const { return signatures[static_cast<int>(kind)].get(); }
  const std::string& qualified(OpKind kind) const { return qualified_names[static_cast<int>(kind)]; }

  const Layout layout;
  std::string qualified_names[kOpKinds];  // "slang::sqr_backward"
  std::vector<ThreadShare> shares;  // by leaf; of views alone
  std::unique_ptr<const OpSignature> signatures[kOpKinds];  // null: this kind does not exist for this kernel
  const KernelOptions options;
  const std::shared_ptr<TextSource> texts;
  // Blocks multiply matrices (Note [matrix kernels] in prelude/mma.h), so tuned variables are tiles of a GPU's.
  bool multiplies = false;

 protected:
  ~Signature() = default;  // of an Operator
};

}  // namespace torch_slang
