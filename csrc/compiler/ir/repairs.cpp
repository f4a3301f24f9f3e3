#include "compiler/ir/repairs.h"

#include <c10/util/Exception.h>

#include "compiler/ir/annotations.h"
#include "compiler/ir/chunks.h"
#include "compiler/ir/computed_beginnings.h"
#include "compiler/ir/instruction_table.h"
#include "compiler/ir/library_calls.h"
#include "compiler/ir/long_chains.h"
#include "compiler/ir/loop_copies.h"
#include "compiler/ir/lost_derivatives.h"
#include "compiler/ir/mixed_stores.h"
#include "compiler/ir/module_edits.h"
#include "compiler/ir/nested_stores.h"
#include "compiler/ir/opcodes.h"
#include "compiler/ir/promotions.h"
#include "compiler/ir/quotients.h"

namespace torch_slang {
namespace {

// A module while it is repaired, and what repairs need to know. No repair changes what `annotations` and `library` have read.
struct Repaired {
  explicit Repaired(const std::string& data) : edits(read_instructions(data)) {}

  ModuleEdits edits;
  const Annotations annotations{edits};
  LibraryCalls library{edits};
  Stores stores = Stores::AsWritten;
  Chains chains = Chains::Whole;
  bool has_stores_apart = false;  // take_nested_stores_apart has run
};

struct Repair {
  std::string_view name;
  void (*apply)(Repaired& module);
};

template <void (*repair)(ModuleEdits&)>
void on_edits(Repaired& module) {
  repair(module.edits);
}

constexpr std::string_view kLostDerivatives = "lost derivatives";  // is refused, with its line

constexpr Repair kRepairs[] = {
    {"types of indices", on_edits<drop_attributes_of_constants>},
    {"conversions", on_edits<replace_conversions>},
    {"promotions", on_edits<promote_operands>},
    {"computed beginnings", on_edits<hide_steps_of_computed_beginnings>},
    {"quotients", [](Repaired& module) { call_quotients(module.edits, module.library); }},
    {"long chains",
     [](Repaired& module) {
       if (module.chains == Chains::Broken) break_long_chains(module.edits, module.library);
     }},
    {"copies in loops",
     [](Repaired& module) { renew_copies_in_loops(module.edits, module.annotations, module.library); }},
    {"nested stores",
     [](Repaired& module) {
       if (module.stores != Stores::Apart) return;
       take_nested_stores_apart(module.edits);
       module.has_stores_apart = true;  // the mixed ones too
     }},
    {"mixed stores",
     [](Repaired& module) {
       if (!module.has_stores_apart) take_mixed_stores_apart(module.edits);
     }},
};

// They come with the places in the source, which the text needs.
void erase_debug_lines(ModuleEdits& module) {
  for (int64_t at = 0; at < static_cast<int64_t>(module.size()); ++at) {
    if (module.opcode(at) == kDebugLine || module.opcode(at) == kDebugLocation) module.erase(at);
  }
}

}  // namespace

std::string repaired_module(const std::string& module, std::string* refusal, const LeftOutRepairs& left_out,
                            Stores stores, Chains chains) {
  Chunk root = read_chunks(module);
  Chunk* code = find_data(root, "ir  ");
  TORCH_CHECK(code != nullptr, "torch-slangc: a serialized Slang module has no instructions");
  Repaired repaired(code->data);
  repaired.stores = stores;
  repaired.chains = chains;
  if (!left_out.has(kLostDerivatives)) *refusal = lost_derivatives(repaired.edits, repaired.annotations);
  erase_debug_lines(repaired.edits);
  for (const Repair& repair : kRepairs) {
    if (!left_out.has(repair.name)) repair.apply(repaired);
  }
  write_instructions(repaired.edits.applied(), code->data);
  return write_chunks(root);
}

std::vector<std::string_view> repairs_of_modules() {
  std::vector<std::string_view> names = {kLostDerivatives};
  for (const Repair& repair : kRepairs) names.push_back(repair.name);
  return names;
}

}  // namespace torch_slang
