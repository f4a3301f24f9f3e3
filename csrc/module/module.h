// Modules: what load() makes of one .slang file and its options, and the rules of identity.
//
// Note [identity]
//   A module is its path (or name) with its namespace, defines, include folders, annotations and flags. Loading the same
//   identity again is a no-op while its text, imports included, is unchanged, and a reload otherwise. Another identity
//   that claims an operator's name is an error. A failed load changes nothing.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "module/host_function.h"
#include "operators/operator.h"
#include "operators/registered_op.h"
#include "program/program.h"
#include "texts/program_store.h"
#include "torch_slang/torch_slang.h"
#include "tuned/tuned_module.h"

namespace torch_slang {

class Module {
 public:
  Module(std::string identity, const LoadOptions& options, const CompileRequest& request, BegunProgram program);

  const std::string& identity() const { return identity_; }
  const std::string& path() const { return path_; }  // of its file, or the name of its text
  const std::string& ns() const { return ns_; }
  const std::optional<std::string>& source() const { return source_; }  // empty: a file, which the program knows
  const Program& program() const { return *program_; }  // perhaps without texts
  std::shared_ptr<const Program> complete_program() const { return texts_->complete(); }  // waits for them
  const std::string& digest() const { return digest_; }  // of the descriptors, as annotated
  const std::map<std::string, std::shared_ptr<Operator>>& operators() const { return operators_; }  // of kernels
  std::vector<std::string> functions() const;  // plain ones that can be operators
  // Names that several plain functions have, each with the names of those that can be operators.
  std::map<std::string, std::vector<std::string>> overloads() const;

  // The operator of a kernel or plain function. Throws, naming the kernels there are, or says why this is none.
  std::shared_ptr<Operator> find(const std::string& name) const;
  // The name of the operator of a generic plain function whose arguments are given, by types ("float") and numbers in
  // their order; those that are empty, or left out, the tensors decide. Throws for an unknown function or argument.
  std::string instantiate(const std::string& name, const std::vector<std::string>& types,
                          const std::vector<std::optional<int64_t>>& sizes) const;
  // The name of the operator of a plain function that makes the arguments of these leaves itself: Note [generated arguments] in
  // functions/generated_arguments.h. Throws where nothing can be generated.
  std::string generating(const std::string& name, const std::vector<int>& leaves) const;
  // Registers the operators of a plain function, unless that was done. Gives names whose schema this changed. Throws if
  // another module has the name.
  std::vector<std::string> register_function(const std::string& name) const;
  const Function* function(const std::string& name) const;  // null if there is none
  const Constants& constants() const { return constants_; }  // integer defines, which shape expressions may name
  const HostFunctions& host_functions() const { return *host_functions_; }

 private:
  TunedSpace space_of(const Function& function, const LoadOptions& options) const;
  // A function that is made of one of the Program's. Gives its name, which is another where the module's own names have it.
  std::string add_function(Function made) const;
  std::shared_ptr<Operator> with_tangents(std::shared_ptr<Operator> op, const Constants& constants) const;
  std::shared_ptr<Operator> find_tangents(const std::string& name) const;
  std::shared_ptr<Operator> make_kernel(const Function& function, const LoadOptions& options,
                                        const CompileRequest& request);

  const std::string identity_;
  const std::string path_;
  const std::string ns_;
  const std::optional<std::string> source_;
  const std::shared_ptr<const Program> program_;
  std::string digest_;
  std::shared_ptr<TextSource> texts_;
  std::shared_ptr<TunedModule> tuned_;  // null: no kernel is tuned
  Constants constants_;
  KernelOptions options_;
  std::set<std::string> names_;  // the user's, of kernels and functions
  std::map<std::string, std::shared_ptr<Operator>> operators_;
  mutable std::mutex functions_mutex_;
  mutable std::map<std::string, std::shared_ptr<Operator>> functions_;  // of plain functions, made when first asked for
  std::unique_ptr<const HostFunctions> host_functions_;
};

LoadResult load_module(const LoadOptions& options);
// The same module by itself: it takes no names, and goes with its last owner.
std::shared_ptr<const Module> read_module(const LoadOptions& options);

// Of all that PyTorch's compilers may have recorded of the loaded modules: changes with any schema or shape rule.
std::string descriptors_digest();

// The operators of ops/, compiled when the package was built: registers each <folder>/*.json.
void load_builtin(const std::string& folder);
// One of those in a folder of that folder, which wait until somebody asks: "epilogues/linear_gelu". False: there is none.
bool load_builtin_module(const std::string& name);

}  // namespace torch_slang
