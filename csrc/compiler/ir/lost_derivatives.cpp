#include "compiler/ir/lost_derivatives.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/ir/instruction_facts.h"
#include "compiler/ir/opcodes.h"

namespace torch_slang {
namespace {

using Numbers = std::vector<int64_t>;

// Operands of these in front of the arguments for the parameters of the block that they go to.
constexpr size_t kTargetsOfBranch = 1, kTargetsOfLoop = 3;
constexpr int64_t kAnyElement = -1;
constexpr std::string_view kConstant = "tsl_constant";  // slang/constants.slang

std::string name_of(const ModuleEdits& module, int64_t function) {
  for (const int64_t one : module.children(function)) {
    if (module.opcode(one) == kNameHint) return module.text(module.operand(one, 0));
  }
  return module.opcode(function) == kLookupWitness ? name_of(module, module.operand(function, 1)) : "a function";
}

// A variable or parameter, and the fields and elements of it that an address goes through.
struct Memory {
  int64_t root = 0;
  Numbers path;

  bool overlaps(const Memory& other) const {
    if (root != other.root) return false;
    for (size_t i = 0; i < std::min(path.size(), other.path.size()); ++i) {
      if (path[i] != other.path[i] && path[i] != kAnyElement && other.path[i] != kAnyElement) return false;
    }
    return true;
  }
};

bool is_no_diff_call(const ModuleEdits& module, int64_t call) {
  return has_child(module, call, kTreatedCall) || has_child(module, call, kDifferentiableCall);
}

// Whether a method with a derivative is called of a value behind an interface that has none.
bool calls_by_constant_interface(const ModuleEdits& module, const Annotations& annotations) {
  for (int64_t call = 0; call < module.size(); ++call) {
    if (module.opcode(call) != kCall || is_no_diff_call(module, call)) continue;
    if (!annotations.has_derivative(module.operand(call, 0))) continue;
    for (size_t i = 1; i < module.operands(call); ++i) {
      const int64_t one = module.operand(call, i);
      if (one < 0 || module.opcode(one) != kExistentialValue) continue;
      if (!annotations.is_differentiable(module.type(module.operand(one, 0)))) return true;
    }
  }
  return false;
}

class Flow {
 public:
  Flow(const ModuleEdits& module, const Annotations& annotations, int64_t function)
      : module_(module), annotations_(annotations) {
    for (const int64_t block : module.children(function)) {
      if (module.opcode(block) != kBlock) continue;
      const bool is_first = parameters_.empty();
      for (const int64_t one : module.children(block)) {
        if (module.opcode(one) == kParameter) {
          parameters_[block].push_back(one);
          (is_first ? given_ : joined_).insert(one);
        } else {
          body_.push_back(one);
          block_of_[one] = block;
        }
      }
      parameters_[block];
    }
    for (const int64_t one : body_) {
      for (size_t i = 0; i < module.operands(one); ++i) users_[module.operand(one, i)].push_back({one, i});
      for (const auto& [parameter, argument] : joins(one)) incoming_[parameter].push_back(argument);
    }
  }

  // Calls whose derivative is lost where it is wanted.
  Numbers lost_calls() {
    Numbers lost;
    for (const int64_t one : body_) {
      if (module_.opcode(one) == kCall && loses(one)) lost.push_back(one);
    }
    return lost;
  }

  // Casts of bits from a type with derivatives to another such: to Slang their value is a constant.
  Numbers lost_casts() {
    Numbers lost;
    for (const int64_t one : body_) {
      if (module_.opcode(one) != kBitCast || !is_differentiable(one) || !may_carry(module_.operand(one, 0))) continue;
      reached_.clear();
      written_.clear();
      if (is_wanted(one)) lost.push_back(one);
    }
    return lost;
  }

  // The instructions that put a value with a derivative into an interface that has none.
  Numbers lost_in_interfaces() {
    Numbers lost;
    for (const int64_t one : body_) {
      if (module_.opcode(one) == kMakeExistential && !is_differentiable(one) && may_carry(module_.operand(one, 0)))
        lost.push_back(one);
    }
    return lost;
  }

  // The instructions that put a value with a derivative into a tuple that has none.
  Numbers lost_tuples() {
    Numbers lost;
    for (const int64_t one : body_) {
      if (is_constant_tuple(one) && takes_into_tuple(one)) lost.push_back(one);
    }
    return lost;
  }

