#include "compiler/emit/mask_functions.h"

#include <algorithm>
#include <map>

namespace torch_slang {
namespace {

using Tokens = std::vector<Token>;

bool is(const Tokens& tokens, size_t at, std::string_view text) {
  return at < tokens.size() && tokens[at].text == text;
}

// Behind the last comma in it that stands outside all brackets.
TokenRange last_of_list(const Tokens& tokens, TokenRange list) {
  size_t begin = list.begin;
  for (size_t at = list.begin; at < list.end; ++at) {
    const size_t partner =
        is(tokens, at, "(") || is(tokens, at, "[") || is(tokens, at, "{") ? partner_of(tokens, at) : at;
    if (is(tokens, at, ",")) begin = at + 1;
    at = partner;
  }
  return {begin, list.end};
}

std::vector<std::string_view> words_of(const Tokens& tokens, TokenRange range) {
  std::vector<std::string_view> words;
  for (size_t at = range.begin; at < range.end; ++at) {
    if (is_code(tokens[at])) words.push_back(tokens[at].text);
  }
  return words;
}

// Slang's own variables, parameters among them, have names like _S12; those that users name keep their names.
std::string_view mask_parameter(const Tokens& tokens, TokenRange parameters) {
  const auto words = words_of(tokens, last_of_list(tokens, parameters));
  return words.size() == 2 && words[0] == "uint" && words[1].starts_with("_S") ? words[1] : std::string_view();
}

// `uint WaveGetActiveMask_0(uint _S1) { return _S1; }`: where all masks end up.
bool gives_mask(const Tokens& tokens, const TextFunction& function) {
  const auto words = words_of(tokens, function.body);
  return function.name.starts_with("WaveGetActiveMask") && !function.mask.empty() && words.size() == 3 &&
         words[0] == "return" && words[1] == function.mask;
}

std::vector<TextFunction> all_functions(const Tokens& tokens) {
  std::vector<TextFunction> functions;
  size_t name = tokens.size(),
         before = tokens.size();  // the last name that a parenthesis follows; the last token of code
  TokenRange parameters;
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (!is_code(tokens[at])) continue;
    if (is(tokens, at, "(")) {
      const size_t close = partner_of(tokens, at);
      if (before < tokens.size() && tokens[before].kind == TokenKind::Identifier) name = before;
      parameters = {at + 1, close};
      at = close;
    } else if (is(tokens, at, "{")) {
      const size_t close = partner_of(tokens, at);
      if (is(tokens, before, ")") && name < tokens.size()) {
        functions.push_back(
            {tokens[name].text, parameters, {at + 1, close}, mask_parameter(tokens, parameters), {}, 0, false});
      }
      at = close;
    }
    before = at;
  }
  return functions;
}

// The calls in a function of any of `functions`: the token of each callee's name.
template <class Use>
void each_call(const Tokens& tokens, const TextFunction& caller,
               const std::map<std::string_view, TextFunction*>& functions, const Use& use) {
  for (size_t at = caller.body.begin; at < caller.body.end; ++at) {
    if (tokens[at].kind != TokenKind::Identifier || !is(tokens, code_from(tokens, at + 1), "(")) continue;
    const auto callee = functions.find(tokens[at].text);
    if (callee != functions.end()) use(at, *callee->second);
  }
}

// Whether nothing but `return;` follows the call: the thread has nothing else to do.
bool is_last(const Tokens& tokens, const TextFunction& caller, size_t name) {
  const size_t semicolon = code_from(tokens, partner_of(tokens, code_from(tokens, name + 1)) + 1);
  const auto rest = words_of(tokens, {semicolon, caller.body.end});
  return rest.size() == 3 && rest[0] == ";" && rest[1] == "return" && rest[2] == ";";
}

}  // namespace

void check_unconditional(const Tokens& tokens, const TextFunction& function) {
  std::vector<bool> conditional = {false};  // for each bracket around
  auto call = function.mask_calls.begin();
  for (size_t at = function.body.begin; at < function.body.end; ++at) {
    const std::string_view text = tokens[at].text;
    if (text == "(" || text == "[" || text == "{") conditional.push_back(conditional.back());
    if (text == ")" || text == "]" || text == "}") conditional.pop_back();
    if (text == "," || text == ";" || text == "}" || text == "{") {
      conditional.back() = conditional.size() > 1 && conditional[conditional.size() - 2];
    }
    if (text == "?" || ((text == "&" || text == "|") && is(tokens, at + 1, text))) conditional.back() = true;
    if (call == function.mask_calls.end() || *call != at) continue;
    if (conditional.back()) throw UnknownStatement{at};
    ++call;
  }
}

TokenRange mask_argument(const Tokens& tokens, size_t name) {
  const size_t open = code_from(tokens, name + 1);
  return last_of_list(tokens, {open + 1, partner_of(tokens, open)});
}

std::vector<TextFunction> functions_with_masks(const Tokens& tokens) {
  std::vector<TextFunction> functions = all_functions(tokens);
  std::map<std::string_view, TextFunction*> by_name;
  for (TextFunction& function : functions) by_name[function.name] = &function;
  std::vector<std::pair<TextFunction*, size_t>> calls;  // who calls, and where
  std::multimap<TextFunction*, TextFunction*> callers;
  for (TextFunction& function : functions) {
    each_call(tokens, function, by_name, [&](size_t at, TextFunction& callee) {
      calls.emplace_back(&function, at);
      callers.emplace(&callee, &function);
      ++callee.calls;
    });
  }

  std::vector<TextFunction*> found;  // those that ask for a mask, directly or not
  for (TextFunction& function : functions) {
    if (gives_mask(tokens, function)) found.push_back(&function);
  }
  for (size_t next = 0; next < found.size(); ++next) {
    const auto [first, last] = callers.equal_range(found[next]);
    for (auto caller = first; caller != last; ++caller) {
      if (std::find(found.begin(), found.end(), caller->second) == found.end()) found.push_back(caller->second);
    }
  }

  for (const auto& [caller, at] : calls) {
    TextFunction& callee = *by_name.at(tokens[at].text);
    if (std::find(found.begin(), found.end(), &callee) == found.end()) continue;
    caller->mask_calls.push_back(at);
    const bool from_entry = caller->calls == 0 && caller->mask.empty();
    callee.ends_thread = from_entry && callee.calls == 1 && is_last(tokens, *caller, at);
  }
  for (TextFunction& function : functions) {
    if (function.calls == 0 && function.mask.empty()) function.ends_thread = true;
  }
  return functions;
}

}  // namespace torch_slang
