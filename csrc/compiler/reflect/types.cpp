#include "compiler/reflect/types.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

#include "compiler/reflect/attributes.h"
#include "compiler/slang/com.h"
#include "compiler/text/tokens.h"
#include "program/enumerations.h"

namespace torch_slang {
namespace {

using Kind = slang::TypeReflection::Kind;
using Scalar = slang::TypeReflection::ScalarType;

std::optional<ElementType> scalar_type(Scalar type) {
  switch (type) {
    case Scalar::Float16: return ElementType::Float16;
    case Scalar::BFloat16: return ElementType::BFloat16;
    case Scalar::Float32: return ElementType::Float32;
    case Scalar::Float64: return ElementType::Float64;
    case Scalar::Int8: return ElementType::Int8;
    case Scalar::Int16: return ElementType::Int16;
    case Scalar::Int32: return ElementType::Int32;
    case Scalar::Int64: return ElementType::Int64;
    case Scalar::UInt8: return ElementType::UInt8;
    case Scalar::UInt16: return ElementType::UInt16;
    case Scalar::UInt32: return ElementType::UInt32;
    case Scalar::UInt64: return ElementType::UInt64;
    case Scalar::Bool: return ElementType::Bool;
    default: return std::nullopt;
  }
}

// Sizes that are not known yet (unbounded, or a generic's value) come as huge numbers.
bool is_known_size(int64_t size) { return size > 0 && size <= (1 << 20); }

bool has_sizes(Kind kind) { return kind == Kind::Array || kind == Kind::Vector || kind == Kind::Matrix; }

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
}

// A uint that is a size is converted.
std::string without_conversion(const std::string& size) {
  constexpr std::string_view kHead = "int(";
  return size.starts_with(kHead) ? size.substr(kHead.size(), size.size() - kHead.size() - 1) : size;
}

// Note [sizes as text]
//   Asked for the size of an array over a generic value, Slang throws an exception of its own. Where a function has
//   such values, sizes are read from the type's name: "float[N]", "vector<float,N>", "matrix<float,N,3>", "float[int(M)]".
std::vector<std::string> size_texts(slang::TypeReflection* type) {
  const std::string name = name_of(type);
  if (type->getKind() == Kind::Array) {
    const size_t open = name.rfind('[');
    return {without_conversion(name.substr(open + 1, name.size() - open - 2))};
  }
  std::vector<std::string> texts(type->getKind() == Kind::Matrix ? 2 : 1);
  size_t end = name.size() - 1;
  for (size_t i = texts.size(); i-- > 0;) {
    const size_t comma = name.rfind(',', end - 1);
    texts[i] = without_conversion(name.substr(comma + 1, end - comma - 1));
    end = comma;
  }
  return texts;
}

std::string simple_name(slang::TypeReflection* type) {
  const char* name = type->getName();
  const std::string text = name == nullptr ? "" : name;
  return text.substr(0, text.find('<'));
}

// Whether two types are the same, or structs of such fields under the same names.
bool looks_like(slang::TypeReflection* one, slang::TypeReflection* other) {
  if (name_of(one) == name_of(other)) return true;
  if (one->getKind() != other->getKind()) return false;
  if (one->getKind() == Kind::Array) {
    return one->getElementCount() == other->getElementCount() &&
           looks_like(one->getElementType(), other->getElementType());
  }
  if (one->getKind() != Kind::Struct || one->getFieldCount() != other->getFieldCount()) return false;
  for (unsigned i = 0; i < one->getFieldCount(); ++i) {
    slang::VariableReflection* field = one->getFieldByIndex(i);
    slang::VariableReflection* like = other->getFieldByIndex(i);
    if (std::string(field->getName()) != like->getName() || !looks_like(field->getType(), like->getType()))
      return false;
  }
  return true;
}

}  // namespace

std::string name_of(slang::TypeReflection* type) {
  Com<ISlangBlob> name;
  type->getFullName(name.out());
  return text_of(name.get());
}

bool conforms(slang::ShaderReflection* layout, slang::TypeReflection* type, slang::TypeReflection* interface) {
  return type != nullptr && interface != nullptr && layout->isSubType(type, interface);
}

TypeReader::TypeReader(slang::ShaderReflection* layout, std::vector<std::string> type_parameters,
                       std::vector<bool> differentiable_parameters, std::vector<std::string> size_parameters)
    : layout_(layout),
      type_parameters_(std::move(type_parameters)),
      differentiable_parameters_(std::move(differentiable_parameters)),
      size_parameters_(std::move(size_parameters)) {}

int TypeReader::type_parameter(slang::TypeReflection* type) const {
  const std::string name = name_of(type);
  for (size_t i = 0; i < type_parameters_.size(); ++i) {
    if (name == type_parameters_[i]) return static_cast<int>(i);
  }
  return -1;
}

