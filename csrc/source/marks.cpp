#include "source/marks.h"

#include <c10/util/ArrayRef.h>

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

std::set<std::string> every_mark(int view_count) {
  std::set<std::string> marks;
  for (const char* word : kViewWords) {
    for (int i = 0; i < view_count; ++i) marks.insert(word + (" " + std::to_string(i)));
  }
  return marks;
}

}  // namespace

std::set<std::string> find_marks(std::string_view compiled, int view_count) {
  std::set<std::string> marks;
  bool control = false;
  for (size_t at = compiled.find(kPrefix); at != std::string_view::npos; at = compiled.find(kPrefix, at)) {
    at += kPrefix.size();
    const size_t end = compiled.find(';', at);
    if (end == std::string_view::npos) break;
    const std::string_view mark = compiled.substr(at, end - at);
    if (!is_well_formed(mark)) continue;
    if (mark == kControl) {
      control = true;
    } else {
      marks.emplace(mark);
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
