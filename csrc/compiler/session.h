// A Slang session set up for one request: prelude, macros, search paths and the preloaded library.
#pragma once

#include <slang.h>

#include <string>
#include <vector>

#include "compiler/com.h"
#include "compiler/source_files.h"
#include "program/program.h"

namespace torch_slang {

// Stands where Slang would put its own CUDA prelude: what comes before it in emitted text is what users asked for by
// __requirePrelude.
inline constexpr const char* kPreludeMark = "//torch_slang: end of prelude\n";

class Session {
 public:
  explicit Session(const CompileRequest& request);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Loads source text as a module. Null if it does not compile; `diagnostics` then says why, and holds warnings else.
  slang::IModule* load(const std::string& name, const std::string& path, const std::string& source,
                       std::string* diagnostics);
  // CUDA text of one entry point of the module; empty on failure.
  std::string emit(slang::IModule* module, const std::string& entry, std::string* diagnostics);

  SourceFiles& files() { return files_; }
  slang::ISession* slang() const { return session_.get(); }

 private:
  SourceFiles files_;
  Com<slang::IGlobalSession> global_;
  Com<slang::ISession> session_;
};

}  // namespace torch_slang
