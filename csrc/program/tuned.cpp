#include "program/tuned.h"

#include <string_view>

namespace torch_slang {

std::vector<std::string> split_values(const std::string& list) {
  std::vector<std::string> values;
  std::string value;
  int depth = 0;
  const auto finish = [&] {
    const size_t begin = value.find_first_not_of(" \t");
    if (begin != std::string::npos) values.push_back(value.substr(begin, value.find_last_not_of(" \t") - begin + 1));
    value.clear();
  };
  for (const char c : list) {
    if (c == ',' && depth == 0) {
      finish();
      continue;
    }
    depth += static_cast<int>(std::string_view("([{<").find(c) != std::string_view::npos);
    depth -= static_cast<int>(depth > 0 && std::string_view(")]}>").find(c) != std::string_view::npos);
    value += c;
  }
  finish();
  return values;
}

}  // namespace torch_slang
