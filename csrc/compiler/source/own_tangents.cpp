#include "compiler/source/own_tangents.h"

#include <string_view>
#include <vector>

#include "compiler/source/source_tokens.h"

namespace torch_slang {
namespace {

// The function that is declared from here on: the name that its parameters follow. Empty if none is certain.
std::string_view declared_name(const SourceTokens& tokens, size_t at) {
  for (; at < tokens.size(); ++at) {
    if (tokens[at] == "[") {
      at = tokens.closing(at);
    } else if (tokens[at] == "{" || tokens[at] == ";" || tokens[at] == "(") {
      break;
    } else if (tokens.is_name(at)) {
      const size_t behind = tokens.behind_angles(at + 1);
      if (tokens[behind] == "(") return tokens[at];
      at = behind - 1;
    }
  }
  return {};
}

struct Body {
  std::string_view name;
  size_t begin, end;
};

// What looks like a function with a body. Statements with a head are among them, which does no harm.
std::vector<Body> bodies_of(const SourceTokens& tokens) {
  std::vector<Body> bodies;
  for (size_t at = 0; at + 1 < tokens.size(); ++at) {
    if (!tokens.is_name(at)) continue;
    const size_t open = tokens.behind_angles(at + 1);
    if (tokens[open] != "(") continue;
    size_t begin = tokens.closing(open) + 1;
    while (begin < tokens.size() && tokens[begin] != "{" && tokens[begin] != ";" && tokens[begin] != "}") ++begin;
    if (tokens[begin] == "{") bodies.push_back({tokens[at], begin, tokens.closing(begin)});
  }
  return bodies;
}

// The functions that use a field `diff`, or call one that does.
std::set<std::string_view> users_of_diff(const SourceTokens& tokens) {
  const std::vector<Body> bodies = bodies_of(tokens);
  std::set<std::string_view> users = {"diff"};
  for (bool more = true; more;) {
    more = false;
    for (const Body& body : bodies) {
      if (users.count(body.name) > 0) continue;
      for (size_t at = body.begin; at < body.end; ++at) {
        if (users.count(tokens[at]) == 0) continue;
        more = users.insert(body.name).second;
        break;
      }
    }
  }
  return users;
}

// `fwd` of `(Struct::fwd<T>)`.
std::string_view registered_name(const SourceTokens& tokens, size_t open) {
  size_t at = open + 1;
  while (at < tokens.size() && tokens[at + 1] != ")" && tokens[at + 1] != "<") ++at;
  return tokens[at];
}

size_t behind_attributes(const SourceTokens& tokens, size_t at) {
  while (at < tokens.size() && tokens[at] != "]") ++at;
  return at + 1;
}

}  // namespace

void add_functions_with_own_tangents(const std::string& text, std::set<std::string>& functions) {
  if (text.find("ForwardDerivative") == std::string::npos) return;
  const SourceTokens tokens(text);
  const std::set<std::string_view> users = users_of_diff(tokens);
  for (size_t at = 1; at < tokens.size(); ++at) {
    if (tokens[at + 1] != "(") continue;
    const size_t behind = behind_attributes(tokens, tokens.closing(at + 1));
    if (tokens[at] == "ForwardDerivative" && users.count(registered_name(tokens, at + 1)) > 0) {
      functions.emplace(declared_name(tokens, behind));
    } else if (tokens[at] == "ForwardDerivativeOf") {
      const std::string_view name = declared_name(tokens, behind);
      if (name.empty() || users.count(name) > 0) functions.emplace();
    }
  }
}

}  // namespace torch_slang
