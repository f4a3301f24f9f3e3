#include "compiler/emit/wave_masks.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>

#include "compiler/emit/control_flow.h"
#include "compiler/emit/known_forms.h"
#include "compiler/emit/mask_functions.h"
#include "compiler/emit/repeated_operations.h"
#include "compiler/text/refused_text.h"

namespace torch_slang {
namespace {

// Note [wave masks]
//   The lanes that take part in a wave operation are those that reach it together: what a statement splits comes together
//   again where the statement ends, but for those lanes that have left it by a jump. A function's variable `tsl_wave` is that
//   set wherever it is needed. It is exact, and so nobody waits for a lane that took another path:
//     if       each arm has the lanes that take it: one ballot in front of it
//     switch   each case has the lanes that take it, whatever their selectors are, and those that fall into it
//     for      an iteration has the lanes that begin it
//     call     the callee begins with the caller's set, and the caller goes on with its own, wherever the callee returned
//   At the end of a statement there are three paths to the set, the cheapest first:
//     Restore  no lane jumps out of it: the set that entered it
//     Keep     only one path leads to its end: the set of that path
//     Vote     a ballot among the lanes that entered it. Those that jump out vote no on their way, so all of them vote once:
//              the innermost statement first, and before they wait for lanes of another copy (Note [repeated operations]).
//   A lane that returns from a kernel is gone, and who is gone counts in no ballot: it does not vote, since others may wait for
//   it at a barrier. Slang's own ballots go. Its copies of their results stay, which nobody reads, because it lets masks share
//   variables with other things.
enum class Merge { None, Restore, Keep, Vote };

constexpr const char* kMask = "tsl_wave";

using Kind = EmittedStatement::Kind;

// Of one function.
class MaskWriter {
 public:
  MaskWriter(EmittedCode& code, const MaskFunction& function)
      : code_(code),
        function_(function),
        flow_(function.mask_calls),
        repeated_(code, function.function->body, flow_),
        behind_(function.function->body.span.begin) {}

  void all() {
    const std::string first = function_.mask.empty() ? "__ballot_sync(0xffffffffu, true)" : std::string(function_.mask);
    write("\nuint ", kMask, " = ", first, ";");
    list(function_.function->body, false);
  }

  // Copies of an operation, or several paths that end with the same vote.
  bool scattered() const { return scattered_ || !repeated_.empty(); }

 private:
  // What jumps leave.
  struct Region {
    enum class Exit { None, Break, Continue };

    Exit exit;           // the jump that leads to its end
    std::string vote;  // the set whose ballot a lane takes part in that leaves it otherwise; empty without a ballot
    const void* meeting = nullptr;  // its end is a Join
    std::string merge = {};  // what lanes do there
    bool done = false;  // they have done it, or have voted
  };
  using Exit = Region::Exit;

  // Behind the last token that has been passed.
  template <class... Parts>
  void write(const Parts&... parts) {
    code_.insert_behind(behind_, c10::str(parts...));
  }
  template <class... Parts>
  void write_before(size_t token, const Parts&... parts) {
    code_.insert(token, c10::str(parts...));
  }

  static std::string no_vote(const std::string& set) { return "__ballot_sync(" + set + ", false); "; }
  static std::string assign(const std::string& value) { return c10::str(kMask, " = ", value, "; "); }
  static std::string merged(Merge merge, const std::string& set) {
    if (merge == Merge::Vote) return assign("__ballot_sync(" + set + ", true)");
    return merge == Merge::Restore ? assign(set) : "";
  }

  static Merge merge_of(int paths, bool leaves, bool live) {
    if (!live || paths == 0) return Merge::None;
    if (!leaves) return Merge::Restore;
    return paths == 1 ? Merge::Keep : Merge::Vote;
  }

