#include "compiler/source/type_declarations.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "compiler/text/words.h"

namespace torch_slang {
namespace {

constexpr std::array<std::string_view, 10> kModifiers = {"public", "internal", "private", "in",       "precise",
                                                         "const",  "inline",   "uniform", "override", "mutating"};
constexpr std::array<std::string_view, 14> kNoFields = {
    "static",   "typealias",   "typedef", "struct", "enum", "interface", "associatedtype",
    "property", "__subscript", "__init",  "func",   "This", "extension", "class"};
constexpr std::array<std::string_view, 9> kNoFloats = {"bool",     "int",    "uint",    "void",  "uintptr_t",
                                                       "intptr_t", "size_t", "usize_t", "String"};
constexpr std::array<std::string_view, 6> kDerivatives = {"Differentiable",        "BackwardDifferentiable",
                                                          "ForwardDifferentiable", "BackwardDerivative",
                                                          "ForwardDerivative",     "TreatAsDifferentiable"};

bool is_whole_number_type(std::string_view word) {
  for (const std::string_view stem : {"int8_t", "int16_t", "int32_t", "int64_t", "int", "bool"}) {
    std::string_view rest = word.starts_with("u") && stem != "bool" ? word.substr(1) : word;
    if (rest.starts_with(stem) && rest.substr(stem.size()).find_first_not_of("234x") == std::string_view::npos)
      return true;
  }
  return is_among(kNoFloats, word);
}

class Reader {
 public:
  explicit Reader(const SourceCode& code) : code_(code) {}

  std::vector<TypeDeclaration> read() {
    for (size_t at = 0; at + 1 < code_.size(); ++at) {
      note_function(at);
      const bool is_interface = code_[at] == "interface";
      if ((is_interface || code_[at] == "struct") && code_.is_name(at + 1)) declaration(at + 1, is_interface);
    }
    return std::move(found_);
  }

 private:
  std::string_view word(size_t at) const { return code_[at]; }

  // A body stands behind parameters.
  void note_function(size_t at) {
    if (word(at) != "{" || at == 0 || at < function_end_ || word(at - 1) != ")") return;
    function_end_ = code_.closing(at);
  }

  void declaration(size_t at, bool is_interface) {
    TypeDeclaration type;
    type.at = at;
    type.line = code_.line(at);
    type.name = std::string(word(at));
    type.is_interface = is_interface;
    type.is_local = at < function_end_;
    size_t behind = code_.behind_angles(at + 1);
    const size_t generics_end = behind;
    if (word(behind) == ":") type.colon = behind;
    while (behind < code_.size() && word(behind) != "{" && word(behind) != ";" && word(behind) != "=") {
      if (word(behind) == "where" && type.bases_end == 0) type.bases_end = behind;
      if (type.colon > 0 && type.bases_end == 0 && code_.is_name(behind)) type.bases.emplace(word(behind));
      ++behind;
    }
    if (word(behind) != "{" || (behind > generics_end && type.colon == 0 && word(generics_end) != "where")) return;
    type.open = behind;
    type.close = code_.closing(behind);
    if (type.close >= code_.size()) return;
    if (type.bases_end == 0) type.bases_end = type.open;
    type.is_differentiable = type.bases.count("IDifferentiable") > 0 || type.bases.count("IDifferentiablePtrType") > 0;
    if (is_interface)
      requirements(type);
    else
      fields(type, at + 1, generics_end);
    found_.push_back(std::move(type));
  }

  void requirements(TypeDeclaration& type) const {
    for (size_t at = type.open; at < type.close; ++at) {
      if ((word(at - 1) == "[" || word(at - 1) == ",") && is_among(kDerivatives, word(at))) type.has_floats = true;
    }
  }

