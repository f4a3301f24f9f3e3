// Slang's text on its way through the passes (passes.h).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ctext/emitted_code.h"
#include "compiler/emit/pass_table.h"

namespace torch_slang {

class EmittedText {
 public:
  // What users ask for by __requirePrelude stands at a kernel's file scope, in front of the first declaration, which begins with
  // a #line. All else is the body.
  EmittedText(std::string emitted, Texts texts, Differentials differentials = Differentials::Gradients);
  EmittedText(const EmittedText&) = delete;
  EmittedText& operator=(const EmittedText&) = delete;

  // What the pass reads of `code` has all changes of the passes before it in it: Note [table of passes].
  void begin(const Pass& pass) {
    if ((changed_ & pass.reads) != 0) body();
    pass_ = pass.name;
    if (code_) code_->begin_changes(pass_);
  }
  void end(const Pass& pass) {
    if (code_ && code_->is_edited()) changed_ |= pass.changes;
  }
  EmittedCode& code() {
    if (!code_) code_.emplace(body_, differentials_).begin_changes(pass_);
    return *code_;
  }
  const std::string& emitted() const { return emitted_; }  // as Slang wrote it
  const EmittedCode& file_scope() const { return *file_scope_; }
  // The body, with all changes made so far.
  std::string& body() {
    if (code_ && code_->is_edited()) body_ = code_->edited();
    code_.reset();
    changed_ = kNothing;
    return body_;
  }

  std::vector<std::string> files;  // that TSL_AT(file, line) names by index
  std::set<std::string> left_out;  // names of host functions whose definitions go
  bool scattered_waves = false;    // lanes of one wave operation may stand in several statements

 private:
  const std::string emitted_;
  const Differentials differentials_;
  std::string body_;
  std::optional<EmittedCode> file_scope_, code_;
  std::string_view pass_;
  unsigned changed_ = kNothing;  // parts, since `code_` was made
};

}  // namespace torch_slang