  // `live`: the mask has uses behind it. A jump needs none, as what it leads to has kept its set; so copies of a
  // statement that ends with a jump get the same ballots, whatever stands around them.
  void list(const EmittedStatement& list, bool live) {
    std::vector<bool> live_after(list.parts.size(), live);
    for (size_t i = list.parts.size(); i-- > 1;) {
      const Flow next = flow_.of(list.parts[i]);
      live_after[i - 1] = next.uses || (next.ends && live_after[i]);
    }
    for (const Join& join : repeated_.joins_in(list)) {
      if (begins_next_turn(join))
        std::fill(live_after.begin() + static_cast<std::ptrdiff_t>(join.statement), live_after.end(), true);
    }
    for (size_t i = 0; i <= list.parts.size(); ++i) {
      join_at(list, i);
      for (const Tail& tail : repeated_.tails_of(list)) {
        if (tail.first == i) begin_tail(&list.parts[tail.last]);
      }
      if (i < list.parts.size()) statement(list.parts[i], live_after[i]);
    }
    if (flow_.of(list).ends) merge_before(list.span.end - 1, region_of(&list));  // the end of an iteration
  }

  // Behind such a join lanes still leave the loop, and the next iteration begins with the others.
  bool begins_next_turn(const Join& join) const {
    return std::any_of(regions_.begin(), regions_.end(), [&](const Region& region) {
      return region.exit == Exit::Continue && region.meeting == join.meeting;
    });
  }

  void begin_tail(const EmittedStatement* meeting) {
    const std::string set = "tsl_tail" + std::to_string(++count_);
    write("\nconst uint ", set, " = ", kMask, ";");
    regions_.push_back({Exit::None, set, meeting, merged(Merge::Vote, set)});
  }

  // A list inside regions. `next`: where lanes meet that come to its end, if it is a case that falls into the next one.
  void part(const EmittedStatement& part, const std::vector<Region>& inside, const std::string& begin, bool live,
            const void* next = nullptr) {
    const std::vector<Region> around = regions_;
    regions_.insert(regions_.end(), inside.begin(), inside.end());
    behind_ = part.span.begin;
    write(begin);
    list(part, live);
    if (next != nullptr) write_before(part.span.end - 1, votes_inside(region_of(next) + 1));
    regions_ = around;
  }

  size_t region_of(const void* meeting) const {
    return std::ranges::find(regions_, meeting, &Region::meeting) - regions_.begin();
  }

  void join_at(const EmittedStatement& list, size_t statement) {
    for (size_t region = regions_.size(); region-- > 0;) {
      for (const Join& join : repeated_.joins_in(list)) {
        if (join.statement == statement && join.meeting == regions_[region].meeting) merge(region);
      }
    }
  }

  // Lanes come together inside a list: for the next iteration, in the next case, or in a copy. At the ends of the regions inside
  // others may wait for them, who come to this meeting later.
  std::string merging(size_t region) {
    if (region >= regions_.size() || regions_[region].done) return {};
    const std::string text = "\n" + votes_inside(region + 1) + regions_[region].merge;
    for (size_t k = region; k < regions_.size(); ++k) regions_[k].done = true;
    return text;
  }
  void merge(size_t region) { write(merging(region)); }
  void merge_before(size_t token, size_t region) { write_before(token, merging(region)); }

  // Of lanes that leave all regions from this one on, the innermost first.
  std::string votes_inside(size_t first) const {
    std::string votes;
    for (size_t k = regions_.size(); k-- > first;) {
      if (!regions_[k].done && !regions_[k].vote.empty()) votes += no_vote(regions_[k].vote);
    }
    return votes;
  }

  void statement(const EmittedStatement& statement, bool live) {
    switch (statement.kind) {
      case Kind::Block:
        behind_ = statement.span.begin;
        list(statement, live);
        break;
      case Kind::If: branch(statement, live); break;
      case Kind::For: loop(statement, live); break;
      case Kind::Switch: selection(statement, live); break;
      case Kind::Break:
      case Kind::Continue:
      case Kind::Return: jump(statement); break;
      default: break;
    }
    behind_ = statement.span.end - 1;
  }

