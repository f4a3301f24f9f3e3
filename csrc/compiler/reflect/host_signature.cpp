#include "compiler/reflect/host_signature.h"

#include <map>

#include "compiler/reflect/flatten.h"

namespace torch_slang {
namespace {

using slang::Modifier;
using slang::TypeReflection;
using Kind = TypeReflection::Kind;

constexpr const char* kInstead = "; write a kernel with [Out] parameters instead, and call it from Python";

// The T of TorchTensor<T>; null if the type is none.
TypeReflection* tensor_element(TypeReflection* type) {
  if (type->getKind() == Kind::Array || !name_of(type).starts_with("TorchTensor<")) return nullptr;
  slang::GenericReflection* generic = type->getGenericContainer();
  return generic == nullptr ? nullptr : generic->getConcreteType(generic->getTypeParameter(0));
}

TypeReflection* without_arrays(TypeReflection* type) {
  while (type->getKind() == Kind::Array) type = type->getElementType();
  return type;
}

class HostFlattener {
 public:
  HostFlattener(std::vector<Leaf>& leaves, const TypeReader& types, bool is_result)
      : leaves_(leaves), types_(types), is_result_(is_result) {}

  // `name` of the leaf, `path` as the user wrote it.
  Parameter flatten(TypeReflection* type, const std::string& own_name, const std::string& name,
                    const std::string& path) {
    Parameter parameter;
    parameter.name = own_name;
    parameter.slang_type = name_of(type);
    if (TypeReflection* element = tensor_element(type)) {
      parameter.leaf = add(ViewLeaf(), tensor_type(element, parameter.slang_type, path), name, path, type);
    } else if (const auto value = types_.element(type)) {
      refuse_matrix(without_arrays(type), path);
      parameter.leaf = add(ValueLeaf(), *value, name, path, type);
    } else if (types_.is_struct(type)) {
      for (unsigned i = 0; i < type->getFieldCount(); ++i) {
        slang::VariableReflection* field = type->getFieldByIndex(i);
        const std::string inner = field->getName();
        if (field->findModifier(Modifier::Static) != nullptr) continue;
        parameter.fields.push_back(flatten(field->getType(), inner, name + "_" + inner, path + "." + inner));
      }
    } else if (const auto count = types_.array_size(type)) {
      for (int64_t i = 0; i < *count; ++i) {
        const std::string index = std::to_string(i);
        parameter.fields.push_back(
            flatten(type->getElementType(), index, name + "_" + index, path + "[" + index + "]"));
      }
    } else {
      refuse(subject(path), " has the type ", parameter.slang_type,
             ", but host functions take and return TorchTensor, numbers, vectors, and structs and arrays of these");
    }
    return parameter;
  }

 private:
  std::string subject(const std::string& path) const {
    return is_result_ ? (path.empty() ? "its result" : "the result's " + path) : "parameter " + path;
  }

  Element tensor_type(TypeReflection* element, const std::string& type, const std::string& path) const {
    const auto known = types_.view_element(element);
    if (!known || element->getKind() == Kind::Struct) {
      refuse(subject(path), " is a ", type, ", but the elements of a TorchTensor must be scalars or vectors", kInstead);
    }
    const ElementType scalar = known->type;
    if (scalar == ElementType::UInt16 || scalar == ElementType::UInt32 || scalar == ElementType::UInt64) {
      refuse(subject(path), " is a ", type,
             ", but Slang's host functions have no tensors of 16, 32 and 64 bit unsigned ", "integers", kInstead);
    }
    return *known;
  }

  // Note [matrices of host functions]
  //   Slang swaps rows and columns where it unpacks a matrix parameter, and packs the rows of a matrix result twice.
  void refuse_matrix(TypeReflection* type, const std::string& path) const {
    if (type->getKind() != Kind::Matrix) return;
    if (!is_result_ && type->getRowCount() == type->getColumnCount()) return;
    refuse(subject(path), " is a ", name_of(type), ", but Slang's host functions ",
           is_result_ ? "cannot return matrices: return its rows as vectors"
                      : "take square matrices alone: take its rows as vectors");
  }

  int add(LeafKind kind, Element element, const std::string& name, const std::string& path, TypeReflection* type) {
    Leaf leaf;
    leaf.name = name;
    leaf.path = path;
    leaf.slang_type = name_of(type);
    leaf.kind = std::move(kind);
    leaf.element = std::move(element);
    leaves_.push_back(std::move(leaf));
    return static_cast<int>(leaves_.size()) - 1;
  }

  std::vector<Leaf>& leaves_;
  const TypeReader& types_;
  bool is_result_;
};

}  // namespace

std::string emitted_name(const Function& function) {
  return function.qualified_name.substr(function.qualified_name.rfind('.') + 1);
}

void refuse_equal_names(std::vector<HostFunction>& functions) {
  std::map<std::string, int> counts;
  for (const HostFunction& one : functions) ++counts[emitted_name(one.function)];
  for (HostFunction& one : functions) {
    const std::string name = emitted_name(one.function);
    if (counts[name] > 1) one.function.refusal = "there are several host functions " + name + "; rename the others";
  }
}

void describe_host_function(Function& function, HostFunction& host, slang::FunctionReflection* reflection,
                            const TypeReader& types) {
  function.kind.emplace<PlainFunction>();
  HostFlattener parameters(function.leaves, types, false);
  for (unsigned i = 0; i < reflection->getParameterCount(); ++i) {
    slang::VariableReflection* variable = reflection->getParameterByIndex(i);
    const std::string name = variable->getName();
    for (const auto modifier : {Modifier::InOut, Modifier::Out}) {
      if (variable->findModifier(modifier) == nullptr) continue;
      refuse("parameter ", name,
             " is out or inout, but a host function gives results back by returning them: return a ", "struct");
    }
    function.parameters.push_back(parameters.flatten(variable->getType(), name, name, name));
  }
  TypeReflection* result = reflection->getReturnType();
  host.result.slang_type = name_of(result);
  if (host.result.slang_type == "void") return;
  host.result = HostFlattener(host.result_leaves, types, true).flatten(result, "", "", "");
}

}  // namespace torch_slang
