#include "operators/op_signature.h"

#include <c10/util/Exception.h>

namespace torch_slang {

const char* name_of(OpKind kind) {
  static const char* const names[kOpKinds] = {"forward", "backward", "launch", "fwd", "bwd"};
  return names[static_cast<int>(kind)];
}

OpKind kind_named(const std::string& name) {
  for (int i = 0; i < kOpKinds; ++i) {
    if (name == name_of(static_cast<OpKind>(i))) return static_cast<OpKind>(i);
  }
  TORCH_CHECK(false, "unknown kind of operator '", name, "'");
}

Direction direction_of(OpKind kind) {
  switch (kind) {
    case OpKind::Backward:
    case OpKind::LaunchBackward: return Direction::Backward;
    case OpKind::LaunchJvp: return Direction::Jvp;
    case OpKind::Forward:
    case OpKind::Launch: break;
  }
  return Direction::Forward;
}

}  // namespace torch_slang
