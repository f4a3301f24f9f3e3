#include "compiler/host/host_text.h"

#include <c10/util/Exception.h>

#include <set>

#include "common/identifiers.h"
#include "compiler/emit/guarded_operations.h"
#include "compiler/emit/polled_loops.h"
#include "compiler/reflect/host_signature.h"
#include "compiler/text/line_names.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

// The text between the end of Slang's prelude and the Python bindings.
std::string functions_of(const std::string& emitted) {
  const std::string start = "#define SLANG_PRELUDE_EXPORT";
  const size_t prelude = emitted.rfind(start);
  const size_t bindings = emitted.rfind("PYBIND11_MODULE(");
  TORCH_CHECK(prelude != std::string::npos && bindings != std::string::npos && prelude < bindings,
              "torch-slangc: this version of Slang emits host functions in a form that is not known");
  return emitted.substr(prelude + start.size(), bindings - prelude - start.size());
}

// cudaLaunchKernel((const void*)(kernel), ... becomes tsl::launch<decltype(kernel)>("kernel", ...: the kernel's name and the
// types of its parameters, without its address.
std::string name_kernels(const std::string& text) {
  const std::string start = "cudaLaunchKernel((const void*)(";
  std::string result;
  size_t at = 0;
  for (size_t call = text.find(start); call != std::string::npos; call = text.find(start, at)) {
    const size_t name = call + start.size();
    const size_t end = text.find("), ", name);
    TORCH_CHECK(end != std::string::npos,
                "torch-slangc: this version of Slang launches kernels in a form that is not known");
    const std::string kernel = text.substr(name, end - name);
    result += text.substr(at, call - at) + "tsl::launch<decltype(" + kernel + ")>(\"" + kernel + "\", ";
    at = end + 3;
  }
  return result + text.substr(at);
}

// Puts behind each struct, on the line where it ends, the overload that flattens it.
class StructFlattener {
 public:
  std::string with_overloads(const std::string& text) {
    for (const Token& token : split_tokens(text)) {
      result_ += token.text;
      if (token.kind == TokenKind::Identifier) {
        identifier(std::string(token.text));
      } else if (token.kind == TokenKind::Other) {
        punctuation(token.text[0]);
      }
    }
    return std::move(result_);
  }

 private:
  void identifier(const std::string& word) {
    if (depth_ == 0 && last_ == "struct") {
      struct_ = word;
      fields_.clear();
      has_body_ = false;
    }
    last_ = word;
  }

  void punctuation(char c) {
    if (c == '{' && ++depth_ == 1) has_body_ = true;
    if (c == '}') --depth_;
    if (c == ';' && !struct_.empty()) {
      if (depth_ == 1) {
        fields_.push_back(last_);  // a declaration ends with the field's name
      } else if (depth_ == 0) {
        if (has_body_) close();
        struct_.clear();
      }
    }
    if (c != '{' && depth_ == 0) last_.clear();
  }

  // Of a differentiable view the kernel is given the tensor; the gradient behind it is no argument of a launch.
  void close() {
    const bool is_view = is_numbered(struct_) && struct_.substr(0, struct_.rfind('_')) == "DiffTensorView";
    if (is_view && !fields_.empty()) fields_.resize(1);
    result_ += " inline void tsl_flatten(tsl::Components& list, const " + struct_ + "& value) {";
    for (const std::string& field : fields_) result_ += " tsl_flatten(list, value." + field + ");";
    result_ += " }";
  }

  std::string result_;
  std::string struct_;  // whose fields come
  std::vector<std::string> fields_;
  bool has_body_ = false;
  std::string last_;  // identifier
  int depth_ = 0;
};

// Leaves out the definitions of refused functions, which may be no valid C++. A definition is
// `SLANG_PRELUDE_EXPORT type name(...) { ... }`; lines keep their numbers by the directives that follow.
class DefinitionCutter {
 public:
  DefinitionCutter(const std::string& text, const std::set<std::string>& names)
      : tokens_(split_tokens(text)), names_(names) {}

  std::string rest() {
    while (at_ < tokens_.size()) {
      if (tokens_[at_].text == "SLANG_PRELUDE_EXPORT" && names_.count(name_of_definition()) > 0) {
        skip_definition();
      } else {
        result_ += tokens_[at_++].text;
      }
    }
    return std::move(result_);
  }

 private:
  // The last identifier before the parameters. Types hold no parentheses.
  std::string name_of_definition() const {
    std::string_view name;
    for (size_t i = at_ + 1; i < tokens_.size() && tokens_[i].text != "("; ++i) {
      if (tokens_[i].kind == TokenKind::Identifier) name = tokens_[i].text;
    }
    return std::string(name);
  }

  void skip_definition() {
    int depth = 0;
    for (; at_ < tokens_.size(); ++at_) {
      if (tokens_[at_].text == "{") ++depth;
      if (tokens_[at_].text == "}" && --depth == 0) {
        ++at_;
        return;
      }
    }
  }

  const std::vector<Token> tokens_;
  const std::set<std::string>& names_;
  size_t at_ = 0;
  std::string result_;
};

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
  const std::set<std::string> left_out = refused(functions);
  const std::string kept = DefinitionCutter(functions_of(emitted), left_out).rest();
  std::string body = StructFlattener().with_overloads(name_kernels(kept));
  poll_loops(body);
  guard_operations(body);
  escape_line_names(body);
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