 private:
  struct Use {
    int64_t user;
    size_t operand;
  };

  bool is_no_diff(int64_t call) const { return is_no_diff_call(module_, call); }

  bool has_derivative(int64_t call) const { return annotations_.has_derivative(module_.operand(call, 0)); }
  bool is_differentiable(int64_t value) const { return annotations_.is_differentiable(module_.type(value)); }
  bool is_address(int64_t value) const { return annotations_.is_address(module_.type(value)); }

  // The parameter's type, of the argument that is this operand; -1: not known.
  int64_t parameter_type(int64_t call, size_t operand) const {
    const int64_t type = module_.type(module_.operand(call, 0));
    if (type < 0 || module_.opcode(type) != kFunctionType || operand >= module_.operands(type)) return -1;
    return module_.operand(type, operand);
  }

  bool takes_derivative(int64_t call, size_t operand) const {
    const int64_t type = parameter_type(call, operand), value = module_.operand(call, operand);
    if (value < 0 || module_.type(value) < 0 || !is_differentiable(value)) return false;
    return type < 0 || annotations_.is_differentiable(type);
  }

  bool writes(int64_t call, size_t operand) const {
    const int64_t type = parameter_type(call, operand);
    if (type < 0) return is_address(module_.operand(call, operand));
    return module_.opcode(type) == kOutParameter || module_.opcode(type) == kInOutParameter;
  }

  bool is_constant_tuple(int64_t value) const {
    const int64_t type = plain_type(module_, value);
    return type >= 0 && module_.opcode(type) == kTupleType && !annotations_.is_differentiable(type);
  }

  bool takes_into_tuple(int64_t one) {
    const bool is_call = module_.opcode(one) == kCall;
    if (!is_call && module_.opcode(one) != kMakeTuple) return false;
    if (is_call && (is_no_diff(one) || has_derivative(one))) return false;
    for (size_t i = is_call ? 1 : 0; i < module_.operands(one); ++i) {
      if (may_carry(module_.operand(one, i))) return true;
    }
    return false;
  }

  // Slang's compiler ends on `bwd_diff` inside of a function that is differentiated itself; source/derivative_calls.h says what to write.
  bool is_bwd_diff(int64_t call) const {
    return module_.opcode(function_of(module_, module_.operand(call, 0))) == kBackwardDerivative;
  }

  bool loses(int64_t call) {
    if (is_no_diff(call) || has_derivative(call) || is_bwd_diff(call)) return false;
    bool carries = false;
    for (size_t i = 1; i < module_.operands(call) && !carries; ++i) {
      const int64_t type = parameter_type(call, i);
      carries = takes_derivative(call, i) && (type < 0 || module_.opcode(type) != kOutParameter) &&
                may_carry(module_.operand(call, i));
    }
    if (!carries) return false;
    reached_.clear();
    written_.clear();
    if (is_differentiable(call) && is_wanted(call)) return true;
    for (size_t i = 1; i < module_.operands(call); ++i) {
      const auto memory =
          takes_derivative(call, i) && writes(call, i) ? memory_of(module_.operand(call, i)) : std::nullopt;
      if (memory && is_wanted(*memory, call)) return true;
    }
    return false;
  }

  // Whether a value may have a derivative that is not zero.
  bool may_carry(int64_t value) {
    looked_at_.clear();
    return carries(value);
  }

  bool carries(int64_t value) {
    if (value < 0 || module_.type(value) < 0 || !is_differentiable(value)) return false;
    if (!looked_at_.insert(value).second) return false;
    if (given_.count(value) > 0) return true;
    if (is_address(value)) {
      const auto memory = memory_of(value);
      return !memory || memory_carries(*memory);
    }
    const auto any = [&](const Numbers& values) {
      return std::any_of(values.begin(), values.end(), [&](int64_t one) { return carries(one); });
    };
    if (joined_.count(value) > 0) return any(incoming_[value]);
    switch (module_.opcode(value)) {
      case kDetach: return false;
      case kCall: return call_carries(value);
      default: return any(operands_of(value));
    }
  }

  // What a call without a derivative gives would have one if the call had.
  bool call_carries(int64_t call) {
    if (is_no_diff(call)) return false;
    bool takes = !has_derivative(call);
    for (size_t i = 1; i < module_.operands(call); ++i) {
      if (!takes_derivative(call, i)) continue;
      takes = true;
      if (carries(module_.operand(call, i))) return true;
    }
    return !takes;  // a view's elements
  }

