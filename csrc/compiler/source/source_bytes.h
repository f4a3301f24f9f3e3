// Checks that a source's bytes are UTF-8. Slang itself skips over bytes that are not, and over what follows them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace torch_slang {

// Note [bytes of sources]
//   Slang takes bytes for UTF-8 and does not check them: an invalid byte at the end of a `//` comment swallows the line's
//   end and so the next line, and the text behind a zero byte is lost. Such files are refused.
//
// The place and value of the first byte that is not UTF-8 (overlong, a surrogate or beyond U+10FFFF too) or is zero: ":3:7: byte 0xe9 is not UTF-8". Columns count characters.
std::optional<std::string> first_wrong_byte(std::string_view text);

}  // namespace torch_slang
