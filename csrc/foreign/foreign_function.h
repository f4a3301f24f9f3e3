// A function of a library that is opened at run time: its type and its symbol's name, told in one place.
#pragma once

#include <utility>

#include "common/dynamic_library.h"

namespace torch_slang {

enum class Need : bool { Required, Optional };

template <class Signature>
class ForeignFunction {
 public:
  // A required symbol that is missing is an error that names library and symbol; an optional one makes this false.
  ForeignFunction(const DynamicLibrary& library, const char* name, Need need = Need::Required)
      : address_(reinterpret_cast<Signature*>(need == Need::Required ? library.symbol(name) : library.find(name))) {}

  explicit operator bool() const { return address_ != nullptr; }

  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const {
    return address_(std::forward<Arguments>(arguments)...);
  }

 private:
  Signature* address_;
};

}  // namespace torch_slang
