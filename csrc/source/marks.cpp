#include "source/marks.h"

#include <c10/util/ArrayRef.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <optional>

#include "source/ptx_registers.h"

namespace torch_slang {
namespace {

constexpr std::string_view kPrefix = "tsl-mark:";
constexpr std::string_view kControl = "control";
constexpr std::string_view kElf = "\177ELF";  // a binary file begins with it, PTX does not
constexpr std::string_view kPlace = " at ";
constexpr const char* kViewWords[] = {"reads", "writes",  "uses",   "takes",   "promises",
                                      "adds",  "retypes", "shares", "dynamic", "rank"};

// Words behind which stand one or more numbers that are no view alone, and only a GPU's code has: Note [matrix kernels].
constexpr const char* kTileWords[] = {"block", "shared", "cluster", "tile", "kind", "map"};

bool is_one_of(std::string_view word, c10::ArrayRef<const char*> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "reads 3", "map 0 1 128 2", "shares 3 at 0:17" and "control" are well formed; the text of an asm template in debug information is not.
bool is_well_formed(std::string_view mark) {
  if (mark == kControl) return true;
  const size_t space = mark.find(' ');
  if (space == std::string_view::npos) return false;
  const std::string_view word = mark.substr(0, space);
  std::string_view number = mark.substr(space + 1);
  if (is_one_of(word, kTileWords)) return number.find_first_not_of("0123456789 ") == std::string_view::npos;
  if (!is_one_of(word, kViewWords)) return false;
  if (const size_t place = number.find(kPlace); word == "shares" && place != std::string_view::npos) {
    const std::string_view at = number.substr(place + kPlace.size());
    if (at.empty() || at.find_first_not_of("0123456789:") != std::string_view::npos) return false;
    number = number.substr(0, place);
  }
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
}

// Of a view whose number the code does not show.
void add_of_any_view(std::set<std::string>& marks, std::string_view word, std::string_view place, int view_count) {
  for (const std::string_view some : {kReadsSome, kWritesSome}) {
    if (!some.starts_with(word)) continue;
    marks.emplace(some);
    return;
  }
  for (int i = 0; i < view_count; ++i) marks.insert(c10::str(word, " ", i, place));
}

std::set<std::string> every_mark(int view_count) {
  std::set<std::string> marks;
  for (const char* word : kViewWords) add_of_any_view(marks, word, "", view_count);
  return marks;
}

// Of an operand, as host assemblers write it: "reads $3" is "reads 3".
std::string with_plain_number(std::string_view mark) {
  std::string plain(mark);
  const size_t sign = plain.find(' ') + 1;
  if (sign != 0 && sign < plain.size() && (plain[sign] == '$' || plain[sign] == '#')) plain.erase(sign, 1);
  return plain;
}

// A mark of a view that a register holds: "reads %eax", "reads w0", "shares %r7 at 0:17". The name is empty for other texts.
struct RegisterMark {
  std::string_view word, name, place;
};

RegisterMark register_mark(std::string_view mark) {
  const size_t space = mark.find(' ');
  if (space == std::string_view::npos || !is_one_of(mark.substr(0, space), kViewWords)) return {};
  const std::string_view operand = mark.substr(space + 1), name = operand.substr(0, operand.find(kPlace));
  std::string_view letters = name;
  if (letters.starts_with('%')) letters.remove_prefix(1);  // "%0" is a template's
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz", kOthers = "abcdefghijklmnopqrstuvwxyz0123456789";
  const bool is_register = !letters.empty() && kLetters.find(letters[0]) != std::string_view::npos &&
                           letters.find_first_not_of(kOthers) == std::string_view::npos;
  return is_register ? RegisterMark{mark.substr(0, space), name, operand.substr(name.size())} : RegisterMark();
}

// The function of a PTX text around a place.
std::string_view ptx_function_around(std::string_view text, size_t at) {
  constexpr std::string_view kBegin = "\n{", kEnd = "\n}";
  const size_t begin = text.rfind(kBegin, at), end = text.find(kEnd, at);
  return begin == std::string_view::npos ? text.substr(0, end) : text.substr(begin, end - begin);
}

class MarksOfText {
 public:
  MarksOfText(std::string_view text, int view_count)
      : text_(text), view_count_(view_count), is_ptx_(!text.starts_with(kElf)) {}

  std::set<std::string> find() {
    bool control = false;
    for (size_t at = text_.find(kPrefix); at != std::string_view::npos; at = text_.find(kPrefix, at)) {
      at += kPrefix.size();
      const size_t end = text_.find(';', at);
      if (end == std::string_view::npos) break;
      const std::string mark = with_plain_number(text_.substr(at, end - at));
      if (mark == kControl)
        control = true;
      else if (is_well_formed(mark))
        marks_.insert(mark);
      else if (const RegisterMark of = register_mark(mark); !of.name.empty())
        add(of, at);
    }
    return control ? std::move(marks_) : every_mark(view_count_);
  }

 private:
  void add(const RegisterMark& mark, size_t at) {
    std::optional<std::set<std::string>> numbers;
    if (is_ptx_) numbers = registers_around(at).numbers_in(mark.name);
    if (!numbers) return add_of_any_view(marks_, mark.word, mark.place, view_count_);
    for (const std::string& number : *numbers) marks_.insert(c10::str(mark.word, " ", number, mark.place));
  }

  const PtxRegisters& registers_around(size_t at) {
    const size_t begin = function_.data() - text_.data();
    if (!registers_ || at >= begin + function_.size()) registers_.emplace(function_ = ptx_function_around(text_, at));
    return *registers_;
  }

  const std::string_view text_;
  const int view_count_;
  const bool is_ptx_;
  std::string_view function_;  // the one that the last mark stands in: marks are found in the text's order
  std::optional<PtxRegisters> registers_;  // of `function_`
  std::set<std::string> marks_;
};

}  // namespace

std::set<std::string> find_marks(std::string_view compiled, int view_count) {
  return MarksOfText(compiled, view_count).find();
}

std::vector<int> numbers_of(const std::set<std::string>& marks, std::string_view word) {
  std::vector<int> numbers;
  for (const std::string& mark : marks) {
    if (mark.starts_with(word) && mark[word.size()] == ' ') numbers.push_back(std::stoi(mark.substr(word.size())));
  }
  return numbers;
}

std::string marks_to_text(const std::set<std::string>& marks) {
  std::string text;
  for (const std::string& mark : marks) text += mark + ";";
  return text;
}

std::set<std::string> marks_from_text(std::string_view text) {
  std::set<std::string> marks;
  for (size_t end = text.find(';'); end != std::string_view::npos; end = text.find(';')) {
    marks.emplace(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return marks;
}

}  // namespace torch_slang
