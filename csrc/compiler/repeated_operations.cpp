#include "compiler/repeated_operations.h"

#include <algorithm>

namespace torch_slang {

using Kind = Statement::Kind;

RepeatedOperations::RepeatedOperations(const std::vector<Token>& tokens, const StatementList& root, ControlFlow& flow)
    : tokens_(tokens) {
  collect(root, flow);
  for (const Operation& operation : operations_) ++counts_[operation.key];
  find_turns(root, flow);
}

size_t RepeatedOperations::begin_in(const StatementList& list) const {
  const auto found = begins_.find(&list);
  return found == begins_.end() ? list.statements.size() : found->second;
}

void RepeatedOperations::check_all_found() const {
  for (const Operation& operation : operations_) {
    if (operation.declares && counts_.at(operation.key) > 1) throw UnknownForm{operation.token};
  }
}

void RepeatedOperations::collect(const StatementList& list, ControlFlow& flow) {
  for (const Statement& statement : list.statements) {
    const bool is_leaf = statement.parts.empty() && statement.kind != Kind::Switch;
    if (is_leaf && flow.uses(statement.tokens)) add(statement);
    for (const StatementList& part : statement.parts) collect(part, flow);
  }
}

void RepeatedOperations::add(const Statement& statement) {
  Operation operation{statement.tokens.begin, "", false};
  int words = 0;
  for (size_t at = statement.tokens.begin; at < statement.tokens.end; ++at) {
    if (!is_code(tokens_[at])) continue;
    if (tokens_[at].text == "=" && words > 1) operation.declares = true;
    if (tokens_[at].text == "(" || tokens_[at].text == "=") words = -1;
    if (words >= 0) ++words;
    operation.key += std::string(tokens_[at].text) + " ";
  }
  if (!operation.declares) {
    for (size_t at = statement.tokens.begin; at-- > 0;) {
      if (tokens_[at].text != "TSL_AT") continue;
      for (const size_t close = partner_of(tokens_, code_from(tokens_, at + 1)); at < close; ++at)
        operation.key += tokens_[at].text;
      break;
    }
  }
  operations_.push_back(std::move(operation));
}

void RepeatedOperations::find_turns(const StatementList& list, ControlFlow& flow) {
  for (const Statement& statement : list.statements) {
    if (statement.kind == Kind::Switch) check_cases(statement);
    if (statement.kind == Kind::Loop) {
      std::vector<Way> ways;
      find_ways(statement.parts[0], true, flow, ways);
      if (ways.size() > 1) join(ways);
    }
    for (const StatementList& part : statement.parts) find_turns(part, flow);
  }
}

void RepeatedOperations::find_ways(const StatementList& list, bool is_body, ControlFlow& flow,
                                   std::vector<Way>& ways) const {
  size_t begin = 0;
  for (size_t i = 0; i < list.statements.size(); ++i) {
    const Statement& statement = list.statements[i];
    if (statement.kind == Kind::Continue) return ways.push_back({&list, begin, i});
    if (flow.of(statement).continues > 0) {
      for (const StatementList& part : statement.parts) find_ways(part, false, flow, ways);
      begin = i + 1;
    }
    if (!flow.of(statement).ends) return;
  }
  if (is_body) ways.push_back({&list, begin, list.statements.size()});
}

// Where in the list each operation stands.
std::map<std::string, std::vector<size_t>> RepeatedOperations::keys_of(const Way& way) const {
  std::map<std::string, std::vector<size_t>> keys;
  for (size_t i = way.begin; i < way.end; ++i) {
    const TokenRange tokens = way.list->statements[i].tokens;
    for (const Operation& operation : operations_) {
      if (operation.token >= tokens.begin && operation.token < tokens.end) keys[operation.key].push_back(i);
    }
  }
  return keys;
}

void RepeatedOperations::join(const std::vector<Way>& ways) {
  std::vector<std::map<std::string, std::vector<size_t>>> keys;
  for (const Way& way : ways) keys.push_back(keys_of(way));
  for (const auto& [key, places] : keys[0]) {
    const bool everywhere = std::all_of(keys.begin(), keys.end(), [&, &name = key](const auto& one) {
      const auto found = one.find(name);
      return found != one.end() && found->second.size() == 1;
    });
    if (!everywhere || counts_[key] != static_cast<int>(ways.size())) continue;
    counts_[key] = 1;
    for (size_t k = 0; k < ways.size(); ++k) {
      const auto [place, is_new] = begins_.emplace(ways[k].list, keys[k][key][0]);
      place->second = std::min(place->second, keys[k][key][0]);
    }
  }
}

// A case that falls into the next one may be written out; calls without results look then like two of the user's.
void RepeatedOperations::check_cases(const Statement& selection) {
  std::map<std::string, size_t> first;  // the case that has it
  for (size_t k = 0; k < selection.parts.size(); ++k) {
    const TokenRange tokens = selection.parts[k].tokens;
    for (const Operation& operation : operations_) {
      if (operation.declares || operation.token < tokens.begin || operation.token >= tokens.end) continue;
      if (first.emplace(operation.key, k).first->second != k) throw UnknownForm{operation.token};
    }
  }
}

}  // namespace torch_slang
