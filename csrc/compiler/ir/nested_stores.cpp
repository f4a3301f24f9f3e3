#include "compiler/ir/nested_stores.h"

#include "compiler/ir/written_places.h"

namespace torch_slang {

void take_nested_stores_apart(ModuleEdits& module) {
  WrittenPlaces places(module);
  for (int64_t at = 0; at < module.size(); ++at) places.take_apart(at);
}

}  // namespace torch_slang
