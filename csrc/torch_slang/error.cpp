#include "torch_slang/error.h"

#include <utility>

#include "torch_slang/last_error.h"

namespace torch_slang {
namespace {

thread_local OwnError last;

std::string noted(OwnError::Kind kind, std::string message) {
  last = {kind, message};
  return message;
}

}  // namespace

const OwnError& last_own_error() { return last; }

// The destructors stand here so that each type's identity lives in one library, however many include the header.
CompileError::CompileError(std::string message) : c10::Error(noted(OwnError::Kind::Compile, std::move(message))) {}
CompileError::~CompileError() = default;

LaunchError::LaunchError(std::string message) : c10::Error(noted(OwnError::Kind::Launch, std::move(message))) {}
LaunchError::~LaunchError() = default;

}  // namespace torch_slang
