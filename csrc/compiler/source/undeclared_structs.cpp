#include "compiler/source/undeclared_structs.h"

#include <algorithm>

#include "compiler/source/function_heads.h"

namespace torch_slang {
namespace {

bool meets(const Names& one, const Names& other) {
  return std::any_of(one.begin(), one.end(), [&](const std::string& name) { return other.count(name) > 0; });
}

}  // namespace

// Collects the changes of one source.
class Declarer {
 public:
  Declarer(const UndeclaredStructs& all, SourceCode& code, Declaring how) : all_(all), code_(code), how_(how) {}

  void declare() {
    const std::vector<FunctionHead> heads = function_heads(code_);
    const std::vector<TypeDeclaration> types = type_declarations(code_);
    for (const TypeDeclaration& type : types) {
      if (all_.declared_.count(type.name) > 0 && (type.is_interface ? how_ == Declaring::All : all_.may_declare(type)))
        declare(type, heads);
    }
    for (const FunctionHead& head : heads) {
      keep_signature(head);
      if (head.becomes_differentiable(code_, all_.differentiated_)) code_.insert(head.begin, "[Differentiable] ");
    }
  }

 private:
  void declare(const TypeDeclaration& type, const std::vector<FunctionHead>& heads) {
    const bool has_bases = type.colon > 0 && type.colon + 1 < type.bases_end;
    code_.insert(type.bases_end, has_bases ? ", IDifferentiable " : ": IDifferentiable ");
    if (how_ == Declaring::All) {
      for (const size_t at : type.free_parameters) {
        code_.insert_behind(at, " : IDifferentiable");
      }
    }
    for (const FunctionHead& head : heads) {
      if (type.is_interface || head.name < type.open || head.end > type.close) continue;
      const bool is_constructor = code_[head.name] == "__init";
      if (is_constructor && how_ == Declaring::All && head.attributes.empty()) {
        code_.insert(head.begin, "[Differentiable] ");
      }
      const bool keeps = keeps_derivative(head) || has_derivative_beside(head, heads, type);
      if (!is_constructor && !head.is_static && keeps && !head.has("NoDiffThis")) {
        code_.insert(head.begin, "[NoDiffThis] ");
      }
    }
  }

  // The user says which parameters the derivative has.
  bool keeps_derivative(const FunctionHead& head) const {
    const std::string_view name = code_[head.name];
    return head.has_own_derivative() ||
           (all_.all_.derived_by_name.count(name) > 0 && all_.all_.called.count(name) == 0);
  }

  // `[BackwardDerivativeOf(f)]`, as the user has written it beside a method f of a struct that is not declared: without `this`.
  bool has_derivative_beside(const FunctionHead& method, const std::vector<FunctionHead>& heads,
                             const TypeDeclaration& type) const {
    const auto parameters = [&](const FunctionHead& head) { return parameter_begins(code_, head.open).size(); };
    const std::string_view name = code_[method.name];
    const size_t count = parameters(method), gradients = code_[method.name - 1] == "void" ? 0 : 1;
    bool found = false;
    for (const FunctionHead& head : heads) {
      if (head.name < type.open || head.end > type.close) continue;
      const bool is_overload = head.name != method.name && code_[head.name] == name;
      if (is_overload && parameters(head) == count) return false;  // it may be of that one
      const bool is_backward = head.has("BackwardDerivativeOf") && parameters(head) == count + gradients;
      const bool is_forward = head.has("ForwardDerivativeOf") && parameters(head) == count;
      found = found || ((is_backward || is_forward) && head.has(name));
    }
    return found;
  }

  void keep_signature(const FunctionHead& head) {
    const bool keeps = keeps_derivative(head);
    if (!keeps && !(head.is_kernel() && head.is_differentiable())) return;
    for (const size_t at : parameter_begins(code_, head.open)) without_derivative(at, head.close);
    if (keeps) without_derivative(head.type, head.name);
  }

  void without_derivative(size_t begin, size_t end) {
    size_t at = begin;
    while (code_[at] == "in" || code_[at] == "out" || code_[at] == "inout" || code_[at] == "const") ++at;
    bool is_declared = false;
    for (; at < end && code_[at] != "," && code_[at] != "="; ++at) {
      if (code_[at] == "no_diff" || is_view_type(code_[at])) return;
      is_declared = is_declared || all_.declared_.count(code_[at]) > 0;
    }
    if (is_declared) code_.insert(begin, "no_diff ");
  }

