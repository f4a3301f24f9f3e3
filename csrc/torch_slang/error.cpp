#include "torch_slang/error.h"

#include <utility>

namespace torch_slang {

// The destructors stand here so that each type's identity lives in one library, however many include the header.
CompileError::CompileError(std::string message) : c10::Error(std::move(message)) {}
CompileError::~CompileError() = default;

LaunchError::LaunchError(std::string message) : c10::Error(std::move(message)) {}
LaunchError::~LaunchError() = default;

}  // namespace torch_slang
