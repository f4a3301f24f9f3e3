#include "compiler/emit/passes.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <type_traits>

#include "common/environment.h"
#include "compiler/ctext/line_names.h"
#include "compiler/emit/added_gradients.h"
#include "compiler/emit/addition_runs.h"
#include "compiler/emit/cleared_arrays.h"
#include "compiler/emit/contexts.h"
#include "compiler/emit/emitted_text.h"
#include "compiler/emit/guarded_operations.h"
#include "compiler/emit/host_launches.h"
#include "compiler/emit/host_structs.h"
#include "compiler/emit/joined_branches.h"
#include "compiler/emit/known_forms.h"
#include "compiler/emit/left_out_definitions.h"
#include "compiler/emit/loop_state.h"
#include "compiler/emit/lost_copies.h"
#include "compiler/emit/members.h"
#include "compiler/emit/missing_names.h"
#include "compiler/emit/polled_loops.h"
#include "compiler/emit/refused_lost_parts.h"
#include "compiler/emit/refused_lost_values.h"
#include "compiler/emit/refused_misplaced_tangents.h"
#include "compiler/emit/shared_stores.h"
#include "compiler/emit/statement_lines.h"
#include "compiler/emit/text_facts.h"
#include "compiler/emit/unread_additions.h"
#include "compiler/emit/unset_contexts.h"
#include "compiler/emit/unset_values.h"
#include "compiler/emit/wave_masks.h"
#include "compiler/emit/wide_indices.h"
#include "compiler/emit/written_views.h"
#include "compiler/source/session.h"
#include "compiler/text/refused_text.h"
#include "program/instantiations.h"

