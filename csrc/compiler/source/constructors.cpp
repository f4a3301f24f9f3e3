#include "compiler/source/constructors.h"

#include <c10/util/StringUtil.h>

#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace torch_slang {
namespace {

struct Field {
  std::string_view type, name, suffix, value;  // `double` `c` `[3]` `{1, 2, 3}`
};
using Fields = std::vector<Field>;

class Structs {
 public:
  explicit Structs(SourceCode& code) : code_(code) {}

  void complete() {
    for (size_t at = 0; at < code_.size(); ++at) {
      if (word(at) == "struct" && code_.is_name(at + 1)) look_at(at);
    }
  }

 private:
  std::string_view word(size_t at) const { return code_[at]; }
  std::string_view text(size_t begin, size_t end) const {
    return begin < end ? code_.text(Span{begin, end}) : std::string_view();
  }

  void look_at(size_t at) {
    bool differentiable = false;
    size_t open = at + 2;
    const size_t generic = word(open) == "<" ? code_.behind_angles(open) - 1 : open;
    for (; open < code_.size() && word(open) != "{" && word(open) != ";"; ++open) {
      differentiable = differentiable || (open >= generic && word(open) == "IDifferentiable");
    }
    const size_t close = code_.closing(open);
    if (word(open) != "{" || close >= code_.size() || at < outermost_) return;
    outermost_ = close;
    if (!differentiable || (word(close + 1) != ";" && code_.is_name(close + 1) && !begins_declaration(close + 1)))
      return;
    const auto fields = fields_between(open, close);
    if (!fields || fields->empty()) return;
    const size_t last = word(close + 1) == ";" ? close + 1 : close;
    const std::string_view parameters = generic > at + 2 ? text(at + 2, generic + 1) : std::string_view();
    const std::string visibility = word(at - 1) == "public" ? "public " : "";
    // Behind a `}` alone Slang would take `extension` for a variable's name.
    code_.insert_behind(last,
                        c10::str(last == close ? "; " : " ", visibility, "extension", parameters, " ", word(at + 1),
                                 arguments(at + 2, generic), " { ", visibility, constructor(*fields), " }"));
  }

  // `<T, N>` of the parameters `<T : IFloat, let N : int>`.
  std::string arguments(size_t open, size_t close) const {
    std::string names;
    for (size_t at = open; at < close; at = code_.first_of_list(",", at + 1, close)) {
      names += c10::str(names.empty() ? "" : ", ", word(word(at + 1) == "let" ? at + 2 : at + 1));
    }
    return names.empty() ? "" : "<" + names + ">";
  }

  // Of what may stand behind a struct that no semicolon ends: `struct S {} s;` declares a variable.
  bool begins_declaration(size_t at) const { return word(at + 1) != ";" && word(at + 1) != "=" && word(at + 1) != "["; }

  // None: there is a constructor, or something that is not understood.
  std::optional<Fields> fields_between(size_t open, size_t close) const {
    if (code_.has_directive({open, close + 1})) return {};
    Fields fields;
    for (size_t at = open + 1; at < close;) {
      while (word(at) == "[") at = code_.closing(at) + 1;
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
    at = code_.first_of(";{", at, close);
    return at < close ? std::optional(word(at) == ";" ? at + 1 : code_.closing(at) + 1) : std::nullopt;
  }

  std::optional<size_t> behind_member(size_t begin, size_t close, Fields& fields) const {
    if (word(begin) == "__init" || word(begin) == "private") return {};
    size_t at = begin;
    for (; at < close && word(at) != ";" && word(at) != "="; ++at) {
      if (word(at) == "__init" || word(at) == ":") return {};
      if (word(at) == "[") at = code_.closing(at);
      if (word(at) == "(") return behind_method(at, close);
      if (word(at) == "{") return code_.closing(at) + 1;
    }
    return behind_fields(begin, close, fields);
  }

  // A declaration alone may be a macro that stands for fields.
  std::optional<size_t> behind_method(size_t parameters, size_t close) const {
    const size_t at = code_.first_of(";{", code_.closing(parameters) + 1, close);
    return at < close && word(at) == "{" ? std::optional(code_.closing(at) + 1) : std::nullopt;
  }

  // `double a = 1, b[2];`
  std::optional<size_t> behind_fields(size_t begin, size_t close, Fields& fields) const {
    std::string_view type;
    for (size_t at = begin; at < close;) {
      const size_t end = code_.first_of_list(",=;", at, close);
      size_t name = end - 1;
      while (name > at && word(name) == "]") name = code_.opening(name) - 1;
      if (end >= close || name < at || !code_.is_name(name)) return {};
      if (at == begin) type = text(begin, name);
      if (type.empty() || (at != begin && name != at)) return {};
      const size_t behind = word(end) == "=" ? code_.first_of(",;", end, close) : end;
      const std::string_view value = text(end + 1, behind);
      if (value.find('\n') != std::string_view::npos) return {};
      fields.push_back({type, word(name), text(name + 1, end), value});
      if (word(behind) == ";") return behind + 1;
      at = behind + 1;
    }
    return {};
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

  SourceCode& code_;
  size_t outermost_ = 0;  // the closing brace of the struct that was looked at last
};

}  // namespace

void write_constructors(SourceCode& code) { Structs(code).complete(); }

}  // namespace torch_slang
