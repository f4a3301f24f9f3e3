// What all calls of one kernel or plain function have in common: its arguments, which of them are outputs and which have
// gradients, the schemas of its operators, and where its device texts come from. Immutable; knows nothing of compiled kernels.
// A kernel has a KernelSignature, a plain function an ElementwiseSignature.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "operators/kernel_options.h"
#include "operators/op_signature.h"
#include "program/program.h"
#include "texts/text_source.h"

namespace torch_slang {

// Integers that shapes know by name.
using Constants = std::vector<std::pair<std::string, int64_t>>;

struct Signature {
  Signature(const Signature&) = delete;
  Signature& operator=(const Signature&) = delete;

  // The op of this kind, or null if it does not exist for this kernel or function; and its name, "slang::sqr_backward".
  const OpSignature* of(OpKind kind) const { return ops_[static_cast<int>(kind)].get(); }
  const std::string& qualified(OpKind kind) const { return qualified_names[static_cast<int>(kind)]; }
  // What an operator of this kind runs. Throws CompileError if that does not compile.
  Direction direction(OpKind kind) const;
  const DeviceText& text(OpKind kind, const std::vector<ElementType>& types,
                         const std::vector<int64_t>& sizes = {}) const;
  // The same as the dispatcher knows it, whatever messages call it.
  const std::string& registered(OpKind kind) const { return of(kind)->schema->name(); }
  std::string full_name() const { return ns + "::" + function.name; }

  const std::string ns;
  const Function function;
  const std::shared_ptr<TextSource> texts;
  const KernelOptions options;
  std::vector<int> outputs;  // leaves
  std::vector<int> hidden;  // outputs that are not returned
  std::vector<int> differentiable;  // leaves that get a gradient, in order
  std::vector<int> grad_outputs;  // outputs that have one
  std::string qualified_names[kOpKinds];

 protected:
  Signature(std::string ns, Function function, std::shared_ptr<TextSource> texts, KernelOptions options);
  ~Signature() = default;

  void add(OpKind kind, std::unique_ptr<const OpSignature> op);

 private:
  std::unique_ptr<const OpSignature> ops_[kOpKinds];
};

// Whether PyTorch sees the same operators in both.
bool same_schemas(const Signature& a, const Signature& b);

}  // namespace torch_slang
