// Digests of contents, for cache keys and checksums: 40 hexadecimal digits. They tell apart what differs by accident or
// by edit; nothing secret depends on them.
#pragma once

#include <c10/util/hash.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace torch_slang {

std::string digest_of(std::string_view content);

// A digest over several fields. Each field is hashed with its length, so {"ab", "c"} and {"a", "bc"} differ.
class Digest {
 public:
  Digest& add(std::string_view field);
  Digest& add(const char* field) { return add(std::string_view(field)); }
  template <std::integral Number>
  Digest& add(Number number) {
    return add_number(static_cast<int64_t>(number));
  }
  std::string hex();  // once, at the end

 private:
  Digest& add_number(int64_t number);

  c10::sha1 state_;
};

}  // namespace torch_slang
