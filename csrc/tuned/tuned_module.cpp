#include "tuned/tuned_module.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "common/files.h"
#include "common/hash.h"
#include "kernels/annotations.h"
#include "texts/program_store.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

const std::string* value_of(const TunedValues& values, const std::string& name) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const auto& one) { return one.first == name; });
  return found == values.end() ? nullptr : &found->second;
}

// The part of a kernel that all its variants share: all but its launch. The file's path is left out:
// a package's file may be elsewhere than it was built.
std::string signature_text(Function function) {
  function.file.clear();
  function.kernel().launch_total.reset();
  function.kernel().block_size.clear();
  function.kernel().tune.clear();
  Program program;
  program.functions.push_back(std::move(function));
  return to_json(program);
}

void check_same_arguments(const KernelSignature& front, const KernelSignature& variant, const TunedValues& values) {
  if (same_schemas(front, variant) && signature_text(front.function) == signature_text(variant.function)) return;
  throw_compile_error(front.full_name(), ": the arguments depend on tuned variables: with ", describe(values),
                      " they differ; a caller must see the same arguments for all values");
}

}  // namespace

std::vector<TunedValues> combinations(const TunedSpace& space) {
  std::vector<TunedValues> all = {{}};
  for (const TunedVariable& variable : space) {
    std::vector<TunedValues> longer;
    for (const TunedValues& values : all) {
      for (const std::string& value : variable.values) {
        longer.push_back(values);
        longer.back().emplace_back(variable.name, value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::string describe(const TunedValues& values) {
  std::string text;
  for (const auto& [name, value] : values) text += (text.empty() ? "" : ", ") + name + "=" + value;
  return text;
}

std::string describe(const TunedSpace& space) {
  std::string text;
  for (const TunedVariable& variable : space) {
    text += (text.empty() ? "" : "; ") + variable.name + ": ";
    for (size_t i = 0; i < variable.values.size(); ++i) text += (i == 0 ? "" : ", ") + variable.values[i];
  }
  return text;
}

Constants integer_constants(const TunedValues& defines) {
  Constants constants;
  for (const auto& [name, value] : defines) {
    char* end = nullptr;
    const long long number = std::strtoll(value.c_str(), &end, 0);
    if (!value.empty() && *end == '\0') constants.emplace_back(name, number);
  }
  return constants;
}

TunedModule::TunedModule(std::string ns, CompileRequest request, std::string annotations, KernelOptions options,
                         std::shared_ptr<const Program> program, std::shared_ptr<TextSource> texts,
                         std::set<std::string> names)
    : ns_(std::move(ns)),
      request_(std::move(request)),
      annotations_(std::move(annotations)),
      options_(options),
      program_(std::move(program)),
      texts_(std::move(texts)),
      names_(std::move(names)) {
  std::set<std::string> contents;
  for (const SourceFile& file : program_->files) contents.insert(file.digest);
  Digest digest;
  digest.add("tuned module").add(request_.source.value_or("")).add(annotations_);
  digest.add(options_.fast_math).add(options_.debug ? static_cast<int>(*options_.debug) : -1);
  for (const std::string& content : contents) digest.add(content);
  for (const auto& [name, value] : request_.defines) digest.add(name).add(value);
  digest_ = digest.hex();
}

bool TunedModule::has(const TunedValues& values) const {
  return std::all_of(values.begin(), values.end(), [&](const auto& one) {
    const std::string* define = value_of(request_.defines, one.first);
    if (define == nullptr) define = value_of(program_->tuned, one.first);
    return define != nullptr && *define == one.second;
  });
}

// A file that is no longer at its path, as in a package that was built elsewhere, does not count as changed.
bool TunedModule::is_current() const {
  std::set<std::string> digests;
  for (const SourceFile& file : program_->files) {
    digests.insert(file.digest);
    const auto content = read_file(file.path);
    if (content && digest_of(*content) != file.digest) return false;
  }
  const auto content = request_.source ? std::nullopt : read_file(request_.path);
  return !content || digests.count(digest_of(*content)) != 0;
}

CompileRequest TunedModule::request_for(const TunedValues& values) const {
  CompileRequest request = request_;
  for (const auto& [name, value] : values) {
    const auto known = std::find_if(request.defines.begin(), request.defines.end(),
                                    [&, n = name](const auto& define) { return define.first == n; });
    if (known != request.defines.end()) {
      known->second = value;
    } else {
      request.defines.emplace_back(name, value);
    }
  }
  std::sort(request.defines.begin(), request.defines.end());
  return request;
}

// A variant of another state of the source would be another operator.
void TunedModule::check_same_files(const Program& program) const {
  for (const SourceFile& file : program.files) {
    for (const SourceFile& known : program_->files) {
      if (known.path != file.path || known.digest == file.digest) continue;
      throw_compile_error(file.path, " has changed since ", request_.path,
                          " was loaded: load that file again, and call the operators of the new module");
    }
  }
}

std::shared_ptr<const TunedModule::Compiled> TunedModule::compile(const TunedValues& values) const {
  auto result = std::make_shared<Compiled>();
  auto program = program_;
  result->texts = texts_;
  CompileRequest request = request_;
  if (!has(values)) {
    request = request_for(values);
    program = load_program(request);
    check_same_files(*program);
    result->texts = std::make_shared<TextSource>(request, program);
  }
  TunedValues defines = request.defines;
  for (const auto& initial : program->tuned) {
    if (value_of(defines, initial.first) == nullptr) defines.push_back(initial);
  }
  result->constants = integer_constants(defines);
  result->functions = annotate(program->functions, annotations_, result->constants);
  return result;
}

std::shared_ptr<const KernelOperator> TunedModule::variant(const KernelSignature& front, const TunedValues& values) {
  const auto module = compiled_.get(describe(values), [&] { return compile(values); });
  const auto function = std::find_if(module->functions.begin(), module->functions.end(),
                                     [&](const Function& one) { return one.name == front.function.name; });
  if (function == module->functions.end() || !function->refusal.empty()) {
    throw_compile_error(front.full_name(), ": with ", describe(values), " there is no such kernel",
                        function == module->functions.end() ? "" : ": " + function->refusal);
  }
  auto op = std::make_shared<const KernelOperator>(ns_, *function, module->constants, module->texts, options_, names_);
  check_same_arguments(front, op->signature(), values);
  return op;
}

}  // namespace torch_slang
