// Texts that are compared as a compiler reads them.
#pragma once

#include <string>

// Without spaces and line ends, which do not matter.
inline std::string packed(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' && c != '\n') result += c;
  }
  return result;
}
