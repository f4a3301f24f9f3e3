#include "compiler/emit/host_launches.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

namespace torch_slang {

int name_launched_kernels(Code& code) {
  constexpr std::string_view kStart[] = {"cudaLaunchKernel", "(", "(", "const", "void", "*", ")", "("};
  int count = 0;
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at] != kStart[0]) continue;
    size_t name = at;
    const bool is_known = std::ranges::all_of(kStart, [&](std::string_view word) { return code[name++] == word; });
    const size_t close = code.closing(name - 1, code.size());
    TORCH_CHECK(is_known && code[close + 1] == ",",
                "torch-slangc: this version of Slang launches kernels in a form that torch_slang does not recognise");
    const std::string kernel = code.spaced_text({name, close});
    code.replace({at, close + 2}, c10::str("tsl::launch<decltype(", kernel, ")>(\"", kernel, "\","));
    ++count;
  }
  return count;
}

}  // namespace torch_slang
