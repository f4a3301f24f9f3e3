#include "compiler/emit/statement_lines.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "compiler/slang/library.h"
#include "compiler/source/source_files.h"

namespace torch_slang {
namespace {

struct Place {
  std::string_view file;
  int64_t line = 0;
};

// Takes over what a token says, if it is a #line directive.
bool read_directive(const Token& token, Place& place) {
  const auto said = read_line_directive(token);
  if (!said) return false;
  place.line = static_cast<int64_t>(said->line);
  if (!said->file.empty()) place.file = said->file;
  return true;
}

// Where the tokens of a text come from.
struct Lines {
  explicit Lines(const Code& code) : places(code.size()), news(code.size()) {
    Place here, said;
    for (size_t at = 0; at < code.size(); ++at) {
      for (const Token& token : code.before(at)) {
        if (read_directive(token, here)) {
          news[at] = news[at] || here.file != said.file || here.line != said.line;
          said = here;
          --here.line;  // the directive's own line ends next
        }
        here.line += std::count(token.text.begin(), token.text.end(), '\n');
      }
      places[at] = here;
    }
  }

  std::vector<Place> places;
  std::vector<bool> news;  // a #line before the token says something new
};

// Note [lines of derivatives]
//   Slang leaves the calls of derivatives without a #line of their own: they seem to stand in the line of whatever came
//   before. But there is a #line where the rest of the user's call went.
//     forward again:  `Tuple _S5 = s_apply_f(...);`, and in the user's line `(&context)->value = _S5.value0;`
//     backward:       in the user's line `(&_S3)->_S1 = x;`, perhaps `Context _S4 = _S3;`, then `s_bwdProp_f(&_S4, ...);`
class Contexts {
 public:
  Contexts(const Code& code, const std::vector<Place>& places) : code_(code), places_(places) {}

  Place place_of_statement(Span statement) {
    const size_t at = statement.begin;
    if (code_[at].starts_with("s_bwdProp_") && code_[at + 1] == "(" && code_[at + 2] == "&") {
      const auto left = contexts_.find(code_[at + 3]);
      if (left != contexts_.end()) return left->second;
    }
    if (code_[at + 2] == "=" && code_[at + 3].starts_with("s_apply_")) {
      const size_t next = statement.end;
      const bool is_kept = is_of_context(next) && code_[next + 7] == "=" && code_[next + 8] == code_[at + 1];
      if (is_kept) return places_[next];
    }
    note(at);
    return places_[at];
  }

 private:
  // `(&context)`
  bool is_of_context(size_t at) const { return code_[at] == "(" && code_[at + 1] == "&" && code_[at + 3] == ")"; }

  void note(size_t at) {
    if (is_of_context(at)) {
      contexts_[code_[at + 2]] = places_[at];
      return;
    }
    const size_t equals = code_[at + 1] == "=" ? at + 1 : at + 2;
    if (code_[equals] != "=" || code_[equals + 2] != ";") return;
    const auto copied = contexts_.find(code_[equals + 1]);
    if (copied != contexts_.end()) contexts_[code_[equals - 1]] = copied->second;
  }

  const Code& code_;
  const std::vector<Place>& places_;
  std::map<std::string_view, Place> contexts_;  // by the variable's name, which is unique in the whole text
};

class StatementLines {
 public:
  StatementLines(EmittedCode& code, std::vector<std::string>& files)
      : code_(code), lines_(code), contexts_(code, lines_.places), files_(files) {}

  int add() {
    for (const EmittedFunction& function : code_.functions()) {
      if (function.name.starts_with("tsl_var_") || is_in_struct(function.body.span)) continue;
      size_t begin = function.body.span.begin;  // of the declaration
      while (begin > 0 && code_[begin - 1] != ";" && code_[begin - 1] != "}") --begin;
      located_from_ = begin;
      while (located_from_ < code_.size() && !lines_.news[located_from_]) ++located_from_;
      add_to(function.body);
    }
    return count_;
  }

 private:
  bool is_in_struct(Span body) const {
    return std::ranges::any_of(code_.structs(),
                               [&](const EmittedStruct& one) { return one.begin < body.begin && body.end <= one.end; });
  }

  void add_to(const EmittedStatement& statement) {
    bool may_stand = statement.kind == EmittedStatement::Kind::Block;
    for (const EmittedStatement& part : statement.parts) {
      const std::string_view word = code_[part.span.begin];
      const bool is_label = word == "case" || word == "default";
      if (may_stand && !is_label && word != "while" && !has_pragma(part.span.begin)) add_before(part.span);
      may_stand = statement.kind == EmittedStatement::Kind::Block && !is_label;
      add_to(part);
    }
  }

  // It speaks of the loop that follows, so nothing may come between them.
  bool has_pragma(size_t at) const {
    return std::ranges::any_of(code_.before(at), [](const Token& token) {
      return token.kind == TokenKind::Directive && token.text.starts_with("#pragma");
    });
  }

  void add_before(Span statement) {
    if (statement.begin < located_from_) return;
    const Place place = contexts_.place_of_statement(statement);
    if (!is_users_file(place.file)) return;
    code_.insert(statement.begin, c10::str("TSL_AT(", index_of(place.file), ", ", place.line, "); "));
    ++count_;
  }

  int64_t index_of(std::string_view file) {
    const auto found = std::find(files_.begin(), files_.end(), file);
    const int64_t index = found - files_.begin();
    if (found == files_.end()) files_.emplace_back(file);
    return index;
  }

  EmittedCode& code_;
  const Lines lines_;
  Contexts contexts_;
  std::vector<std::string>& files_;
  size_t located_from_ = 0;  // the first token of the declaration behind a #line that says something new
  int count_ = 0;  // of those that were put in
};

}  // namespace

bool is_users_file(std::string_view file) {
  return !file.empty() && file != "core" && file != "token paste" && file != "torch_slang wrapper" &&
         !file.ends_with(".meta.slang") && !file.starts_with(kLibraryFolder) && submodule_text(file) == nullptr;
}

int add_statement_lines(EmittedCode& code, std::vector<std::string>& files) {
  return StatementLines(code, files).add();
}

}  // namespace torch_slang
