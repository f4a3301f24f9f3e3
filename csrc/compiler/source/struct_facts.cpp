#include "compiler/source/function_heads.h"
#include "compiler/source/undeclared_structs.h"

namespace torch_slang {
namespace {

void add_extensions(const SourceCode& tokens, StructFacts& facts) {
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at] != "extension") continue;
    bool behind_colon = false;
    for (size_t i = at + 1; i < tokens.size() && tokens[i] != "{" && tokens[i] != ";"; ++i) {
      behind_colon = behind_colon || (tokens[i] == ":" && i > at + 1);
      if (!behind_colon || !tokens.is_name(i)) continue;
      facts.conforming.emplace(tokens[i]);
      if (tokens[i] == "IDifferentiable") facts.extended.emplace(tokens[at + 1]);
    }
  }
}

// The last name in the brackets, as of `outer.f<T>`.
void add_derived(const SourceCode& tokens, size_t open, Names& names) {
  std::string_view last;
  for (size_t at = open + 1; at < tokens.closing(open) && tokens[at] != "<"; ++at) {
    if (tokens.is_name(at)) last = tokens[at];
  }
  if (!last.empty()) names.emplace(last);
}

void add_derivative(const SourceCode& tokens, size_t at, StructFacts& facts) {
  const std::string_view word = tokens[at];
  const bool is_forward = word == "fwd_diff" || word == "__fwd_diff";
  if (is_forward) add_derived(tokens, at + 1, facts.forward_by_name);
  if (is_forward || word == "bwd_diff" || word == "__bwd_diff" || word == "BackwardDerivativeOf" ||
      word == "ForwardDerivativeOf") {
    add_derived(tokens, at + 1, facts.derived_by_name);
  }
}

// `Pair(x, y)`, `Pair p = {x, y}`, `Pair p[2] = {...}`
bool makes_value(const SourceCode& tokens, size_t at) {
  size_t behind = tokens.behind_angles(at + 1);
  if (tokens[behind] == "(") return true;
  if (!tokens.is_name(behind)) return false;
  for (++behind; tokens[behind] == "[";) behind = tokens.closing(behind) + 1;
  return tokens[behind] == "=" && tokens[behind + 1] == "{";
}

// The names of the namespaces and types around a place, as Slang's reflection writes them: `outer.inner.`
std::string scope_of(const SourceCode& tokens, size_t place) {
  std::string scope;
  for (size_t at = 0; at < place; ++at) {
    if (tokens[at] != "namespace" && tokens[at] != "struct" && tokens[at] != "interface" && tokens[at] != "extension")
      continue;
    size_t open = at + 1;
    while (open < place && tokens[open] != "{" && tokens[open] != ";" && tokens[open] != "=") ++open;
    if (tokens[open] != "{" || open >= place || tokens.closing(open) < place) continue;
    const bool is_namespace = tokens[at] == "namespace";
    for (size_t name = at + 1; name < (is_namespace ? open : at + 2); ++name) {
      if (tokens.is_name(name)) scope += std::string(tokens[name]) + ".";
    }
  }
  return scope;
}

void add_functions(const SourceCode& tokens, StructFacts& facts) {
  for (const FunctionHead& head : function_heads(tokens)) {
    if (head.is_kernel()) {
      for (size_t at = head.open; at < head.close; ++at) {
        if (tokens.is_name(at)) facts.of_kernels.emplace(tokens[at]);
      }
    }
    if (!head.is_differentiable()) continue;
    Names names;  // a kernel's own parameters are constants, if they are structs that nobody declares
    for (size_t at = head.is_kernel() ? head.body : head.type; at < head.end; ++at) {
      if (tokens.is_name(at) && at != head.name) names.emplace(tokens[at]);
    }
    const std::string name(tokens[head.name]);
    facts.functions.emplace(name, NamesInFunction{scope_of(tokens, head.name) + name, std::move(names)});
    for (size_t at = head.body; at < head.end; ++at) {
      if (!tokens.is_name(at)) continue;
      if (tokens[tokens.behind_angles(at + 1)] == "(") facts.called.emplace(tokens[at]);
      if (makes_value(tokens, at)) facts.built.emplace(tokens[at]);
    }
  }
}

}  // namespace

StructFacts::StructFacts(const SourceCode& tokens) {
  types = type_declarations(tokens);
  add_extensions(tokens, *this);
  add_functions(tokens, *this);
  add_out_parameters(tokens, outs);
  for (size_t at = 0; at + 1 < tokens.size(); ++at) {
    if (!tokens.is_name(at)) continue;
    if (tokens[at + 1] == "(") add_derivative(tokens, at, *this);
    const bool is_declared = at > 0 && (tokens[at - 1] == "interface" || tokens[at - 1] == "struct");
    if (!is_declared && tokens.is_name(at + 1) && tokens[at + 1] != "where") as_values.emplace(tokens[at]);
  }
}

}  // namespace torch_slang
