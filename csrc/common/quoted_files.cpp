#include "common/quoted_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "common/files.h"

namespace torch_slang {
namespace {

std::string working_folder() {
  std::error_code problem;
  const auto folder = std::filesystem::current_path(problem);
  return problem ? std::string() : folder.string();
}

constexpr const char* kNotShown = "(not shown: the file is in none of the module's folders)";

// Takes `:12` from the end, or `(12)`, or `(12, 5)`.
bool take_number(std::string_view& text) {
  const bool in_brackets = text.ends_with(')');
  const size_t last = text.find_last_not_of(in_brackets ? "0123456789, )" : "0123456789");
  if (last == std::string_view::npos || last + 1 == text.size() || text[last] != (in_brackets ? '(' : ':'))
    return false;
  text = text.substr(0, last);
  return true;
}

// A line of a message that says where something is.
struct Place {
  std::string file;
  std::string shown;  // the line, up to what may cite the file
  bool is_arrow = false;
};

// ` --> FILE:1:5` of Slang.
std::optional<Place> arrow_place(std::string_view line) {
  const size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos) return std::nullopt;
  std::string_view file = line.substr(begin);
  if (!file.starts_with("--> ") && !file.starts_with("::: ")) return std::nullopt;
  file.remove_prefix(4);
  while (take_number(file)) {
  }
  return Place{std::string(file), std::string(line), true};
}

// `FILE:1:5: error: ...` of C++ compilers and assemblers, `FILE(1): error: ...` of NVRTC and of Slang's lexer.
std::optional<Place> leading_place(std::string_view line) {
  size_t end = std::string_view::npos;
  for (const char* word : {": error", ": fatal error", ": warning", ": note", ": remark", ": internal ",
                           ": catastrophic ", ": Error:", ": Warning:", ": Info:"}) {
    end = std::min(end, line.find(word));
  }
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view file = line.substr(0, end);
  bool has_number = false;
  while (take_number(file)) has_number = true;
  if (!has_number) return std::nullopt;
  const std::string_view message = line.substr(end + 2);
  const std::string_view severity = message.substr(0, message.find(':'));
  return Place{std::string(file), std::string(line.substr(0, end + 2)) + std::string(severity)};
}

std::optional<Place> place_in(std::string_view line) {
  auto place = arrow_place(line);
  return place ? place : leading_place(line);
}

// `error[E20001]: ...` stands before the place.
bool is_headline(std::string_view line) {
  return line.starts_with("error") || line.starts_with("fatal error") || line.starts_with("warning") ||
         line.starts_with("note");
}

// Without the words that it cites.
std::string without_citations(const std::string& line) {
  std::string result;
  for (size_t i = 0; i < line.size(); ++i) {
    const size_t end = line[i] == '\'' || line[i] == '"' ? line.find(line[i], i + 1) : std::string::npos;
    if (end == std::string::npos) {
      result += line[i];
    } else {
      result += "'...'";
      i = end;
    }
  }
  return result;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Lines that stand for themselves, whatever was said before. Lines of files have a number before them here.
bool begins_anew(std::string_view line) {
  return line.empty() || is_headline(line) || line.starts_with("In file included") ||
         (line.front() != ' ' && line.find(": In ") != std::string_view::npos);
}

class Filter {
 public:
  explicit Filter(const UsersFiles& users) : users_(users) {}

  void add(const std::string& line) {
    if (std::exchange(is_citation_, false)) return;
    const auto place = place_in(line);
    if (place) {
      is_hidden_ = !users_.may_quote(place->file);
      if (is_hidden_) return add_hidden(*place);
    } else if (begins_anew(line)) {
      is_hidden_ = false;
    }
    if (!is_hidden_ || line == "--'") kept_.push_back(line);
  }

  std::string text() const {
    std::string text;
    for (const std::string& line : kept_) text += line + "\n";
    return text;
  }

 private:
  void add_hidden(const Place& place) {
    if (place.is_arrow) {
      if (!kept_.empty() && is_headline(kept_.back())) kept_.back() = without_citations(kept_.back());
      kept_.push_back(place.shown);
      kept_.push_back(std::string("  ") + kNotShown);
    } else {
      kept_.push_back(place.shown + ": " + kNotShown);
      is_citation_ = true;  // the next line is the file's, and may look like anything
    }
  }

  const UsersFiles& users_;
  std::vector<std::string> kept_;
  bool is_hidden_ = false;
  bool is_citation_ = false;
};

}  // namespace

UsersFiles::UsersFiles(const std::vector<std::string>& folders, std::vector<std::string> files)
    : files_(std::move(files)) {
  const auto add = [&](const std::string& folder) {
    const std::string canonical = canonical_path(folder);
    if (!canonical.empty() && canonical != "/") folders_.push_back(canonical + "/");
  };
  for (const std::string& folder : folders) add(folder);
  add(working_folder());
}

bool UsersFiles::may_quote(const std::string& file) const {
  std::error_code problem;
  if (std::find(files_.begin(), files_.end(), file) != files_.end() || !std::filesystem::exists(file, problem))
    return true;
  const std::string canonical = canonical_path(file);
  return std::any_of(folders_.begin(), folders_.end(),
                     [&](const std::string& folder) { return canonical.starts_with(folder); });
}

std::string without_foreign_lines(const std::string& diagnostics, const UsersFiles& users) {
  const std::vector<std::string> lines = lines_of(diagnostics);
  const bool is_plain = std::all_of(lines.begin(), lines.end(), [&](const std::string& line) {
    const auto place = place_in(line);
    return !place || users.may_quote(place->file);
  });
  if (is_plain) return diagnostics;
  Filter filter(users);
  for (const std::string& line : lines) filter.add(line);
  return filter.text();
}

}  // namespace torch_slang
