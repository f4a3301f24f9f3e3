#include "compiler/ir/quotients.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/opcodes.h"

namespace torch_slang {
namespace {

// An instruction, and what it becomes a call of.
struct Division {
  int32_t opcode;
  std::string_view name;  // of the library's function, in a mangled name
  std::string_view requirement;  // IFloat's function
  bool has_rule;  // Slang has its derivative by a constant divisor
};
constexpr std::array<Division, 2> kDivisions = {{
    {kDiv, "10__quotient", "key__S4core6IFloat3divp1pi_4core6IFloat4This4core6IFloat4This", true},
    {kFRem, "11__remainder", "key__S4core6IFloat3modp1pi_4core6IFloat4This4core6IFloat4This", false},
}};
constexpr std::string_view kReal = "11torch_slang5IReal";  // the library's interface of numbers
constexpr std::string_view kModel = "11tsl_divided";

class Quotients {
 public:
  using Numbers = std::map<int64_t, int64_t>;

  explicit Quotients(ModuleEdits& module) : module_(module), parents_(module.parents()) {
    for (int64_t at = 0; at < module_.size(); ++at) {
      if (module_.opcode(at) == kCall) note_call(at);
    }
  }

  void call() {
    for (int64_t at = 0; at < module_.size(); ++at) {
      for (const Division& division : kDivisions) {
        if (module_.opcode(at) == division.opcode) {
          if (division.has_rule && is_constant(module_.operand(at, 1))) continue;
          replace(at, called(division, module_.type(at), at), module_.operand(at, 0), module_.operand(at, 1));
        } else if (divides_by_witness(division, at)) {
          replace(at, called(division, module_.type(at), at), module_.operand(at, 1), module_.operand(at, 2));
        }
      }
    }
  }

 private:
  // A call of the library's, of a type parameter, or of vectors or matrices of one.
  struct Model {
    int64_t type;
    int64_t callee;  // specialized, its last operand the type's witness of IFloat
  };

  int64_t parent(int64_t at) const { return parents_[static_cast<size_t>(at)]; }

  bool has_name(int64_t at, std::string_view name) const {
    for (const int64_t child : module_.children(at)) {
      if (module_.opcode(child) != kImport && module_.opcode(child) != kExport) continue;
      if (module_.text(module_.operand(child, 0)).find(name) != std::string::npos) return true;
    }
    return false;
  }

  int64_t last_operand(int64_t at) const { return module_.operand(at, module_.operands(at) - 1); }

  // The calls of kQuotientCalls.
  void note_call(int64_t at) {
    const int64_t callee = module_.operand(at, 0);
    if (module_.opcode(callee) != kSpecialize) return;
    const int64_t function = module_.operand(callee, 0);
    if (has_name(function, kModel)) {
      witnesses_.emplace(module_.operand(callee, 1), last_operand(callee));
      witness_type_ = module_.type(last_operand(callee));
    }
    if (module_.opcode(element_of(module_.type(at))) != kParameter) return;
    for (const Division& division : kDivisions) {
      if (!has_name(function, division.name)) continue;
      const int64_t type = module_.type(at);
      models_.emplace(Key{division.opcode, shape_of(type)}, Model{type, callee});
    }
  }

  // The opcode of a vector's or matrix's type; else 0.
  int32_t shape_of(int64_t type) const {
    const int32_t opcode = module_.opcode(type);
    return opcode == kVectorType || opcode == kMatrixType ? opcode : 0;
  }
  int64_t element_of(int64_t type) const { return shape_of(type) == 0 ? type : module_.operand(type, 0); }

  bool is_constant(int64_t value) const {
    const int32_t opcode = module_.opcode(value);
    if (opcode == kMakeVectorFromScalar || opcode == kMakeMatrixFromScalar)
      return is_constant(module_.operand(value, 0));
    return opcode == kFloatConstant;
  }

  // `a / b` of a type parameter asks for IFloat's function, and so does core's `/=` of vectors.
  bool divides_by_witness(const Division& division, int64_t at) const {
    if (module_.opcode(at) != kCall || module_.operands(at) != 3) return false;
    const int64_t callee = module_.operand(at, 0);
    return module_.opcode(callee) == kLookupWitness && has_name(module_.operand(callee, 1), division.requirement);
  }

  // That the type is a float, where the call says so.
  std::optional<int64_t> witness_at(int64_t call) const {
    if (module_.opcode(call) != kCall) return std::nullopt;
    const int64_t witness = module_.operand(module_.operand(call, 0), 0);
    if (module_.opcode(witness) != kLookupWitness) return std::nullopt;
    const int64_t interface = module_.operand(module_.type(module_.operand(witness, 0)), 0);
    return has_name(interface, kReal) ? std::optional(witness) : std::nullopt;
  }