  bool memory_carries(const Memory& memory) {
    if (given_.count(memory.root) > 0) return is_differentiable(memory.root);
    for (const auto& [address, use] : uses_of(memory)) {
      const int32_t opcode = module_.opcode(use.user);
      if (opcode == kCall && !is_no_diff(use.user)) return true;
      if (is_store(module_, use.user) && use.operand == 0 && carries(module_.operand(use.user, 1))) return true;
    }
    return false;
  }

  Numbers operands_of(int64_t value) const {
    Numbers all;
    for (size_t i = 0; i < module_.operands(value); ++i) all.push_back(module_.operand(value, i));
    return all;
  }

  // Whether a value comes to where its derivative is wanted.
  bool is_wanted(int64_t value) {
    if (!reached_.insert(value).second) return false;
    const auto found = users_.find(value);
    if (found == users_.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(), [&](const Use& use) { return wants(use); });
  }

  bool wants(const Use& use) {
    switch (module_.opcode(use.user)) {
      case kReturn: return true;
      case kDetach: return false;
      case kCall:
        if (is_no_diff(use.user) || !takes_derivative(use.user, use.operand)) return false;
        return has_derivative(use.user) || is_wanted(use.user);
      case kStore:
      case kSwizzledStore: {
        const auto memory = use.operand == 1 ? memory_of(module_.operand(use.user, 0)) : std::nullopt;
        return memory && is_wanted(*memory, use.user);
      }
      default: break;
    }
    for (const auto& [parameter, argument] : joins(use.user)) {
      if (argument == module_.operand(use.user, use.operand) && is_differentiable(parameter) && is_wanted(parameter))
        return true;
    }
    return module_.type(use.user) >= 0 && is_differentiable(use.user) && !is_address(use.user) && is_wanted(use.user);
  }

  // The same of memory that `writer` writes.
  bool is_wanted(const Memory& memory, int64_t writer) {
    const auto same = [&](const Memory& other) { return other.root == memory.root && other.path == memory.path; };
    if (std::any_of(written_.begin(), written_.end(), same)) return false;
    written_.push_back(memory);
    if (is_made_constant(memory, writer)) return false;
    if (given_.count(memory.root) > 0) return true;
    for (const auto& [address, use] : uses_of(memory)) {
      if (use.user == writer) continue;
      if (module_.opcode(use.user) == kLoad && is_wanted(use.user)) return true;
      if (module_.opcode(use.user) == kCall && wants_memory(use)) return true;
    }
    return false;
  }

  // What constant_calls.h puts behind a `no_diff` call that writes: all of the memory is stored anew, without its derivative.
  bool is_made_constant(const Memory& memory, int64_t writer) const {
    for (const auto& [address, use] : uses_of(memory)) {
      if (module_.opcode(use.user) != kStore || use.operand != 0 || use.user < writer) continue;
      if (block_of_.at(use.user) != block_of_.at(writer) || memory_of(address)->path.size() > memory.path.size())
        continue;
      const int64_t value = module_.operand(use.user, 1);
      if (module_.opcode(value) == kDetach) return true;
      if (module_.opcode(value) == kCall &&
          name_of(module_, function_of(module_, module_.operand(value, 0))) == kConstant)
        return true;
    }
    return false;
  }

  bool wants_memory(const Use& use) const {
    const int64_t type = parameter_type(use.user, use.operand);
    const bool is_out = type >= 0 && module_.opcode(type) == kOutParameter;
    return !is_out && !is_no_diff(use.user) && has_derivative(use.user) && takes_derivative(use.user, use.operand);
  }

  // None: an address that a call gives.
  std::optional<Memory> memory_of(int64_t address) const {
    Memory memory;
    while (module_.opcode(address) == kFieldAddress || module_.opcode(address) == kElementAddress) {
      const int64_t part = module_.operand(address, 1);
      const bool is_known = module_.opcode(address) == kFieldAddress || module_.opcode(part) == kIntegerConstant;
      memory.path.insert(memory.path.begin(), is_known ? part : kAnyElement);
      address = module_.operand(address, 0);
    }
    memory.root = address;
    if (module_.opcode(address) != kVariable && given_.count(address) == 0) return std::nullopt;
    return memory;
  }

