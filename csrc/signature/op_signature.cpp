#include "signature/op_signature.h"

namespace torch_slang {

const char* name_of(OpKind kind) {
  static const char* const names[kOpKinds] = {"forward", "backward", "launch", "fwd", "bwd"};
  return names[static_cast<int>(kind)];
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
