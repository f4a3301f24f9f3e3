#include "compiler/emit/wave_masks.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>

#include "compiler/emit/control_flow.h"
#include "compiler/emit/mask_functions.h"
#include "compiler/emit/repeated_operations.h"
#include "compiler/emit/statement_tree.h"
#include "compiler/text/refused_text.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

// Note [wave masks]
//   The lanes that take part in a wave operation are those that reach it together: what a statement splits comes together
//   again where the statement ends, but for those lanes that have left it by a jump. A function's variable `tsl_wave` is that
//   set wherever it is needed. It is exact, and so nobody waits for a lane that took another path:
//     if       each arm has the lanes that take it: one ballot in front of it
//     switch   each case has the lanes that take it, whatever their selectors are, and those that fall into it
//     for      a turn has the lanes that begin it
//     call     the callee begins with the caller's set, and the caller goes on with its own, wherever the callee returned
//   At the end of a statement there are three paths to the set, the cheapest first:
//     Restore  no lane jumps out of it: the set that entered it
//     Keep     only one path leads to its end: the set of that path
//     Vote     a ballot among the lanes that entered it. Those that jump out vote no on their way, so all of them vote once:
//              the innermost statement first, and before they wait for lanes of another place (Note [repeated operations]).
//   A lane that returns from a kernel is gone, and who is gone counts in no ballot: it does not vote, since others may wait for
//   it at a barrier. Slang's own ballots go. Its copies of their results stay, which nobody reads, because it lets masks share
//   variables with other things.
enum class Merge { None, Restore, Keep, Vote };

constexpr const char* kMask = "tsl_wave";

using Kind = Statement::Kind;

struct Replacement {
  size_t end;
  std::string text;
};
using Replacements = std::map<size_t, Replacement>;

std::string copy(const std::vector<Token>& tokens, TokenRange range, const Replacements& replacements) {
  std::string text;
  for (size_t at = range.begin; at < range.end;) {
    const auto found = replacements.find(at);
    text += found == replacements.end() ? tokens[at].text : std::string_view(found->second.text);
    at = found == replacements.end() ? at + 1 : found->second.end;
  }
  return text;
}

// One function's body.
class MaskWriter {
 public:
  MaskWriter(const std::vector<Token>& tokens, const TextFunction& function, const Replacements& replacements)
      : tokens_(tokens),
        function_(function),
        replacements_(replacements),
        flow_(function.mask_calls),
        root_(parse_statements(tokens, function.body)),
        repeated_(tokens, root_, flow_),
        at_(function.body.begin) {}

