#include "audit/cut.h"

#include <ATen/ops/fmod.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/signature.h"

namespace torch_slang::audit {
namespace {

using Dims = std::vector<Expression>;  // of the names of Cut

constexpr int64_t kNothing = std::numeric_limits<int64_t>::max();

bool may_index(const at::Tensor& tensor) { return c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/false); }

// torch divides no unsigned integers.
at::ScalarType signed_type(at::ScalarType type) {
  switch (type) {
    case at::kUInt16: return at::kShort;
    case at::kUInt32: return at::kInt;
    case at::kUInt64: return at::kLong;
    default: return type;
  }
}

at::Tensor rest(const at::Tensor& integers, int64_t divisor) {
  const at::ScalarType type = integers.scalar_type();
  return at::fmod(integers.view(signed_type(type)), divisor).view(type);
}

class Cut {
 public:
  Cut(const Function& function, const std::vector<c10::IValue>& values)
      : function_(function), values_(values), dims_(values.size()) {}

  // The names that a kernel's shapes have.
  void bind(const ShapePlan& shapes) {
    std::vector<std::optional<c10::IntArrayRef>> sizes(values_.size());
    std::vector<int64_t> numbers(values_.size(), 0);
    for (size_t i = 0; i < values_.size(); ++i) {
      if (is_view(i)) sizes[i] = tensor(i).sizes();
      if (shapes.symbol_of_value(static_cast<int>(i)) >= 0) numbers[i] = values_[i].toInt();
    }
    const Bound<int64_t> bound = shapes.bind<int64_t>(sizes, numbers, function_.name);
    names_.assign(bound.symbols.begin(), bound.symbols.end());
    may_be_cut_.assign(names_.size(), true);
    may_be_cut_[kLeadingSymbol] = false;  // its dimensions have names of their own
    for (size_t i = 0; i < values_.size(); ++i) {
      if (const int name = shapes.symbol_of_value(static_cast<int>(i)); name >= 0) may_be_cut_[name] = false;
    }
    const Dims leading = named(bound.leading);
    for (size_t i = 0; i < values_.size(); ++i) {
      const ViewShape& shape = shapes.view(static_cast<int>(i));
      if (!is_view(i) || shape.any) continue;
      if (shape.leading) dims_[i] = leading;
      dims_[i].insert(dims_[i].end(), shape.dims.begin(), shape.dims.end());
    }
    for (size_t i = 0; i < values_.size(); ++i) {
      const int same = shapes.view(static_cast<int>(i)).same_as;
      if (!is_view(i) || same < 0) continue;
      if (dims_[same].empty()) dims_[same] = dims_of(same);
      dims_[i] = dims_[same];
    }
  }

  // Names for each tensor of which no shape is known.
  void name_others() {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (is_view(i) && dims_[i].empty()) dims_[i] = dims_of(i);
    }
  }

  // Whether no more than so many elements are left.
  bool to(int64_t most) {
    for (;;) {
      const int64_t count = element_count();
      if (count <= most) return true;
      const size_t largest = largest_name();
      if (count == kNothing || largest == names_.size()) return false;
      names_[largest] /= 2;
      least_ = std::min(least_, names_[largest]);
    }
  }

  c10::IValue of(size_t leaf) const {
    if (!values_[leaf].isTensor()) return values_[leaf];
    at::Tensor part = tensor(leaf);
    for (size_t d = 0; d < dims_[leaf].size(); ++d) part = part.narrow(static_cast<int64_t>(d), 0, size(leaf, d));
    return least_ < kNothing && may_index(part) ? rest(part, least_) : part;
  }

 private:
  const at::Tensor& tensor(size_t leaf) const { return values_[leaf].toTensor(); }
  // Elements of a plain function's tensors are taken elsewhere.
  bool is_view(size_t leaf) const {
    const Leaf& one = function_.leaves[leaf];
    return values_[leaf].isTensor() && one.is_view() && (function_.is_kernel() || one.is_whole());
  }

  Dims named(c10::IntArrayRef sizes) {
    Dims dims;
    for (const int64_t size : sizes) {
      dims.push_back(Expression::of_symbol(static_cast<int>(names_.size())));
      names_.push_back(size);
      may_be_cut_.push_back(true);
    }
    return dims;
  }

  Dims dims_of(size_t leaf) {
    const c10::IntArrayRef sizes = tensor(leaf).sizes();
    return named(sizes.slice(0, sizes.size() - function_.leaves[leaf].element.shape.size()));
  }

  int64_t size(size_t leaf, size_t d) const { return evaluate<int64_t>(dims_[leaf][d], names_); }

  // Of all tensors; kNothing: one would have none, or more than it has.
  int64_t element_count() const {
    int64_t count = 0;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!is_view(i)) continue;
      int64_t elements = tensor(i).numel();
      for (size_t d = 0; d < dims_[i].size(); ++d) {
        const int64_t whole = tensor(i).size(static_cast<int64_t>(d)), part = size(i, d);
        if (part < 1 || part > whole) return kNothing;
        elements = elements / whole * part;
      }
      count += elements;
    }
    return count;
  }

  // Of those that may be cut; the number of names if none is left.
  size_t largest_name() const {
    size_t largest = names_.size();
    for (size_t i = 0; i < names_.size(); ++i) {
      if (!may_be_cut_[i] || names_[i] < 2) continue;
      if (largest == names_.size() || names_[i] > names_[largest]) largest = i;
    }
    return largest;
  }

  const Function& function_;
  const std::vector<c10::IValue>& values_;
  std::vector<Dims> dims_;  // by leaf; elements' own dimensions excluded
  std::vector<int64_t> names_;  // their sizes
  std::vector<bool> may_be_cut_;
  int64_t least_ = kNothing;  // of those that were cut
};

}  // namespace

std::optional<std::vector<c10::IValue>> cut(const Signature& signature, const std::vector<c10::IValue>& values,
                                            int64_t most) {
  Cut cut(signature.function, values);
  if (signature.function.is_kernel()) cut.bind(static_cast<const KernelSignature&>(signature).shapes);
  cut.name_others();
  if (!cut.to(most)) return std::nullopt;
  std::vector<c10::IValue> parts;
  for (size_t i = 0; i < values.size(); ++i) parts.push_back(cut.of(i));
  return parts;
}

}  // namespace torch_slang::audit
