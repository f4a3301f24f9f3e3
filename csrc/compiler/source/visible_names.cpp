#include "compiler/source/visible_names.h"

namespace torch_slang {
namespace {

bool speaks_of_visibility(std::string_view word) { return word == "public" || word == "internal" || word == "private"; }

}  // namespace

VisibleNames::VisibleNames(const std::string& source) : tokens_(source) {
  all_ = tokens_[0] != "module" && tokens_[0] != "implementing";
  for (size_t at = 0; at < tokens_.size() && all_; ++at) all_ = !speaks_of_visibility(tokens_[at]);
}

bool VisibleNames::is_public(std::string_view function, int line) const {
  if (all_) return true;
  for (size_t at = 0; at < tokens_.size(); ++at) {
    if (tokens_[at] != function || tokens_.line(at) != static_cast<size_t>(line)) continue;
    for (size_t before = at; before-- > 0;) {
      const std::string_view word = tokens_[before];
      if (word == ";" || word == "{" || word == "}") break;
      if (word == "public") return true;
    }
  }
  return false;
}

}  // namespace torch_slang