  // `if(head)` becomes `begin head end; if(test)`, so that the head is computed once.
  void take_head_out(const EmittedStatement& statement, const std::string& begin, const std::string& end) {
    code_.replace({statement.span.begin, statement.head.begin}, begin);
    write_before(statement.head.end, end);
  }

  void branch(const EmittedStatement& statement, bool live) {
    const std::string number = std::to_string(++count_);
    const std::string all = kMask + number, took = "tsl_took" + number, test = "tsl_test" + number;
    int paths = statement.parts.size() == 1 ? 1 : 0;
    Flow arms;
    for (const EmittedStatement& arm : statement.parts) {
      const Flow flow = flow_.of(arm);
      paths += flow.ends;
      arms.uses = arms.uses || flow.uses;
      arms.returns += flow.leaves();
    }
    const Merge merge = merge_of(paths, arms.leaves(), live);
    const bool splits = arms.uses || merge == Merge::Keep;
    const std::vector<Region> region = {{Exit::None, merge == Merge::Vote ? all : ""}};
    if (splits || merge == Merge::Vote) write_before(statement.span.begin, "const uint ", all, " = ", kMask, "; ");
    if (splits) {
      take_head_out(statement, c10::str("const bool ", test, " = "),
                    c10::str("; const uint ", took, " = __ballot_sync(", all, ", ", test, "); if(", test));
    }
    const std::string others = assign(all + " & ~" + took);
    part(statement.parts[0], region, splits ? "\n" + assign(took) : "", merge == Merge::Keep);
    if (statement.parts.size() == 2)
      part(statement.parts[1], region, splits ? "\n" + others : "", merge == Merge::Keep);
    behind_ = statement.span.end - 1;
    if (merge == Merge::Keep && statement.parts.size() == 1) write("\n", others);
    if (merge == Merge::Vote || (merge == Merge::Restore && splits)) write("\n", merged(merge, all));
  }

  void loop(const EmittedStatement& statement, bool live) {
    const std::string number = std::to_string(++count_);
    const std::string all = kMask + number, iteration = "tsl_turn" + number;
    const EmittedStatement& body = statement.parts[0];
    const Flow flow = flow_.of(body);
    const Merge merge = merge_of(2, flow.returns > 0, live && flow.breaks > 0);
    const int paths = !flow.uses ? 0 : flow.ends + flow.continues;
    const Merge iterations = paths == 0            ? Merge::None
                             : flow.continues == 0 ? Merge::Keep
                                                   : merge_of(2, flow.breaks + flow.returns > 0, true);
    if (merge != Merge::None)
      code_.insert_above(statement.span.begin, c10::str("const uint ", all, " = ", kMask, ";\n"));
    scattered_ = scattered_ || iterations == Merge::Vote;
    const bool begins_iteration = iterations == Merge::Vote || iterations == Merge::Restore;
    part(body,
         {{Exit::Break, merge == Merge::Vote ? all : ""},
          {Exit::Continue, iterations == Merge::Vote ? iteration : "", &body, merged(iterations, iteration)}},
         begins_iteration ? "\nconst uint " + iteration + " = " + kMask + ";" : "", iterations == Merge::Keep);
    behind_ = statement.span.end - 1;
    if (merge == Merge::Vote || (merge == Merge::Restore && flow.uses)) write("\n", merged(merge, all));
  }

