#include "op/text_source.h"

#include <algorithm>

#include "common/error.h"
#include "common/files.h"
#include "op/program_store.h"

namespace torch_slang {

namespace {

std::string describe(const std::string& function, Direction direction, const std::vector<ElementType>& types) {
  std::string text = function + " (" + name_of(direction);
  for (const ElementType type : types) text += std::string(", ") + name_of(type);
  return text + ")";
}

}  // namespace

TextSource::TextSource(CompileRequest request, std::shared_ptr<const Program> program)
    : request_(std::move(request)), files_(program->files) {
  take(*program);
}

bool TextSource::mentions(const std::string& word) const {
  if (request_.source && request_.source->find(word) != std::string::npos) return true;
  return std::any_of(files_.begin(), files_.end(), [&](const SourceFile& file) {
    const auto content = read_file(file.path);
    return content && content->find(word) != std::string::npos;
  });
}

void TextSource::take(const Program& program) {
  for (const DeviceText& text : program.texts) texts_.emplace(Key{text.function, text.direction, text.types, text.sizes}, text);
}

const DeviceText& TextSource::text(const std::string& function, Direction direction,
                                   const std::vector<ElementType>& types, const std::vector<int64_t>& sizes) {
  const Key key{function, direction, types, sizes};
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = texts_.find(key);
  if (found == texts_.end()) {
    CompileRequest request = request_;
    request.instantiations = {{function, direction, types, sizes}};
    take(*load_program(request));
    found = texts_.find(key);
  }
  if (found == texts_.end()) {
    throw_compile_error(request_.path, ": the compiler gave no text for ", describe(function, direction, types));
  }
  if (!found->second.error.empty()) {
    throw_compile_error(request_.path, ": ", describe(function, direction, types), " does not compile\n",
                        found->second.error);
  }
  return found->second;
}

}  // namespace torch_slang
