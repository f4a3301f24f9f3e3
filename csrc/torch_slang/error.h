// The two errors with names of their own in Python (torch_slang.CompileError, torch_slang.LaunchError). Both are
// c10::Error, so torch raises them as RuntimeError wherever nobody translates them; tell them apart by dynamic type.
// Every other user-visible error is a plain TORCH_CHECK.
#pragma once

#include <c10/macros/Export.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <string>

namespace torch_slang {

// A source does not compile, or a compiler failed. The message is one sentence of ours (op, file, target), then the
// compiler's own diagnostics whole.
class C10_EXPORT CompileError : public c10::Error {
 public:
  explicit CompileError(std::string message);
  ~CompileError() override;
};

// A compiled kernel cannot be launched as asked, or its launch failed.
class C10_EXPORT LaunchError : public c10::Error {
 public:
  explicit LaunchError(std::string message);
  ~LaunchError() override;
};

// `throw_compile_error("slang::sqr: ", file, " does not compile for sm_90\n", log)`.
template <class... Parts>
[[noreturn]] void throw_compile_error(const Parts&... parts) {
  throw CompileError(c10::str(parts...));
}

template <class... Parts>
[[noreturn]] void throw_launch_error(const Parts&... parts) {
  throw LaunchError(c10::str(parts...));
}

}  // namespace torch_slang
