#include "compiler/emit/statement_lines.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>

#include "compiler/slang/library.h"
#include "compiler/source/source_files.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

using Words = std::vector<std::string_view>;

struct Place {
  std::string_view file;
  int64_t line = 0;
};

bool is_users(std::string_view file) {
  return !file.empty() && file != "core" && file != "token paste" && file != "torch_slang wrapper" &&
         !file.ends_with(".meta.slang") && !file.starts_with(kLibraryFolder) && submodule_text(file) == nullptr;
}

// `#line 3 "file"`, or `#line 3` of the same file. False for other directives.
bool read_directive(std::string_view text, Place& place) {
  constexpr std::string_view kLine = "#line ";
  if (!text.starts_with(kLine)) return false;
  place.line = std::atoll(std::string(text.substr(kLine.size())).c_str());
  const size_t quote = text.find('"');
  if (quote != std::string_view::npos) place.file = text.substr(quote + 1, text.rfind('"') - quote - 1);
  return true;
}

// Emitted text as tokens of code, each with the place that it comes from.
struct Code {
  explicit Code(std::string_view body) : tokens(split_tokens(body)), places(tokens.size()), news(tokens.size()) {
    Place here, said;
    for (size_t i = 0; i < tokens.size(); ++i) {
      places[i] = here;
      if (tokens[i].kind == TokenKind::Directive && read_directive(tokens[i].text, here)) {
        news[i] = here.file != said.file || here.line != said.line;
        said = here;
        --here.line;  // the directive's own line ends next
      }
      here.line += std::count(tokens[i].text.begin(), tokens[i].text.end(), '\n');
    }
  }

  // The next `count` tokens of code from `at` on; empty ones where there are fewer.
  Words words(size_t at, size_t count) const {
    Words found;
    for (; at < tokens.size() && found.size() < count; ++at) {
      if (is_code(tokens[at])) found.push_back(tokens[at].text);
    }
    found.resize(count);
    return found;
  }

  // The first token of code after the next `;`.
  size_t after_statement(size_t at) const {
    while (at < tokens.size() && !(is_code(tokens[at]) && tokens[at].text == ";")) ++at;
    for (++at; at < tokens.size() && !is_code(tokens[at]);) ++at;
    return at;
  }

  std::vector<Token> tokens;
  std::vector<Place> places;
  std::vector<bool> news;  // the token is a #line that says something new
};

// Note [lines of derivatives]
//   Slang leaves the calls of derivatives without a #line of their own: they seem to stand in the line of whatever came
//   before. But there is a #line where the rest of the user's call went.
//     forward again:  `Tuple _S5 = s_apply_f(...);`, and in the user's line `(&context)->value = _S5.value0;`
//     backward:       in the user's line `(&_S3)->_S1 = x;`, perhaps `Context _S4 = _S3;`, then `s_bwdProp_f(&_S4, ...);`
class Contexts {
 public:
  explicit Contexts(const Code& code) : code_(code) {}

  Place place_of_statement(size_t at) {
    const Words words = code_.words(at, 5);
    if (words[0].starts_with("s_bwdProp_") && words[1] == "(" && words[2] == "&") {
      const auto left = places_.find(words[3]);
      if (left != places_.end()) return left->second;
    }
    if (words[2] == "=" && words[3].starts_with("s_apply_")) {
      const size_t next = code_.after_statement(at);
      const Words kept = code_.words(next, 9);
      if (kept[0] == "(" && kept[1] == "&" && kept[3] == ")" && kept[7] == "=" && kept[8] == words[1])
        return code_.places[next];
    }
    note(words, code_.places[at]);
    return code_.places[at];
  }

 private:
  void note(const Words& words, const Place& here) {
    if (words[0] == "(" && words[1] == "&" && words[3] == ")") {
      places_[words[2]] = here;
      return;
    }
    const size_t equals = words[1] == "=" ? 1 : 2;
    if (words[equals] != "=" || words[equals + 2] != ";") return;
    const auto copied = places_.find(words[equals + 1]);
    if (copied != places_.end()) places_[words[equals - 1]] = copied->second;
  }

