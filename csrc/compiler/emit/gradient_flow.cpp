#include "compiler/emit/gradient_flow.h"

#include "compiler/ctext/lvalues.h"

#include <algorithm>
#include <array>

namespace torch_slang {
namespace {

constexpr std::string_view kApplied = "s_apply_", kForward = "s_fwd_";
// Of the function that a second derivative goes through (compiler/wrap).
constexpr std::string_view kWrapper = "tsl_", kSecond = "_tangents_backward_values";
// The accesses to views' gradients in a backward (slang/device.slang).
constexpr std::array<std::string_view, 4> kSources = {"tsl_take", "tsl_take_uniform", "tsl_take_once", "tsl_get"};

}  // namespace

std::string users_name(std::string_view function) {
  for (const std::string_view prefix : {kBackward, kApplied, kForward}) {
    if (function.starts_with(prefix)) function.remove_prefix(prefix.size());
  }
  function = function.substr(0, function.rfind('_'));
  if (function.starts_with(kWrapper) && function.ends_with(kSecond)) {
    function.remove_prefix(kWrapper.size());
    function.remove_suffix(kSecond.size());
  }
  return std::string(function);
}

GradientFlow::GradientFlow(const EmittedCode& code, const EmittedFunction& function) : FlowWalk(code) {
  GradientNames gradients;
  if (function.name.starts_with(kBackward)) {
    for (const EmittedParameter& parameter : function.parameters) {
      if (!parameter.type.starts_with(kContext)) gradients.emplace(parameter.name);
    }
  }
  follow(function.body, std::move(gradients));
}

void GradientFlow::simple(const EmittedStatement& statement, GradientNames& gradients) {
  const auto found = code_.assignment(statement);
  const bool assigns = found && !found->left.variable.empty();
  const Span value = assigns ? found->value : statement.span;
  const bool depends_on_them = depends(value, gradients);
  const bool changes_one = found && found->kind == Assignment::Kind::Part && gradients.count(found->left.variable) > 0;
  if (depends_on_them || changes_one) reached_.insert(statement.span.begin);
  for (const std::string& name : code_.handed_on(value)) {
    if (depends_on_them) gradients.insert(name);
  }
  if (!assigns) return;
  if (depends_on_them)
    gradients.insert(found->left.variable);
  else if (found->kind != Assignment::Kind::Part)
    gradients.erase(found->left.variable);
}

bool GradientFlow::depends(Span span, const GradientNames& gradients) const {
  for (size_t at = span.begin; at < span.end; ++at) {
    if (!code_.is_name(at)) continue;
    const std::string_view name = code_[at];
    if (code_.is_member(at)) {
      if (name.starts_with("differential_") && code_.differentials() == Differentials::Gradients) return true;
    } else if (gradients.count(std::string(name)) > 0 || name.starts_with(kBackward) ||
               std::find(kSources.begin(), kSources.end(), name) != kSources.end()) {
      return true;
    }
  }
  return false;
}

}  // namespace torch_slang
