#include "operators/packed_arguments.h"

#include <ATen/core/List.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace torch_slang {
namespace {

using torch::jit::Stack;

constexpr size_t kMostArguments = 64;  // c10/core/DispatchKeyExtractor.h has a bit for each

constexpr std::array<const char*, 3> kTypes = {"Tensor?[]", "Tensor(a!)?[]", "Scalar[]"};
constexpr std::array<const char*, 3> kNames = {"tensors", "written", "numbers"};

const c10::Type& without_optional(const c10::Argument& argument) {
  const c10::Type& type = *argument.type();
  return type.kind() == c10::TypeKind::OptionalType ? *type.expectRef<c10::OptionalType>().getElementType() : type;
}

bool is_number(c10::TypeKind kind) {
  return kind == c10::TypeKind::FloatType || kind == c10::TypeKind::IntType || kind == c10::TypeKind::BoolType;
}

c10::IValue list_of(const c10::TypePtr& type, std::vector<c10::IValue> values) {
  c10::impl::GenericList list(type);
  list.reserve(values.size());
  for (c10::IValue& value : values) list.push_back(std::move(value));
  return list;
}

}  // namespace

PackedArguments::Item PackedArguments::item_of(const c10::Argument& argument, const Leaf* leaf) {
  Item item{argument.name()};
  const c10::Type& type = without_optional(argument);
  item.may_be_none = &type != argument.type().get();
  if (type.kind() == c10::TypeKind::TensorType) {
    const auto* alias = argument.alias_info();
    item.in = alias != nullptr && alias->isWrite() ? In::Written : In::Tensors;
  } else if (leaf != nullptr && is_number(type.kind()) && argument.real_type()->kind() != c10::TypeKind::SymIntType) {
    item.in = In::Numbers;
    item.number = type.kind();
  } else if (leaf != nullptr && leaf->is_value() && type.kind() == c10::TypeKind::ListType) {
    item.in = In::Numbers;
    item.number = type.expectRef<c10::ListType>().getElementType()->kind();
    item.count = static_cast<size_t>(component_count(leaf->element));
  }
  return item;
}

void PackedArguments::add(Item item) {
  if (item.in != In::Alone) sizes_[static_cast<size_t>(item.in)] += std::max<size_t>(item.count, 1);
  items_.push_back(std::move(item));
}

std::unique_ptr<const PackedArguments> PackedArguments::of(const c10::FunctionSchema& schema,
                                                           const std::vector<const Leaf*>& leaves,
                                                           const std::string& qualified) {
  const auto& arguments = schema.arguments();
  if (arguments.size() <= kMostArguments) return nullptr;
  std::unique_ptr<PackedArguments> packed(new PackedArguments);
  packed->qualified_ = qualified;
  for (size_t i = 0; i < arguments.size(); ++i) packed->add(item_of(arguments[i], leaves[i]));
  packed->make_schema(schema);
  return packed;
}

// The lists, then what stays alone.
void PackedArguments::make_schema(const c10::FunctionSchema& whole) {
  const auto is_taken = [&](const std::string& name) {
    return std::any_of(items_.begin(), items_.end(),
                       [&](const Item& item) { return item.in == In::Alone && item.name == name; });
  };
  std::string text;
  for (size_t k = 0; k < kLists; ++k) {
    if (sizes_[k] == 0) continue;
    std::string name = kNames[k];
    while (is_taken(name)) name += "_";
    text += (text.empty() ? "" : ", ") + std::string(kTypes[k]) + " " + name;
    std::vector<std::string> members;
    for (const Item& item : items_) {
      if (item.in == static_cast<In>(k)) members.push_back(item.name);
    }
    lists_.emplace_back(std::move(name), std::move(members));
  }
  std::vector<c10::Argument> arguments = torch::schema(("torch_slang::lists(" + text + ") -> ()").c_str()).arguments();
  for (size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].in == In::Alone) arguments.push_back(whole.arguments()[i]);
  }
  schema_ =
      std::make_unique<c10::FunctionSchema>(whole.name(), whole.overload_name(), std::move(arguments), whole.returns());
}

