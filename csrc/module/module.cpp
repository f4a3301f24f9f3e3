#include "module/module.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "common/environment.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/identifiers.h"
#include "common/log.h"
#include "dispatch/registry.h"
#include "functions/operator.h"
#include "kernels/annotations.h"
#include "module/reserved_names.h"
#include "program/tuned.h"
#include "source/source_text.h"
#include "texts/program_store.h"
#include "tuned/tuned_operator.h"

namespace torch_slang {

namespace {

constexpr size_t kMaxVariants = 4096;

// The current module of each identity. Loads come one after the other: whose each name is, the registry knows.
struct LoadedModules {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Module>> by_identity;
  std::map<std::string, std::weak_ptr<const Operator>> instances;  // what instances' names run: no load publishes these
};

LoadedModules& loaded_modules() {
  static auto* instance = new LoadedModules;  // operators live as long as the process
  return *instance;
}

std::string absolute(const std::string& path) {
  const std::string resolved = canonical_path(path);
  TORCH_CHECK(is_file(resolved), "torch_slang.load: no such file: ", path);
  return resolved;
}

void check_tuned(const TunedVariable& variable, const std::string& where) {
  TORCH_CHECK(is_name(variable.name), where, ": expected the tuned variable to be a name, but got '", variable.name,
              "'");
  TORCH_CHECK(!variable.values.empty(), where, ": expected values for the tuned variable ", variable.name,
              ", but got none");
}

CompileRequest request_of(const LoadOptions& options) {
  TORCH_CHECK(options.source.has_value() != !options.path.empty(), "torch_slang.load: give either a path or source=");
  TORCH_CHECK(!options.ns.empty() && is_name(options.ns),
              "torch_slang.load: expected namespace to be a name, but got '", options.ns, "'");
  TORCH_CHECK(options.ns != "aten" && options.ns != "prim" && options.ns != "prims", "torch_slang.load: the namespace ",
              options.ns, " is PyTorch's own");
  for (const auto& [name, value] : options.defines) {
    TORCH_CHECK(is_name(name), "torch_slang.load: expected defines to be of names, but got '", name, "'");
  }
  for (const TunedVariable& variable : options.tuned) check_tuned(variable, "torch_slang.load: defines");
  CompileRequest request;
  request.source = options.source;
  if (options.source) {
    request.path = options.name.empty() ? "source_" + digest_of(*options.source).substr(0, 12) : options.name;
  } else {
    request.path = absolute(options.path);
  }
  request.defines = options.defines;
  for (const TunedVariable& variable : options.tuned) request.defines.emplace_back(variable.name, variable.values[0]);
  for (const auto& folder : options.include_dirs) request.include_dirs.push_back(canonical_path(folder));
  return request;
}

std::string identity_of(const CompileRequest& request, const LoadOptions& options) {
  CompileRequest shown = request;
  shown.source.reset();
  return options.ns + "\n" + to_json(shown) + "\n" + describe(options.tuned) + options.annotations +
         (options.fast_math ? "\nfast_math" : "") + (options.debug ? *options.debug ? "\ndebug" : "\nno debug" : "");
}

void check_owner(const Module& module, const std::string& name) {
  const std::string owner = owner_of(module.ns() + "::" + name);
  TORCH_CHECK(owner.empty() || owner == module.identity(), "torch_slang.load: ", module.ns(), "::", name,
              " is already defined by another module (a different file, or other defines, include folders or flags): "
              "load this one with namespace=",
              module.source() ? ", or edited text under the name= that it had, which replaces it" : "");
}

// Why this plain function is no operator; empty: it is one.
std::string refusal_of(const Function& function) {
  return function.refusal.empty() ? why_reserved(function.name) : function.refusal;
}

// Also of the operators that go with a kernel.
void check_reserved(const Signature& op) {
  const auto check = [&](const std::string& reason) {
    TORCH_CHECK(reason.empty(), "torch_slang.load: the kernel ", op.full_name(), " cannot be an operator, since ",
                reason);
  };
  if (is_special_in_python(op.function.name)) check(why_reserved(op.function.name));
  for (int kind = 0; kind < kOpKinds; ++kind) {
    if (const auto* signature = op.of(static_cast<OpKind>(kind))) check(why_reserved(signature->name));
  }
}

// Plain functions that ask for it at load, and those that an earlier load of the same module has registered.
bool is_registered_at_load(const Module& module, const Function& function) {
  if (function.is_kernel() || !refusal_of(function).empty()) return false;
  return function.torch_op || owner_of(module.ns() + "::" + function.name) == module.identity();
}

bool is_available_function(const Module& module, const std::string& name) {
  const Function* function = module.function(name);
  return function != nullptr && !function->is_kernel() && refusal_of(*function).empty();
}

LoadResult enter(std::shared_ptr<const Module> module, LoadedModules& all) {
  std::vector<std::shared_ptr<Operator>> operators;
  for (const auto& [name, op] : module->operators()) operators.push_back(op);
  for (const Function& function : module->program().functions) {
    if (is_registered_at_load(*module, function)) operators.push_back(module->find(function.name));
  }
  for (const auto& op : operators) check_owner(*module, op->signature().function.name);
  LoadResult result;
  result.changed = publish(operators, module->identity()).changed;
  all.by_identity[module->identity()] = module;
  result.module = std::move(module);
  result.is_new = true;
  return result;
}

}  // namespace

Module::Module(std::string identity, const LoadOptions& options, const CompileRequest& request, BegunProgram program)
    : identity_(std::move(identity)),
      path_(request.path),
      ns_(options.ns),
      source_(options.source),
      program_(std::move(program.described)) {
  texts_ = std::make_shared<TextSource>(request, program_, std::move(program.complete));
  std::vector<std::pair<std::string, std::string>> defines = program_->tuned;
  defines.insert(defines.begin(), request.defines.begin(), request.defines.end());
  constants_ = integer_constants(defines);
  options_ = KernelOptions{options.fast_math, environment_seconds("TORCH_SLANG_LAUNCH_TIMEOUT"), options.debug};
  if (!options.debug && environment("TORCH_SLANG_DEBUG")) {
    options_.debug = environment_flag("TORCH_SLANG_DEBUG", false);
  }
  Program annotated;
  annotated.functions = annotate(program_->functions, options.annotations, constants_);
  digest_ = digest_of(to_json(annotated));
  for (const Function& function : annotated.functions) {
    if (function.is_kernel() || refusal_of(function).empty()) names_.insert(function.name);
  }
  for (const Function& function : annotated.functions) {
    // Such a function would not be missed where it is asked for: Python has an answer of its own.
    TORCH_CHECK(!is_special_in_python(function.name), "torch_slang.load: the function ", ns_, "::", function.name,
                " cannot be an operator, since ", why_reserved(function.name));
    if (!function.is_kernel()) continue;
    if (!function.refusal.empty()) {
      log_info(request.path, ": ", function.name, " is no operator: ", function.refusal);
      continue;
    }
    const auto op = make_kernel(function, options, request);
    check_reserved(op->signature());
    TORCH_CHECK(operators_.emplace(function.name, op).second, request.path, ": two kernels are named ", function.name);
  }
  host_functions_ = std::make_unique<const HostFunctions>(ns_, program_, operators_, options_);
}

// Whether an expression in the kernel's attributes names the variable.
static bool declares_by(const Function& function, const std::string& variable) {
  const auto names = [&](const std::optional<std::string>& text) { return text && mentions_name(*text, variable); };
  return names(function.kernel().launch_total) || names(function.kernel().parallel) ||
         std::any_of(function.leaves.begin(), function.leaves.end(),
                     [&](const Leaf& leaf) { return leaf.is_view() && names(leaf.view().shape); });
}

// The lists of [Tune] and those that load was given, which go first. A plain define of a variable leaves nothing to tune.
TunedSpace Module::space_of(const Function& function, const LoadOptions& options) const {
  const std::string where = ns_ + "::" + function.name;
  TunedSpace space;
  const auto add = [&](const std::string& name, const std::vector<std::string>& values) {
    const auto has = [&](const auto& items, const auto& name_of) {
      return std::any_of(items.begin(), items.end(), [&](const auto& item) { return name_of(item) == name; });
    };
    if (has(options.defines, [](const auto& define) { return define.first; })) return;
    if (has(space, [](const TunedVariable& known) { return known.name; })) return;
    space.push_back({name, {}});
    for (const std::string& value : values) {
      auto& kept = space.back().values;
      if (std::find(kept.begin(), kept.end(), value) == kept.end()) kept.push_back(value);
    }
  };
  for (const TunedVariable& variable : options.tuned) {
    if (program_->used_defines.count(variable.name) > 0 || declares_by(function, variable.name) ||
        mentions_name(options.annotations, variable.name))
      add(variable.name, variable.values);
  }
  for (const auto& [name, values] : function.kernel().tune) {
    check_tuned({name, split_values(values)}, where + ": Tune");
    add(name, split_values(values));
  }
  size_t count = 1;
  for (const TunedVariable& variable : space) {
    count *= variable.values.size();
    TORCH_CHECK(count <= kMaxVariants, where, ": the tuned variables (", describe(space), ") have more than ",
                kMaxVariants, " combinations");
    for (const Leaf& leaf : function.leaves) {
      if (!leaf.is_view() || !leaf.view().shape) continue;
      const std::string& shape = *leaf.view().shape;
      TORCH_CHECK(!mentions_name(shape, variable.name), where, ": the shape of ", leaf.path, ", \"", shape,
                  "\", names the tuned variable ", variable.name,
                  ", but a caller must see the same shapes for all values");
    }
  }
  return space;
}

std::shared_ptr<Operator> Module::make_kernel(const Function& function, const LoadOptions& options,
                                              const CompileRequest& request) {
  const TunedSpace space = space_of(function, options);
  if (space.empty()) {
    return with_tangents(std::make_shared<KernelOperator>(ns_, function, constants_, texts_, options_, names_),
                         constants_);
  }
  if (tuned_ == nullptr) {
    tuned_ = std::make_shared<TunedModule>(ns_, request, options.annotations, options_, program_, texts_, names_);
  }
  // Of another kernel's list of the same name the first value may be another.
  auto constants = integer_constants(combinations(space).front());
  constants.insert(constants.end(), constants_.begin(), constants_.end());
  const bool is_product = std::any_of(program_->texts.begin(), program_->texts.end(), [&](const DeviceText& text) {
    return text.function == function.name && multiplies(text);
  });
  return with_tangents(
      std::make_shared<TunedOperator>(ns_, function, constants, texts_, options_, names_, is_product, tuned_, space),
      constants);
}

const Function* Module::function(const std::string& name) const {
  for (const Function& function : program_->functions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

std::vector<std::string> Module::functions() const {
  std::vector<std::string> names;
  for (const Function& function : program_->functions) {
    if (!function.is_kernel() && refusal_of(function).empty()) names.push_back(function.name);
  }
  return names;
}

std::map<std::string, std::vector<std::string>> Module::overloads() const {
  std::map<std::string, std::vector<std::string>> names;
  for (const Function& function : program_->functions) {
    if (function.is_kernel() || function.plain().overloaded.empty() || !refusal_of(function).empty()) continue;
    names[function.plain().overloaded].push_back(function.name);
  }
  return names;
}

std::shared_ptr<Operator> Module::find(const std::string& name) const {
  const auto it = operators_.find(name);
  if (it != operators_.end()) return it->second;
  {
    const std::lock_guard<std::mutex> lock(functions_mutex_);
    if (const auto known = functions_.find(name); known != functions_.end()) return known->second;
  }
  const Function* other = function(name);
  const std::string refusal = other == nullptr ? "" : refusal_of(*other);
  TORCH_CHECK(refusal.empty(), ns_, "::", name, " is not available: ", refusal);
  if (other != nullptr && !other->is_kernel()) {
    const std::lock_guard<std::mutex> lock(functions_mutex_);
    auto& op = functions_[name];
    if (op == nullptr)
      op = with_tangents(std::make_shared<ElementwiseOperator>(ns_, *other, texts_, options_, names_), {});
    return op;
  }
  if (auto op = find_tangents(name)) return op;
  std::string known;
  for (const auto& [kernel, op] : operators_) known += (known.empty() ? "" : ", ") + kernel;
  for (const auto& plain : functions()) known += (known.empty() ? "" : ", ") + plain;
  TORCH_CHECK(false, "no kernel or function named '", name, "'; this module has: ", known.empty() ? "none" : known);
}

std::string Module::instantiate(const std::string& name, const std::vector<std::string>& types,
                                const std::vector<std::optional<int64_t>>& sizes) const {
  const std::string where = ns_ + "::" + name;
  const Function* generic = function(name);
  TORCH_CHECK(generic != nullptr && !generic->is_kernel(), "no function named '", name, "'");
  const std::string refusal = generic->wants_generic_arguments ? "" : refusal_of(*generic);
  TORCH_CHECK(refusal.empty(), where, " is not available: ", refusal);
  const std::vector<std::string>& size_parameters = generic->plain().size_parameters;
  TORCH_CHECK(types.size() <= generic->type_parameters.size() && sizes.size() <= size_parameters.size(), where,
              ": expected at most ", generic->type_parameters.size(), " types and ", size_parameters.size(),
              " sizes as generic arguments, but got ", types.size(), " and ", sizes.size());
  Function instance = *generic;
  instance.refusal.clear();
  PlainFunction& plain = instance.plain();
  plain.instance_of = name;
  plain.given_types.resize(generic->type_parameters.size());
  plain.given_sizes.assign(size_parameters.size(), -1);
  for (size_t k = 0; k < types.size(); ++k) {
    if (types[k].empty()) continue;
    const TypeParameter& parameter = generic->type_parameters[k];
    const auto found = std::find_if(parameter.allowed.begin(), parameter.allowed.end(),
                                    [&](ElementType type) { return types[k] == slang_name_of(type); });
    TORCH_CHECK(found != parameter.allowed.end(), where, ": expected ", parameter.name,
                " to be a type that it allows, ", "but got ", types[k]);
    plain.given_types[k] = *found;
    instance.name += (k == 0 || !types[k - 1].empty() ? "_" : "_" + parameter.name + "_") + types[k];
  }
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (!sizes[k]) continue;
    TORCH_CHECK(*sizes[k] > 0, where, ": expected ", size_parameters[k], " to be at least 1, but got ", *sizes[k]);
    plain.given_sizes[k] = *sizes[k];
    // With its name where those before it are not given.
    const bool is_next = k == 0 || sizes[k - 1].has_value();
    instance.name += (is_next ? "_" : "_" + size_parameters[k] + "_") + std::to_string(*sizes[k]);
  }
  return add_function(std::move(instance));
}

std::string Module::add_function(Function made) const {
  while (names_.count(made.name) != 0) made.name += "_";
  const std::string own_name = made.name;
  const std::lock_guard<std::mutex> lock(functions_mutex_);
  auto& op = functions_[own_name];
  if (op == nullptr)
    op = with_tangents(std::make_shared<ElementwiseOperator>(ns_, std::move(made), texts_, options_, names_), {});
  return own_name;
}

std::vector<std::string> Module::register_function(const std::string& name) const {
  LoadedModules& all = loaded_modules();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const std::string qualified = ns_ + "::" + name;
  if (function(name) == nullptr) {  // an instance of a generic function
    const std::shared_ptr<const Operator> op = find(name);
    if (all.instances[qualified].lock() == op) return {};
    check_owner(*this, name);
    std::vector<std::string> changed = publish({find(name)}, identity_).changed;
    all.instances[qualified] = op;
    return changed;
  }
  if (owner_of(qualified) == identity_) return {};
  check_owner(*this, name);
  // An earlier load of this module leaves the name to the current one.
  const auto current = all.by_identity.find(identity_);
  const bool is_there = current != all.by_identity.end() && is_available_function(*current->second, name);
  return publish({is_there ? current->second->find(name) : find(name)}, identity_).changed;
}

std::shared_ptr<const Module> read_module(const LoadOptions& options) {
  const CompileRequest request = request_of(options);
  BegunProgram program = options.tuned.empty() ? begin_program(request) : BegunProgram{load_program(request), {}};
  if (const auto& warnings = program.described->warnings; !warnings.empty()) log_info(request.path, ":\n", warnings);
  return std::make_shared<const Module>(identity_of(request, options), options, request, std::move(program));
}

LoadResult load_module(const LoadOptions& options) {
  std::shared_ptr<const Module> module = read_module(options);
  LoadedModules& all = loaded_modules();
  for (std::shared_ptr<const Module> other;;) {  // of this identity, and not the same
    std::shared_ptr<const Module> known;
    {
      const std::lock_guard<std::mutex> lock(all.mutex);
      const auto found = all.by_identity.find(module->identity());
      if (found == all.by_identity.end() || found->second == other) return enter(std::move(module), all);
      known = found->second;
    }
    // Not under the lock: texts may be on their way.
    if (known->source() == options.source &&
        to_json(*known->complete_program()) == to_json(*module->complete_program())) {
      return {known, {}, false};
    }
    other = known;
  }
}

std::string descriptors_digest() {
  LoadedModules& all = loaded_modules();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Digest digest;
  for (const auto& [identity, module] : all.by_identity) digest.add(identity).add(module->digest());
  return digest.hex();
}

namespace {

void enter_builtin(const std::string& stem) {
  LoadOptions options;
  CompileRequest request;
  request.path = stem + ".slang";
  auto module = std::make_shared<const Module>(identity_of(request, options), options, request,
                                               BegunProgram{read_program(stem + ".json"), {}});
  LoadedModules& all = loaded_modules();
  const std::lock_guard<std::mutex> lock(all.mutex);
  enter(std::move(module), all);
}

std::string& builtin_folder() {
  static auto* folder = new std::string;
  return *folder;
}

}  // namespace

void load_builtin(const std::string& folder) {
  builtin_folder() = folder;
  for (const std::string& file : list_folder(folder)) {
    if (file.size() <= 5 || file.substr(file.size() - 5) != ".json") continue;
    enter_builtin(join_path(folder, file.substr(0, file.size() - 5)));
  }
}

bool load_builtin_module(const std::string& name) {
  const std::string stem = join_path(builtin_folder(), name);
  if (!is_file(stem + ".json")) return false;
  enter_builtin(stem);
  return true;
}

LoadResult load(const std::string& path, LoadOptions options) {
  options.path = path;
  return load_module(options);
}

}  // namespace torch_slang
