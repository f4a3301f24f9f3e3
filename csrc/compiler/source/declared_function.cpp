#include "compiler/source/declared_function.h"

#include <set>
#include <string_view>

namespace torch_slang {
namespace {

class Declaration {
 public:
  Declaration(const SourceCode& code, const DifferentiableFunction& function) : code_(code), function_(function) {}

  DeclaredFunction read() const {
    const size_t begin = first_word();
    const std::string_view word = code_[begin];
    if (word == "func") return {std::string(code_[begin + 1]), behind_arrow(begin)};
    if (word == "get") return {"get", type_of_accessed(begin)};
    if (word == "set" || word == "__init") return {std::string(word), ""};
    return usual(begin);
  }

 private:
  // Behind attributes and modifiers.
  size_t first_word() const {
    size_t at = function_.attribute;
    at = code_.first_of("]", at, function_.open);
    for (++at; at < function_.open;) {
      if (code_[at] == "[") {
        at = code_.closing(at) + 1;
      } else if (code_[at] == "__generic") {
        at = code_.behind_angles(at + 1);
      } else if (is_modifier(at) || code_[at] == "]") {  // of `[[...]]`
        ++at;
      } else {
        break;
      }
    }
    return at;
  }

  bool is_modifier(size_t at) const {
    static const std::set<std::string_view> kModifiers = {"public",   "internal", "private",  "static", "inline",
                                                          "override", "no_diff",  "const",    "export", "extern",
                                                          "open",     "virtual",  "abstract", "sealed"};
    return kModifiers.count(code_[at]) > 0;
  }

  // `type name(`, `type name<...>(`, `type operator+(`
  DeclaredFunction usual(size_t begin) const {
    static const std::set<std::string_view> kUnknown = {"some", "property", "{"};
    size_t name = begin;
    for (size_t at = begin; at < function_.open && code_[at] != "(";) {
      if (kUnknown.count(code_[at]) > 0) return {std::string(code_[name]), {}};
      if (code_[at] == "operator") return {"operator", text(begin, at)};
      if (code_[at] == "<") {
        at = code_.behind_angles(at);
      } else {
        name = at++;
      }
    }
    if (!code_.is_name(name) || name == begin) return {std::string(code_[name]), {}};
    return {std::string(code_[name]), text(begin, name)};
  }

  std::optional<std::string> text(size_t begin, size_t end) const {
    if (begin >= end) return {};
    const std::string type(code_.text(Span{begin, end}));
    return type == "void" ? "" : type;
  }

  // `(x: float) -> float where ... {`
  std::optional<std::string> behind_arrow(size_t at) const {
    while (at < function_.open && code_[at] != "(") ++at;
    at = code_.closing(at) + 1;
    if (code_[at] != "-" || code_[at + 1] != ">") return "";
    size_t end = at + 2;
    while (end < function_.open && code_[end] != "where" && code_[end] != "throws") ++end;
    return text(at + 2, end);
  }

  // Of `get { }`: that of the property or the subscript around it.
  std::optional<std::string> type_of_accessed(size_t at) const {
    size_t open = at;
    while (open > 0 && code_[open] != "{") open = code_[open] == "}" ? code_.opening(open) - 1 : open - 1;
    for (size_t word = code_.declaration(open); word < open; ++word) {
      if (code_[word] == "-" && code_[word + 1] == ">") return text(word + 2, open);
      if (code_[word] != "property") continue;
      return code_[word + 2] == ":" ? text(word + 3, open) : text(word + 1, open - 1);
    }
    return {};
  }

  const SourceCode& code_;
  const DifferentiableFunction& function_;
};

}  // namespace

DeclaredFunction declared_function(const SourceCode& code, const DifferentiableFunction& function) {
  return Declaration(code, function).read();
}

}  // namespace torch_slang
