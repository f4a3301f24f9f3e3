#include "compiler/reflect/view_leaf.h"

#include "compiler/reflect/refusal.h"

namespace torch_slang {
namespace {

using slang::Modifier;
using slang::TypeReflection;
using slang::VariableReflection;

constexpr int64_t kMaxCopies = 65536;  // more is a mistake, not a memory
constexpr int kMostDims = 4;           // of a tensor of SlangPy's: a vector has no more components

// The generated kernel fills the field `diff` and nothing else.
void check_wrapper(const Leaf& leaf, TypeReflection* type, TypeReflection* wrapper, const TypeReader& types) {
  int views = 0, others = 0;
  for (unsigned i = 0; i < wrapper->getFieldCount(); ++i) {
    VariableReflection* field = wrapper->getFieldByIndex(i);
    if (field->findModifier(Modifier::Static) != nullptr) continue;
    const bool is_view = std::string(field->getName()) == "diff" && types.viewed(field->getType()) != nullptr &&
                         !types.is_diff_view(field->getType());
    ++(is_view ? views : others);
  }
  if (views == 1 && others == 0) return;
  refuse("parameter ", leaf.path, " is a ", name_of(type), ", but the wrapper ", name_of(wrapper),
         " must have the gradient's view, `TensorView<float> diff;`, and no other field");
}

void add_gradient(Function& function, Leaf& leaf, TypeReflection* type, TypeReflection* element,
                  const TypeReader& types) {
  if (!types.is_own_differential(element)) {
    refuse("parameter ", leaf.path, " is a ", leaf.slang_type, ", but the derivative of ", name_of(element),
           " does not look like ", name_of(element),
           " itself: it must have differentiable fields alone, and no "
           "Differential of its own");
  }
  ViewLeaf& view = leaf.view();
  view.diff_view = function.view_count++;
  const Gathering gathering = types.is_diff_view(type) ? types.gathering(type) : Gathering();
  view.accumulation = gathering.accumulation;
  const GradientMemory memory = view.gathering().memory;
  if (has_copies(memory) && (gathering.copies < 1 || gathering.copies > kMaxCopies))
    refuse("parameter ", leaf.path, " is a ", leaf.slang_type, ", but N must be from 1 to ", kMaxCopies);
  view.copies = static_cast<int>(gathering.copies);
  if (!view.gathering().is_ours) check_wrapper(leaf, type, gathering.wrapper, types);
  view.gradient_slots = function.slot_count;
  function.slot_count += slot_count(memory);
}

void read_access(Leaf& leaf, const SlangpyTensor& tensor) {
  if (tensor.rank < 1 || tensor.rank > kMostDims) {
    refuse("parameter ", leaf.path, " is a ", leaf.slang_type,
           ", but the number of its dimensions must be a number from 1 to ", kMostDims);
  }
  leaf.view().rank = tensor.rank;
  leaf.view().is_written = tensor.is_written;
  if (!tensor.is_written) leaf.view().is_in = true;
}

}  // namespace

void fill_view(Function& function, Leaf& leaf, TypeReflection* type, const TypeReader& types, bool differentiable) {
  const std::optional<SlangpyTensor> tensor = types.slangpy_tensor(type);
  if (tensor) read_access(leaf, *tensor);
  TypeReflection* viewed = tensor ? tensor->element : types.viewed(type);
  const auto element = types.view_element(viewed);
  if (!element) {
    refuse("parameter ", leaf.path, " is a ", leaf.slang_type, ", but the elements of a view of an operator must be ",
           "scalars, vectors, or structs of scalars and 3-vectors of one type");
  }
  leaf.element = *element;
  leaf.view().primal_view = function.view_count++;
  if (tensor ? !tensor->is_differentiable : !types.is_diff_view(type)) return;
  leaf.differentiable = differentiable;
  add_gradient(function, leaf, type, viewed, types);
}

}  // namespace torch_slang
