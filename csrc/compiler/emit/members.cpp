#include "compiler/emit/members.h"

#include <c10/util/StringUtil.h>

#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/text/refused_text.h"

namespace torch_slang {
namespace {

class Members {
 public:
  explicit Members(Code& code) : code_(code) {}

  int make() {
    for (size_t at = 0; at < code_.size();) {
      const Span declaration = declaration_at(at);
      edit(declaration);
      at = declaration.end;
    }
    if (entries_ == 0) throw unknown_text("it has no entry point");
    rename_variables();
    return entries_ + static_cast<int>(accessors_.size());
  }

 private:
  // Up to a `;` outside all brackets, or the `}` of a function's body.
  Span declaration_at(size_t begin) const {
    for (size_t at = begin; at < code_.size(); ++at) {
      if (opens(code_[at])) at = code_.closing(at, code_.size());
      const bool goes_on = code_[at] == "}" && (code_[at + 1] == ";" || code_[at + 1] == "=");
      if (code_[at] == ";" || (code_[at] == "}" && !goes_on)) return {begin, at + 1};
    }
    return {begin, code_.size()};
  }

  bool contains(Span span, std::string_view word) const {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (code_[at] == word) return true;
    }
    return false;
  }

  // Types and functions may stay as they are.
  void edit(Span declaration) {
    Span head{declaration.begin,
              declaration.begin};  // up to the body of a function, or to the `=` or `;` of a variable
    while (head.end < declaration.end && code_[head.end] != "{" && code_[head.end] != "=" && code_[head.end] != ";") {
      ++head.end;
    }
    if (head.size() == 0) return;
    if (contains(head, "__global__")) return edit_entry(head);
    for (const std::string_view word : {"struct", "typedef", "using", "enum"}) {
      if (contains(head, word)) return;
    }
    if (!contains(head, "(")) {
      edit_variable(head, declaration.end);
    } else if (code_[head.end] == ";") {
      code_.remove(declaration);
    }
  }

  void edit_entry(Span head) {
    ++entries_;
    for (size_t at = head.begin; at < head.end; ++at) {
      if (code_[at] == "extern" || code_[at] == "\"C\"") code_.replace({at, at + 1}, "");
      if (code_[at] == "__global__") code_.replace({at, at + 1}, "__device__");
    }
  }

  // `__device__ __shared__ TYPE name;` or `__device__ static const TYPE name = VALUE;`
  void edit_variable(Span head, size_t end) {
    const size_t name = head.end - 1;
    const std::string type = text_of_type({head.begin, name});
    const bool shared = contains(head, "__shared__");
    if (!shared && !contains(head, "const")) throw UnsupportedGlobal{std::string(code_[name])};
    const Span value{head.end + 1, end - 1};
    const bool fixed = !shared && is_constant(value);
    if (fixed) constants_[code_[name]] = text_of_value(type, value);
    const std::string accessor = c10::str("tsl_var_", code_[name], "()");
    const std::string result = shared ? type + "& " : c10::str("const ", type, fixed ? "& " : " ");
    const std::string storage = shared ? "TSL_SHARED " : fixed ? "static const " : "const ";
    code_.replace({head.begin, head.end + 1},
                  c10::str("__device__ ", result, accessor, " { ", storage, type, " value ", code_[head.end]));
    code_.insert_behind(end - 1, " return value; }");
    accessors_[code_[name]] = accessor;
    edited_.push_back({head.begin, head.end + 1});
    if (shared) return;
    for (size_t at = value.begin; at < value.end; ++at) {
      const auto constant = constants_.find(code_[at]);
      if (constant == constants_.end()) continue;
      code_.replace({at, at + 1}, constant->second);
      edited_.push_back({at, at + 1});
    }
  }

  // Without the words in front of it.
  std::string text_of_type(Span span) const {
    static const std::set<std::string_view> kSpecifiers = {"__device__", "__shared__", "static", "const"};
    std::string type;
    for (size_t at = span.begin; at < span.end; ++at) {
      if (kSpecifiers.count(code_[at]) > 0) continue;
      const bool apart = type.ends_with(",") || (!type.empty() && is_word(at - 1) && is_word(at));
      type += (apart ? " " : "") + std::string(code_[at]);
    }
    return type;
  }

  // Of what stands behind `=`, as an expression. The names of constants are their values.
  std::string text_of_value(const std::string& type, Span span) const {
    std::string value = code_[span.begin] == "{" ? type : "";
    for (size_t at = span.begin; at < span.end; ++at) {
      const auto constant = constants_.find(code_[at]);
      const std::string text = at == span.begin ? std::string(code_[at]) : code_.spaced_text({at, at + 1});
      value += constant == constants_.end() ? text : text.substr(0, text.size() - code_[at].size()) + constant->second;
    }
    return value;
  }

  bool is_word(size_t at) const { return code_.is_name(at) || code_.is_number(at); }

  // Numbers, and conversions and lists of them.
  bool is_constant(Span value) const {
    static const std::set<std::string_view> kNumbers = {"int",  "uint",     "float",    "double",
                                                        "bool", "longlong", "ulonglong"};
    for (size_t at = value.begin; at < value.end; ++at) {
      if (code_[at] == "(" && is_word(at - 1) && kNumbers.count(code_[at - 1]) == 0) return false;
      if (accessors_.count(code_[at]) > 0 && constants_.count(code_[at]) == 0) return false;
    }
    return true;
  }

  void rename_variables() {
    if (accessors_.empty()) return;
    auto edited = edited_.begin();
    for (size_t at = 0; at < code_.size(); ++at) {
      if (edited != edited_.end() && at == edited->begin) {
        at = (edited++)->end - 1;
      } else if (const auto found = accessors_.find(code_[at]); found != accessors_.end()) {
        code_.replace({at, at + 1}, found->second);
      }
    }
  }

  Code& code_;
  int entries_ = 0;
  std::map<std::string_view, std::string> accessors_;  // of variables, by name
  std::map<std::string_view, std::string> constants_;  // their values, by name
  std::vector<Span> edited_;  // in which no variable is renamed
};

}  // namespace

int make_members(Code& code) { return Members(code).make(); }

std::string explain_global(const UnsupportedGlobal& global, const std::vector<std::string>& shader_parameters) {
  std::string names;
  for (const std::string& name : shader_parameters) names += (names.empty() ? "" : ", ") + name;
  return c10::str("it uses ",
                  names.empty() ? "the global variable " + global.name : "one of the shader parameters " + names,
                  ", but an operator has no inputs other than its kernel's parameters: make it one of those, `static "
                  "const`, or groupshared");
}

}  // namespace torch_slang