  const Code& code_;
  std::map<std::string_view, Place> places_;  // by the variable's name, which is unique in the whole text
};

class StatementLines {
 public:
  StatementLines(const std::string& body, std::vector<std::string>& files)
      : code_(body), contexts_(code_), files_(files) {}

  int count() const { return count_; }
  std::string all() {
    for (size_t at = 0; at < code_.tokens.size(); ++at) {
      located_ = located_ || code_.news[at];
      if (is_code(code_.tokens[at])) take(at);
      if (code_.tokens[at].kind == TokenKind::Directive && code_.tokens[at].text.starts_with("#pragma")) {
        at_statement_ = false;  // it speaks of the loop that follows, so nothing may come between them
      }
      text_ += code_.tokens[at].text;
    }
    return std::move(text_);
  }

 private:
  enum class Brace { Statements, Values, Members };

  void take(size_t at) {
    const std::string_view text = code_.tokens[at].text;
    in_variable_ = in_variable_ || (braces_.empty() && text.starts_with("tsl_var_"));
    if (at_statement_) begin_statement(at);
    at_statement_ = false;
    if (text == "(" || text == "[") {
      ++parentheses_;
    } else if (text == ")" || text == "]") {
      --parentheses_;
    } else if (text == "{") {
      braces_.push_back(kind_of_brace());
      at_statement_ = in_statements();
    } else if (text == "}") {
      close();
    } else if (text == ";") {
      located_ = located_ && !braces_.empty();
      at_statement_ = in_statements();
    }
    before_ = text;
  }

  bool in_statements() const { return parentheses_ == 0 && !braces_.empty() && braces_.back() == Brace::Statements; }

  Brace kind_of_brace() const {
    if (braces_.empty()) return before_ == ")" ? Brace::Statements : Brace::Members;
    if (!in_statements()) return Brace::Values;
    for (const char* word : {")", "else", "do", "{", "}", ";", ":"}) {
      if (before_ == word) return Brace::Statements;
    }
    return Brace::Values;
  }

  void close() {
    if (braces_.empty()) return;
    const bool statements = braces_.back() == Brace::Statements;
    braces_.pop_back();
    located_ = located_ && !braces_.empty();
    in_variable_ = in_variable_ && !braces_.empty();
    at_statement_ = statements && in_statements();
  }

  void begin_statement(size_t at) {
    for (const char* word : {"else", "case", "default", "while", "}"}) {
      if (code_.tokens[at].text == word) return;
    }
    if (!located_ || in_variable_) return;
    const Place place = contexts_.place_of_statement(at);
    if (!is_users(place.file)) return;
    text_ += c10::str("TSL_AT(", index_of(place.file), ", ", place.line, "); ");
    ++count_;
  }

  int64_t index_of(std::string_view file) {
    const auto found = std::find(files_.begin(), files_.end(), file);
    const int64_t index = found - files_.begin();
    if (found == files_.end()) files_.emplace_back(file);
    return index;
  }

  const Code code_;
  Contexts contexts_;
  std::vector<std::string>& files_;
  std::string text_;
  int count_ = 0;  // of marks
  bool located_ = false;  // a #line has said something new since the last declaration
  bool at_statement_ = false;
  bool in_variable_ = false;  // a function that stands for a variable: Note [members] in members.h
  std::vector<Brace> braces_;
  int parentheses_ = 0;
  std::string_view before_;  // the last token of code
};

}  // namespace

bool names_users_file(std::string_view directive) {
  Place place;
  return read_directive(directive, place) && is_users(place.file);
}

int add_statement_lines(std::string& body, std::vector<std::string>& files) {
  StatementLines lines(body, files);
  body = lines.all();
  return lines.count();
}

}  // namespace torch_slang
