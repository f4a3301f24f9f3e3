#include "compiler/source/function_heads.h"

#include <algorithm>
#include <array>
#include <optional>

#include "compiler/source/differentiable_functions.h"
#include "compiler/text/words.h"

namespace torch_slang {
namespace {

constexpr std::array<std::string_view, 6> kHeads = {"if", "for", "while", "switch", "catch", "return"};
constexpr std::array<std::string_view, 7> kModifiers = {"public",   "internal", "private", "static",
                                                        "override", "inline",   "export"};

// Where the name is whose parameters open there.
std::optional<size_t> name_before(const SourceCode& tokens, size_t open) {
  if (open < 2) return {};
  for (size_t at = open; at-- > 0 && at + 4 > open;) {  // `operator+(`, `operator<<(`
    if (tokens[at] == "operator" && at + 1 < open) return at;
    if (tokens.is_name(at)) break;
  }
  size_t name = open - 1;
  if (tokens[name] == ">") {
    name = tokens.opening_angle(name);
    if (name-- == 0) return {};
  }
  const bool is_one = tokens.is_name(name) && !is_among(kHeads, tokens[name]);
  return is_one ? std::optional(name) : std::nullopt;
}

// Behind parameters and what constrains types; the end if no body is there.
size_t body_behind(const SourceCode& tokens, size_t close) {
  size_t at = close + 1;
  if (tokens[at] != "{" && tokens[at] != "where" && tokens[at] != "-") return tokens.size();
  while (at < tokens.size() && tokens[at] != "{" && tokens[at] != ";" && tokens[at] != "}") ++at;
  return tokens[at] == "{" ? at : tokens.size();
}

void read_attributes(const SourceCode& tokens, FunctionHead& head) {
  for (size_t at = head.begin; at < head.name; ++at) {
    if (tokens[at] != "[") continue;
    for (const size_t close = tokens.closing(at); at < close && at < head.name; ++at) {
      if (tokens.is_name(at)) head.attributes.emplace(tokens[at]);
    }
  }
  head.type = head.begin;
  while (tokens[head.type] == "[" || is_among(kModifiers, tokens[head.type])) {
    head.is_static = head.is_static || tokens[head.type] == "static";
    head.type = tokens[head.type] == "[" ? tokens.closing(head.type) + 1 : head.type + 1;
  }
}

}  // namespace

bool FunctionHead::is_kernel() const {
  return has("CudaKernel") || has("CUDAKernel") || has("AutoPyBindCUDA") || has("PyBindCUDA");
}

bool FunctionHead::is_differentiable() const {
  return std::ranges::any_of(kDifferentiable, [&](std::string_view one) { return has(one); });
}

bool FunctionHead::has_own_derivative() const { return has("BackwardDerivative") || has("ForwardDerivative"); }

std::vector<FunctionHead> function_heads(const SourceCode& tokens) {
  std::vector<FunctionHead> found;
  size_t behind = 0;  // the statement or declaration that ended last
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at] == ";" || tokens[at] == "{" || tokens[at] == "}") behind = at + 1;
    if (tokens[at] != "(") continue;
    const size_t close = tokens.closing(at);
    const auto name = name_before(tokens, at);
    const size_t body = name && *name >= behind ? body_behind(tokens, close) : tokens.size();
    if (body >= tokens.size()) continue;
    FunctionHead head;
    head.begin = behind;
    head.name = *name;
    head.open = at;
    head.close = close;
    head.body = body;
    head.end = tokens.closing(body);
    read_attributes(tokens, head);
    found.push_back(std::move(head));
    at = body;
    behind = at + 1;
  }
  return found;
}

std::vector<size_t> parameter_begins(const SourceCode& tokens, size_t open) {
  std::vector<size_t> begins;
  const size_t close = tokens.closing(open);
  for (size_t at = open; at < close;) {
    ++at;
    while (tokens[at] == "[") at = tokens.closing(at) + 1;
    if (at < close) begins.push_back(at);
    at = tokens.first_of_list(",", at, close);
  }
  return begins;
}

}  // namespace torch_slang
