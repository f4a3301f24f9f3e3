#include "compiler/ir/library_calls.h"

#include <c10/util/Exception.h>

#include <string>

#include "compiler/ir/opcodes.h"

namespace torch_slang {
namespace {

// In a mangled name.
constexpr std::array<std::string_view, 4> kNames = {"10__quotient", "11__remainder", "6__kept", "8tsl_copy"};
constexpr std::string_view kReal = "11torch_slang5IReal";  // the library's interface of numbers
constexpr std::string_view kModel = "17tsl_library_calls";

}  // namespace

LibraryCalls::LibraryCalls(ModuleEdits& module) : module_(module), parents_(module.parents()) {
  for (int64_t at = 0; at < module_.size(); ++at) {
    if (module_.opcode(at) == kCall) note(at);
  }
}

bool LibraryCalls::has_name(int64_t at, std::string_view name) const {
  for (const int64_t child : module_.children(at)) {
    if (module_.opcode(child) != kImport && module_.opcode(child) != kExport) continue;
    if (module_.text(module_.operand(child, 0)).find(name) != std::string::npos) return true;
  }
  return false;
}

// The calls of kLibraryCalls.
void LibraryCalls::note(int64_t call) {
  const int64_t callee = module_.operand(call, 0);
  if (module_.opcode(callee) != kSpecialize) return;
  const int64_t function = module_.operand(callee, 0);
  if (has_name(function, kModel)) {
    witnesses_.emplace(module_.operand(callee, 1), last_operand(callee));
    witness_type_ = module_.type(last_operand(callee));
  }
  if (module_.operands(call) < 2) return;
  const int64_t type = module_.type(module_.operand(call, 1));
  if (type < 0 || module_.opcode(element_of(type)) != kParameter) return;
  for (const Function one : {Quotient, Remainder, Kept, Copy}) {
    if (!has_name(function, kNames[one])) continue;
    models_.emplace(Key{one, shape_of(type)}, Model{type, callee, module_.type(last_operand(call))});
    if (one == Kept) no_type_ = module_.type(call);
  }
}

// The opcode of a vector's or matrix's type; else 0.
int32_t LibraryCalls::shape_of(int64_t type) const {
  const int32_t opcode = module_.opcode(type);
  return opcode == kVectorType || opcode == kMatrixType ? opcode : 0;
}

// That the type is a float, where the call says so.
std::optional<int64_t> LibraryCalls::witness_at(int64_t call) const {
  if (module_.opcode(call) != kCall) return std::nullopt;
  const int64_t callee = module_.operand(call, 0);
  if (module_.operands(callee) == 0) return std::nullopt;
  const int64_t witness = module_.operand(callee, 0);
  if (module_.opcode(witness) != kLookupWitness) return std::nullopt;
  const int64_t interface = module_.operand(module_.type(module_.operand(witness, 0)), 0);
  return has_name(interface, kReal) ? std::optional(witness) : std::nullopt;
}

// The instructions that the model's callee has, with those that the callee for the type has in their place.
std::optional<LibraryCalls::Numbers> LibraryCalls::replacements(const Model& model, int64_t type, int64_t at) const {
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
  return replaced;
}

std::optional<LibraryCalls::Callee> LibraryCalls::callee(Function function, int64_t type, int64_t at) {
  const auto known = specialized_.find({function, type});
  if (known != specialized_.end()) return known->second;
  const auto found = models_.find({function, shape_of(type)});
  if (found == models_.end()) return std::nullopt;
  const auto replaced = replacements(found->second, type, at);
  if (!replaced) return std::nullopt;
  return specialize({function, type}, found->second, *replaced, at);
}

LibraryCalls::Callee LibraryCalls::copy_callee(int64_t type, int64_t witness, int64_t at) {
  const auto known = specialized_.find({Copy, type});
  if (known != specialized_.end()) return known->second;
  const auto found = models_.find({Copy, 0});
  TORCH_CHECK(found != models_.end(), "torch-slangc: a module does not call the library's tsl_copy");
  const Model& model = found->second;
  return specialize({Copy, type}, model, {{model.type, type}, {last_operand(model.callee), witness}}, at);
}

// The model is the call in kLibraryCalls for a type of the same shape. Its specialized function is copied with the other type in it,
// and so are the annotations that name the function's derivatives. The annotations of Copy are left out: Slang inlines a [ForceInline]
// function before it makes derivatives only if the function has no annotations.
const LibraryCalls::Callee& LibraryCalls::specialize(const Key& key, const Model& model, Numbers replaced, int64_t at) {
  const int64_t position = outermost(at, parent(key.second));
  const int64_t callee = replaced_in(model.callee, position, replaced);
  for (int64_t one = 0; key.first != Copy && one < module_.size(); ++one) {
    if (module_.opcode(one) != kAnnotation || module_.operand(one, 0) != model.callee) continue;
    const int64_t derivative = replaced_in(module_.operand(one, 2), position, replaced);
    module_.insert(position, kAnnotation, module_.type(one), {callee, module_.operand(one, 1), derivative});
  }
  return specialized_.emplace(key, Callee{callee, replaced_in(model.last_type, position, replaced)}).first->second;
}

// `at` with the replacements made in it: a copy if it is a type, specialization or witness that has a replaced operand, else itself.
int64_t LibraryCalls::replaced_in(int64_t at, int64_t position, Numbers& replaced) {
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

// The witness that the type of elements is a float. That of a type parameter is a parameter of the generic too: the n-th witness
// belongs to the n-th type.
std::optional<int64_t> LibraryCalls::witness_of(int64_t element) const {
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
int64_t LibraryCalls::outermost(int64_t at, int64_t block) const {
  while (parent(at) != block) at = parent(at);
  return at;
}

const char* const kLibraryCalls = R"(
[Differentiable] void tsl_library_calls<T : __BuiltinFloatingPointType, let N : int, let M : int, let L : int>(
    inout T a, inout vector<T, N> v, inout matrix<T, N, M, L> m)
{
    a = __remainder(__quotient(a, a), a);
    v = __remainder(__quotient(v, v), v);
    m = __remainder(__quotient(m, m), m);
    T b; __kept(a, b); a = b;
    vector<T, N> w; __kept(v, w); v = w;
    matrix<T, N, M, L> n; __kept(m, n); m = n;
}
#define TSL_CALLS(T) void tsl_library_calls(inout T a, inout T##2 v, inout T##2x2 m) { tsl_library_calls<T>(a, v, m); }
TSL_CALLS(half) TSL_CALLS(float) TSL_CALLS(double)
[Differentiable] T tsl_library_copy<T : IDifferentiable>(T a) { return tsl_copy(a); }
)";

}  // namespace torch_slang
