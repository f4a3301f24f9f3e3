#include "source/marks.h"

#include <c10/util/ArrayRef.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

namespace torch_slang {
namespace {

constexpr std::string_view kPrefix = "tsl-mark:";
constexpr std::string_view kControl = "control";
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

void add_of_all_views(std::set<std::string>& marks, std::string_view word, int view_count) {
  for (int i = 0; i < view_count; ++i) marks.insert(c10::str(word, " ", i));
}

std::set<std::string> every_mark(int view_count) {
  std::set<std::string> marks;
  for (const char* word : kViewWords) add_of_all_views(marks, word, view_count);
  return marks;
}

// Of an operand, as host assemblers write it: "reads $3" is "reads 3".
std::string with_plain_number(std::string_view mark) {
  std::string plain(mark);
  const size_t sign = plain.find(' ') + 1;
  if (sign != 0 && sign < plain.size() && (plain[sign] == '$' || plain[sign] == '#')) plain.erase(sign, 1);
  return plain;
}

// The word of "reads %eax" or "reads w0", of a view that the compiler did not see; "%0" is a template's.
std::string_view word_of_unknown_view(std::string_view mark) {
  const size_t space = mark.find(' ');
  if (space == std::string_view::npos || !is_one_of(mark.substr(0, space), kViewWords)) return {};
  std::string_view name = mark.substr(space + 1);
  if (name.starts_with('%')) name.remove_prefix(1);
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz", kOthers = "abcdefghijklmnopqrstuvwxyz0123456789";
  const bool is_register = !name.empty() && kLetters.find(name[0]) != std::string_view::npos &&
                           name.find_first_not_of(kOthers) == std::string_view::npos;
  return is_register ? mark.substr(0, space) : std::string_view();
}

}  // namespace

std::set<std::string> find_marks(std::string_view compiled, int view_count) {
  std::set<std::string> marks;
  bool control = false;
  for (size_t at = compiled.find(kPrefix); at != std::string_view::npos; at = compiled.find(kPrefix, at)) {
    at += kPrefix.size();
    const size_t end = compiled.find(';', at);
    if (end == std::string_view::npos) break;
    const std::string mark = with_plain_number(compiled.substr(at, end - at));
    if (mark == kControl) {
      control = true;
    } else if (is_well_formed(mark)) {
      marks.insert(mark);
    } else if (const std::string_view word = word_of_unknown_view(mark); !word.empty()) {
      add_of_all_views(marks, word, view_count);
    }
  }
  return control ? marks : every_mark(view_count);
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