  std::string body() {
    const std::string first = function_.mask.empty() ? "__ballot_sync(0xffffffffu, true)" : std::string(function_.mask);
    write("\nuint ", kMask, " = ", first, ";");
    list(root_, false);
    return std::move(text_);
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

  template <class... Parts>
  void write(const Parts&... parts) {
    text_ += c10::str(parts...);
  }

  void copy_until(size_t end) {
    text_ += copy(tokens_, {at_, end}, replacements_);
    at_ = end;
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

  // `live`: the mask is needed behind it. A jump needs none, as the place that it leads to has kept its set; so copies of a
  // statement that ends with a jump get the same ballots, whatever stands around them.
  void list(const StatementList& list, bool live) {
    std::vector<bool> live_after(list.statements.size(), live);
    for (size_t i = list.statements.size(); i-- > 1;) {
      const Flow next = flow_.of(list.statements[i]);
      live_after[i - 1] = next.uses || (next.ends && live_after[i]);
    }
    for (const Join& join : repeated_.joins_in(list)) {
      if (begins_next_turn(join))
        std::fill(live_after.begin() + static_cast<std::ptrdiff_t>(join.statement), live_after.end(), true);
    }
    for (size_t i = 0; i <= list.statements.size(); ++i) {
      join_at(list, i);
      for (const Tail& tail : repeated_.tails_of(list)) {
        if (tail.first == i) begin_tail(&list.statements[tail.last]);
      }
      if (i < list.statements.size()) statement(list.statements[i], live_after[i]);
    }
    copy_until(list.tokens.end);
    if (flow_.of(list).ends) merge(region_of(&list));  // the end of a turn
  }

  // Behind such a join lanes still leave the loop, and the next turn begins with the others.
  bool begins_next_turn(const Join& join) const {
    return std::any_of(regions_.begin(), regions_.end(), [&](const Region& region) {
      return region.exit == Exit::Continue && region.meeting == join.meeting;
    });
  }

  void begin_tail(const Statement* meeting) {
    const std::string set = "tsl_tail" + std::to_string(++count_);
    write("\nconst uint ", set, " = ", kMask, ";");
    regions_.push_back({Exit::None, set, meeting, merged(Merge::Vote, set)});
  }

  // A list inside regions. `next`: where lanes meet that come to its end, if it is a case that falls into the next one.
  void part(const StatementList& part, const std::vector<Region>& inside, const std::string& begin, bool live,
            const void* next = nullptr) {
    const std::vector<Region> around = regions_;
    regions_.insert(regions_.end(), inside.begin(), inside.end());
    copy_until(part.tokens.begin);
    text_ += begin;
    list(part, live);
    if (next != nullptr) write(votes_inside(region_of(next) + 1));
    regions_ = around;
  }

  size_t region_of(const void* meeting) const {
    return std::ranges::find(regions_, meeting, &Region::meeting) - regions_.begin();
  }

  void join_at(const StatementList& list, size_t statement) {
    for (size_t region = regions_.size(); region-- > 0;) {
      for (const Join& join : repeated_.joins_in(list)) {
        if (join.statement == statement && join.meeting == regions_[region].meeting) merge(region);
      }
    }
  }

  // Lanes come together inside a list: for the next turn, in the next case, or in a copy. At the ends of the regions inside
  // others may wait for them, who come to this meeting later.
  void merge(size_t region) {
    if (region >= regions_.size() || regions_[region].done) return;
    write("\n", votes_inside(region + 1), regions_[region].merge);
    for (size_t k = region; k < regions_.size(); ++k) regions_[k].done = true;
  }

  // Of lanes that leave all regions from this one on, the innermost first.
  std::string votes_inside(size_t first) const {
    std::string votes;
    for (size_t k = regions_.size(); k-- > first;) {
      if (!regions_[k].done && !regions_[k].vote.empty()) votes += no_vote(regions_[k].vote);
    }
    return votes;
  }

  void statement(const Statement& statement, bool live) {
    switch (statement.kind) {
      case Kind::Plain: break;
      case Kind::Block: list(statement.parts[0], live); break;
      case Kind::If: branch(statement, live); break;
      case Kind::Loop: loop(statement, live); break;
      case Kind::Switch: selection(statement, live); break;
      case Kind::Break:
      case Kind::Continue:
      case Kind::Return: jump(statement); break;
    }
    copy_until(statement.tokens.end);
  }

  void branch(const Statement& statement, bool live) {
    const std::string number = std::to_string(++count_);
    const std::string all = kMask + number, took = "tsl_took" + number, test = "tsl_test" + number;
    int paths = statement.parts.size() == 1 ? 1 : 0;
    Flow arms;
    for (const StatementList& arm : statement.parts) {
      const Flow flow = flow_.of(arm);
      paths += flow.ends;
      arms.uses = arms.uses || flow.uses;
      arms.returns += flow.leaves();
    }
    const Merge merge = merge_of(paths, arms.leaves(), live);
    const bool splits = arms.uses || merge == Merge::Keep;
    const std::vector<Region> region = {{Exit::None, merge == Merge::Vote ? all : ""}};
    copy_until(statement.tokens.begin);
    if (splits || merge == Merge::Vote) write("const uint ", all, " = ", kMask, "; ");
    if (splits) {
      const std::string condition = copy(tokens_, statement.head, replacements_);
      write("const bool ", test, " = ", condition, "; const uint ", took, " = __ballot_sync(", all, ", ", test,
            "); if(", test);
      at_ = statement.head.end;
    }
    const std::string others = assign(all + " & ~" + took);
    part(statement.parts[0], region, splits ? "\n" + assign(took) : "", merge == Merge::Keep);
    if (statement.parts.size() == 2)
      part(statement.parts[1], region, splits ? "\n" + others : "", merge == Merge::Keep);
    copy_until(statement.tokens.end);
    if (merge == Merge::Keep && statement.parts.size() == 1) write("\n", others);
    if (merge == Merge::Vote || (merge == Merge::Restore && splits)) write("\n", merged(merge, all));
  }

  void loop(const Statement& statement, bool live) {
    const std::string number = std::to_string(++count_);
    const std::string all = kMask + number, turn = "tsl_turn" + number;
    const StatementList& body = statement.parts[0];
    const Flow flow = flow_.of(body);
    const Merge merge = merge_of(2, flow.returns > 0, live && flow.breaks > 0);
    const int paths = !flow.uses ? 0 : flow.ends + flow.continues;
    const Merge turns = paths == 0            ? Merge::None
                        : flow.continues == 0 ? Merge::Keep
                                              : merge_of(2, flow.breaks + flow.returns > 0, true);
    copy_until(pragma_in_front_of(statement));
    if (merge != Merge::None) write("const uint ", all, " = ", kMask, ";\n");
    scattered_ = scattered_ || turns == Merge::Vote;
    const bool begins_turn = turns == Merge::Vote || turns == Merge::Restore;
    part(body,
         {{Exit::Break, merge == Merge::Vote ? all : ""},
          {Exit::Continue, turns == Merge::Vote ? turn : "", &body, merged(turns, turn)}},
         begins_turn ? "\nconst uint " + turn + " = " + kMask + ";" : "", turns == Merge::Keep);
    copy_until(statement.tokens.end);
    if (merge == Merge::Vote || (merge == Merge::Restore && flow.uses)) write("\n", merged(merge, all));
  }

  // `#pragma unroll` speaks of the loop behind it, so nothing may come between them.
  size_t pragma_in_front_of(const Statement& statement) const {
    for (size_t at = at_; at < statement.tokens.begin; ++at) {
      if (tokens_[at].kind == TokenKind::Directive && tokens_[at].text.starts_with("#pragma")) return at;
    }
    return statement.tokens.begin;
  }

  void selection(const Statement& statement, bool live) {
    const std::string number = std::to_string(++count_);
    const std::string all = kMask + number, test = "tsl_test" + number;
    const Flow cases = flow_.of_cases(statement);
    const Merge merge = merge_of(2, cases.continues + cases.returns > 0, live);
    const Falls falls = falls_of(statement, "tsl_fallen" + number + "_");
    copy_until(statement.tokens.begin);
    if (cases.uses || merge == Merge::Vote) write("const uint ", all, " = ", kMask, "; ");
    if (cases.uses) {
      write("const auto ", test, " = ", copy(tokens_, statement.head, replacements_), "; const int tsl_case", number,
            " = ", case_number(statement, test), "; ", fallen_sets(falls, number),
            assign("__match_any_sync(" + all + ", tsl_case" + number + ")"), "switch(", test);
      at_ = statement.head.end;
    }
    for (size_t k = 0; k < statement.parts.size(); ++k) {
      std::vector<Region> regions = {{Exit::Break, merge == Merge::Vote ? all : ""}};
      for (auto into = falls[k].rbegin(); into != falls[k].rend(); ++into) {
        regions.push_back({Exit::None, into->set, into->meeting, merged(Merge::Vote, into->set)});
      }
      part(statement.parts[k], regions, "", false, next_case(statement, k));
    }
    copy_until(statement.tokens.end);
    if (merge == Merge::Vote || (merge == Merge::Restore && cases.uses)) write("\n", merged(merge, all));
  }

  // Where the lanes of a case meet those of others, and the variable with all of them; in the order in which they do.
  struct Fall {
    const void* meeting;
    std::string set;
  };
  using Falls = std::vector<std::vector<Fall>>;  // for each case

  Falls falls_of(const Statement& statement, const std::string& prefix) {
    Falls falls(statement.parts.size());
    std::map<const void*, std::string> sets;
    for (size_t k = 0; k < statement.parts.size(); ++k) {
      for (const void* meeting : repeated_.meetings_of_case(statement.parts[k])) {
        falls[k].push_back({meeting, sets.emplace(meeting, prefix + std::to_string(sets.size())).first->second});
      }
    }
    return falls;
  }

  // The case that the one falls into, if it falls.
  const StatementList* next_case(const Statement& statement, size_t k) {
    return k + 1 < statement.parts.size() && flow_.of(statement.parts[k]).ends ? &statement.parts[k + 1] : nullptr;
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
  std::string case_number(const Statement& statement, const std::string& selector) const {
    std::string text, tail = "-1";
    for (size_t k = 0; k < statement.labels.size(); ++k) {
      std::string test;
      for (const TokenRange label : statement.labels[k]) {
        if (label.empty())
          tail = std::to_string(k);
        else
          test += c10::str(test.empty() ? "" : " || ", selector, " == (", copy(tokens_, label, replacements_), ")");
      }
      if (!test.empty()) text += c10::str(test, " ? ", k, " : ");
    }
    return text + tail;
  }

  void jump(const Statement& statement) {
    copy_until(statement.tokens.begin);
    const Exit exit = statement.kind == Kind::Break      ? Exit::Break
                      : statement.kind == Kind::Continue ? Exit::Continue
                                                         : Exit::None;
    size_t target = regions_.size();  // one further than the region that the jump leads to the end of
    while (target > 0 && (exit == Exit::None || regions_[target - 1].exit != exit)) --target;
    std::string votes = votes_inside(target);
    if (target > 0 && !regions_[target - 1].done) votes += regions_[target - 1].merge;
    if (votes.empty() || (statement.kind == Kind::Return && function_.ends_thread)) return;
    if (!flow_.uses(statement.head)) return write(votes);
    const std::string value = "tsl_value" + std::to_string(++count_);
    write("const auto ", value, " = ", copy(tokens_, statement.head, replacements_), "; ", votes, "return ", value);
    at_ = statement.head.end;
  }

  const std::vector<Token>& tokens_;
  const TextFunction& function_;
  const Replacements& replacements_;
  mutable ControlFlow flow_;  // it remembers
  const StatementList root_;
  RepeatedOperations repeated_;
  std::string text_;
  size_t at_;  // what comes before is written
  std::vector<Region> regions_;
  int count_ = 0;
  bool scattered_ = false;
};

bool is(const std::vector<Token>& tokens, size_t at, std::string_view text) {
  return at < tokens.size() && tokens[at].text == text;
}

// `uint _S1 = __ballot_sync(...);`, which is Slang's: what a user asks for stands in parentheses.
void remove_ballots(const std::vector<Token>& tokens, Replacements& replacements) {
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (!is(tokens, at, "=")) continue;
    const size_t value = code_from(tokens, at + 1);
    if (!is(tokens, value, "__ballot_sync") && !is(tokens, value, "__match_any_sync")) continue;
    replacements[value] = {partner_of(tokens, code_from(tokens, value + 1)) + 1, "0U"};
  }
}

// The user's line of a token, by the last mark in front of it.
std::string place_of(const std::vector<Token>& tokens, size_t at, const std::vector<std::string>& files) {
  for (; at-- > 0;) {
    if (!is(tokens, at, "TSL_AT")) continue;
    std::vector<size_t> numbers;
    for (size_t next = at; numbers.size() < 2 && next < tokens.size(); ++next) {
      if (tokens[next].kind == TokenKind::Number)
        numbers.push_back(std::strtoull(tokens[next].text.data(), nullptr, 10));
    }
    return c10::str(files.at(numbers.at(0)), ":", numbers.at(1));
  }
  return "an unknown line";
}

// As the user wrote it, without Slang's number.
std::string_view written_name(std::string_view name) { return name.substr(0, name.rfind('_')); }

}  // namespace

int write_wave_masks(std::string& body, const std::vector<std::string>& files, bool& scattered) {
  const std::vector<Token> tokens = split_tokens(body);
  Replacements replacements;
  remove_ballots(tokens, replacements);
  if (replacements.empty()) return 0;
  const std::vector<TextFunction> functions = functions_with_masks(tokens);
  for (const TextFunction& function : functions) {
    for (const size_t call : function.mask_calls) {
      const TokenRange argument = mask_argument(tokens, call);
      replacements[code_from(tokens, argument.begin)] = {argument.end, kMask};
    }
  }
  std::string text;
  size_t at = 0;
  for (const TextFunction& function : functions) {
    if (function.mask_calls.empty()) continue;
    text += copy(tokens, {at, function.body.begin}, replacements);
    at = function.body.end;
    try {
      check_unconditional(tokens, function);
      MaskWriter writer(tokens, function, replacements);
      text += writer.body();
      scattered = scattered || writer.scattered();
    } catch (const UnknownStatement& form) {
      throw RefusedText{
          c10::str("which lanes take part in a wave operation is not clear in ", written_name(function.name), " (",
                   place_of(tokens, form.token, files),
                   "): several paths lead to it; write it where they have come together, behind the branch, "
                   "the switch or the loop")};
    }
  }
  text += copy(tokens, {at, tokens.size()}, replacements);
  body = std::move(text);
  return static_cast<int>(replacements.size());
}

}  // namespace torch_slang
