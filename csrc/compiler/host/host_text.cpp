#include "compiler/host/host_text.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <set>
#include <vector>

#include "compiler/emit/passes.h"
#include "compiler/reflect/host_signature.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

// The text between the end of Slang's prelude and the Python bindings.
std::string functions_of(const std::string& emitted) {
  const std::vector<Token> tokens = split_tokens(emitted);
  const auto is_start = [](const Token& token) {
    return token.kind == TokenKind::Directive && token.text == "#define SLANG_PRELUDE_EXPORT";
  };
  const auto is_end = [](const Token& token) { return token.text == "PYBIND11_MODULE"; };
  const auto start = std::find_if(tokens.rbegin(), tokens.rend(), is_start).base();
  const auto end = std::find_if(start, tokens.end(), is_end);
  TORCH_CHECK(start != tokens.begin() && end != tokens.end(),
              "torch-slangc: this version of Slang emits host functions in a form that torch_slang does not recognise");
  return {start->text.data(), end->text.data()};
}

std::set<std::string> refused(const std::vector<HostFunction>& functions) {
  std::set<std::string> names;
  for (const HostFunction& one : functions) {
    if (!one.function.refusal.empty()) names.insert(emitted_name(one.function));
  }
  return names;
}

std::string entry_points(const std::vector<HostFunction>& functions) {
  std::string text;
  for (const HostFunction& one : functions) {
    if (!one.function.refusal.empty()) continue;
    text += "extern \"C\" __attribute__((visibility(\"default\"))) int tsl_host_" + one.function.name +
            "(const TslHostTable* table, void* call, const TslComponent* arguments, TslComponent* results) {\n"
            "  return tsl::enter(tsl_host::" +
            emitted_name(one.function) + ", table, call, arguments, results);\n}\n";
  }
  return text;
}

}  // namespace

std::string shape_host_text(const std::string& emitted, const std::vector<HostFunction>& functions) {
  const std::string body = apply_host_passes(functions_of(emitted), refused(functions));
  return "namespace tsl_host {\nusing tsl::tsl_flatten;\n" + body + "\n}\n#line 1 \"torch_slang/entry points\"\n" +
         entry_points(functions);
}

std::string explain_host_diagnostics(const std::string& diagnostics) {
  if (diagnostics.find("unknown scalar type in allocTorchTensor") == std::string::npos) return diagnostics;
  return "a tensor of 16, 32 or 64 bit unsigned integers is allocated or given to a kernel, which no host function "
         "can\n" +
         diagnostics;
}

}  // namespace torch_slang
