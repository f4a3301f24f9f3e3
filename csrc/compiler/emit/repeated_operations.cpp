#include "compiler/emit/repeated_operations.h"

#include <algorithm>
#include <functional>

namespace torch_slang {

using Kind = EmittedStatement::Kind;

RepeatedOperations::RepeatedOperations(const EmittedCode& code, const EmittedStatement& root, ControlFlow& flow)
    : code_(code), flow_(flow) {
  collect(root);
  find_joins(whole(root), {});
}

const std::vector<Join>& RepeatedOperations::joins_in(const EmittedStatement& list) const {
  static const std::vector<Join> none;
  const auto found = joins_.find(&list);
  return found == joins_.end() ? none : found->second;
}

std::vector<const void*> RepeatedOperations::meetings_of_case(const EmittedStatement& part) const {
  const auto found = meetings_.find(&part);
  if (found == meetings_.end()) return {};
  std::vector<const void*> meetings(found->second.begin(), found->second.end());
  std::ranges::sort(meetings, {}, [this](const void* meeting) { return orders_.at(meeting); });
  return meetings;
}

const std::vector<Tail>& RepeatedOperations::tails_of(const EmittedStatement& list) const {
  static const std::vector<Tail> none;
  const auto found = tails_.find(&list);
  return found == tails_.end() ? none : found->second;
}

void RepeatedOperations::refuse(const std::string& key) const {
  const auto one =
      std::find_if(operations_.begin(), operations_.end(), [&](const Operation& o) { return o.key == key; });
  throw UnknownForm{one->token};
}

void RepeatedOperations::collect(const EmittedStatement& list) {
  std::map<std::string, int> seen;
  for (size_t i = 0; i < list.parts.size(); ++i) {
    const EmittedStatement& statement = list.parts[i];
    for (const EmittedStatement* part : lists_of(statement)) {
      around_[part] = {&list, i};
      collect(*part);
    }
    if (!statement.is_leaf() || !flow_.uses(statement.span)) continue;
    Operation operation{statement.span.begin, text_of(statement), true, {&list, i}};
    if (declared(statement).empty()) {
      std::string next;
      for (size_t k = i + 1; k < list.parts.size() && next.empty(); ++k) next = declared(list.parts[k]);
      operation.names_variable = !next.empty();
      operation.key += next + "#" + std::to_string(seen[operation.key]++);
    }
    operations_.push_back(std::move(operation));
  }
}

std::string RepeatedOperations::text_of(const EmittedStatement& statement) const {
  return code_.text_without_spaces(statement.span);
}

// `uint _S1` of `uint _S1 = ...;`; nothing of other statements.
std::string RepeatedOperations::declared(const EmittedStatement& statement) const {
  const auto& assigned = statement.assigned;
  const bool has_value = assigned && assigned->declares && assigned->operator_size > 0;
  return has_value ? code_.text_without_spaces(assigned->left) : std::string();
}

RepeatedOperations::Positions RepeatedOperations::positions_in(const Part& part) const {
  Positions positions;
  const auto before = [](const Operation& operation, size_t token) { return operation.token < token; };
  for (size_t i = part.begin; i < part.end; ++i) {
    const Span tokens = part.list->parts[i].span;
    auto one = std::lower_bound(operations_.begin(), operations_.end(), tokens.begin, before);
    for (; one != operations_.end() && one->token < tokens.end; ++one) positions[one->key].push_back(i);
  }
  return positions;
}

void RepeatedOperations::add_join(const EmittedStatement& list, Join join) {
  std::vector<Join>& joins = joins_[&list];
  const auto same =
      std::find_if(joins.begin(), joins.end(), [&](const Join& one) { return one.meeting == join.meeting; });
  if (same != joins.end()) {
    same->statement = std::min(same->statement, join.statement);
  } else {
    joins.push_back(join);
  }
  std::stable_sort(joins.begin(), joins.end(), [](const Join& a, const Join& b) { return a.statement < b.statement; });
}

void RepeatedOperations::add_tail(const EmittedStatement& list, Tail tail) {
  std::vector<Tail>& tails = tails_[&list];
  for (const Tail& one : tails) {
    if (one.first < tail.first && tail.first <= one.last && one.last < tail.last)
      throw UnknownForm{list.parts[tail.first].span.begin};
  }
  tails.insert(tails.begin(), tail);
  std::ranges::stable_sort(tails, std::greater(), &Tail::last);
}

void RepeatedOperations::find_joins(const Part& part, const Keys& known) {
  const Keys found = join_tails(part, known);
  for (size_t i = part.begin; i < part.end; ++i) {
    const EmittedStatement& statement = part.list->parts[i];
    if (!flow_.of(statement).uses) continue;
    if (statement.kind == Kind::If) check_arms(statement, found);
    if (statement.kind == Kind::Switch) join_cases(statement, found);
    if (statement.kind == Kind::For) {
      join_iterations(statement.parts[0], found);
    } else {
      for (const EmittedStatement* inside : lists_of(statement)) find_joins(whole(*inside), found);
    }
  }
}

std::vector<const RepeatedOperations::Operation*> RepeatedOperations::operations(const std::string& key,
                                                                                 Span tokens) const {
  std::vector<const Operation*> found;
  for (const Operation& one : operations_) {
    if (one.token >= tokens.begin && one.token < tokens.end && one.key == key) found.push_back(&one);
  }
  return found;
}

// How many statements of a list are around the first operation with the key.
size_t RepeatedOperations::depth_of(const std::string& key, const EmittedStatement& list) const {
  size_t depth = 0;
  for (Position at = operations(key, list.span)[0]->position; at.list != &list; at = around_.at(at.list)) ++depth;
  return depth;
}

// Among the tokens, which are of `list`, the copies of the statement at `position`: they have the key as deep inside as it has.
// Those that are not of the list itself must not lead on to its next statement.
std::set<RepeatedOperations::Position> RepeatedOperations::copies_of(const std::string& key, const Position& position,
                                                                     const EmittedStatement& list, Span tokens) const {
  const std::string text = text_of(position.list->parts[position.statement]);
  const Operation* original = operations(key, position.list->parts[position.statement].span)[0];
  size_t depth = 0;
  for (Position at = original->position; at.list != position.list; at = around_.at(at.list)) ++depth;
  std::set<Position> copies;
  size_t behind = 0;  // the last copy
  for (const Operation* one : operations(key, tokens)) {
    if (one->token < behind) continue;
    Position at = one->position;
    for (size_t up = 0; up < depth && at.list != &list; ++up) at = around_.at(at.list);
    const EmittedStatement& copy = at.list->parts[at.statement];
    if (text_of(copy) != text || (at.list != &list && flow_.of(*at.list).ends)) throw UnknownForm{one->token};
    behind = copy.span.end;
    copies.insert(at);
  }
  return copies;
}

// Keys of several statements of the part: the last of these is what follows the others, which hold copies of it.
RepeatedOperations::Keys RepeatedOperations::join_tails(const Part& part, Keys known) {
  const auto& statements = part.list->parts;
  const Positions positions = positions_in(part);
  std::map<size_t, const std::string*> firsts;  // of each such statement, the first such key
  for (const auto& [key, here] : positions) {
    if (here.front() == here.back() || known.contains(key)) continue;
    const std::string*& first = firsts[here.back()];
    const Span tokens = statements[here.back()].span;
    if (first == nullptr || operations(key, tokens)[0]->token < operations(*first, tokens)[0]->token) first = &key;
  }
  for (const auto& [last, first] : firsts) {
    if (known.contains(*first)) continue;
    const size_t begin = positions.at(*first).front();
    const std::set<Position> copies =
        copies_of(*first, {part.list, last}, *part.list, {statements[begin].span.begin, statements[last].span.begin});
    add_tail(*part.list, {begin, last});
    for (const Position& copy : copies) add_join(*copy.list, {copy.statement, &statements[last]});
    add_join(*part.list, {last, &statements[last]});
    for (const auto& [key, here] : positions) {
      const auto late = std::count_if(here.begin(), here.end(), [&, begin = last](size_t i) { return i >= begin; });
      const auto early = static_cast<std::ptrdiff_t>(here.size()) - late;
      if (late > 0 && here.front() >= begin && early == late * static_cast<std::ptrdiff_t>(copies.size()))
        known.insert(key);
    }
    if (!known.contains(*first)) refuse(*first);
  }
  for (const auto& [key, here] : positions) {
    if (here.front() != here.back() && !known.contains(key)) refuse(key);
  }
  return known;
}

void RepeatedOperations::check_arms(const EmittedStatement& branch, const Keys& known) const {
  if (branch.parts.size() < 2) return;
  const Positions otherwise = positions_in(whole(branch.parts[1]));
  for (const auto& [key, positions] : positions_in(whole(branch.parts[0]))) {
    if (otherwise.contains(key) && !known.contains(key)) refuse(key);
  }
}

// The lists that lead to the next iteration: of each the end that no other shares.
void RepeatedOperations::find_paths(const EmittedStatement& list, bool is_body, std::vector<Part>& paths) const {
  size_t begin = 0;
  for (size_t i = 0; i < list.parts.size(); ++i) {
    const EmittedStatement& statement = list.parts[i];
    if (statement.kind == Kind::Continue) return paths.push_back({&list, begin, i});
    if (flow_.of(statement).continues > 0) {
      for (const EmittedStatement* part : lists_of(statement)) find_paths(*part, false, paths);
      begin = i + 1;
    }
    if (!flow_.of(statement).ends) return;
  }
  if (is_body) paths.push_back({&list, begin, list.parts.size()});
}

// What each of the paths has, and nothing else in the loop.
void RepeatedOperations::join_iterations(const EmittedStatement& body, const Keys& known) {
  std::vector<Part> paths;
  find_paths(body, true, paths);
  std::vector<Positions> positions;
  for (const Part& path : paths) positions.push_back(positions_in(path));
  Keys joined = known;
  for (const auto& [key, all] : paths.size() > 1 ? positions_in(whole(body)) : Positions()) {
    size_t count = 0, equal = 0;
    for (const Positions& one : positions) {
      const size_t here = one.contains(key) ? one.at(key).size() : 0;
      count += here;
      equal += here > 0 && here * paths.size() == all.size();
    }
    if (count != all.size() || equal != paths.size()) continue;
    joined.insert(key);
    const Position position{paths[0].list, positions[0].at(key).front()};
    for (const Part& path : paths) {
      const auto& statements = path.list->parts;
      const Span tokens{statements[path.begin].span.begin, statements[path.end - 1].span.end};
      const std::set<Position> copies = copies_of(key, position, *path.list, tokens);
      if (copies.size() != 1 || copies.begin()->list != path.list) refuse(key);
      add_join(*path.list, {copies.begin()->statement, &body});
    }
  }
  find_joins(whole(body), joined);
  if (joined.size() == known.size()) return;
  for (const Part& path : paths) find_joins(path, known);
}

// Slang's mask of a switch is declared in front of it: `uint _S1 = __match_any_sync(...);`
std::string_view RepeatedOperations::mask_of_cases(const EmittedStatement& selection) const {
  size_t at = selection.span.begin;
  while (at > 0 && code_[at] != "__match_any_sync") --at;
  while (at > 0 && !code_[at].starts_with("_S")) --at;
  return code_[at];
}

// Two calls that the user wrote, for all that can be seen.
bool RepeatedOperations::may_be_two(const Operation& operation, const EmittedStatement& selection) const {
  if (operation.names_variable) return false;
  const Span span = operation.position.list->parts[operation.position.statement].span;
  const std::string_view mask = mask_of_cases(selection);
  for (size_t at = span.begin; at < span.end; ++at) {
    if (code_[at] == mask) return true;
  }
  return false;
}

// What several cases have is one statement that all of them lead to.
void RepeatedOperations::join_cases(const EmittedStatement& selection, const Keys& known) {
  const std::vector<const EmittedStatement*> parts = lists_of(selection);
  std::map<std::string, std::vector<const EmittedStatement*>> lists;
  for (const EmittedStatement* part : parts) {
    for (const auto& [key, here] : positions_in(whole(*part))) lists[key].push_back(part);
  }
  for (const auto& [key, having] : lists) {
    if (having.size() < 2 || known.contains(key)) continue;
    if (may_be_two(*operations(key, having[0]->span)[0], selection)) refuse(key);
    const void* meeting = &*groups_.insert(having).first;
    const auto depth = [&, &name = key](const EmittedStatement* list) { return depth_of(name, *list); };
    const EmittedStatement* original = *std::ranges::min_element(having, {}, depth);
    const Position position{original, positions_in(whole(*original)).at(key).front()};
    for (const EmittedStatement* list : having) {
      for (const Position& copy : copies_of(key, position, *list, list->span)) {
        add_join(*copy.list, {copy.statement, meeting});
        meetings_[list].insert(meeting);
        orders_[meeting] = std::max(orders_[meeting], copy.list->parts[copy.statement].span.begin);
      }
    }
  }
  join_falls(parts);
}

// Cases that fall into the next one.
void RepeatedOperations::join_falls(const std::vector<const EmittedStatement*>& parts) {
  for (size_t k = parts.size(); k-- > 1;) {
    const EmittedStatement *from = parts[k - 1], *into = parts[k];
    if (!flow_.of(*from).ends) continue;
    add_join(*into, {0, into});
    meetings_[into].insert(into);
    orders_[into] = into->span.begin;  // the brace, in front of copies in its first statement
    for (const Join& join : joins_in(*from)) {  // lanes come there before they fall
      const auto order = orders_.find(join.meeting);
      if (order != orders_.end() && order->second > into->span.begin) throw UnknownForm{into->span.begin};
    }
    meetings_[from].insert(meetings_[into].begin(), meetings_[into].end());
  }
}

}  // namespace torch_slang
