// torch's functorch headers include nlohmann/json.hpp, which torch's packages leave out. What they use of it lies in
// templates and in two inline members that serialise an interpreter and that we never call: declarations are enough.
#pragma once

#include <string>

namespace nlohmann {

class json {
 public:
  json() = default;
  template <class T>
  explicit json(const T& value);
  static json parse(const std::string& text);
  std::string dump() const;
  template <class T>
  T get() const;
};

}  // namespace nlohmann
