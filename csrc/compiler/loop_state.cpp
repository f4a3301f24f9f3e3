#include "compiler/loop_state.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/tokens.h"

namespace torch_slang {
namespace {

class LoopState {
 public:
  explicit LoopState(const std::string& body) : tokens_(split_tokens(body)) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (is_code(tokens_[i])) code_.push_back(i);
    }
  }

  std::string all() {
    find_loops();
    find_fields();
    add(0, code_.size());
    return std::move(text_);
  }

 private:
  struct Loop {
    std::string_view counter;
    std::string place = "0, 0";  // as TSL_AT has it
    std::string array;  // that is as long as the loop may be; empty: it keeps nothing
  };

  // Tokens of code, by their number among these.
  std::string_view at(size_t i) const { return i < code_.size() ? tokens_[code_[i]].text : std::string_view(); }
  bool is(size_t i, std::initializer_list<std::string_view> words) const {
    return std::all_of(words.begin(), words.end(), [&](std::string_view word) { return at(i++) == word; });
  }

  // Loops with their counters, and the variables that are contexts.
  void find_loops() {
    for (size_t i = 0; i < code_.size(); ++i) {
      if (at(i).starts_with("s_minCtx_")) contexts_.insert(at(i + 1));
      if (at(i) != "int" || !at(i + 1).starts_with("_pc_") || !is(i + 2, {"=", "int", "(", "0", ")", ";"})) continue;
      size_t begin = i + 8;
      while (begin < code_.size() && !is(begin, {"for", "(", ";", ";", ")"})) ++begin;
      Loop& loop = loops_[begin];
      loop.counter = at(i + 1);
      if (is(begin - 7, {"TSL_AT", "("})) loop.place = c10::str(at(begin - 5), ", ", at(begin - 3));
    }
  }

  Loop* loop_of(std::string_view counter) {
    const auto found =
        std::find_if(loops_.begin(), loops_.end(), [&](const auto& one) { return one.second.counter == counter; });
    return found == loops_.end() ? nullptr : &found->second;
  }

  // `(&context)->field[counter][counter]`, the counters of loops inside each other, the innermost first.
  void find_fields() {
    for (size_t i = 0; i < code_.size(); ++i) {
      if (!is(i, {"(", "&"}) || !is(i + 3, {")", "-", ">"}) || contexts_.count(at(i + 2)) == 0) continue;
      const std::string_view field = at(i + 6);
      std::vector<Loop*> loops;
      for (size_t open = i + 7; at(open) == "[" && at(open + 2) == "]"; open += 3) {
        Loop* loop = loop_of(at(open + 1));
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

  // With what stands between it and the token before.
  void add_token(size_t i) {
    for (size_t k = i == 0 ? 0 : code_[i - 1] + 1; k <= code_[i]; ++k) text_ += tokens_[k].text;
  }

  void add(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      add_token(i);
      if (const auto loop = loops_.find(i); loop != loops_.end() && !loop->second.array.empty()) {
        text_ += c10::str("(;TSL_ITERATE(", loop->second.place, ", ", loop->second.counter, ", ", loop->second.array,
                          ");)");
        i += 4;
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
      if (!close) throw UnknownLoopState{std::string(at(field))};
      indices.emplace_back(last + 1, *close);
    }
    for (; !indices.empty(); indices.pop_back()) add(indices.back().first, indices.back().second + 1);
    return last;
  }

  const std::vector<Token> tokens_;
  std::vector<size_t> code_;  // which of them are code
  std::map<size_t, Loop> loops_;  // by where their `for` stands
  std::set<std::string_view> contexts_;
  std::map<std::string_view, size_t> depths_;  // of fields of contexts: how many loops number what they keep
  std::string text_;
};

}  // namespace

std::string with_bounded_loops(const std::string& body) { return LoopState(body).all(); }

}  // namespace torch_slang
