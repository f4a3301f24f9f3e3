// A module compiled with other values of its tuned variables: program/tuned.h. Shared by the operators of the module, and
// kept by the graphs that were recorded with them. Any thread may ask.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/once_each.h"
#include "kernels/operator.h"
#include "program/program.h"
#include "texts/text_source.h"
#include "torch_slang/torch_slang.h"

namespace torch_slang {

using TunedSpace = std::vector<TunedVariable>;
using TunedValues = std::vector<std::pair<std::string, std::string>>;  // one for each variable

std::vector<TunedValues> combinations(const TunedSpace& space);  // that of the first values first
std::string describe(const TunedValues& values);  // "BM=64, BN=32"
std::string describe(const TunedSpace& space);  // "BM: 32, 64; BN: 32"

class TunedModule {
 public:
  // What the module was loaded as. `request`: with a define for each plain define and each list of the caller's.
  TunedModule(std::string ns, CompileRequest request, std::string annotations, KernelOptions options,
              std::shared_ptr<const Program> program, std::shared_ptr<TextSource> texts, std::set<std::string> names);

  // The operator of the kernel `front` for these values, which is not registered. Throws CompileError.
  std::shared_ptr<const KernelOperator> variant(const KernelSignature& front, const TunedValues& values);

  // Whether this module was compiled with these values, so that nothing needs to be compiled for them.
  bool has(const TunedValues& values) const;
  // The files have not changed since the module was loaded.
  bool is_current() const;
  // Of all that decides what its kernels compute, but for the values of tuned variables: it does not name folders.
  const std::string& digest() const { return digest_; }

 private:
  struct Compiled {
    std::vector<Function> functions;  // annotated
    std::shared_ptr<TextSource> texts;
    Constants constants;
  };
  std::shared_ptr<const Compiled> compile(const TunedValues& values) const;
  CompileRequest request_for(const TunedValues& values) const;
  void check_same_files(const Program& program) const;

  const std::string ns_;
  const CompileRequest request_;
  const std::string annotations_;
  const KernelOptions options_;
  const std::shared_ptr<const Program> program_;
  const std::shared_ptr<TextSource> texts_;
  const std::set<std::string> names_;
  std::string digest_;
  OnceEach<std::string, std::shared_ptr<const Compiled>> compiled_;  // by description of the values
};

// Integers among the values of defines, which the shape language knows by name.
Constants integer_constants(const TunedValues& defines);

}  // namespace torch_slang
