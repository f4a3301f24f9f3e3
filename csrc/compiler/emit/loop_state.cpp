#include "compiler/emit/loop_state.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/text/refused_text.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

class LoopState {
 public:
  LoopState(const std::string& body, const std::vector<std::string>& files)
      : tokens_(split_tokens(body)), files_(files) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (is_code(tokens_[i])) code_.push_back(i);
    }
  }

  int count() const { return count_; }
  std::string all() {
    find_loops();
    find_fields();
    add(0, code_.size());
    return std::move(text_);
  }

 private:
  struct Loop {
    std::string_view counter;
    std::string place;  // as TSL_AT has it
    std::string array;  // that is as long as the loop may be; empty: it keeps nothing
  };

  // Tokens of code, by their number among these.
  std::string_view at(size_t i) const { return i < code_.size() ? tokens_[code_[i]].text : std::string_view(); }
  bool is(size_t i, std::initializer_list<std::string_view> words) const {
    return std::all_of(words.begin(), words.end(), [&](std::string_view word) { return at(i++) == word; });
  }

  // Loops with their counters, of which those that follow each other may share one, and the variables that are contexts.
  void find_loops() {
    for (size_t i = 0; i < code_.size(); ++i) {
      if (at(i).starts_with("s_minCtx_")) contexts_.insert(at(i + 1));
      if (!at(i).starts_with("_pc_") || !is(i + 1, {"=", "int", "(", "0", ")", ";"})) continue;
      size_t begin = i + 7;
      while (begin < code_.size() && !is(begin, {"for", "(", ";", ";", ")"})) ++begin;
      Loop& loop = loops_[begin];
      loop.counter = at(i);
      loop.place = is(begin - 7, {"TSL_AT", "("}) ? c10::str(at(begin - 5), ", ", at(begin - 3)) : place_before(begin);
    }
  }

  // What #line says of a statement that has no TSL_AT, since it stands in a line with what comes before it; line 0: nothing.
  std::string place_before(size_t i) const {
    if (i == 0 || i >= code_.size()) return "0, 0";
    std::string_view line;
    for (size_t k = code_[i]; k-- > 0 && !(line.empty() && k == code_[i - 1]);) {
      std::string_view directive = tokens_[k].text;
      if (tokens_[k].kind != TokenKind::Directive || !directive.starts_with("#line ")) continue;
      directive.remove_prefix(6);
      if (line.empty()) line = directive.substr(0, directive.find(' '));
      const size_t quote = directive.find('"');
      if (quote == std::string_view::npos) continue;
      const auto file =
          std::find(files_.begin(), files_.end(), directive.substr(quote + 1, directive.rfind('"') - quote - 1));
      if (file == files_.end()) break;
      return c10::str(file - files_.begin(), ", ", line);
    }
    return "0, 0";
  }

  // The last before there.
  Loop* loop_of(std::string_view counter, size_t there) {
    for (auto loop = loops_.lower_bound(there); loop != loops_.begin();) {
      if ((--loop)->second.counter == counter) return &loop->second;
    }
    return nullptr;
  }

  // `(&context)->field[counter][counter]`, the counters of loops inside each other, the innermost first.
  void find_fields() {
    for (size_t i = 0; i < code_.size(); ++i) {
      if (!is(i, {"(", "&"}) || !is(i + 3, {")", "-", ">"}) || contexts_.count(at(i + 2)) == 0) continue;
      const std::string_view field = at(i + 6);
      std::vector<Loop*> loops;
      for (size_t open = i + 7; at(open) == "[" && at(open + 2) == "]"; open += 3) {
        Loop* loop = loop_of(at(open + 1), i);
        if (loop == nullptr) break;
        loops.push_back(loop);
      }
      size_t& depth = depths_[field];
      depth = std::max(depth, loops.size());
      std::string array = c10::str("(&", at(i + 2), ")->", field);
      for (; !loops.empty(); loops.pop_back(), array += "[0]") {
        if (loops.back()->array.empty()) loops.back()->array = array;
      }
    }
  }

  // The number of the bracket that closes the one at `open`.
  std::optional<size_t> closing(size_t open) const {
    if (at(open) != "[") return std::nullopt;
    int depth = 0;
    for (size_t i = open; i < code_.size(); ++i) {
      if (at(i) == "[") ++depth;
      if (at(i) == "]" && --depth == 0) return i;
    }
    return std::nullopt;
  }

  // With the text between it and the token before.
  void add_token(size_t i) {
    for (size_t k = i == 0 ? 0 : code_[i - 1] + 1; k <= code_[i]; ++k) text_ += tokens_[k].text;
  }

  void add(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      add_token(i);
      if (const auto loop = loops_.find(i); loop != loops_.end() && !loop->second.array.empty()) {
        text_ +=
            c10::str("(;TSL_ITERATE(", loop->second.place, ", ", loop->second.counter, ", ", loop->second.array, ");)");
        i += 4;
        ++count_;
      } else if (const auto field = depths_.find(at(i)); field != depths_.end() && field->second > 1) {
        i = add_indices(i, field->second);
      }
    }
    if (end == code_.size()) {
      for (size_t k = code_.empty() ? 0 : code_.back() + 1; k < tokens_.size(); ++k) text_ += tokens_[k].text;
    }
  }

  // The indices behind a field, turned around. Returns the last token that it has dealt with.
  size_t add_indices(size_t field, size_t depth) {
    const bool is_declared = !is(field - 2, {"-", ">"}) && at(field - 1) != ".";
    if (is_declared || (at(field + 1) == "=" && at(field + 2) != "=")) return field;  // or cleared whole
    std::vector<std::pair<size_t, size_t>> indices;
    size_t last = field;
    for (; indices.size() < depth; last = indices.back().second) {
      const auto close = closing(last + 1);
      if (!close)
        throw RefusedText{"Slang keeps the values of nested loops in a form that torch_slang does not recognise (" +
                          std::string(at(field)) + "); put the inner loop into a [Differentiable] function of its own"};
      indices.emplace_back(last + 1, *close);
    }
    ++count_;
    for (; !indices.empty(); indices.pop_back()) add(indices.back().first, indices.back().second + 1);
    return last;
  }

  const std::vector<Token> tokens_;
  const std::vector<std::string>& files_;
  std::vector<size_t> code_;  // which of them are code
  std::map<size_t, Loop> loops_;  // by where their `for` stands
  std::set<std::string_view> contexts_;
  std::map<std::string_view, size_t> depths_;  // of fields of contexts: how many loops number their values
  std::string text_;
  int count_ = 0;  // of loops that end where the room does, and of accesses whose indices are turned around
};

}  // namespace

int bound_loops(std::string& body, const std::vector<std::string>& files) {
  LoopState state(body, files);
  body = state.all();
  return state.count();
}

}  // namespace torch_slang
