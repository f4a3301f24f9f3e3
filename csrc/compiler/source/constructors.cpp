#include "compiler/source/constructors.h"

#include <c10/util/StringUtil.h>

#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/source/source_edits.h"
#include "compiler/source/source_tokens.h"

namespace torch_slang {
namespace {

struct Field {
  std::string_view type, name, suffix, value;  // `double` `c` `[3]` `{1, 2, 3}`
};
using Fields = std::vector<Field>;

class Structs {
 public:
  explicit Structs(const std::string& source) : source_(source), tokens_(source), edits_(source) {}

  std::string completed() {
    for (size_t at = 0; at < tokens_.size(); ++at) {
      if (word(at) == "struct" && tokens_.is_name(at + 1)) look_at(at);
    }
    return edits_.applied();
  }

 private:
  std::string_view word(size_t at) const { return tokens_[at]; }
  size_t place(size_t at) const { return edits_.place(word(at)); }
  // The source from a word to before another.
  std::string_view text(size_t begin, size_t end) const {
    if (begin >= end) return {};
    return std::string_view(source_).substr(place(begin), place(end - 1) + word(end - 1).size() - place(begin));
  }

  void look_at(size_t at) {
    bool differentiable = false;
    size_t open = at + 2;
    const size_t generic = word(open) == "<" ? tokens_.behind_angles(open) - 1 : open;
    for (; open < tokens_.size() && word(open) != "{" && word(open) != ";"; ++open) {
      differentiable = differentiable || (open >= generic && word(open) == "IDifferentiable");
    }
    const size_t close = tokens_.closing(open);
    if (word(open) != "{" || close >= tokens_.size() || at < outermost_) return;
    outermost_ = close;
    if (!differentiable || (word(close + 1) != ";" && tokens_.is_name(close + 1) && !begins_declaration(close + 1)))
      return;
    const auto fields = fields_between(open, close);
    if (!fields || fields->empty()) return;
    const size_t last = word(close + 1) == ";" ? close + 1 : close;
    const std::string_view parameters = generic > at + 2 ? text(at + 2, generic + 1) : std::string_view();
    const std::string visibility = word(at - 1) == "public" ? "public " : "";
    // Behind a `}` alone Slang would take `extension` for a variable's name.
    edits_.insert(place(last) + 1,
                  c10::str(last == close ? "; " : " ", visibility, "extension", parameters, " ", word(at + 1),
                           arguments(at + 2, generic), " { ", visibility, constructor(*fields), " }"));
  }

  // `<T, N>` of the parameters `<T : IFloat, let N : int>`.
  std::string arguments(size_t open, size_t close) const {
    std::string names;
    int angles = 0;
    for (size_t at = open; at < close; ++at) {
      if (word(at) == ">") --angles;
      const bool begins = angles == 1 && word(at) == ",";
      if (word(at) == "<") ++angles;
      if (!begins && at != open) continue;
      const size_t name = word(at + 1) == "let" ? at + 2 : at + 1;
      names += c10::str(names.empty() ? "" : ", ", word(name));
    }
    return names.empty() ? "" : "<" + names + ">";
  }

  // Of what may stand behind a struct that no semicolon ends: `struct S {} s;` declares a variable.
  bool begins_declaration(size_t at) const { return word(at + 1) != ";" && word(at + 1) != "=" && word(at + 1) != "["; }

  // None: there is a constructor, or something that is not understood.
  std::optional<Fields> fields_between(size_t open, size_t close) const {
    if (std::string_view(source_).substr(place(open), place(close) - place(open)).find('#') != std::string::npos)
      return {};
    Fields fields;
    for (size_t at = open + 1; at < close;) {
      while (word(at) == "[") at = tokens_.closing(at) + 1;
      if (word(at) == "public" || word(at) == "internal" || word(at) == ";") {
        ++at;
        continue;
      }
      const auto next = is_no_field(at) ? behind_other(at, close) : behind_member(at, close, fields);
      if (!next) return {};
      at = *next;
    }
    return fields;
  }

