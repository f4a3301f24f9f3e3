// Words of a text as a shell splits it, without substitutions: quotes and backslashes have the meaning that they have
// there, `$`, `*` and the like are letters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace torch_slang {

std::optional<std::vector<std::string>> split_shell_words(std::string_view text);  // nothing: a quote is not closed

}  // namespace torch_slang