  void replace(int64_t at, std::optional<int64_t> callee, int64_t a, int64_t b) {
    if (callee) module_.replace(at, kCall, module_.type(at), {*callee, a, b});
  }

  // Made as that of the model, the type of the same shape in kQuotientCalls: the specialized function, and the annotations
  // that say what its derivatives are.
  std::optional<int64_t> called(const Division& division, int64_t type, int64_t at) {
    const auto known = specialized_.find({division.opcode, type});
    if (known != specialized_.end()) return known->second;
    const auto found = models_.find({division.opcode, shape_of(type)});
    if (found == models_.end()) return std::nullopt;
    const Model& model = found->second;
    Numbers replaced = {{element_of(model.type), element_of(type)}};
    if (const auto witness = witness_of(element_of(type))) {
      replaced[*witness_of(element_of(model.type))] = *witness;
    } else if (const auto real = witness_at(at)) {
      replaced[last_operand(model.callee)] = *real;
    } else {
      return std::nullopt;
    }
    for (size_t i = 1; shape_of(type) != 0 && i < module_.operands(type); ++i)
      replaced[module_.operand(model.type, i)] = module_.operand(type, i);
    const int64_t position = outermost(at, parent(type));
    const int64_t callee = replaced_in(model.callee, position, replaced);
    for (int64_t one = 0; one < module_.size(); ++one) {
      if (module_.opcode(one) != kAnnotation || module_.operand(one, 0) != model.callee) continue;
      const int64_t derivative = replaced_in(module_.operand(one, 2), position, replaced);
      module_.insert(position, kAnnotation, module_.type(one), {callee, module_.operand(one, 1), derivative});
    }
    return specialized_[{division.opcode, type}] = callee;
  }

  // A type, specialization or witness that is made of what is replaced, made anew.
  int64_t replaced_in(int64_t at, int64_t position, Numbers& replaced) {
    if (const auto found = replaced.find(at); at < 0 || found != replaced.end()) return at < 0 ? at : found->second;
    const int32_t opcode = module_.opcode(at);
    const bool is_declared = opcode != kSpecialize && !module_.children(at).empty();
    if (is_declared || at >= module_.size()) return at;
    const int64_t type = replaced_in(module_.type(at), position, replaced);
    bool is_other = type != module_.type(at);
    std::vector<int64_t> operands;
    for (size_t i = 0; i < module_.operands(at); ++i) {
      operands.push_back(replaced_in(module_.operand(at, i), position, replaced));
      is_other = is_other || operands.back() != module_.operand(at, i);
    }
    return replaced[at] = is_other ? module_.insert(position, opcode, type, std::move(operands)) : at;
  }

  // Of a type parameter: that of its constraint, which stands beside it. The n-th of them is the n-th parameter's.
  std::optional<int64_t> witness_of(int64_t element) const {
    if (const auto found = witnesses_.find(element); found != witnesses_.end()) return found->second;
    if (module_.opcode(element) != kParameter) return std::nullopt;
    std::vector<int64_t> types, witnesses;
    for (const int64_t one : module_.children(parent(element))) {
      if (module_.opcode(one) != kParameter) continue;
      if (module_.type(one) == witness_type_) witnesses.push_back(one);
      if (module_.type(one) == module_.type(element)) types.push_back(one);
    }
    if (types.size() != witnesses.size()) return std::nullopt;
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] == element) return witnesses[i];
    }
    return std::nullopt;
  }

  // The instruction around `at` that is a child of `block`, where its types stand.
  int64_t outermost(int64_t at, int64_t block) const {
    while (parent(at) != block) at = parent(at);
    return at;
  }

  using Key = std::pair<int32_t, int64_t>;
  ModuleEdits& module_;
  const std::vector<int64_t> parents_;
  std::map<Key, Model> models_;  // by opcode and shape
  std::map<int64_t, int64_t> witnesses_;  // by type of elements
  std::map<Key, int64_t> specialized_;  // by opcode and type
  int64_t witness_type_ = -1;
};

}  // namespace

const char* const kQuotientCalls = R"(
[Differentiable] void tsl_divided<T : __BuiltinFloatingPointType, let N : int, let M : int, let L : int>(
    inout T a, inout vector<T, N> v, inout matrix<T, N, M, L> m)
{
    a = __remainder(__quotient(a, a), a);
    v = __remainder(__quotient(v, v), v);
    m = __remainder(__quotient(m, m), m);
}
#define TSL_DIVIDED(T) void tsl_divided(inout T a, inout T##2 v, inout T##2x2 m) { tsl_divided<T>(a, v, m); }
TSL_DIVIDED(half) TSL_DIVIDED(float) TSL_DIVIDED(double)
)";

void call_quotients(ModuleEdits& module) { Quotients(module).call(); }

}  // namespace torch_slang
