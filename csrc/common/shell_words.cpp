#include "common/shell_words.h"

#include <cctype>

namespace torch_slang {
namespace {

constexpr char kNoQuote = '\0';

// Between double quotes a backslash is one unless it stands before what it would have to.
bool is_escape(char c, char quote, std::string_view rest) {
  if (c != '\\' || quote == '\'') return false;
  if (quote == kNoQuote) return true;
  return !rest.empty() && std::string_view("\"\\$`").find(rest.front()) != std::string_view::npos;
}

}  // namespace

std::optional<std::vector<std::string>> split_shell_words(std::string_view text) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = kNoQuote;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == kNoQuote && std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (word) words.push_back(*std::move(word));
      word.reset();
      continue;
    }
    if (!word) word.emplace();
    if (is_escape(c, quote, text.substr(i + 1))) {
      if (++i == text.size()) return std::nullopt;
      *word += text[i];
    } else if (quote == kNoQuote && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = kNoQuote;
    } else {
      *word += c;
    }
  }
  if (quote != kNoQuote) return std::nullopt;
  if (word) words.push_back(*std::move(word));
  return words;
}

}  // namespace torch_slang
