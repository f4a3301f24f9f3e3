#include "compiler/source/function_heads.h"
#include "compiler/source/undeclared_structs.h"

namespace torch_slang {
namespace {

void add_extensions(const SourceCode& code, StructFacts& facts) {
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at] != "extension") continue;
    bool behind_colon = false;
    for (size_t i = at + 1; i < code.size() && code[i] != "{" && code[i] != ";"; ++i) {
      behind_colon = behind_colon || (code[i] == ":" && i > at + 1);
      if (!behind_colon || !code.is_name(i)) continue;
      facts.conforming.emplace(code[i]);
      if (code[i] == "IDifferentiable") facts.extended.emplace(code[at + 1]);
    }
  }
}

// The last name in the brackets, as of `outer.f<T>`.
void add_derived(const SourceCode& code, size_t open, Names& names) {
  std::string_view last;
  for (size_t at = open + 1; at < code.closing(open) && code[at] != "<"; ++at) {
    if (code.is_name(at)) last = code[at];
  }
  if (!last.empty()) names.emplace(last);
}

void add_derivative(const SourceCode& code, size_t at, StructFacts& facts) {
  const std::string_view word = code[at];
  const bool is_forward = word == "fwd_diff" || word == "__fwd_diff";
  if (is_forward) add_derived(code, at + 1, facts.forward_by_name);
  if (is_forward || word == "bwd_diff" || word == "__bwd_diff" || word == "BackwardDerivativeOf" ||
      word == "ForwardDerivativeOf") {
    add_derived(code, at + 1, facts.derived_by_name);
  }
}

// `Pair(x, y)`, `Pair p = {x, y}`, `Pair p[2] = {...}`
bool makes_value(const SourceCode& code, size_t at) {
  size_t behind = code.behind_angles(at + 1);
  if (code[behind] == "(") return true;
  if (!code.is_name(behind)) return false;
  for (++behind; code[behind] == "[";) behind = code.closing(behind) + 1;
  return code[behind] == "=" && code[behind + 1] == "{";
}

// The names of the namespaces and types around a token, as Slang's reflection writes them: `outer.inner.`
std::string scope_of(const SourceCode& code, size_t token) {
  std::string scope;
  for (size_t at = 0; at < token; ++at) {
    if (code[at] != "namespace" && code[at] != "struct" && code[at] != "interface" && code[at] != "extension") continue;
    size_t open = at + 1;
    while (open < token && code[open] != "{" && code[open] != ";" && code[open] != "=") ++open;
    if (code[open] != "{" || open >= token || code.closing(open) < token) continue;
    const bool is_namespace = code[at] == "namespace";
    for (size_t name = at + 1; name < (is_namespace ? open : at + 2); ++name) {
      if (code.is_name(name)) scope += std::string(code[name]) + ".";
    }
  }
  return scope;
}

void add_functions(const SourceCode& code, const Names& differentiated, StructFacts& facts) {
  for (const FunctionHead& head : function_heads(code)) {
    if (head.is_kernel()) {
      for (size_t at = head.open; at < head.close; ++at) {
        if (code.is_name(at)) facts.of_kernels.emplace(code[at]);
      }
    }
    if (!head.is_differentiable() && !head.becomes_differentiable(code, differentiated)) continue;
    Names names;  // a kernel's own parameters are constants, if they are structs that nobody declares
    for (size_t at = head.is_kernel() ? head.body : head.type; at < head.end; ++at) {
      if (code.is_name(at) && at != head.name) names.emplace(code[at]);
    }
    const std::string name(code[head.name]);
    facts.functions.emplace(name, NamesInFunction{scope_of(code, head.name) + name, std::move(names)});
    for (size_t at = head.body; at < head.end; ++at) {
      if (!code.is_name(at)) continue;
      if (code[code.behind_angles(at + 1)] == "(") facts.called.emplace(code[at]);
      if (makes_value(code, at)) facts.built.emplace(code[at]);
    }
  }
}

}  // namespace

StructFacts::StructFacts(const SourceCode& code, const Names& differentiated) {
  types = type_declarations(code);
  add_extensions(code, *this);
  add_functions(code, differentiated, *this);
  add_out_parameters(code, outs);
  for (size_t at = 0; at + 1 < code.size(); ++at) {
    if (code.is_name(at) && code[at + 1] == "(") add_derivative(code, at, *this);
  }
}

}  // namespace torch_slang