  const UndeclaredStructs& all_;
  SourceCode& code_;
  const Declaring how_;
};

void UndeclaredStructs::add(const StructFacts& facts, const std::string& path) {
  for (const TypeDeclaration& type : facts.types) types_.emplace_back(type, path);
  all_.extended.insert(facts.extended.begin(), facts.extended.end());
  all_.conforming.insert(facts.conforming.begin(), facts.conforming.end());
  all_.of_kernels.insert(facts.of_kernels.begin(), facts.of_kernels.end());
  all_.derived_by_name.insert(facts.derived_by_name.begin(), facts.derived_by_name.end());
  all_.forward_by_name.insert(facts.forward_by_name.begin(), facts.forward_by_name.end());
  all_.called.insert(facts.called.begin(), facts.called.end());
  all_.built.insert(facts.built.begin(), facts.built.end());
  all_.functions.insert(facts.functions.begin(), facts.functions.end());
  for (const auto& [name, indices] : facts.outs) all_.outs[name].insert(indices.begin(), indices.end());
}

void UndeclaredStructs::decide() {
  for (const auto& [type, path] : types_) by_name_.emplace(type.name, &type);
  for (size_t known = 0, count = 1; known != count;) {  // a field's type may stand behind
    known = viewing_.size() + carrying_.size();
    for (const auto& [type, path] : types_) {
      if (type.is_interface) continue;
      if (holds_views(type)) viewing_.insert(type.name);
      if (may_carry(type)) carrying_.insert(type.name);
    }
    count = viewing_.size() + carrying_.size();
  }
  for (const auto& [type, path] : types_) {
    if (type.is_interface ? may_declare_interface(type) : may_declare(type)) declared_.insert(type.name);
  }
}

bool UndeclaredStructs::holds_views(const TypeDeclaration& type) const {
  return type.has_views || meets(type.field_types, viewing_);
}

// A type that is not known here, an alias or a macro, may have a derivative.
bool UndeclaredStructs::may_carry(const TypeDeclaration& type) const {
  if (type.has_floats || type.is_differentiable || !type.free_parameters.empty()) return true;
  return std::any_of(type.field_types.begin(), type.field_types.end(),
                     [&](const std::string& name) { return by_name_.count(name) == 0 || carrying_.count(name) > 0; });
}

bool UndeclaredStructs::may_declare(const TypeDeclaration& type) const {
  const bool inherits = std::any_of(type.bases.begin(), type.bases.end(), [&](const std::string& base) {
    const auto found = by_name_.find(base);
    return found != by_name_.end() && !found->second->is_interface;
  });
  return !type.is_interface && !type.is_differentiable && !type.is_local && !inherits && may_carry(type) &&
         kept_.count(type.name) == 0 && all_.extended.count(type.name) == 0 &&
         !(holds_views(type) && all_.of_kernels.count(type.name) > 0);
}

// Types that have no derivative stay without, and so do interfaces that structs have fields of: Slang cannot differentiate those.
bool UndeclaredStructs::may_declare_interface(const TypeDeclaration& type) const {
  if (type.is_differentiable || !type.has_floats || kept_.count(type.name) > 0 || all_.conforming.count(type.name) > 0)
    return false;
  return std::all_of(types_.begin(), types_.end(), [&](const auto& one) {
    const TypeDeclaration& other = one.first;
    if (other.field_types.count(type.name) > 0) return false;
    if (other.is_interface || other.bases.count(type.name) == 0) return true;
    return other.is_differentiable || may_declare(other) || (!may_carry(other) && !holds_views(other));
  });
}

void UndeclaredStructs::declare_in(SourceCode& code, Declaring how) const {
  if (how != Declaring::None && !declared_.empty()) Declarer(*this, code, how).declare();
}

bool UndeclaredStructs::may_differentiate(const SourceCode& code, std::string_view function) const {
  for (const FunctionHead& head : function_heads(code)) {
    if (code[head.name] != function || !head.may_become_differentiable()) continue;
    for (size_t at = head.type; at < head.name; ++at) {
      if (declared_.count(code[at]) > 0) return true;
    }
  }
  return false;
}

// What a struct that stays as it is is made of decides whether its values may have a derivative.
bool UndeclaredStructs::is_lost(const TypeDeclaration& type, Declaring how) const {
  if (type.is_interface || type.is_differentiable || all_.extended.count(type.name) > 0 || !may_carry(type))
    return false;
  if (may_declare(type)) return how == Declaring::None || (how != Declaring::All && !type.free_parameters.empty());
  return kept_.count(type.name) > 0 || all_.built.count(type.name) > 0;
}

Names UndeclaredStructs::names_reached(const std::string& qualified_name) const {
  const std::string function = qualified_name.substr(qualified_name.rfind('.') + 1);
  const auto [begin, end] = all_.functions.equal_range(function);
  const auto is_own = [&](const auto& one) { return one.second.qualified_name == qualified_name; };
  const bool is_known = std::any_of(begin, end, is_own);
  Names reached;
  std::vector<std::string> left;
  const auto add = [&](const NamesInFunction& one) {
    for (const std::string& name : one.names) {
      if (reached.insert(name).second) left.push_back(name);
    }
  };
  for (auto at = begin; at != end; ++at) {
    if (!is_known || is_own(*at)) add(at->second);
  }
  while (!left.empty()) {
    const auto [first, last] = all_.functions.equal_range(left.back());
    left.pop_back();
    for (auto at = first; at != last; ++at) add(at->second);
  }
  reached.insert(function);
  return reached;
}

std::optional<std::pair<std::string, std::string>> UndeclaredStructs::lost_in(const std::string& qualified_name,
                                                                              Declaring how) const {
  std::optional<Names> reached;
  for (const auto& [type, path] : types_) {
    if (!is_lost(type, how)) continue;
    if (!reached) reached = names_reached(qualified_name);
    if (reached->count(type.name) > 0) return std::pair(type.name, path + ":" + std::to_string(type.line));
  }
  return {};
}

}  // namespace torch_slang
