#include "compiler/source/generic_tensors.h"

#include <algorithm>
#include <array>
#include <map>

#include "compiler/source/source_tokens.h"

namespace torch_slang {
namespace {

constexpr std::array<std::string_view, 3> kInterfaces = {"IDiffTensor", "IWDiffTensor", "IRWDiffTensor"};
constexpr std::array<std::string_view, 3> kModifiers = {"no_diff", "in", "const"};

template <size_t N>
bool is_among(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

class Rewriter {
 public:
  explicit Rewriter(const std::string& source) : source_(source), tokens_(source) {
    for (size_t at = 1; at + 1 < tokens_.size(); ++at) {
      if (tokens_[at] == "(" && (tokens_.is_name(at - 1) || tokens_[at - 1] == ">")) take_parameters(at);
    }
  }

  std::string write() {
    std::string text;
    size_t done = 0;
    for (const auto& [begin, change] : changes_) {
      text.append(source_, done, begin - done).append(change.text);
      done = begin + change.length;
    }
    return text.append(source_, done);
  }

  // Functions with a body that change, by name.
  const std::map<std::string_view, int>& changed() const { return changed_; }

  // How often functions of each name have a body here.
  std::map<std::string_view, int> definitions() const {
    std::map<std::string_view, int> found;
    for (size_t open = 1; open + 1 < tokens_.size(); ++open) {
      if (tokens_[open] != "(" || tokens_[tokens_.closing(open) + 1] != "{") continue;
      const size_t angle = opening_angle(open);
      if (angle > 0 && tokens_.is_name(angle - 1)) ++found[tokens_[angle - 1]];
    }
    return found;
  }

 private:
  struct Change {
    size_t length;
    std::string text;
  };

  size_t offset(size_t at) const { return static_cast<size_t>(tokens_[at].data() - source_.data()); }

  // Where the `<` is of `name<...>(`, if the parameters at `open` follow a generic's; else `open`.
  size_t opening_angle(size_t open) const {
    if (tokens_[open - 1] != ">") return open;
    int depth = 0;
    for (size_t at = open - 1; at > 0; --at) {
      depth += tokens_[at] == ">" ? 1 : tokens_[at] == "<" ? -1 : 0;
      if (depth == 0) return at;
    }
    return open;
  }

  void take_parameters(size_t open) {
    std::string added;
    std::map<size_t, Change> changes;
    const size_t end = tokens_.closing(open);
    for (size_t at = open + 1; at < end; ++at) {
      size_t begin = at;
      while (is_among(kModifiers, tokens_[begin])) ++begin;
      if ((tokens_[at - 1] != "(" && tokens_[at - 1] != ",") || !is_among(kInterfaces, tokens_[begin])) continue;
      const size_t close = tokens_.behind_angles(begin + 1) - 1;
      if (tokens_[close] != ">" || !tokens_.is_name(close + 1)) continue;
      const size_t length = offset(close) + 1 - offset(begin);
      const std::string name = "tsl_Tensor" + std::to_string(changes.size());
      added += (changes.empty() ? "" : ", ") + name + " : " + source_.substr(offset(begin), length) + " ";
      changes[offset(begin)] = {length, name};
      at = close;
    }
    if (changes.empty()) return;
    const size_t angle = opening_angle(open);
    if (angle == open && tokens_[open - 1] == ">") return;
    changes_.merge(changes);
    if (tokens_[end + 1] == "{") ++changed_[tokens_[angle - 1]];
    // Behind the generic parameters that are there, or as the only ones.
    if (angle == open)
      changes_[offset(open)] = {0, "<" + added + ">"};
    else
      changes_[offset(open - 1)] = {0, ", " + added};
  }

  const std::string& source_;
  SourceTokens tokens_;
  std::map<size_t, Change> changes_;  // by where they begin
  std::map<std::string_view, int> changed_;
};

}  // namespace

bool is_differentiable_tensor_interface(std::string_view type) {
  return is_among(kInterfaces, type.substr(0, type.find('<')));
}

namespace {

bool names_interface(const std::string& source) {
  return std::any_of(kInterfaces.begin(), kInterfaces.end(),
                     [&](std::string_view name) { return source.find(name) != std::string::npos; });
}

}  // namespace

std::string with_generic_tensors(const std::string& source) {
  return names_interface(source) ? Rewriter(source).write() : source;
}

bool may_have_generic_tensors(const std::vector<const std::string*>& sources) {
  if (std::none_of(sources.begin(), sources.end(), [](const std::string* source) { return names_interface(*source); }))
    return false;
  std::map<std::string, int> changed, defined;
  for (const std::string* source : sources) {
    const Rewriter rewriter(*source);
    for (const auto& [name, count] : rewriter.changed()) changed[std::string(name)] += count;
    for (const auto& [name, count] : rewriter.definitions()) defined[std::string(name)] += count;
  }
  return !changed.empty() && std::all_of(changed.begin(), changed.end(), [&](const auto& one) {
    return one.second == 0 || one.second == defined[one.first];
  });
}

}  // namespace torch_slang
