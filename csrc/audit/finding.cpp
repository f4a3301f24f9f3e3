#include "audit/finding.h"

#include <algorithm>
#include <iterator>

namespace torch_slang::audit {
namespace {

constexpr const char* kOutcomeNames[] = {"waiting", "agrees", "wrong", "wrong tangents", "differs", "not audited"};

}  // namespace

const char* name_of(Outcome outcome) { return kOutcomeNames[static_cast<size_t>(outcome)]; }

std::string to_payload(const Finding& finding) { return std::string(name_of(finding.outcome)) + '\n' + finding.text; }

std::optional<Finding> from_payload(std::string_view payload) {
  const size_t end = payload.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const auto* const name = std::find(std::begin(kOutcomeNames), std::end(kOutcomeNames), payload.substr(0, end));
  if (name == std::end(kOutcomeNames)) return std::nullopt;
  Finding finding;
  finding.outcome = static_cast<Outcome>(name - std::begin(kOutcomeNames));
  finding.text = payload.substr(end + 1);
  return finding;
}

}  // namespace torch_slang::audit