std::optional<Element> TypeReader::element(slang::TypeReflection* type) const {
  Element element;
  if (const int index = type_parameter(type); index >= 0) {
    element.type_parameter = index;
    return element;
  }
  if (type->getKind() == Kind::Enum) return this->element(type->getElementType());
  if (type->getKind() == Kind::Scalar) {
    const auto scalar = scalar_type(type->getScalarType());
    if (!scalar) return std::nullopt;
    element.type = *scalar;
    return element;
  }
  const auto own = sizes(type);
  if (!own) return std::nullopt;
  slang::TypeReflection* inner_type = type->getElementType();
  if (type->getKind() == Kind::Matrix && inner_type->getKind() == Kind::Vector)
    inner_type = inner_type->getElementType();
  auto inner = this->element(inner_type);
  if (!inner) return std::nullopt;
  inner->shape.insert(inner->shape.begin(), own->begin(), own->end());
  return inner;
}

std::optional<Element> TypeReader::view_element(slang::TypeReflection* type) const {
  if (type->getKind() != Kind::Struct) {
    const auto known = element(type);
    return known && known->shape.size() <= 1 ? known : std::nullopt;
  }
  std::optional<Element> all;
  int64_t count = 0;
  for (unsigned i = 0; i < type->getFieldCount(); ++i) {
    const auto field = view_element(type->getFieldByIndex(i)->getType());
    if (!field) return std::nullopt;
    const int64_t size = field->shape.empty() ? 1 : field->shape[0];
    const bool aligned_more = type->getFieldByIndex(i)->getType()->getKind() == Kind::Vector && size % 2 == 0;
    if (aligned_more || (all && (all->type != field->type || all->type_parameter != field->type_parameter))) {
      return std::nullopt;
    }
    all = field;
    count += size;
  }
  if (all) all->shape = {count};
  return all;
}

bool TypeReader::is_diff_view(slang::TypeReflection* type) const {
  slang::GenericReflection* generic = type->getGenericContainer();
  return simple_name(type) == "DiffTensorView" && generic != nullptr && generic->getTypeParameterCount() == 2;
}

slang::TypeReflection* TypeReader::viewed(slang::TypeReflection* type) const {
  if (!is_diff_view(type) && simple_name(type) != "TensorView") return nullptr;
  slang::GenericReflection* generic = type->getGenericContainer();
  return generic == nullptr ? nullptr : generic->getConcreteType(generic->getTypeParameter(0));
}

std::optional<SlangpyTensor> TypeReader::slangpy_tensor(slang::TypeReflection* type) const {
  struct Known {
    std::string_view name;
    bool is_written, is_differentiable;
  };
  static constexpr Known kKnown[] = {{"Tensor", false, false},       {"WTensor", true, false},
                                     {"RWTensor", true, false},      {"AtomicTensor", true, false},
                                     {"DiffTensor", false, true},    {"WDiffTensor", true, true},
                                     {"RWDiffTensor", true, true},   {"PrimalTensor", false, false},
                                     {"WPrimalTensor", true, false}, {"RWPrimalTensor", true, false}};
  const bool is_interface = type->getKind() == Kind::Interface;
  slang::GenericReflection* generic = type->getGenericContainer();
  const bool has_arguments =
      generic != nullptr && generic->getTypeParameterCount() == 1 && generic->getValueParameterCount() == 1;
  if (!has_arguments || (!is_interface && type->getKind() != Kind::Struct)) return std::nullopt;
  const std::string name = simple_name(type).substr(is_interface ? 1 : 0);
  const auto known = std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& k) { return k.name == name; });
  if (known == std::end(kKnown)) return std::nullopt;
  slang::TypeReflection* ours = layout_->findTypeByName((name + "<float, 1>").c_str());  // not a user's of that name
  if (ours == nullptr || find_attribute(ours, "TorchSlangTensor") == nullptr) return std::nullopt;
  const std::string full = name_of(type);
  const size_t comma = full.rfind(',');
  const std::string rank = full.substr(comma + 1, full.size() - comma - 2);
  const size_t digits = rank.find_first_not_of(' ');
  SlangpyTensor tensor;
  tensor.concrete = name + full.substr(full.find('<'));
  tensor.element = generic->getConcreteType(generic->getTypeParameter(0));
  if (digits != std::string::npos && is_number(rank.substr(digits))) tensor.rank = std::stoi(rank);
  tensor.is_written = known->is_written;
  tensor.is_differentiable = known->is_differentiable;
  return tensor;
}

