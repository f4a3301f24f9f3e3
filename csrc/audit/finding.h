// What an audit of one derivative of an operator found, and its form in the disk cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace torch_slang::audit {

// Which derivative: the backward, or the backward of `<name>_jvp`, which is the second derivative.
enum class Order : int8_t { First = 1, Second = 2 };

enum class Outcome : int8_t {
  Waiting,  // for its turn, or it runs
  Agrees,
  Wrong,  // this derivative
  WrongTangents,  // the forward derivative that it was compared with
  Differs,  // from central differences, which know of no constants: that may be on purpose
  NotAudited,
};
const char* name_of(Outcome outcome);  // "wrong"

struct Finding {
  std::string name;  // "slang::sqr"
  Order order = Order::First;
  std::string types;  // of type parameters: "float32, float64"
  Outcome outcome = Outcome::Waiting;
  std::string text;  // one or two sentences
  double seconds = 0;  // that the audit took; 0: an earlier process had done it
  bool is_accepted = false;  // by accept()
};

std::string to_payload(const Finding& finding);
std::optional<Finding> from_payload(std::string_view payload);  // outcome and text

}  // namespace torch_slang::audit
