// The tokens of a user's source with their lines, without spaces, comments and directives. Positions count these.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace torch_slang {

// Views of the source that it is given, which outlives it.
class SourceTokens {
 public:
  explicit SourceTokens(const std::string& source);

  size_t size() const { return tokens_.size(); }
  std::string_view operator[](size_t at) const { return at < tokens_.size() ? tokens_[at].text : std::string_view(); }
  size_t line(size_t at) const { return tokens_[at].line; }
  bool is_name(size_t at) const;
  bool is_number(size_t at) const;
  // The bracket that closes the one at `open`, or opens the one at `close`; the end, or 0, if none does.
  size_t closing(size_t open) const;
  size_t opening(size_t close) const;
  // Behind the angle brackets that open at `at`; `at` if none do.
  size_t behind_angles(size_t at) const;
  // Where the last statement of the block begins that opens at `open`.
  size_t last_statement(size_t open) const;

 private:
  struct CodeToken {
    std::string_view text;
    size_t line;
  };

  std::vector<CodeToken> tokens_;
};

}  // namespace torch_slang
