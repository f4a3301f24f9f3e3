#include "compiler/callees.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "compiler/source/directives.h"

namespace torch_slang {
namespace {

bool defines_macro(const Token& token) {
  if (token.kind != TokenKind::Directive) return false;
  const std::vector<Token> words = words_of(token);
  return !words.empty() && words.front().text == "define";
}

}  // namespace

bool has_nameless_calls(const Session& session, const CompileRequest& request) {
  constexpr std::string_view kWords[] = {"operator", "__init", "__subscript", "property"};
  const NameSet& names = session.files().names();
  const auto is_used = [&](std::string_view word) { return names.count(word) > 0; };
  const auto has_macros = [](const SourceCode* source) { return std::ranges::any_of(source->tokens(), defines_macro); };
  const auto has_names = [](const auto& define) {
    NameSet found;
    add_code_names(define.second, found);
    return !found.empty();
  };
  return std::ranges::any_of(kWords, is_used) || std::ranges::any_of(session.sources(), has_macros) ||
         std::ranges::any_of(request.defines, has_names);
}

std::optional<std::string> named_callee(const Session& session, const std::set<std::string>& among,
                                        const std::string& function) {
  if (among.empty()) return std::nullopt;
  const Names reached = session.files().structs().names_reached(function);
  const bool is_known = reached.size() > 1;  // it names nothing but itself if nobody has read it
  for (const std::string& name : among) {
    if (!is_known || reached.count(name) > 0) return name;
  }
  return std::nullopt;
}

NameSet names_for_slang(const Session& session, const CompileRequest& request, const std::string& source) {
  NameSet names;
  add_code_names(source, names);
  for (const auto& [path, code] : session.files().contents()) {
    if (path != request.path) add_code_names(*code, names);
  }
  for (const auto& define : request.defines) add_code_names(define.second, names);
  return names;
}

}  // namespace torch_slang
