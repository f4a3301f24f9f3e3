// Digests of contents, for cache keys and checksums: SHA-256 as 64 hexadecimal digits.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace torch_slang {

std::string digest_of(std::string_view content);

class Sha256 {
 public:
  void update(std::string_view bytes);
  std::string hex();  // once, at the end

 private:
  void process_block(const unsigned char* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> pending_{};
  size_t pending_size_ = 0;
  uint64_t total_size_ = 0;
};

// A digest over several fields. Each field is hashed with its length, so {"ab", "c"} and {"a", "bc"} differ.
class Digest {
 public:
  Digest& add(std::string_view field);
  Digest& add(const char* field) { return add(std::string_view(field)); }
  template <std::integral Number>
  Digest& add(Number number) {
    return add_number(static_cast<int64_t>(number));
  }
  std::string hex() { return state_.hex(); }  // once, at the end

 private:
  Digest& add_number(int64_t number);

  Sha256 state_;
};

}  // namespace torch_slang