  void fields(TypeDeclaration& type, size_t generics, size_t generics_end) const {
    for (size_t at = type.open + 1; at < type.close;) {
      while (word(at) == "[") at = code_.closing(at) + 1;
      if (is_among(kModifiers, word(at)) || word(at) == ";") {
        ++at;
        continue;
      }
      if (word(at) == "Differential") type.is_differentiable = true;
      size_t end = at, parameters = 0;
      for (; end < type.close && word(end) != ";" && word(end) != "{"; ++end) {
        if (word(end) == "=" && parameters == 0 && !is_among(kNoFields, word(at))) {
          end = code_.first_of(";", end, type.close);
          break;
        }
        if (word(end) == "Differential" || word(end) == "dzero") type.is_differentiable = true;
        if (word(end) != "(" && word(end) != "[") continue;
        if (word(end) == "(" && parameters == 0) parameters = end;
        end = code_.closing(end);
      }
      if (parameters == 0 && word(end) == ";" && !is_among(kNoFields, word(at)))
        field(type, at, generics, generics_end);
      at = (word(end) == "{" ? code_.closing(end) : end) + 1;
    }
  }

  void field(TypeDeclaration& type, size_t at, size_t generics, size_t generics_end) const {
    if (word(at) == "no_diff") return;
    for (size_t i = at; word(i) != ";" && i < type.close; ++i) {
      if (word(i) == "*" || word(i) == "=") {
        type.has_views = type.has_views || word(i) == "*";
        break;
      }
    }
    size_t head = at;
    while (word(head + 1) == "." || (word(head + 1) == ":" && word(head + 2) == ":"))
      head += word(head + 1) == "." ? 2 : 3;
    if (is_view_type(word(head))) {
      type.has_views = true;
      return;
    }
    const size_t end = std::max(head + 1, code_.behind_angles(head + 1));
    for (size_t i = head; i < end; ++i) {
      if (is_view_type(word(i))) type.has_views = true;
      if (!code_.is_name(i) || is_whole_number_type(word(i))) continue;
      if (is_float_type(word(i)) && !(word(i) == "vector" || word(i) == "matrix")) {
        type.has_floats = true;
      } else if (word(i) != "vector" && word(i) != "matrix" && word(i) != "Array") {
        if (!type_parameter(type, word(i), generics, generics_end)) type.field_types.emplace(word(i));
      }
    }
  }

  // Whether the name is a parameter of the struct: a type of numbers, one of any kind, or a value.
  bool type_parameter(TypeDeclaration& type, std::string_view name, size_t generics, size_t end) const {
    for (size_t at = generics; at < end; ++at) {
      if (word(at) != name || (word(at - 1) != "<" && word(at - 1) != "," && word(at - 1) != "typename")) continue;
      if (word(at + 1) != ":") {
        if (std::count(type.free_parameters.begin(), type.free_parameters.end(), at) == 0)
          type.free_parameters.push_back(at);
        return true;
      }
      bool is_number = false;
      for (size_t i = at + 2; i < end && word(i) != ","; ++i) {
        is_number = is_number || has_part(word(i), {"Float"}) || word(i) == "IDifferentiable" || word(i) == "IReal";
        if (code_.is_name(i)) type.field_types.emplace(word(i));
      }
      (is_number ? type.has_floats : type.is_constrained) = true;
      return true;
    }
    return false;
  }

  const SourceCode& code_;
  std::vector<TypeDeclaration> found_;
  size_t function_end_ = 0;
};

}  // namespace

bool is_float_type(std::string_view word) {
  for (const std::string_view stem : {"half", "float", "double"}) {
    if (!word.starts_with(stem)) continue;
    const std::string_view rest = word.substr(stem.size());
    if (rest.find_first_not_of("234x") == std::string_view::npos || rest == "16_t" || rest == "32_t" || rest == "64_t")
      return true;
  }
  return word == "BFloat16" || word == "vector" || word == "matrix";
}

bool is_view_type(std::string_view word) {
  return has_part(word, {"Tensor", "Texture", "Buffer", "Sampler", "Ptr", "CoopMat", "DescriptorHandle", "Image"});
}

std::vector<TypeDeclaration> type_declarations(const SourceCode& code) { return Reader(code).read(); }

}  // namespace torch_slang
