// The arguments of an op that has more than PyTorch's dispatcher takes.
//
// Note [packed arguments]
//   The dispatcher takes schemas of up to 64 arguments. Structs are taken apart, so a struct of 61 numbers beside a few tensors has
//   more. Such an op is registered with lists in place of arguments: its tensors, those that it writes, and its numbers,
//   each in the arguments' order, a vector's numbers one after the other. What belongs to the call (the mask, block and grid)
//   stays. Nothing but our kernels in the dispatcher knows of it (operators/registered_op.h): they unpack a stack when they are
//   called, and pack it when they call on.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "program/program.h"

namespace torch_slang {

class PackedArguments {
 public:
  // Null where the dispatcher takes the schema as it is. `leaves`: by argument, null of one that the function does not have.
  // `qualified`: for messages.
  static std::unique_ptr<const PackedArguments> of(const c10::FunctionSchema& schema,
                                                   const std::vector<const Leaf*>& leaves,
                                                   const std::string& qualified);

  const c10::FunctionSchema& schema() const { return *schema_; }
  // What stands in each list, by the list's name.
  const std::vector<std::pair<std::string, std::vector<std::string>>>& lists() const { return lists_; }

  // The arguments are the last on the stack.
  void pack(torch::jit::Stack& stack) const;
  void unpack(torch::jit::Stack& stack) const;

 private:
  enum class In : int8_t { Tensors, Written, Numbers, Alone };
  static constexpr size_t kLists = 3;

  struct Item {
    std::string name;
    In in = In::Alone;
    bool may_be_none = false;
    c10::TypeKind number = c10::TypeKind::FloatType;
    size_t count = 0;  // of a list of numbers; 0: one number
  };
  // Reads one list.
  struct Reader {
    c10::ArrayRef<c10::IValue> values;
    size_t next = 0;
  };

  PackedArguments() = default;
  static Item item_of(const c10::Argument& argument, const Leaf* leaf);
  void add(Item item);
  void make_schema(const c10::FunctionSchema& whole);
  c10::IValue read(const Item& item, Reader& list) const;
  c10::IValue number(const Item& item, const c10::IValue& value) const;
  c10::IValue tensor(const Item& item, const c10::IValue& value) const;

  std::string qualified_;
  std::vector<Item> items_;  // by argument
  std::array<size_t, kLists> sizes_{};
  std::vector<std::pair<std::string, std::vector<std::string>>> lists_;
  std::unique_ptr<const c10::FunctionSchema> schema_;
};

}  // namespace torch_slang
