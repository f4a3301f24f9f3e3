// Why a function cannot become an operator.
#pragma once

#include <c10/util/StringUtil.h>

#include <string>

namespace torch_slang {

// Turned into Function::refusal.
struct Refusal {
  std::string reason;
};

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Refusal{c10::str(parts...)};
}

}  // namespace torch_slang
