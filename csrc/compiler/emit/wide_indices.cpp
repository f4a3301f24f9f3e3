#include "compiler/emit/wide_indices.h"

#include <map>
#include <string_view>
#include <vector>

#include "compiler/ctext/emitted_code.h"
#include "compiler/text/words.h"

namespace torch_slang {
namespace {

class WideIndices {
 public:
  explicit WideIndices(EmittedCode& code) : code_(code) {}

  void edit() {
    find_results();
    for (size_t open = 1; open < code_.size(); ++open) {
      if (code_[open] == "(") take_call(open);
    }
    for (const auto& [name, result] : results_) {
      if (result.indices > 0 && result.indices == result.mentions) check_conversion(result.conversion);
    }
  }

 private:
  // `uint _S3 = uint(...);` of the compiler's own: what becomes of it is seen where it is mentioned.
  struct Result {
    size_t conversion;  // the second `uint`
    int mentions = 0, indices = 0;
  };

  void find_results() {
    for (size_t at = 0; at + 5 < code_.size(); ++at) {
      const bool is_one = code_[at] == "uint" && code_[at + 1].starts_with("_S") && code_[at + 2] == "=" &&
                          is_conversion({at + 3, code_.size()}) &&
                          code_[code_.closing(at + 4, code_.size()) + 1] == ";";
      if (is_one) results_.emplace(code_[at + 1], Result{at + 3});
    }
    if (results_.empty()) return;
    for (size_t at = 1; at < code_.size(); ++at) {
      const auto found = results_.find(code_[at]);
      if (found != results_.end() && found->second.conversion != at + 2) ++found->second.mentions;
    }
  }

  bool is_conversion(Span span) const {
    return span.size() > 2 && code_[span.begin] == "uint" && code_[span.begin + 1] == "(";
  }

  // The name in front of the bracket at `open`, and of a type's arguments that stand between.
  size_t callee(size_t open) const {
    size_t at = open - 1;
    if (code_[at] != ">") return at;
    for (int depth = 0; at > 0; --at) {
      depth += code_[at] == ">" ? 1 : code_[at] == "<" ? -1 : 0;
      if (depth == 0) break;
    }
    return at > 0 ? at - 1 : 0;
  }

  void take_call(size_t open) {
    const size_t at = callee(open);
    const std::string_view name = code_[at];
    const bool is_method = code_.is_member(at) && (name == "load" || name == "store" || name == "data_ptr_at");
    if (!is_method && !has_part(name, {"DiffTensorView_"})) return;
    std::vector<Span> arguments = arguments_of(open);
    if (name == "store" && !arguments.empty()) arguments.pop_back();  // the value
    for (const Span argument : arguments) take_index(argument);
  }

  std::vector<Span> arguments_of(size_t open) const {
    std::vector<Span> found;
    const size_t end = code_.closing(open, code_.size());
    size_t begin = open + 1;
    for (size_t at = begin; at < end; ++at) {
      if (code_[at] == "(" || code_[at] == "[" || code_[at] == "{") at = code_.closing(at, end);
      if (at < end && code_[at] == ",") {
        found.push_back({begin, at});
        begin = at + 1;
      }
    }
    if (begin < end) found.push_back({begin, end});
    return found;
  }

  void take_index(Span span) {
    while (span.size() > 2 && code_[span.begin] == "(" && code_.closing(span.begin, span.end) + 1 == span.end) {
      ++span.begin;
      --span.end;
    }
    if (is_conversion(span) && code_.closing(span.begin + 1, span.end) + 1 == span.end)
      return check_conversion(span.begin);
    const auto found = span.size() == 1 ? results_.find(code_[span.begin]) : results_.end();
    if (found != results_.end()) ++found->second.indices;
  }

  void check_conversion(size_t at) { code_.replace({at, at + 1}, "TSL_VIEW_INDEX"); }

  EmittedCode& code_;
  std::map<std::string_view, Result> results_;
};

}  // namespace

void check_wide_indices(EmittedCode& code) { WideIndices(code).edit(); }

}  // namespace torch_slang
