#include "compiler/repeated_operations.h"

#include <algorithm>

namespace torch_slang {

using Kind = Statement::Kind;

RepeatedOperations::RepeatedOperations(const std::vector<Token>& tokens, const StatementList& root, ControlFlow& flow)
    : tokens_(tokens), flow_(flow) {
  collect(root);
  find_joins(whole(root), {});
}

const std::vector<Join>& RepeatedOperations::joins_in(const StatementList& list) const {
  static const std::vector<Join> none;
  const auto found = joins_.find(&list);
  return found == joins_.end() ? none : found->second;
}

const std::vector<Tail>& RepeatedOperations::tails_of(const StatementList& list) const {
  static const std::vector<Tail> none;
  const auto found = tails_.find(&list);
  return found == tails_.end() ? none : found->second;
}

void RepeatedOperations::refuse(const std::string& key) const {
  const auto one = std::find_if(operations_.begin(), operations_.end(), [&](const Operation& o) { return o.key == key; });
  throw UnknownForm{one->token};
}

void RepeatedOperations::collect(const StatementList& list) {
  for (size_t i = 0; i < list.statements.size(); ++i) {
    const Statement& statement = list.statements[i];
    for (const StatementList& part : statement.parts) collect(part);
    if (!statement.parts.empty() || !flow_.uses(statement.tokens)) continue;
    Operation operation{statement.tokens.begin, "", &list, i};
    bool declares = false;
    for (size_t at = statement.tokens.begin, words = 0; at < statement.tokens.end; ++at) {
      if (!is_code(tokens_[at])) continue;
      declares = declares || (tokens_[at].text == "=" && words > 1 && operation.key.find('(') == std::string::npos);
      operation.key += std::string(tokens_[at].text) + " ";
      ++words;
    }
    if (!declares) operation.key += line_of(statement.tokens.begin);
    operations_.push_back(std::move(operation));
  }
}

std::string RepeatedOperations::line_of(size_t token) const {
  std::string line;
  while (token > 0 && tokens_[token].text != "TSL_AT") --token;
  const size_t close = partner_of(tokens_, code_from(tokens_, token + 1));
  for (size_t at = token; at < close; ++at) line += tokens_[at].text;
  return line;
}

RepeatedOperations::Places RepeatedOperations::places_in(const Part& part) const {
  Places places;
  const auto before = [](const Operation& operation, size_t token) { return operation.token < token; };
  for (size_t i = part.begin; i < part.end; ++i) {
    const TokenRange tokens = part.list->statements[i].tokens;
    auto one = std::lower_bound(operations_.begin(), operations_.end(), tokens.begin, before);
    for (; one != operations_.end() && one->token < tokens.end; ++one) places[one->key].push_back(i);
  }
  return places;
}

void RepeatedOperations::add_join(const StatementList& list, Join join) {
  std::vector<Join>& joins = joins_[&list];
  const auto same = std::find_if(joins.begin(), joins.end(), [&](const Join& one) { return one.meeting == join.meeting; });
  if (same != joins.end()) {
    same->statement = std::min(same->statement, join.statement);
  } else {
    joins.push_back(join);
  }
  std::stable_sort(joins.begin(), joins.end(), [](const Join& a, const Join& b) { return a.statement < b.statement; });
}

void RepeatedOperations::find_joins(const Part& part, const Keys& known) {
  const Keys found = join_tails(part, places_in(part), known);
  for (size_t i = part.begin; i < part.end; ++i) {
    const Statement& statement = part.list->statements[i];
    if (!flow_.of(statement).uses) continue;
    if (statement.kind == Kind::If) check_arms(statement, found);
    if (statement.kind == Kind::Switch) join_cases(statement, found);
    if (statement.kind == Kind::Loop) {
      join_turns(statement.parts[0], found);
    } else {
      for (const StatementList& inside : statement.parts) find_joins(whole(inside), found);
    }
  }
}

const RepeatedOperations::Operation* RepeatedOperations::operation(const std::string& key, TokenRange tokens) const {
  const auto found = std::find_if(operations_.begin(), operations_.end(), [&](const Operation& one) {
    return one.token >= tokens.begin && one.token < tokens.end && one.key == key;
  });
  return found == operations_.end() ? nullptr : &*found;
}

// Keys of several statements of the part: the last one is what follows the others, which hold copies of it.
RepeatedOperations::Keys RepeatedOperations::join_tails(const Part& part, const Places& places, Keys known) {
  const auto& statements = part.list->statements;
  std::map<size_t, std::vector<const std::string*>> by_last;
  for (const auto& [key, here] : places) {
    if (here.front() != here.back() && !known.contains(key) && is_name(key)) by_last[here.back()].push_back(&key);
  }
  for (auto group = by_last.begin(); group != by_last.end(); ++group) {
    const auto first = std::find_if(group->second.begin(), group->second.end(), [&](const std::string* key) {
      const Operation* one = operation(*key, statements[group->first].tokens);
      return one->list == part.list && !known.contains(*key);
    });
    if (known.contains(*group->second.front())) continue;
    if (first == group->second.end()) refuse(*group->second.front());
    const auto& copies = places.at(**first);
    tails_[part.list].push_back({copies.front(), group->first});
    size_t from = statements[copies.front()].tokens.begin;
    for (const size_t end = statements[group->first].tokens.end; const Operation* one = operation(**first, {from, end});) {
      add_join(*one->list, {one->statement, &statements[group->first], nullptr});
      from = one->token + 1;
    }
    for (auto later = group; later != by_last.end(); ++later) {
      for (const std::string* key : later->second) {
        const auto& here = places.at(*key);
        if (here.size() == copies.size() && here.front() >= copies.front() && here[here.size() - 2] < group->first)
          known.insert(*key);
      }
    }
    for (const std::string* key : group->second) {
      if (!known.contains(*key)) refuse(*key);
    }
  }
  return known;
}

void RepeatedOperations::check_arms(const Statement& branch, const Keys& known) const {
  if (branch.parts.size() < 2) return;
  const Places otherwise = places_in(whole(branch.parts[1]));
  for (const auto& [key, places] : places_in(whole(branch.parts[0]))) {
    if (otherwise.contains(key) && !known.contains(key) && is_name(key)) refuse(key);
  }
}

// The lists that lead to the next turn: of each the end that no other shares.
void RepeatedOperations::find_ways(const StatementList& list, bool is_body, std::vector<Part>& ways) const {
  size_t begin = 0;
  for (size_t i = 0; i < list.statements.size(); ++i) {
    const Statement& statement = list.statements[i];
    if (statement.kind == Kind::Continue) return ways.push_back({&list, begin, i});
    if (flow_.of(statement).continues > 0) {
      for (const StatementList& part : statement.parts) find_ways(part, false, ways);
      begin = i + 1;
    }
    if (!flow_.of(statement).ends) return;
  }
  if (is_body) ways.push_back({&list, begin, list.statements.size()});
}

// What each of the ways has, and nothing else in the loop.
void RepeatedOperations::join_turns(const StatementList& body, const Keys& known) {
  std::vector<Part> ways;
  find_ways(body, true, ways);
  std::vector<Places> places;
  for (const Part& way : ways) places.push_back(places_in(way));
  Keys joined = known;
  for (const auto& [key, all] : ways.size() > 1 ? places_in(whole(body)) : Places()) {
    size_t count = 0;
    for (const Places& one : places) count += one.contains(key) ? one.at(key).size() : all.size();
    if (count != all.size() || count != ways.size() * places[0].at(key).size()) continue;
    joined.insert(key);
    for (size_t k = 0; k < ways.size(); ++k) add_join(*ways[k].list, {places[k][key].front(), &body, nullptr});
  }
  find_joins(whole(body), joined);
  if (joined.size() == known.size()) return;
  for (const Part& way : ways) find_joins(way, known);
}

// What several cases have is one statement that all of them lead to.
void RepeatedOperations::join_cases(const Statement& selection, const Keys& known) {
  const std::vector<StatementList>& parts = selection.parts;
  std::vector<Places> places;
  std::map<std::string, std::vector<const StatementList*>> lists;
  for (const StatementList& part : parts) {
    places.push_back(places_in(whole(part)));
    for (const auto& [key, here] : places.back()) lists[key].push_back(&part);
  }
  for (const auto& [key, having] : lists) {
    if (having.size() < 2 || known.contains(key)) continue;
    if (!is_name(key)) refuse(key);  // two calls that the user wrote in one line look like that
    const void* meeting = &*groups_.insert(having).first;
    for (const StatementList* list : having) {
      add_join(*list, {places[static_cast<size_t>(list - parts.data())].at(key).front(), meeting, &selection});
    }
  }
  for (size_t k = 1; k < parts.size(); ++k) {
    if (flow_.of(parts[k - 1]).ends) add_join(parts[k], {0, &parts[k], &selection});
  }
}

}  // namespace torch_slang
