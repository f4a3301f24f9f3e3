#include "compiler/source/own_tangents.h"

#include <string_view>
#include <vector>

namespace torch_slang {
namespace {

struct Body {
  std::string_view name;
  size_t begin, end;
};

// What looks like a function with a body. Statements with a head are among them, which does no harm.
std::vector<Body> bodies_of(const SourceCode& code) {
  std::vector<Body> bodies;
  for (size_t at = 0; at + 1 < code.size(); ++at) {
    if (!code.is_name(at)) continue;
    const size_t open = code.behind_angles(at + 1);
    if (code[open] != "(") continue;
    size_t begin = code.closing(open) + 1;
    while (begin < code.size() && code[begin] != "{" && code[begin] != ";" && code[begin] != "}") ++begin;
    if (code[begin] == "{") bodies.push_back({code[at], begin, code.closing(begin)});
  }
  return bodies;
}

}  // namespace

std::set<std::string> users_of_diff(const std::vector<const SourceCode*>& sources) {
  std::set<std::string> users = {"diff"};
  for (bool more = true; more;) {
    more = false;
    for (const SourceCode* source : sources) {
      for (const Body& body : bodies_of(*source)) {
        if (users.count(std::string(body.name)) > 0) continue;
        for (size_t at = body.begin; at < body.end; ++at) {
          if (users.count(std::string((*source)[at])) == 0) continue;
          more = users.emplace(body.name).second;
          break;
        }
      }
    }
  }
  return users;
}

}  // namespace torch_slang
