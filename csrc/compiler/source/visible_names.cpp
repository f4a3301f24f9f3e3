#include "compiler/source/visible_names.h"

namespace torch_slang {
namespace {

bool speaks_of_visibility(std::string_view word) { return word == "public" || word == "internal" || word == "private"; }

}  // namespace

VisibleNames::VisibleNames(const SourceCode& code) : code_(code) {
  all_ = code_[0] != "module" && code_[0] != "implementing";
  for (size_t at = 0; at < code_.size() && all_; ++at) all_ = !speaks_of_visibility(code_[at]);
}

bool VisibleNames::is_public(std::string_view function, int line) const {
  if (all_) return true;
  for (size_t at = 0; at < code_.size(); ++at) {
    if (code_[at] != function || code_.line(at) != static_cast<size_t>(line)) continue;
    for (size_t before = code_.declaration(at); before < at; ++before) {
      if (code_[before] == "public") return true;
    }
  }
  return false;
}

}  // namespace torch_slang
