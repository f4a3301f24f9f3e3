// Changes of a source's text that are collected first and made together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace torch_slang {

class SourceEdits {
 public:
  // The source outlives it.
  explicit SourceEdits(const std::string& source) : source_(source) {}

  // Where a part of the source begins.
  size_t place(std::string_view part) const { return static_cast<size_t>(part.data() - source_.data()); }
  void insert(size_t place, std::string text) { edits_.push_back({place, place, std::move(text)}); }
  // Before all that was given for this place.
  void insert_first(size_t place, std::string text) { edits_.insert(edits_.begin(), {place, place, std::move(text)}); }
  // `part` is a view of the source. No two parts overlap.
  void replace(std::string_view part, std::string text) {
    edits_.push_back({place(part), place(part) + part.size(), std::move(text)});
  }
  void add(const SourceEdits& others) { edits_.insert(edits_.end(), others.edits_.begin(), others.edits_.end()); }

  // The changed source. Texts for one place stand in the order in which they were given.
  std::string applied() const;

 private:
  struct Edit {
    size_t begin, end;  // the range of the source that the text replaces
    std::string text;
  };

  const std::string& source_;
  std::vector<Edit> edits_;
};

}  // namespace torch_slang
