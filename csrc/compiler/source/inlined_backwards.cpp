#include "compiler/source/inlined_backwards.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string_view>

namespace torch_slang {
namespace {

constexpr std::string_view kInline = "ForceInline", kEarly = "__unsafeForceInlineEarly",
                           kBackward = "BackwardDerivative", kBackwardOf = "BackwardDerivativeOf";

bool has_one(const NameSet& names, std::initializer_list<std::string_view> wanted) {
  return std::ranges::any_of(wanted, [&](std::string_view name) { return names.count(name) > 0; });
}

// Of a list of one, the brackets too.
void add_attribute(const SourceCode& code, size_t at, std::set<size_t>& found) {
  size_t first = at, last = at;
  if (code[at + 1] == ",") {
    last = at + 1;
  } else {
    first = at - 1;
    if (code[at - 1] == "[" && code[at + 1] == "]") last = at + 1;
  }
  for (size_t i = first; i <= last; ++i) found.insert(i);
}

// Spaces take its place. `goes`: whether the attribute at a token does.
template <class Goes>
void clear_attributes(SourceCode& code, const Goes& goes) {
  std::set<size_t> found;
  for (size_t at = 1; at < code.size(); ++at) {
    const bool is_one = (code[at] == kInline || code[at] == kEarly) && (code[at - 1] == "[" || code[at - 1] == ",");
    if (is_one && goes(at)) add_attribute(code, at, found);
  }
  for (const size_t at : found) code.replace({at, at + 1}, std::string(code[at].size(), ' '));
}

// What a macro puts where is not known here: where one has a part in this, no function keeps its [ForceInline]. Whether so.
bool clear_macros(SourceCode& code) {
  bool found = false;
  for (size_t token = 0; token < code.tokens().size(); ++token) {
    if (code.tokens()[token].kind != TokenKind::Directive) continue;
    SourceCode directive(std::string(code.tokens()[token].text.substr(1)));
    NameSet names;
    add_code_names(directive, names);
    if (!has_one(names, {kInline, kEarly, kBackward, kBackwardOf})) continue;
    found = true;
    clear_attributes(directive, [](size_t) { return true; });
    if (directive.is_edited()) code.replace_directive(token, "#" + directive.edited());
  }
  return found;
}

// In `[BackwardDerivative(outer.name<T>)]` each of the names.
void note_backwards(const SourceCode& code, NameSet& backwards) {
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at] != kBackward || code[at + 1] != "(") continue;
    for (at += 2; at < code.size() && code[at] != ")"; ++at) {
      if (code.is_name(at)) backwards.emplace(code[at]);
    }
  }
}

// The name of the function that the attribute at `at` belongs to: the first name behind it with parameters.
std::string_view function_behind(const SourceCode& code, size_t at) {
  for (at = code.first_of("]", at); at < code.size(); ++at) {
    if (code[at] == "[") at = code.closing(at);
    if (code.is_name(at) && code[at] != "__generic" && code[code.behind_angles(at + 1)] == "(") return code[at];
  }
  return {};
}

// An attribute of the same declaration, before or behind.
bool says_whose_backward(const SourceCode& code, size_t at) {
  for (size_t i = code.declaration(at); i < code.size() && code[i] != ";" && code[i] != "{" && code[i] != "}"; ++i) {
    if (code[i] == kBackwardOf) return true;
  }
  return false;
}

}  // namespace

void keep_backwards_calls(SourceCode& code, NameSet& backwards) {
  note_backwards(code, backwards);
  NameSet names;
  add_code_names(code, names);
  if (backwards.empty() && !has_one(names, {kBackward, kBackwardOf})) return;
  const bool all = clear_macros(code);
  clear_attributes(code, [&](size_t at) {
    const bool is_backward = backwards.count(function_behind(code, at)) > 0 || says_whose_backward(code, at);
    return is_backward || (all && code[at] == kInline);
  });
}

}  // namespace torch_slang
