#include "compiler/emit/host_launches.h"

#include <c10/util/Exception.h>

namespace torch_slang {

int name_launched_kernels(std::string& text) {
  const std::string start = "cudaLaunchKernel((const void*)(";
  std::string result;
  size_t at = 0;
  int count = 0;
  for (size_t call = text.find(start); call != std::string::npos; call = text.find(start, at)) {
    const size_t name = call + start.size();
    const size_t end = text.find("), ", name);
    TORCH_CHECK(end != std::string::npos,
                "torch-slangc: this version of Slang launches kernels in a form that torch_slang does not recognise");
    const std::string kernel = text.substr(name, end - name);
    result += text.substr(at, call - at) + "tsl::launch<decltype(" + kernel + ")>(\"" + kernel + "\", ";
    at = end + 3;
    ++count;
  }
  text = result + text.substr(at);
  return count;
}

}  // namespace torch_slang
