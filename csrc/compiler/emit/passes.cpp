#include "compiler/emit/passes.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

#include "common/environment.h"
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
#include "compiler/emit/lost_parts.h"
#include "compiler/emit/lost_values.h"
#include "compiler/emit/members.h"
#include "compiler/emit/missing_names.h"
#include "compiler/emit/polled_loops.h"
#include "compiler/emit/shared_stores.h"
#include "compiler/emit/signs.h"
#include "compiler/emit/statement_lines.h"
#include "compiler/emit/text_facts.h"
#include "compiler/emit/unread_additions.h"
#include "compiler/emit/unset_contexts.h"
#include "compiler/emit/unset_values.h"
#include "compiler/emit/wave_masks.h"
#include "compiler/emit/wide_indices.h"
#include "compiler/emit/written_views.h"
#include "compiler/source/session.h"
#include "compiler/text/line_names.h"
#include "compiler/text/refused_text.h"
#include "program/instantiations.h"

namespace torch_slang {
namespace {

enum class Missed { Caution, Refusal };
enum class Texts { Kernel, Host, Both };

struct Pass {
  std::string_view name;
  Texts texts;
  int (*apply)(EmittedText& text);  // how often
  int Signs::* at_least = nullptr;  // null: a repair, or an improvement
  Missed missed = Missed::Caution;
};

template <auto change>
int on_code(EmittedText& text) {
  const size_t before = text.code().edits();
  change(text.code());
  return static_cast<int>(text.code().edits() - before);
}

// Of a pass that says itself how often it applied. It sees what the passes before it have changed.
template <auto change>
int on_changed_code(EmittedText& text) {
  return change(text.changed_code());
}

template <auto change>
int on_body(EmittedText& text) {
  return change(text.body());
}

constexpr Pass kPasses[] = {
    // Slang's functions as members of a kernel object, or as functions that the library calls.
    {"members", Texts::Kernel, on_body<make_members>, &Signs::entries, Missed::Refusal},
    {"left-out definitions", Texts::Host,
     [](EmittedText& text) { return leave_out_definitions(text.body(), text.left_out); }},
    {"launches", Texts::Host, on_body<name_launched_kernels>},
    {"structs", Texts::Host, on_body<flatten_structs>},
    // Repairs of Slang's derivatives.
    {"missing names", Texts::Kernel, on_code<restore_missing_names>},
    {"lost parts", Texts::Kernel, on_code<refuse_lost_parts>},
    {"lost values", Texts::Kernel, on_code<refuse_lost_values>},
    {"shared stores", Texts::Kernel, on_code<store_to_shared_in_place>},
    {"context reads", Texts::Kernel, on_code<read_contexts_in_place>},
    {"context values", Texts::Kernel, on_code<store_values_in_contexts>},
    {"lost copies", Texts::Kernel, on_code<repair_lost_copies>},
    {"added gradients", Texts::Kernel, on_code<add_met_gradients>},
    {"unset values", Texts::Kernel, on_code<set_unset_values>},
    // Forms that compilers optimise better.
    {"unset contexts", Texts::Kernel, on_changed_code<unset_contexts>, &Signs::cleared_contexts},
    {"joined branches", Texts::Kernel, on_changed_code<join_branches>},
    // Marks and names for checks, interrupts and waves.
    {"statement lines", Texts::Kernel, [](EmittedText& text) { return add_statement_lines(text.body(), text.files); },
     &Signs::lines},
    {"wave masks", Texts::Kernel,
     [](EmittedText& text) { return write_wave_masks(text.changed_code(), text.files, text.scattered_waves); },
     &Signs::masks, Missed::Refusal},
    {"wide indices", Texts::Kernel, on_code<check_wide_indices>},
    {"bounded loops", Texts::Kernel, [](EmittedText& text) { return bound_loops(text.body(), text.files); },
     &Signs::kept_iterations, Missed::Refusal},
    {"polled loops", Texts::Both, on_changed_code<poll_loops>, &Signs::loops},
    {"guarded operations", Texts::Both, on_changed_code<guard_operations>, &Signs::sizes},
    {"unread additions", Texts::Kernel, on_changed_code<mark_unread_additions>},
    {"addition runs", Texts::Kernel, on_changed_code<mark_addition_runs>},
    {"cleared arrays", Texts::Kernel, on_changed_code<clear_arrays>},
    {"line names", Texts::Both, on_body<escape_line_names>},
};

// Slang writes what users ask for by __requirePrelude between its own prelude and the first declaration, which begins
// with a #line.
size_t first_declaration(std::string_view text) {
  constexpr std::string_view kLine = "#line ";
  if (text.starts_with(kLine)) return 0;
  const size_t found = text.find("\n#line ");
  return found == std::string_view::npos ? 0 : found + 1;
}

void check(const Pass& pass, int count, const Signs& signs, std::set<std::string>& cautions) {
  if (pass.at_least == nullptr || count >= signs.*pass.at_least) return;
  const std::string what =
      c10::str("this version of Slang writes CUDA text in a form that torch_slang does not know: the pass '", pass.name,
               "' applied ", count, " times, and at least ", signs.*pass.at_least, " were expected");
  if (pass.missed == Missed::Refusal) throw RefusedText{what};
  cautions.insert(what);
}

std::vector<PassCount> apply(Texts texts, EmittedText& text, const LeftOutRepairs& left_out,
                             std::set<std::string>& cautions) {
  const Signs signs = signs_in(text.body());
  std::vector<PassCount> counts;
  for (const Pass& pass : kPasses) {
    if ((pass.texts != texts && pass.texts != Texts::Both) || left_out.has(pass.name)) continue;
    counts.push_back({pass.name, pass.apply(text)});
    check(pass, counts.back().count, signs, cautions);
  }
  return counts;
}

// The tests have the variable set.
Known known_forms_of(const DeviceText& text) {
  if (environment_flag("TORCH_SLANG_CHECK_TEXTS", false)) return Known::Everywhere;
  return text.direction == Direction::Forward ? Known::Nowhere : Known::InDerivatives;
}

}  // namespace

std::vector<PassCount> apply_passes(const std::string& emitted, DeviceText& text, std::set<std::string>& cautions,
                                    const LeftOutRepairs& left_out) {
  const std::string_view mark = kPreludeMark;
  const size_t at = emitted.find(mark);
  TORCH_INTERNAL_ASSERT(at != std::string::npos, "emitted text has no prelude mark");
  const std::string_view own = std::string_view(emitted).substr(at + mark.size());
  const size_t begin = first_declaration(own);
  const bool blank = own.substr(0, begin).find_first_not_of(" \n") == std::string_view::npos;
  text.file_scope = blank ? "" : own.substr(0, begin);

  const bool tangents = has_forward_derivative(text.direction);
  EmittedText passing(std::string(own.substr(begin)), tangents ? Differentials::Tangents : Differentials::Gradients);
  if (const Known where = known_forms_of(text); where != Known::Nowhere) refuse_unknown_forms(passing.code(), where);
  std::vector<PassCount> counts = apply(Texts::Kernel, passing, left_out, cautions);
  text.body = passing.body();
  text.files = std::move(passing.files);
  text.scattered_waves = passing.scattered_waves;
  read_facts(text);
  const AccessedViews views = accessed_views(text.body);
  text.loaded.assign(views.loaded.begin(), views.loaded.end());
  text.stored.assign(views.stored.begin(), views.stored.end());
  return counts;
}

std::string apply_host_passes(std::string text, std::set<std::string> left_out, std::set<std::string>& cautions) {
  EmittedText passing(std::move(text), Differentials::Gradients);
  passing.left_out = std::move(left_out);
  apply(Texts::Host, passing, {}, cautions);
  return passing.body();
}

}  // namespace torch_slang