  void selection(const EmittedStatement& statement, bool live) {
    const std::string number = std::to_string(++count_);
    const std::string all = kMask + number, test = "tsl_test" + number;
    const Flow cases = flow_.of_cases(statement);
    const Merge merge = merge_of(2, cases.continues + cases.returns > 0, live);
    const std::vector<SwitchCase> parts = cases_of(statement);
    const Falls falls = falls_of(parts, "tsl_fallen" + number + "_");
    if (cases.uses || merge == Merge::Vote) write_before(statement.span.begin, "const uint ", all, " = ", kMask, "; ");
    if (cases.uses) {
      take_head_out(
          statement, c10::str("const auto ", test, " = "),
          c10::str("; const int tsl_case", number, " = ", case_number(parts, test), "; ", fallen_sets(falls, number),
                   assign("__match_any_sync(" + all + ", tsl_case" + number + ")"), "switch(", test));
    }
    for (size_t k = 0; k < parts.size(); ++k) {
      std::vector<Region> regions = {{Exit::Break, merge == Merge::Vote ? all : ""}};
      for (auto into = falls[k].rbegin(); into != falls[k].rend(); ++into) {
        regions.push_back({Exit::None, into->set, into->meeting, merged(Merge::Vote, into->set)});
      }
      part(*parts[k].block, regions, "", false, next_case(parts, k));
    }
    behind_ = statement.span.end - 1;
    if (merge == Merge::Vote || (merge == Merge::Restore && cases.uses)) write("\n", merged(merge, all));
  }

  // Where the lanes of a case meet those of others, and the variable with all of them; in the order in which they do.
  struct Fall {
    const void* meeting;
    std::string set;
  };
  using Falls = std::vector<std::vector<Fall>>;  // for each case

  Falls falls_of(const std::vector<SwitchCase>& parts, const std::string& prefix) {
    Falls falls(parts.size());
    std::map<const void*, std::string> sets;
    for (size_t k = 0; k < parts.size(); ++k) {
      for (const void* meeting : repeated_.meetings_of_case(*parts[k].block)) {
        falls[k].push_back({meeting, sets.emplace(meeting, prefix + std::to_string(sets.size())).first->second});
      }
    }
    return falls;
  }

  // The case that the one falls into, if it falls.
  const EmittedStatement* next_case(const std::vector<SwitchCase>& parts, size_t k) {
    return k + 1 < parts.size() && flow_.of(*parts[k].block).ends ? parts[k + 1].block : nullptr;
  }

  // Those variables: the lanes of all the cases.
  static std::string fallen_sets(const Falls& falls, const std::string& number) {
    std::map<std::string, std::string> tests;
    for (size_t k = 0; k < falls.size(); ++k) {
      for (const Fall& fall : falls[k]) {
        std::string& test = tests[fall.set];
        test += c10::str(test.empty() ? "" : " || ", "tsl_case", number, " == ", k);
      }
    }
    std::string text;
    for (const auto& [set, test] : tests)
      text += c10::str("const uint ", set, " = __ballot_sync(", kMask, number, ", ", test, "); ");
    return text;
  }

  // Which case a lane takes: an expression over the selector.
  std::string case_number(const std::vector<SwitchCase>& parts, const std::string& selector) const {
    std::string text, tail = "-1";
    for (size_t k = 0; k < parts.size(); ++k) {
      std::string test;
      for (const Span label : parts[k].labels) {
        if (label.size() == 0)
          tail = std::to_string(k);
        else
          test += c10::str(test.empty() ? "" : " || ", selector, " == (", code_.text_in_front(label.begin),
                           code_.text(label), ")");
      }
      if (!test.empty()) text += c10::str(test, " ? ", k, " : ");
    }
    return text + tail;
  }

  void jump(const EmittedStatement& statement) {
    const Exit exit = statement.kind == Kind::Break      ? Exit::Break
                      : statement.kind == Kind::Continue ? Exit::Continue
                                                         : Exit::None;
    size_t target = regions_.size();  // one further than the region that the jump leads to the end of
    while (target > 0 && (exit == Exit::None || regions_[target - 1].exit != exit)) --target;
    std::string votes = votes_inside(target);
    if (target > 0 && !regions_[target - 1].done) votes += regions_[target - 1].merge;
    if (votes.empty() || (statement.kind == Kind::Return && function_.ends_thread)) return;
    if (!flow_.uses(statement.head)) return write_before(statement.span.begin, votes);
    const std::string value = "tsl_value" + std::to_string(++count_);
    code_.replace({statement.span.begin, statement.head.begin}, c10::str("const auto ", value, " ="));
    write_before(statement.head.end, "; ", votes, "return ", value);
  }

