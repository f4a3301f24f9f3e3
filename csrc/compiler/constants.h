// Constant expressions of a source: numbers, + - * /, conversions such as double(0.5) and __realCast<double>(2), and constants that
// are defined once (`static const int kCount = 3;`).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace torch_slang {

struct Constant {
  enum class Kind { Whole, Single, Double };
  Kind kind = Kind::Whole;
  int64_t whole = 0;
  double number = 0;  // the same, whichever kind

  static Constant of(int64_t value) { return {Kind::Whole, value, static_cast<double>(value)}; }
  static Constant of(Kind precision, double value) {
    return {precision, 0, precision == Kind::Single ? static_cast<double>(static_cast<float>(value)) : value};
  }
};

// As Slang computes it: 1 / 2 is zero, 0.1 is in single precision, 0.1lf in double. None for what is not of this form, and for
// what has no value.
std::optional<Constant> constant_of(std::string_view expression, std::string_view source);

}  // namespace torch_slang