Gathering TypeReader::gathering(slang::TypeReflection* diff_view) const {
  slang::GenericReflection* view = diff_view->getGenericContainer();
  Gathering gathering;
  gathering.wrapper = view->getConcreteType(view->getTypeParameter(1));
  const auto known = find_string_attribute(gathering.wrapper, "TorchSlangAccumulation");
  gathering.accumulation = known ? accumulation_named(*known).value() : Accumulation::Custom;
  if (!has_copies(row_of(gathering.accumulation).memory)) return gathering;
  slang::GenericReflection* generic = gathering.wrapper->getGenericContainer();
  gathering.copies = generic->getConcreteIntVal(generic->getValueParameter(0));
  return gathering;
}

std::string TypeReader::view_name(slang::TypeReflection* type) const {
  if (!is_diff_view(type)) return name_of(type);
  const std::string element = name_of(viewed(type));
  const Gathering gathering = this->gathering(type);
  const AccumulationRow& row = row_of(gathering.accumulation);
  if (row.view == nullptr) return name_of(type);
  const std::string copies = has_copies(row.memory) ? c10::str(", ", gathering.copies) : "";
  return c10::str(row.view, "<", element, copies, ">");
}

bool TypeReader::is_struct(slang::TypeReflection* type) const {
  return type->getKind() == Kind::Struct && viewed(type) == nullptr;
}

std::optional<int64_t> TypeReader::array_size(slang::TypeReflection* type) const {
  if (type->getKind() != Kind::Array) return std::nullopt;
  const auto known = sizes(type);
  return known && known->front() > 0 ? std::optional(known->front()) : std::nullopt;
}

std::optional<std::vector<int64_t>> TypeReader::sizes(slang::TypeReflection* type) const {
  if (!has_sizes(type->getKind())) return std::nullopt;
  std::vector<int64_t> sizes;
  if (size_parameters_.empty()) {
    if (type->getKind() == Kind::Matrix) {
      sizes = {type->getRowCount(), type->getColumnCount()};
    } else {
      // What follows from an `extern static const` is not known, and is a negative number as Slang says it.
      sizes = {std::max<int64_t>(static_cast<int64_t>(type->getElementCount()), 0)};
    }
  } else {
    for (const std::string& text : size_texts(type)) {
      const auto parameter = std::find(size_parameters_.begin(), size_parameters_.end(), text);
      if (parameter != size_parameters_.end()) {
        sizes.push_back(-1 - (parameter - size_parameters_.begin()));
      } else {
        sizes.push_back(is_number(text) ? std::stoll(text) : 0);
      }
    }
  }
  for (const int64_t size : sizes) {
    if (size >= 0 && !is_known_size(size)) return std::nullopt;
  }
  return sizes;
}

bool TypeReader::has_computed_size(slang::TypeReflection* type) const {
  if (size_parameters_.empty() || !has_sizes(type->getKind())) return false;
  for (const std::string& text : size_texts(type)) {
    const bool is_parameter =
        std::find(size_parameters_.begin(), size_parameters_.end(), text) != size_parameters_.end();
    if (!text.empty() && !is_number(text) && !is_parameter) return true;
  }
  return has_computed_size(type->getElementType());
}

bool TypeReader::is_differentiable(slang::TypeReflection* type) const {
  if (const int index = type_parameter(type); index >= 0) return differentiable_parameters_[index];
  if (const auto known = element(type)) {
    return known->type_parameter >= 0 ? differentiable_parameters_[known->type_parameter]
                                      : is_floating_point(known->type);
  }
  return conforms(layout_, type, layout_->findTypeByName("IDifferentiable"));
}

bool TypeReader::is_own_differential(slang::TypeReflection* type) const {
  if (type->getKind() != Kind::Struct) return true;
  // Of a generic type only instances have a Differential; one stands for all.
  for (const char* argument : {"float", "double", "half", "BFloat16"}) {
    std::string name = name_of(type);
    for (const std::string& parameter : type_parameters_) name = replace_identifier(name, parameter, argument);
    slang::TypeReflection* instance = layout_->findTypeByName(name.c_str());
    slang::TypeReflection* differential = layout_->findTypeByName((name + ".Differential").c_str());
    if (instance != nullptr && differential != nullptr) return looks_like(differential, instance);
  }
  return false;
}

std::vector<ElementType> TypeReader::allowed(const std::vector<slang::TypeReflection*>& constraints) const {
  std::vector<ElementType> types;
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto candidate = static_cast<ElementType>(i);
    slang::TypeReflection* type = layout_->findTypeByName(slang_name_of(candidate));
    bool all = type != nullptr;
    for (slang::TypeReflection* constraint : constraints) all = all && conforms(layout_, type, constraint);
    if (all) types.push_back(candidate);
  }
  return types;
}

}  // namespace torch_slang
