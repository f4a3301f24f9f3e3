#include "compiler/emit/mask_functions.h"

#include <algorithm>
#include <map>

namespace torch_slang {
namespace {

// Slang's own variables, parameters among them, have names like _S12; those that users name keep their names.
std::string_view mask_parameter(const EmittedFunction& function) {
  if (function.parameters.empty()) return {};
  const EmittedParameter& last = function.parameters.back();
  const bool is_mask = last.whole_type.size() == 1 && last.type == "uint" && last.name.starts_with("_S");
  return is_mask ? last.name : std::string_view();
}

// `uint WaveGetActiveMask_0(uint _S1) { return _S1; }`: where all masks end up.
bool gives_mask(const EmittedCode& code, const MaskFunction& function) {
  const auto& statements = function.function->body.parts;
  if (!function.function->name.starts_with("WaveGetActiveMask") || function.mask.empty() || statements.size() != 1)
    return false;
  const EmittedStatement& only = statements[0];
  return only.kind == EmittedStatement::Kind::Return && only.head.size() == 1 && code[only.head.begin] == function.mask;
}

// The calls in a function of any of `functions`: the token of each callee's name.
template <class Use>
void each_call(const EmittedCode& code, const MaskFunction& caller,
               const std::map<std::string_view, MaskFunction*>& functions, const Use& use) {
  const Span body = caller.function->body.span;
  for (size_t at = body.begin; at < body.end; ++at) {
    if (!code.is_name(at) || code[at + 1] != "(") continue;
    const auto callee = functions.find(code[at]);
    if (callee != functions.end()) use(at, *callee->second);
  }
}

// Whether nothing but `return;` follows the call: the thread has nothing else to do.
bool is_last(const EmittedCode& code, const MaskFunction& caller, size_t name) {
  const Span body = caller.function->body.span;
  const size_t semicolon = code.closing(name + 1, body.end) + 1;
  return semicolon + 4 == body.end && code[semicolon] == ";" && code[semicolon + 1] == "return" &&
         code[semicolon + 2] == ";";
}

}  // namespace

void check_unconditional(const EmittedCode& code, const MaskFunction& function) {
  std::vector<bool> conditional = {false};  // for each bracket around
  auto call = function.mask_calls.begin();
  const Span body = function.function->body.span;
  for (size_t at = body.begin + 1; at + 1 < body.end; ++at) {
    const std::string_view text = code[at];
    if (opens(text)) conditional.push_back(conditional.back());
    if (closes(text)) conditional.pop_back();
    if (text == "," || text == ";" || text == "}" || text == "{") {
      conditional.back() = conditional.size() > 1 && conditional[conditional.size() - 2];
    }
    const bool is_double = code[at + 1] == text && code.is_joined(at);
    if (text == "?" || ((text == "&" || text == "|") && is_double)) conditional.back() = true;
    if (call == function.mask_calls.end() || *call != at) continue;
    if (conditional.back()) throw UnknownForm{at};
    ++call;
  }
}

Span mask_argument(const EmittedCode& code, size_t name) {
  const size_t close = code.closing(name + 1, code.size());
  Span argument{name + 2, close};
  for (size_t at = argument.begin; at < close; ++at) {
    if (opens(code[at])) at = code.closing(at, close);
    if (code[at] == ",") argument.begin = at + 1;
  }
  return argument;
}

std::vector<MaskFunction> functions_with_masks(const EmittedCode& code) {
  std::vector<MaskFunction> functions;
  for (const EmittedFunction& function : code.functions()) {
    functions.push_back({&function, mask_parameter(function)});
  }
  std::map<std::string_view, MaskFunction*> by_name;
  for (MaskFunction& function : functions) by_name[function.function->name] = &function;
  std::vector<std::pair<MaskFunction*, size_t>> calls;  // who calls, and where
  std::multimap<MaskFunction*, MaskFunction*> callers;
  for (MaskFunction& function : functions) {
    each_call(code, function, by_name, [&](size_t at, MaskFunction& callee) {
      calls.emplace_back(&function, at);
      callers.emplace(&callee, &function);
      ++callee.calls;
    });
  }

  std::vector<MaskFunction*> found;  // those that ask for a mask, directly or not
  for (MaskFunction& function : functions) {
    if (gives_mask(code, function)) found.push_back(&function);
  }
  for (size_t next = 0; next < found.size(); ++next) {
    const auto [first, last] = callers.equal_range(found[next]);
    for (auto caller = first; caller != last; ++caller) {
      if (std::ranges::find(found, caller->second) == found.end()) found.push_back(caller->second);
    }
  }

  for (const auto& [caller, at] : calls) {
    MaskFunction& callee = *by_name.at(code[at]);
    if (std::ranges::find(found, &callee) == found.end()) continue;
    caller->mask_calls.push_back(at);
    const bool from_entry = caller->calls == 0 && caller->mask.empty();
    callee.ends_thread = from_entry && callee.calls == 1 && is_last(code, *caller, at);
  }
  for (MaskFunction& function : functions) {
    if (function.calls == 0 && function.mask.empty()) function.ends_thread = true;
  }
  return functions;
}

}  // namespace torch_slang
