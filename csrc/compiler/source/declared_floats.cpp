#include "compiler/source/declared_floats.h"

#include <algorithm>
#include <array>

#include "compiler/source/function_heads.h"
#include "compiler/text/words.h"

namespace torch_slang {
namespace {

constexpr std::array<std::string_view, 7> kScalars = {"half",      "float",     "double",   "BFloat16",
                                                      "float16_t", "float32_t", "float64_t"};
constexpr std::array<std::string_view, 5> kToScalar = {"dot", "length", "distance", "determinant", "size"};

bool is_swizzle(std::string_view member) {
  return member.size() <= 4 && member.find_first_not_of("xyzwrgba") == std::string_view::npos;
}

FloatKind of_element(FloatKind kind) {
  return kind == FloatKind::Matrix   ? FloatKind::Vector
         : kind == FloatKind::Vector ? FloatKind::Scalar
                                     : FloatKind::None;
}

}  // namespace

SourceFloats::SourceFloats(const SourceCode& code) : code_(code) {
  for (size_t at = 0; at < code_.size(); ++at) {
    const bool begins = code_[at] == "<" || code_[at] == ",";
    if (begins && code_.is_name(at + 1) && code_[at + 2] == ":") type_parameters_.push_back(code_[at + 1]);
  }
  for (size_t at = 0; at < code_.size(); ++at) {
    if (code_[at] == "struct") {
      while (at < code_.size() && code_[at] != "{" && code_[at] != ";") ++at;
      if (code_[at] == "{") declare(at, code_.closing(at), false, fields_);
    }
  }
  for (const FunctionHead& head : function_heads(code_)) {
    const bool is_within = !functions_.empty() && head.name < functions_.back().end;  // of a type in a function
    if (is_within || code_[head.name] == "__subscript") continue;
    SourceFunction function{head.name, head.open, head.body, head.end, {}};
    declare(head.open, head.close, true, function.names);
    declare(head.close, head.end, false, function.names);
    functions_.push_back(std::move(function));
  }
}

void SourceFloats::declare(size_t begin, size_t end, bool parameters, DeclaredFloats& names) const {
  for (size_t at = begin; at < end; ++at) {
    DeclaredFloat declared;
    const size_t name = declared_name(at, declared);
    if (name == at) continue;
    // `double a, b = f(a), c[3];`
    for (size_t next = name; code_.is_name(next);) {
      DeclaredFloat one = declared;
      size_t behind = next + 1;
      for (; code_[behind] == "["; behind = code_.closing(behind) + 1) ++one.indices;
      names[code_[next]] = one;
      if (parameters) break;
      behind = code_.first_of(",;", behind, end);
      if (code_[behind] != ",") break;
      next = behind + 1;
    }
    at = name;
  }
}

// Where `T name` has its name, if a type stands there; else there itself.
size_t SourceFloats::declared_name(size_t type, DeclaredFloat& declared) const {
  const std::string_view word = code_[type];
  size_t at = type + 1;
  if (word == "vector" || word == "matrix") {
    declared.element = word == "vector" ? FloatKind::Vector : FloatKind::Matrix;
  } else if (has_part(word, {"TensorView"}) && code_[at] == "<") {
    declared.element = kind_of_type(code_[at + 1]);
    declared.indices = 1;
  } else {
    declared.element = kind_of_type(word);
  }
  if (declared.element == FloatKind::None) return type;
  at = code_.behind_angles(at);
  return code_.is_name(at) ? at : type;
}

FloatKind SourceFloats::kind_of_type(std::string_view word) const {
  if (is_among(kScalars, word) || std::count(type_parameters_.begin(), type_parameters_.end(), word) > 0)
    return FloatKind::Scalar;
  if (word == "vector") return FloatKind::Vector;
  for (const std::string_view scalar : {"half", "float", "double"}) {
    if (!word.starts_with(scalar)) continue;
    const std::string_view size = word.substr(scalar.size());
    if (size.find_first_not_of("234x") != std::string_view::npos) continue;
    if (size.size() == 1) return FloatKind::Vector;
    if (size.size() == 3) return FloatKind::Matrix;
  }
  return FloatKind::None;
}

Operand SourceFloats::before(size_t at) const {
  size_t begin = at;
  while (begin > 0) {
    const std::string_view last = code_[begin - 1];
    if (last == ")" || last == "]") {
      begin = code_.opening(begin - 1);
      if (!code_.is_name(begin - 1) && code_[begin - 1] != "]") break;
    } else {
      if (code_.is_name(begin - 1) || code_.is_number(begin - 1)) --begin;
      if (code_[begin - 1] != ".") break;
      --begin;
    }
  }
  return {begin, at};
}

Operand SourceFloats::from(size_t at) const {
  size_t end = code_[at] == "(" ? at : at + 1;
  while (code_[end] == "(" || code_[end] == "[" || code_[end] == ".")
    end = code_[end] == "." ? end + 2 : code_.closing(end) + 1;
  return {at, end};
}

FloatKind SourceFloats::kind(const SourceFunction& function, Operand operand) const {
  size_t at = operand.begin;
  if (at >= operand.end) return FloatKind::None;
  if (code_.is_number(at)) {
    const bool whole = code_[at].starts_with("0x") || code_[at].find_first_of(".fh") == std::string_view::npos;
    return whole ? FloatKind::None : FloatKind::Scalar;
  }
  const auto found = function.names.find(code_[at]);
  if (found == function.names.end()) return kind_of_group(function, operand);
  FloatKind kind = found->second.element;
  int indices = found->second.indices;
  for (++at; at < operand.end;) {
    if (code_[at] == "[") {
      if (indices > 0)
        --indices;
      else
        kind = of_element(kind);
      at = code_.closing(at) + 1;
      continue;
    }
    if (code_[at] != ".") return FloatKind::None;
    const std::string_view member = code_[at + 1];
    const auto field = fields_.find(member);
    if (indices == 0 && kind == FloatKind::Vector && is_swizzle(member)) {
      kind = member.size() == 1 ? FloatKind::Scalar : FloatKind::Vector;
    } else if (field != fields_.end()) {
      kind = field->second.element;
      indices = field->second.indices;
    } else {
      return FloatKind::None;
    }
    at += 2;
  }
  return indices == 0 ? kind : FloatKind::None;
}

// `(a + b)`, `normalize(a)`, `float3(x)`, `s.field`: an aggregate, if one is in it, as most functions return the type of their arguments.
FloatKind SourceFloats::kind_of_group(const SourceFunction& function, Operand group) const {
  const std::string_view head = code_[group.begin];
  if (code_[group.begin + 1] == "(" && kind_of_type(head) != FloatKind::None) return kind_of_type(head);
  if (code_[group.end - 2] == "." && fields_.count(code_[group.end - 1]) > 0) {
    const DeclaredFloat& field = fields_.at(code_[group.end - 1]);
    return field.indices == 0 ? field.element : FloatKind::None;
  }
  if (code_[group.end - 1] != ")" || is_among(kToScalar, head)) return FloatKind::None;
  FloatKind most = FloatKind::None;
  for (size_t at = group.begin + 1; at < group.end; ++at) {
    if (function.names.count(code_[at]) == 0 || code_[at - 1] == ".") continue;
    most = std::max(most, kind(function, from(at)));
  }
  return most;
}

}  // namespace torch_slang