  // What uses an address of this memory, or of a part of it, or of the whole that it is a part of; not for another address.
  std::vector<std::pair<int64_t, Use>> uses_of(const Memory& memory) const {
    std::vector<std::pair<int64_t, Use>> all;
    for (const auto& [address, uses] : users_) {
      if (module_.type(address) < 0 || !is_address(address)) continue;
      const auto other = memory_of(address);
      if (!other || !other->overlaps(memory)) continue;
      for (const Use& use : uses) {
        const int32_t opcode = module_.opcode(use.user);
        if (opcode != kFieldAddress && opcode != kElementAddress) all.emplace_back(address, use);
      }
    }
    return all;
  }

  // Parameters of the block that a branch goes to, each with what it gets.
  std::vector<std::pair<int64_t, int64_t>> joins(int64_t branch) const {
    const int32_t opcode = module_.opcode(branch);
    if (opcode != kBranch && opcode != kLoop) return {};
    const size_t first = opcode == kBranch ? kTargetsOfBranch : kTargetsOfLoop;
    const auto parameters = parameters_.find(module_.operand(branch, 0));
    std::vector<std::pair<int64_t, int64_t>> all;
    if (parameters == parameters_.end()) return all;
    for (size_t i = 0; i < parameters->second.size() && first + i < module_.operands(branch); ++i) {
      all.emplace_back(parameters->second[i], module_.operand(branch, first + i));
    }
    return all;
  }

  const ModuleEdits& module_;
  const Annotations& annotations_;
  Numbers body_;
  std::map<int64_t, int64_t> block_of_;
  std::map<int64_t, Numbers> parameters_;  // by block
  std::set<int64_t> given_, joined_;  // parameters of the function, and of blocks behind the first
  std::map<int64_t, std::vector<Use>> users_;
  std::map<int64_t, Numbers> incoming_;
  std::set<int64_t> looked_at_, reached_;
  std::vector<Memory> written_;
};

// Of the statement that an instruction belongs to: "file(line)".
std::string place_of(const ModuleEdits& module, int64_t at) {
  while (at > 0 && module.opcode(at) != kBlock && module.opcode(at) != kDebugLine) --at;
  if (module.opcode(at) != kDebugLine) return "?";
  const int64_t file = module.operand(module.operand(at, 0), 0);
  return c10::str(module.text(file), "(", module.value(module.operand(at, 1)), ")");
}

}  // namespace

std::string lost_derivatives(const ModuleEdits& module, const Annotations& annotations) {
  std::set<std::string> errors;
  const bool has_constant_interfaces = calls_by_constant_interface(module, annotations);
  for (const int64_t function : annotations.differentiated()) {
    if (module.opcode(function) != kFunction) continue;
    Flow flow(module, annotations, function);
    const std::string caller = name_of(module, function);
    for (const int64_t call : flow.lost_calls()) {
      const std::string callee = name_of(module, function_of(module, module.operand(call, 0)));
      errors.insert(c10::str(place_of(module, call), ": error: the derivative of ", callee, " is lost in ", caller,
                             ": ", callee,
                             " is not differentiable. Mark it [Differentiable], or write `no_diff` in front of ",
                             "the call for a derivative of zero\n"));
    }
    for (const int64_t cast : flow.lost_casts()) {
      errors.insert(c10::str(place_of(module, cast), ": error: the derivative of a bit_cast is lost in ", caller,
                             ": to Slang its value is a constant. Use reinterpret, which has a derivative, or ",
                             "`detach(x)` as what is cast for a derivative of zero\n"));
    }
    for (const int64_t value : has_constant_interfaces ? flow.lost_in_interfaces() : Numbers()) {
      errors.insert(c10::str(place_of(module, value), ": error: a derivative is lost in a variable of an interface in ",
                             caller, ": the interface is not IDifferentiable. Declare it so, or make the function ",
                             "generic over the type, or put `detach(x)` there for a derivative of zero\n"));
    }
    for (const int64_t tuple : flow.lost_tuples()) {
      errors.insert(c10::str(place_of(module, tuple), ": error: a derivative is lost in a tuple in ", caller,
                             ": to Slang a tuple has none where one of its elements, such as an int, has none. Use a ",
                             "struct, or `detach(x)` as the element for a derivative of zero\n"));
    }
  }
  std::string all;
  for (const std::string& error : errors) all += error;
  return all;
}

}  // namespace torch_slang