  EmittedCode& code_;
  const MaskFunction& function_;
  ControlFlow flow_;
  RepeatedOperations repeated_;
  size_t behind_;  // the last token in front of where `write` writes
  std::vector<Region> regions_;
  int count_ = 0;
  bool scattered_ = false;
};

// Slang's masks, which go, and those that are handed on, which become ours. Of two where one is in the other the outer one is
// changed. Counts both.
class SlangMasks {
 public:
  explicit SlangMasks(const EmittedCode& code) : code_(code) {
    // Slang writes `uint _S1 = __ballot_sync(...);`. A ballot that a user asks for is in parentheses: `= (__ballot_sync(...))`.
    for (size_t at = 0; at < code.size(); ++at) {
      const bool is_ballot = code[at + 1] == "__ballot_sync" || code[at + 1] == "__match_any_sync";
      if (code[at] == "=" && is_ballot) spans_[at + 1] = {code.closing(at + 2, code.size()) + 1, "0U"};
    }
  }

  int count() const { return static_cast<int>(spans_.size()); }
  void hand_on(size_t call) {
    const Span argument = mask_argument(code_, call);
    spans_[argument.begin] = {argument.end, kMask};
  }
  void replace(EmittedCode& code) const {
    size_t behind = 0;
    for (const auto& [begin, mask] : spans_) {
      if (begin < behind) continue;
      code.replace({begin, mask.end}, mask.text);
      behind = mask.end;
    }
  }

 private:
  struct Mask {
    size_t end;
    std::string text;
  };
  const EmittedCode& code_;
  std::map<size_t, Mask> spans_;  // by their beginnings
};

// The user's line of a token, by the last TSL_AT in front of it: `TSL_AT(file, line);`
std::string place_of(const EmittedCode& code, size_t at, const std::vector<std::string>& files) {
  const auto number = [&](size_t token) { return std::strtoull(std::string(code[token]).c_str(), nullptr, 10); };
  while (at-- > 0) {
    if (code[at] == "TSL_AT") return c10::str(files.at(number(at + 2)), ":", number(at + 4));
  }
  return "an unknown line";
}

bool asks_for_mask(const Code& code) {
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at].starts_with("WaveGetActiveMask")) return true;
  }
  return false;
}

// As the user wrote it, without Slang's number.
std::string_view written_name(std::string_view name) { return name.substr(0, name.rfind('_')); }

}  // namespace

int write_wave_masks(EmittedCode& code, const std::vector<std::string>& files, bool& scattered) {
  SlangMasks masks(code);
  if (masks.count() == 0 && asks_for_mask(code)) throw unknown_text("wave operations have no mask");
  if (masks.count() == 0) return 0;
  for (const MaskFunction& function : functions_with_masks(code)) {
    for (const size_t call : function.mask_calls) masks.hand_on(call);
    if (function.mask_calls.empty()) continue;
    const EmittedFunction& text = *function.function;
    if (text.unknown) {
      refuse_form(code, text.unknown->at, place_of(code, text.unknown->at, files),
                  c10::str("Which lanes take part in a wave operation is not clear in ", written_name(text.name)));
    }
    try {
      check_forms(text.body);
      check_unconditional(code, function);
      MaskWriter writer(code, function);
      writer.all();
      scattered = scattered || writer.scattered();
    } catch (const UnknownForm& form) {
      throw RefusedText{
          c10::str("which lanes take part in a wave operation is not clear in ", written_name(text.name), " (",
                   place_of(code, form.at, files),
                   "): several paths lead to it; write it where they have come together, behind the branch, "
                   "the switch or the loop")};
    }
  }
  masks.replace(code);
  return masks.count();
}

}  // namespace torch_slang