namespace torch_slang {
namespace {

template <auto change>
int on_code(EmittedText& text) {
  EmittedCode& code = text.code();
  if constexpr (std::is_void_v<decltype(change(code))>) {
    const size_t before = code.edits();
    change(code);
    return static_cast<int>(code.edits() - before);
  } else {
    return change(code);
  }
}

// What repairs of Slang's derivatives have in common.
constexpr Pass repair(std::string_view name, int (*apply)(EmittedText&), unsigned changes, unsigned needs = kMembers,
                      unsigned gives = kRepaired) {
  return {name, Texts::Kernel, apply, kDeclarations | kStatements | kOperations, changes, needs, gives, true};
}

constexpr Pass kPasses[] = {
    // Slang's functions as members of a kernel object, or as functions that the library calls.
    {.name = "members",
     .texts = Texts::Kernel,
     .apply = on_code<make_members>,
     .reads = kDeclarations,
     .changes = kAll,
     .gives = kMembers},
    {.name = "left-out definitions",
     .texts = Texts::Host,
     .apply = [](EmittedText& text) { return leave_out_definitions(text.code(), text.left_out); },
     .reads = kDeclarations,
     .changes = kDeclarations,
     .gives = kValidHost},
    {.name = "launches",
     .texts = Texts::Host,
     .apply = on_code<name_launched_kernels>,
     .reads = kDeclarations | kStatements,
     .changes = kStatements,
     .needs = kValidHost},
    {.name = "structs",
     .texts = Texts::Host,
     .apply = on_code<flatten_structs>,
     .reads = kDeclarations,
     .changes = kDeclarations,
     .needs = kValidHost},
    // Repairs of Slang's derivatives.
    repair("missing names", on_code<restore_missing_names>, kDeclarations | kStatements, kMembers,
           kDeclared | kRepaired),
    repair("lost parts", on_code<refuse_lost_parts>, kNothing),
    repair("lost values", on_code<refuse_lost_values>, kNothing),
    repair("misplaced tangents", on_code<refuse_misplaced_tangents>, kNothing),
    repair("shared stores", on_code<store_to_shared_in_place>, kStatements),
    repair("context reads", on_code<read_contexts_in_place>, kStatements, kMembers | kDeclared,
           kReadInPlace | kRepaired),
    repair("context values", on_code<store_values_in_contexts>, kStatements),
    repair("lost copies", on_code<repair_lost_copies>, kStatements, kMembers | kReadInPlace),
    repair("added gradients", on_code<add_met_gradients>, kStatements, kMembers | kReadInPlace),
    repair("unset values", on_code<set_unset_values>, kStatements, kMembers | kDeclared),
    // Forms that compilers optimise better.
    {.name = "unset contexts",
     .texts = Texts::Kernel,
     .apply = on_code<unset_contexts>,
     .reads = kStatements,
     .changes = kStatements,
     .needs = kRepaired},
    {.name = "joined branches",
     .texts = Texts::Kernel,
     .apply = on_code<join_branches>,
     .reads = kStatements,
     .changes = kStatements,
     .needs = kRepaired},
    // Places and names for checks, interrupts and waves.
    {.name = "statement lines",
     .texts = Texts::Kernel,
     .apply = [](EmittedText& text) { return add_statement_lines(text.code(), text.files); },
     .reads = kDeclarations | kStatements | kDirectives,
     .changes = kPlaces,
     .needs = kMembers | kRepaired,
     .gives = kLines},
    {.name = "wave masks",
     .texts = Texts::Kernel,
     .apply = [](EmittedText& text) { return write_wave_masks(text.code(), text.files, text.scattered_waves); },
     .reads = kStatements | kPlaces,
     .changes = kStatements,
     .needs = kLines,
     .gives = kMasks,
     .is_repair = true},
    {.name = "wide indices",
     .texts = Texts::Kernel,
     .apply = on_code<check_wide_indices>,
     .reads = kStatements | kOperations,
     .changes = kOperations,
     .needs = kRepaired,
     .gives = kWideIndices},
    {.name = "bounded loops",
     .texts = Texts::Kernel,
     .apply = [](EmittedText& text) { return bound_loops(text.code(), text.files); },
     .reads = kStatements | kOperations | kLoopHeads | kPlaces,
     .changes = kOperations | kLoopHeads,
     .needs = kLines,
     .gives = kBounded,
     .is_repair = true},
    {.name = "polled loops",
     .texts = Texts::Both,
     .apply = on_code<poll_loops>,
     .reads = kLoopHeads | kPlaces,
     .changes = kLoopHeads,
     .needs = kLines | kBounded},
    {.name = "guarded operations",
     .texts = Texts::Both,
     .apply = on_code<guard_operations>,
     .reads = kOperations,
     .changes = kOperations,
     .needs = kRepaired | kWideIndices | kBounded},
    {.name = "unread additions",
     .texts = Texts::Kernel,
     .apply = on_code<write_unread_additions>,
     .reads = kStatements,
     .changes = kStatements,
     .needs = kRepaired,
     .gives = kUnread},
    {.name = "addition runs",
     .texts = Texts::Kernel,
     .apply = on_code<write_addition_runs>,
     .reads = kStatements | kOperations | kPlaces,
     .changes = kStatements,
     .needs = kMasks | kUnread},
    {.name = "cleared arrays",
     .texts = Texts::Kernel,
     .apply = on_code<clear_arrays>,
     .reads = kStatements | kPlaces,
     .changes = kStatements,
     .needs = kLines | kRepaired},
    {.name = "line names",
     .texts = Texts::Both,
     .apply = on_code<escape_line_names>,
     .reads = kDirectives,
     .changes = kDirectives,
     .needs = kLines | kBounded},
};
static_assert(misplaced(kPasses).empty(), "a pass stands before what it needs");

std::vector<PassCount> apply(Texts texts, EmittedText& text, const LeftOutRepairs& left_out) {
  std::vector<PassCount> counts;
  for (const Pass& pass : kPasses) {
    if (!pass.is_for(texts) || left_out.has(pass.name)) continue;
    text.begin(pass);
    counts.push_back({pass.name, pass.apply(text)});
    text.end(pass);
  }
  return counts;
}

// The tests have the variable set.
Known known_forms_of(const DeviceText& text) {
  if (environment_flag("TORCH_SLANG_CHECK_TEXTS", false)) return Known::Everywhere;
  return text.direction == Direction::Forward ? Known::Nowhere : Known::InDerivatives;
}

}  // namespace

std::vector<std::string_view> repairs_of_texts() {
  std::vector<std::string_view> names;
  for (const Pass& pass : kPasses) {
    if (pass.is_repair) names.push_back(pass.name);
  }
  return names;
}

std::vector<PassCount> apply_passes(EmittedText& emitted, DeviceText& text, const LeftOutRepairs& left_out) {
  if (const Known where = known_forms_of(text); where != Known::Nowhere) refuse_unknown_forms(emitted.code(), where);
  std::vector<PassCount> counts = apply(Texts::Kernel, emitted, left_out);
  text.file_scope = emitted.file_scope().text();
  text.body = emitted.body();
  text.files = std::move(emitted.files);
  text.scattered_waves = emitted.scattered_waves;
  read_facts(emitted.file_scope(), emitted.code(), text);
  const AccessedViews views = accessed_views(emitted.code());
  text.loaded.assign(views.loaded.begin(), views.loaded.end());
  text.stored.assign(views.stored.begin(), views.stored.end());
  return counts;
}

std::string apply_host_passes(std::string text, std::set<std::string> left_out) {
  EmittedText emitted(std::move(text), Texts::Host);
  emitted.left_out = std::move(left_out);
  apply(Texts::Host, emitted, {});
  return emitted.body();
}

}  // namespace torch_slang
