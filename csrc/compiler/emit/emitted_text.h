// Slang's text on its way through the passes (passes.h). A pass may change it as text, or as functions and statements.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

class EmittedText {
 public:
  EmittedText(std::string body, Differentials differentials) : body_(std::move(body)), differentials_(differentials) {}
  EmittedText(const EmittedText&) = delete;
  EmittedText& operator=(const EmittedText&) = delete;

  // The text as functions and statements. Passes that change it one after the other all see what stood there before the
  // first of them.
  EmittedCode& code() {
    if (!code_) code_.emplace(body_, differentials_);
    return *code_;
  }
  // The same, with all changes made so far in it.
  EmittedCode& changed_code() {
    if (code_ && code_->is_edited()) body();
    return code();
  }
  // The text, with all changes made so far.
  std::string& body() {
    if (code_ && code_->is_edited()) body_ = code_->edited();
    code_.reset();
    return body_;
  }

  std::vector<std::string> files;  // that TSL_AT(file, line) names by index
  std::set<std::string> left_out;  // names of host functions whose definitions go
  bool scattered_waves = false;    // lanes of one wave operation may stand in several places

 private:
  std::string body_;
  const Differentials differentials_;
  std::optional<EmittedCode> code_;
};

}  // namespace torch_slang