void PackedArguments::pack(Stack& stack) const {
  std::array<std::vector<c10::IValue>, kLists> lists;
  std::vector<c10::IValue> alone;
  const auto first = stack.end() - static_cast<std::ptrdiff_t>(items_.size());
  for (size_t i = 0; i < items_.size(); ++i) {
    c10::IValue& value = first[static_cast<std::ptrdiff_t>(i)];
    const Item& item = items_[i];
    auto& list = item.in == In::Alone ? alone : lists[static_cast<size_t>(item.in)];
    if (item.count > 0) {
      for (const c10::IValue& one : value.toListRef()) list.push_back(one);
    } else if (item.in != In::Numbers && value.isTensor() && !value.toTensor().defined()) {
      list.emplace_back();
    } else {
      list.push_back(std::move(value));
    }
  }
  stack.erase(first, stack.end());
  const auto tensors = c10::OptionalType::create(c10::TensorType::get());
  for (size_t k = 0; k < kLists; ++k) {
    if (sizes_[k] == 0) continue;
    const bool are_numbers = k == static_cast<size_t>(In::Numbers);
    stack.push_back(list_of(are_numbers ? c10::TypePtr(c10::NumberType::get()) : tensors, std::move(lists[k])));
  }
  std::move(alone.begin(), alone.end(), std::back_inserter(stack));
}

void PackedArguments::unpack(Stack& stack) const {
  const auto first = stack.end() - static_cast<std::ptrdiff_t>(schema_->arguments().size());
  const std::vector<c10::IValue> given(std::make_move_iterator(first), std::make_move_iterator(stack.end()));
  stack.erase(first, stack.end());
  std::array<Reader, kLists> lists;
  size_t next = 0;
  for (size_t k = 0; k < kLists; ++k) {
    if (sizes_[k] == 0) continue;
    lists[k].values = given[next].toListRef();
    TORCH_CHECK(lists[k].values.size() == sizes_[k], qualified_, ": expected ", lists_[next].first, " to have ",
                sizes_[k], " elements, those of ", lists_[next].second.front(), " to ", lists_[next].second.back(),
                ", but got ", lists[k].values.size());
    ++next;
  }
  for (const Item& item : items_) {
    stack.push_back(item.in == In::Alone ? given[next++] : read(item, lists[static_cast<size_t>(item.in)]));
  }
}

c10::IValue PackedArguments::read(const Item& item, Reader& list) const {
  if (item.in != In::Numbers) return tensor(item, list.values[list.next++]);
  if (item.count == 0) return number(item, list.values[list.next++]);
  std::vector<c10::IValue> numbers;
  for (size_t k = 0; k < item.count; ++k) numbers.push_back(number(item, list.values[list.next++]));
  switch (item.number) {
    case c10::TypeKind::FloatType: return list_of(c10::FloatType::get(), std::move(numbers));
    case c10::TypeKind::BoolType: return list_of(c10::BoolType::get(), std::move(numbers));
    default: return list_of(c10::IntType::get(), std::move(numbers));
  }
}

c10::IValue PackedArguments::tensor(const Item& item, const c10::IValue& value) const {
  TORCH_CHECK(item.may_be_none || value.isTensor(), qualified_, ": expected ", item.name,
              " to be a tensor, but got None");
  return value;
}

// A list may have integers where floats are wanted.
c10::IValue PackedArguments::number(const Item& item, const c10::IValue& value) const {
  if (item.number == c10::TypeKind::FloatType) {
    if (value.isInt()) return static_cast<double>(value.toInt());
    if (value.isBool()) return value.toBool() ? 1.0 : 0.0;
    return value;
  }
  const bool is_integer = value.isInt() || value.isBool() || value.isSymInt();
  TORCH_CHECK(is_integer, qualified_, ": expected ", item.name, " to be an integer or a bool, but got ", value);
  if (item.number == c10::TypeKind::BoolType && value.isInt()) return value.toInt() != 0;
  if (item.number == c10::TypeKind::IntType && value.isBool()) return static_cast<int64_t>(value.toBool());
  return value;
}

}  // namespace torch_slang
