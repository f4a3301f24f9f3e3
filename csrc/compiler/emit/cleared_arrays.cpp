#include "compiler/emit/cleared_arrays.h"

#include <map>
#include <set>
#include <string_view>

namespace torch_slang {
namespace {

constexpr size_t kLong = 256;  // elements

class ClearedArrays {
 public:
  explicit ClearedArrays(Code& code) : code_(code) {}

  int run() {
    find_zeros();
    int count = 0;
    for (size_t at = 0; at < code_.size(); ++at) {
      const size_t open = list_of_array(at);
      const size_t close = open == 0 ? 0 : end_of_zero(open);
      if (close == 0 || elements(open, close) < kLong) continue;
      code_.replace({open, close + 1}, "{}");
      at = close;
      ++count;
    }
    return count;
  }

 private:
  // Slang's own names that are given zeros, and nothing else: `_S160 = { 0.0f, make_float3 (0.0f) };`
  void find_zeros() {
    std::map<std::string_view, int> changes;
    for (size_t at = 0; at < code_.size(); ++at) {
      if (!code_.is_name(at) || !code_[at].starts_with("_S")) continue;
      const bool is_value =
          code_[at + 1] == "," || code_[at + 1] == "}" || code_[at + 1] == ";" || code_[at + 1] == ")";
      if (!is_value || (at > 0 && code_[at - 1] == "&")) ++changes[code_[at]];
    }
    for (size_t at = 0; at < code_.size(); ++at) {
      if (!code_.is_name(at) || !code_[at].starts_with("_S") || code_[at + 1] != "=" || changes[code_[at]] != 1)
        continue;
      const size_t end = end_of_zero(at + 2);
      if (end != 0 && code_[end + 1] == ";") zeros_.insert(code_[at]);
    }
  }

  // The last word of an expression that is 0; 0: it is none.
  size_t end_of_zero(size_t at) const {
    const std::string_view first = code_[at];
    if (first == "{") {
      while (true) {
        const size_t end = end_of_zero(at + 1);
        if (end == 0 || code_[end + 1] == "}") return end == 0 ? 0 : end + 1;
        if (code_[end + 1] != ",") return 0;
        at = end + 1;
      }
    }
    if (zeros_.count(first) > 0) return at;
    if (code_.is_number(at)) return is_zero(first) ? at : 0;
    const bool converts = first == "int" || first == "uint" || first.starts_with("make_");
    if (!converts || code_[at + 1] != "(") return 0;
    const size_t end = end_of_zero(at + 2);
    return end != 0 && code_[end + 1] == ")" ? end + 1 : 0;
  }

  static bool is_zero(std::string_view number) {
    return number.find_first_not_of("0.fFuUlL") == std::string_view::npos;
  }

  // Of `TSL_AT(0, 80); FixedArray<T, 66> name = { ... };`; 0: it is no such statement.
  size_t list_of_array(size_t at) const {
    if (code_[at] != "FixedArray" || code_[at + 1] != "<" || at == 0 || code_[at - 1] != ";") return 0;
    const size_t name = code_.closing_angle(at + 1, code_.size()) + 1;
    return code_[name + 1] == "=" && code_[name + 2] == "{" ? name + 2 : 0;
  }

  size_t elements(size_t open, size_t close) const {
    size_t commas = 0;
    for (size_t at = open; at < close; ++at) commas += code_[at] == ",";
    return commas + 1;
  }

  Code& code_;
  std::set<std::string_view> zeros_;
};

}  // namespace

int clear_arrays(Code& code) { return ClearedArrays(code).run(); }

}  // namespace torch_slang
