#include "compiler/ir/quotients.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/opcodes.h"

namespace torch_slang {
namespace {

constexpr std::string_view kName = "10__quotient";  // in a mangled name
constexpr std::string_view kDivideOfFloat = "key__S4core6IFloat3divp1pi_4core6IFloat4This4core6IFloat4This";

class Quotients {
 public:
  using Numbers = std::map<int64_t, int64_t>;

  explicit Quotients(ModuleEdits& module) : module_(module), parents_(module.parents()) {
    for (int64_t at = 0; at < module_.size(); ++at) {
      if (module_.opcode(at) == kCall) note_call(at);
    }
  }

  void call() {
    if (witness_type_ < 0) return;
    for (int64_t at = 0; at < module_.size(); ++at) {
      if (module_.opcode(at) == kDiv && !is_constant(module_.operand(at, 1))) {
        replace(at, quotient_of(module_.type(at), at), module_.operand(at, 0), module_.operand(at, 1));
      } else if (module_.opcode(at) == kCall && divides_by_witness(at)) {
        replace(at, quotient_of(module_.type(at), at), module_.operand(at, 1), module_.operand(at, 2));
      }
    }
  }

 private:
  int64_t parent(int64_t at) const { return parents_[static_cast<size_t>(at)]; }

  bool has_name(int64_t at, std::string_view name) const {
    for (const int64_t child : module_.children(at)) {
      if (module_.opcode(child) != kImport) continue;
      if (module_.text(module_.operand(child, 0)).find(name) != std::string::npos) return true;
    }
    return false;
  }

  // The calls of kQuotientCalls: of a scalar, whose last operand is the witness of its type, a vector and a matrix.
  void note_call(int64_t at) {
    const int64_t callee = module_.operand(at, 0);
    if (module_.opcode(callee) != kSpecialize || !has_name(module_.operand(callee, 0), kName)) return;
    const int64_t type = module_.type(at);
    models_.emplace(shape_of(type), type);
    specialized_.emplace(type, callee);
    const int64_t witness = module_.operand(callee, module_.operands(callee) - 1);
    witnesses_.emplace(element_of(type), witness);
    witness_type_ = module_.type(witness);
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

  // `a / b` of a type parameter asks for IFloat's function.
  bool divides_by_witness(int64_t at) const {
    const int64_t callee = module_.operand(at, 0);
    return module_.operands(at) == 3 && module_.opcode(callee) == kLookupWitness &&
           has_name(module_.operand(callee, 1), kDivideOfFloat);
  }

  void replace(int64_t at, std::optional<int64_t> callee, int64_t a, int64_t b) {
    if (callee) module_.replace(at, kCall, module_.type(at), {*callee, a, b});
  }

  // Made as that of the model, the type of the same shape that kQuotientCalls has: the specialized function, and the annotations
  // that say what its derivatives are.
  std::optional<int64_t> quotient_of(int64_t type, int64_t at) {
    if (const auto found = specialized_.find(type); found != specialized_.end()) return found->second;
    const auto model = models_.find(shape_of(type));
    const auto witness = witness_of(element_of(type));
    if (model == models_.end() || !witness) return std::nullopt;
    Numbers replaced = {{element_of(model->second), element_of(type)},
                        {witnesses_.at(element_of(model->second)), *witness}};
    const size_t sizes = shape_of(type) == 0 ? 0 : shape_of(type) == kVectorType ? 1 : 2;
    for (size_t i = 1; i <= sizes; ++i) replaced[module_.operand(model->second, i)] = module_.operand(type, i);
    const int64_t place = outermost(at, parent(type)), modelled = specialized_.at(model->second);
    const int64_t callee = replaced_in(modelled, place, replaced);
    for (int64_t one = 0; one < module_.size(); ++one) {
      if (module_.opcode(one) != kAnnotation || module_.operand(one, 0) != modelled) continue;
      const int64_t derivative = replaced_in(module_.operand(one, 2), place, replaced);
      module_.insert(place, kAnnotation, module_.type(one), {callee, module_.operand(one, 1), derivative});
    }
    return specialized_[type] = callee;
  }

  // A type, specialization or witness that is made of what is replaced, made anew.
  int64_t replaced_in(int64_t at, int64_t place, Numbers& replaced) {
    if (const auto found = replaced.find(at); at < 0 || found != replaced.end()) return at < 0 ? at : found->second;
    const int32_t opcode = module_.opcode(at);
    const bool is_declared = opcode != kSpecialize && !module_.children(at).empty();
    if (is_declared || at >= module_.size()) return at;
    const int64_t type = replaced_in(module_.type(at), place, replaced);
    bool is_other = type != module_.type(at);
    std::vector<int64_t> operands;
    for (size_t i = 0; i < module_.operands(at); ++i) {
      operands.push_back(replaced_in(module_.operand(at, i), place, replaced));
      is_other = is_other || operands.back() != module_.operand(at, i);
    }
    return replaced[at] = is_other ? module_.insert(place, opcode, type, std::move(operands)) : at;
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

  ModuleEdits& module_;
  const std::vector<int64_t> parents_;
  std::map<int32_t, int64_t> models_;  // types, by shape
  std::map<int64_t, int64_t> witnesses_;  // by type of elements
  std::map<int64_t, int64_t> specialized_;  // by type
  int64_t witness_type_ = -1;
};

}  // namespace

const char* const kQuotientCalls = R"(
#define TSL_QUOTIENT(TYPE) [Differentiable] TYPE tsl_quotient(TYPE a, TYPE b) { return __quotient(a, b); }
TSL_QUOTIENT(half) TSL_QUOTIENT(float) TSL_QUOTIENT(double) TSL_QUOTIENT(float3) TSL_QUOTIENT(float3x4)
)";

void call_quotients(ModuleEdits& module) { Quotients(module).call(); }

}  // namespace torch_slang
