#include "compiler/source/constructors.h"

#include <c10/util/StringUtil.h>

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/source/source_words.h"

namespace torch_slang {
namespace {

struct Field {
  std::string_view type, name, suffix, value;  // `double` `c` `[3]` `{1, 2, 3}`
};
using Fields = std::vector<Field>;

class Structs {
 public:
  explicit Structs(const std::string& source) : source_(source), words_(source) {}

  std::string completed() {
    for (size_t at = 0; at < words_.size(); ++at) {
      if (word(at) == "struct" && words_.is_name(at + 1)) look_at(at);
    }
    std::string result;
    size_t copied = 0;
    for (const auto& [place, text] : insertions_) {
      result += source_.substr(copied, place - copied) + text;
      copied = place;
    }
    return result + source_.substr(copied);
  }

 private:
  std::string_view word(size_t at) const { return words_[at]; }
  size_t place(size_t at) const { return static_cast<size_t>(word(at).data() - source_.data()); }
  // The source from a word to before another.
  std::string_view text(size_t begin, size_t end) const {
    if (begin >= end) return {};
    return std::string_view(source_).substr(place(begin), place(end - 1) + word(end - 1).size() - place(begin));
  }

  void look_at(size_t at) {
    bool differentiable = false;
    size_t open = at + 2;
    for (int angles = 0; open < words_.size() && word(open) != "{" && word(open) != ";"; ++open) {
      if (word(open) == "<") ++angles;
      if (word(open) == ">") --angles;
      differentiable = differentiable || (angles == 0 && word(open) == "IDifferentiable");
    }
    const size_t close = words_.closing(open);
    if (!differentiable || word(open) != "{" || close >= words_.size()) return;
    const auto fields = fields_between(open, close);
    if (fields && !fields->empty()) insertions_[place(close)] = constructor(*fields, word(at - 1) == "public");
  }

  // None: there is a constructor, or something that is not understood.
  std::optional<Fields> fields_between(size_t open, size_t close) const {
    if (std::string_view(source_).substr(place(open), place(close) - place(open)).find('#') != std::string::npos) return {};
    Fields fields;
    for (size_t at = open + 1; at < close;) {
      while (word(at) == "[") at = words_.closing(at) + 1;
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
    return at < close ? std::optional(word(at) == ";" ? at + 1 : words_.closing(at) + 1) : std::nullopt;
  }

  std::optional<size_t> behind_member(size_t begin, size_t close, Fields& fields) const {
    if (word(begin) == "__init" || word(begin) == "private") return {};
    size_t at = begin;
    for (; at < close && word(at) != ";" && word(at) != "="; ++at) {
      if (word(at) == "__init" || word(at) == ":") return {};
      if (word(at) == "[") at = words_.closing(at);
      if (word(at) == "(") return behind_method(at, close);
      if (word(at) == "{") return words_.closing(at) + 1;
    }
    return behind_fields(begin, close, fields);
  }

  // A declaration alone may be a macro that stands for fields.
  std::optional<size_t> behind_method(size_t parameters, size_t close) const {
    size_t at = words_.closing(parameters) + 1;
    while (at < close && word(at) != ";" && word(at) != "{") ++at;
    return at < close && word(at) == "{" ? std::optional(words_.closing(at) + 1) : std::nullopt;
  }

  // `double a = 1, b[2];`
  std::optional<size_t> behind_fields(size_t begin, size_t close, Fields& fields) const {
    std::string_view type;
    for (size_t at = begin; at < close;) {
      size_t end = at;
      for (int angles = 0; end < close && (angles > 0 || (word(end) != "," && word(end) != "=" && word(end) != ";")); ++end) {
        if (word(end) == "<") ++angles;
        if (word(end) == ">") --angles;
      }
      size_t name = end - 1;
      while (name > at && word(name) == "]") name = words_.opening(name) - 1;
      if (end >= close || name < at || !words_.is_name(name)) return {};
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
      at = opens ? words_.closing(at) + 1 : at + 1;
    }
    return at;
  }

  static std::string constructor(const Fields& fields, bool is_public) {
    std::string parameters, body;
    for (const Field& field : fields) {
      parameters += c10::str(parameters.empty() ? "" : ", ", field.type, " ", field.name, field.suffix, " = ",
                             field.value.empty() ? "{}" : field.value);
      body += c10::str(" this.", field.name, " = ", field.name, ";");
    }
    return c10::str(is_public ? "public " : "", "[Differentiable] __init(", parameters, ") {", body, " } ");
  }

  const std::string& source_;
  const SourceWords words_;
  std::map<size_t, std::string> insertions_;
};

}  // namespace

std::string with_constructors(const std::string& source) { return Structs(source).completed(); }

}  // namespace torch_slang