  bool is_no_field(size_t at) const {
    static const std::set<std::string_view> kOthers = {"typealias", "typedef",  "associatedtype", "static", "struct",
                                                       "enum",      "property", "__subscript",    "func",   "This"};
    return kOthers.count(word(at)) > 0;
  }

  // Behind the block, or the semicolon.
  std::optional<size_t> behind_other(size_t at, size_t close) const {
    while (at < close && word(at) != ";" && word(at) != "{") ++at;
    return at < close ? std::optional(word(at) == ";" ? at + 1 : tokens_.closing(at) + 1) : std::nullopt;
  }

  std::optional<size_t> behind_member(size_t begin, size_t close, Fields& fields) const {
    if (word(begin) == "__init" || word(begin) == "private") return {};
    size_t at = begin;
    for (; at < close && word(at) != ";" && word(at) != "="; ++at) {
      if (word(at) == "__init" || word(at) == ":") return {};
      if (word(at) == "[") at = tokens_.closing(at);
      if (word(at) == "(") return behind_method(at, close);
      if (word(at) == "{") return tokens_.closing(at) + 1;
    }
    return behind_fields(begin, close, fields);
  }

  // A declaration alone may be a macro that stands for fields.
  std::optional<size_t> behind_method(size_t parameters, size_t close) const {
    size_t at = tokens_.closing(parameters) + 1;
    while (at < close && word(at) != ";" && word(at) != "{") ++at;
    return at < close && word(at) == "{" ? std::optional(tokens_.closing(at) + 1) : std::nullopt;
  }

  // `double a = 1, b[2];`
  std::optional<size_t> behind_fields(size_t begin, size_t close, Fields& fields) const {
    std::string_view type;
    for (size_t at = begin; at < close;) {
      size_t end = at;
      for (int angles = 0; end < close && (angles > 0 || (word(end) != "," && word(end) != "=" && word(end) != ";"));
           ++end) {
        if (word(end) == "<") ++angles;
        if (word(end) == ">") --angles;
      }
      size_t name = end - 1;
      while (name > at && word(name) == "]") name = tokens_.opening(name) - 1;
      if (end >= close || name < at || !tokens_.is_name(name)) return {};
      if (at == begin) type = text(begin, name);
      if (type.empty() || (at != begin && name != at)) return {};
      size_t behind = end;
      if (word(end) == "=") behind = behind_value(end, close);
      const std::string_view value = text(end + 1, behind);
      if (value.find('\n') != std::string_view::npos || value.find("//") != std::string_view::npos) return {};
      fields.push_back({type, word(name), text(name + 1, end), value});
      if (word(behind) == ";") return behind + 1;
      at = behind + 1;
    }
    return {};
  }

  size_t behind_value(size_t at, size_t close) const {
    while (at < close && word(at) != "," && word(at) != ";") {
      const bool opens = word(at) == "(" || word(at) == "[" || word(at) == "{";
      at = opens ? tokens_.closing(at) + 1 : at + 1;
    }
    return at;
  }

  static std::string constructor(const Fields& fields) {
    std::string parameters, body;
    for (const Field& field : fields) {
      parameters += c10::str(parameters.empty() ? "" : ", ", field.type, " ", field.name, field.suffix, " = ",
                             field.value.empty() ? "{}" : field.value);
      body += c10::str(" this.", field.name, " = ", field.name, ";");
    }
    return c10::str("[OverloadRank(10)] [Differentiable, __unsafeForceInlineEarly] __init(", parameters, ") {", body,
                    " }");
  }

  const std::string& source_;
  const SourceTokens tokens_;
  SourceEdits edits_;
  size_t outermost_ = 0;  // the closing brace of the struct that was looked at last
};

}  // namespace

std::string with_constructors(const std::string& source) { return Structs(source).completed(); }

}  // namespace torch_slang
