#include "compiler/emit/loop_state.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/text/refused_text.h"

namespace torch_slang {
namespace {

class LoopState {
 public:
  LoopState(Code& code, const std::vector<std::string>& files) : code_(code), files_(files) {}

  int amend() {
    find_loops();
    find_fields();
    int count = 0;  // of loops that end where the room does, and of accesses whose indices are reversed
    for (const auto& [begin, loop] : loops_) {
      if (loop.array.empty()) continue;
      code_.replace({begin + 1, begin + 5},
                    c10::str("(;TSL_ITERATE(", loop.place, ", ", loop.counter, ", ", loop.array, ");)"));
      ++count;
    }
    for (size_t at = 0; at < code_.size();) {
      const Span indices = indices_to_reverse(at);
      if (indices.size() > 0) code_.replace(indices, reversed(indices, count));
      at = std::max(at + 1, indices.end);
    }
    if (count == 0 && keeps_iterations()) throw unknown_text("it keeps values of a loop's iterations elsewhere");
    return count;
  }

 private:
  struct Loop {
    std::string_view counter;
    std::string place;  // as TSL_AT has it
    std::string array;  // that is as long as the loop may be; empty: it keeps nothing
  };

  bool is(size_t i, std::initializer_list<std::string_view> words) const {
    return std::all_of(words.begin(), words.end(), [&](std::string_view word) { return code_[i++] == word; });
  }

  bool keeps_iterations() const {
    for (size_t at = 0; at < code_.size(); ++at) {
      if (code_[at] == "[" && code_[at + 1].starts_with("_pc_") && code_[at + 2] == "]") return true;
    }
    return false;
  }

  // Loops with their counters, of which those that follow each other may share one, and the variables that are contexts.
  void find_loops() {
    for (size_t i = 0; i < code_.size(); ++i) {
      if (code_[i].starts_with("s_minCtx_")) contexts_.insert(code_[i + 1]);
      if (!code_[i].starts_with("_pc_") || !is(i + 1, {"=", "int", "(", "0", ")", ";"})) continue;
      size_t begin = i + 7;
      while (begin < code_.size() && !is(begin, {"for", "(", ";", ";", ")"})) ++begin;
      if (begin == code_.size()) continue;
      Loop& loop = loops_[begin];
      loop.counter = code_[i];
      loop.place =
          is(begin - 7, {"TSL_AT", "("}) ? c10::str(code_[begin - 5], ", ", code_[begin - 3]) : place_before(begin);
    }
  }

  // What #line says of a statement that has no TSL_AT, since it stands in a line with what comes before it; line 0: nothing.
  std::string place_before(size_t at) const {
    const auto says_line = [](const Token& token) { return read_line_directive(token).has_value(); };
    const bool is_said = at > 0 && at < code_.size() && std::ranges::any_of(code_.before(at), says_line);
    const std::string said = is_said ? code_.said_place(at) : "";
    const size_t colon = std::min(said.rfind(':'), said.size());
    const auto file = std::find(files_.begin(), files_.end(), said.substr(0, colon));
    return file == files_.end() ? "0, 0" : c10::str(file - files_.begin(), ", ", said.substr(colon + 1));
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
      if (!is(i, {"(", "&"}) || !is(i + 3, {")", "-", ">"}) || contexts_.count(code_[i + 2]) == 0) continue;
      const std::string_view field = code_[i + 6];
      std::vector<Loop*> loops;
      for (size_t open = i + 7; code_[open] == "[" && code_[open + 2] == "]"; open += 3) {
        Loop* loop = loop_of(code_[open + 1], i);
        if (loop == nullptr) break;
        loops.push_back(loop);
      }
      size_t& depth = depths_[field];
      depth = std::max(depth, loops.size());
      std::string array = c10::str("(&", code_[i + 2], ")->", field);
      for (; !loops.empty(); loops.pop_back(), array += "[0]") {
        if (loops.back()->array.empty()) loops.back()->array = array;
      }
    }
  }

  // The indices behind the field of a context at `at`, if there are more than one.
  Span indices_to_reverse(size_t at) const {
    const auto depth = depths_.find(code_[at]);
    if (depth == depths_.end() || depth->second < 2) return {};
    const bool is_declared = !code_.is_member(at);
    if (is_declared || (code_[at + 1] == "=" && code_[at + 2] != "=")) return {};  // or cleared whole
    Span indices{at + 1, at + 1};
    for (size_t count = 0; count < depth->second; ++count) {
      const size_t close = code_[indices.end] == "[" ? code_.closing(indices.end, code_.size()) : code_.size();
      if (close == code_.size())
        throw RefusedText{"Slang keeps the values of nested loops in a form that torch_slang does not recognise (" +
                          std::string(code_[at]) + "); put the inner loop into a [Differentiable] function of its own"};
      indices.end = close + 1;
    }
    return indices;
  }

  // The last of `[i][j]` first. In an index may be others that are reversed.
  std::string reversed(Span indices, int& count) const {
    ++count;
    std::string text;
    for (size_t open = indices.begin, close; open < indices.end; open = close) {
      close = code_.closing(open, indices.end) + 1;
      text = amended({open, close}, count) + text;
    }
    return text;
  }

  std::string amended(Span span, int& count) const {
    std::string text;
    for (size_t at = span.begin; at < span.end; ++at) {
      text += code_.spaced_text({at, at + 1});
      const Span indices = indices_to_reverse(at);
      if (indices.size() == 0) continue;
      text += reversed(indices, count);
      at = indices.end - 1;
    }
    return text;
  }

  Code& code_;
  const std::vector<std::string>& files_;
  std::map<size_t, Loop> loops_;  // by where their `for` stands
  std::set<std::string_view> contexts_;
  std::map<std::string_view, size_t> depths_;  // of fields of contexts: how many loops number their values
};

}  // namespace

int bound_loops(Code& code, const std::vector<std::string>& files) { return LoopState(code, files).amend(); }

}  // namespace torch_slang
