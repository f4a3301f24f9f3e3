// Runs Slang's own preprocessor on a source: for those that hide control flow (Note [hidden control flow] in hidden_flow.h).
#pragma once

#include <slang.h>

#include <functional>
#include <optional>
#include <string>

#include "compiler/source/source_code.h"
#include "program/program.h"

namespace torch_slang {

class Preprocessor {
 public:
  using Read = std::function<const SourceCode*(const std::string& path)>;  // null if there is no such file

  // The request, and Slang itself, outlive it. `read`: gives the files that are included.
  Preprocessor(slang::IGlobalSession* global, const CompileRequest& request, Read read)
      : global_(global), request_(request), read_(std::move(read)) {}

  // The source without macros, conditions and includes; directives that say which line of which file comes next. None if it has
  // an error: Slang says so where it compiles the source itself.
  std::optional<std::string> expanded(const SourceCode& source) const;

 private:
  slang::IGlobalSession* const global_;
  const CompileRequest& request_;
  const Read read_;
};

}  // namespace torch_slang
