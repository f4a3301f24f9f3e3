#include "compiler/emit/members.h"

#include <c10/util/StringUtil.h>

#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

class Members {
 public:
  explicit Members(std::string_view text) : tokens_(split_tokens(text)) {}

  std::string all() {
    while (at_ < tokens_.size()) {
      copy_between();
      if (at_ < tokens_.size()) add_declaration(take_declaration());
    }
    return rename_variables();
  }

  int entries() const { return entries_; }
  int variables() const { return static_cast<int>(renamed_.size()); }

 private:
  using Declaration = std::vector<Token>;

  static bool is_word(std::string_view text) {
    return !text.empty() && (std::isalnum(static_cast<unsigned char>(text.back())) != 0 || text.back() == '_');
  }

  void copy_between() {
    for (; at_ < tokens_.size() && !is_code(tokens_[at_]); ++at_) body_ += tokens_[at_].text;
  }

  // Up to a `;` outside all brackets, or the `}` of a function's body.
  Declaration take_declaration() {
    Declaration declaration;
    int depth = 0;
    for (; at_ < tokens_.size(); ++at_) {
      const Token& token = tokens_[at_];
      declaration.push_back(token);
      if (!is_code(token)) continue;
      if (token.text == "{" || token.text == "(" || token.text == "[") ++depth;
      if (token.text == "}" || token.text == ")" || token.text == "]") --depth;
      if (depth > 0) continue;
      if (token.text == ";" || (token.text == "}" && !semicolon_follows())) break;
    }
    ++at_;
    return declaration;
  }

  bool semicolon_follows() const {
    size_t next = at_ + 1;
    while (next < tokens_.size() && !is_code(tokens_[next])) ++next;
    return next < tokens_.size() && (tokens_[next].text == ";" || tokens_[next].text == "=");
  }

  static bool contains(const Declaration& declaration, std::string_view text, size_t limit) {
    for (size_t i = 0; i < limit; ++i) {
      if (is_code(declaration[i]) && declaration[i].text == text) return true;
    }
    return false;
  }

  // The first token of the body or initializer, or the end.
  static size_t head_size(const Declaration& declaration) {
    for (size_t i = 0; i < declaration.size(); ++i) {
      const auto text = declaration[i].text;
      if (is_code(declaration[i]) && (text == "{" || text == "=" || text == ";")) return i;
    }
    return declaration.size();
  }

  void add_declaration(const Declaration& declaration) {
    const size_t head = head_size(declaration);
    const bool ends_here = head < declaration.size() && declaration[head].text == ";";
    if (contains(declaration, "__global__", head)) {
      add_entry(declaration);
    } else if (contains(declaration, "struct", head) || contains(declaration, "typedef", head) ||
               contains(declaration, "using", head) || contains(declaration, "enum", head)) {
      copy(declaration, 0);
    } else if (contains(declaration, "(", head)) {
      if (!ends_here) copy(declaration, 0);
    } else {
      add_variable(declaration, head);
    }
  }

  void copy(const Declaration& declaration, size_t from) {
    for (size_t i = from; i < declaration.size(); ++i) body_ += declaration[i].text;
  }

  void add_entry(const Declaration& declaration) {
    ++entries_;
    for (const Token& token : declaration) {
      if (token.text == "extern" || token.text == "\"C\"") continue;
      body_ += token.text == "__global__" ? std::string_view("__device__") : token.text;
    }
  }

  // `__device__ __shared__ TYPE name;` or `__device__ static const TYPE name = VALUE;`
  void add_variable(const Declaration& declaration, size_t head) {
    bool shared = false, constant = false;
    std::vector<std::string_view> words;  // of the type, then the name
    for (size_t i = 0; i < head; ++i) {
      const std::string_view text = declaration[i].text;
      shared = shared || text == "__shared__";
      constant = constant || text == "const";
      const bool specifier = text == "__device__" || text == "__shared__" || text == "static" || text == "const";
      if (is_code(declaration[i]) && !specifier) words.push_back(text);
    }
    const std::string_view name = words.back();
    words.pop_back();
    std::string type;
    for (const std::string_view word : words) {
      const bool apart = type.ends_with(",") || (is_word(type) && is_word(word));
      type += (apart ? " " : "") + std::string(word);
    }
    if (!shared && !constant) throw UnsupportedGlobal{std::string(name)};
    const std::string accessor = c10::str("tsl_var_", name);
    if (shared) {
      body_ += c10::str("__device__ ", type, "& ", accessor, "() { TSL_SHARED ", type, " value ");
      copy(declaration, head);
    } else {
      const std::string beginning = with_constants(declaration, head);
      const bool fixed = is_constant(beginning);
      if (fixed) constants_[std::string(name)] = value_of(type, beginning);
      body_ += c10::str("__device__ const ", type, fixed ? "& " : " ", accessor, "() { ", fixed ? "static " : "",
                        "const ", type, " value ", beginning);
    }
    body_ += " return value; }";
    renamed_[std::string(name)] = accessor + "()";
  }

  // `= VALUE;`, where the names of constants are their values.
  std::string with_constants(const Declaration& declaration, size_t head) const {
    std::string text;
    for (size_t i = head; i < declaration.size(); ++i) {
      const auto found = constants_.find(declaration[i].text);
      text += found == constants_.end() ? declaration[i].text : std::string_view(found->second);
    }
    return text;
  }

  // Of `= VALUE;`, as an expression.
  static std::string value_of(const std::string& type, const std::string& beginning) {
    std::string value = beginning.substr(1, beginning.size() - 2);
    value.erase(0, std::min(value.find_first_not_of(" \n\t"), value.size()));
    return value.starts_with("{") ? type + value : value;
  }

  // Numbers, and conversions and lists of them.
  bool is_constant(const std::string& text) const {
    static const std::set<std::string_view> kNumbers = {"int",  "uint",     "float",    "double",
                                                        "bool", "longlong", "ulonglong"};
    std::string_view before;
    for (const Token& token : split_tokens(text)) {
      if (!is_code(token)) continue;
      if (token.text == "(" && is_word(before) && kNumbers.count(before) == 0) return false;
      if (renamed_.count(token.text) > 0) return false;
      before = token.text;
    }
    return true;
  }

  std::string rename_variables() const {
    if (renamed_.empty()) return body_;
    std::string result;
    for (const Token& token : split_tokens(body_)) {
      const auto found = token.kind == TokenKind::Identifier ? renamed_.find(token.text) : renamed_.end();
      result += found == renamed_.end() ? token.text : std::string_view(found->second);
    }
    return result;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int entries_ = 0;
  std::string body_;
  std::map<std::string, std::string, std::less<>> renamed_;
  std::map<std::string, std::string, std::less<>> constants_;  // their values, by name
};

}  // namespace

int make_members(std::string& text) {
  Members members(text);
  text = members.all();
  return members.entries() + members.variables();
}

std::string explain_global(const UnsupportedGlobal& global, const std::vector<std::string>& shader_parameters) {
  std::string names;
  for (const std::string& name : shader_parameters) names += (names.empty() ? "" : ", ") + name;
  return c10::str("it uses ",
                  names.empty() ? "the global variable " + global.name : "one of the shader parameters " + names,
                  ", but an operator has no inputs other than its kernel's parameters: make it one of those, `static "
                  "const`, or groupshared");
}

}  // namespace torch_slang
