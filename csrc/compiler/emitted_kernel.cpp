#include "compiler/emitted_kernel.h"

#include "compiler/emit/lost_copies.h"

namespace torch_slang {

std::unique_ptr<EmittedText> emit_kernel(Session& session, slang::IModule* module, const std::string& entry,
                                         Differentials differentials, std::string* diagnostics) {
  const auto emitted = [&](Emission emission) -> std::unique_ptr<EmittedText> {
    std::string text = session.emit(module, entry, emission, diagnostics);
    if (text.empty()) return nullptr;
    return std::make_unique<EmittedText>(std::move(text), Texts::Kernel, differentials);
  };
  std::unique_ptr<EmittedText> optimised = emitted(Emission::Optimised);
  return optimised && may_lose_copies(optimised->code()) ? emitted(Emission::Plain) : std::move(optimised);
}

}  // namespace torch_slang
