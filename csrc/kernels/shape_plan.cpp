#include "kernels/shape_plan.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <type_traits>

namespace torch_slang {

namespace {

template <class Int>
bool equal(const Int& a, const Int& b) {
  if constexpr (std::is_same_v<Int, int64_t>) {
    return a == b;
  } else {
    return a.sym_eq(b).expect_true(__FILE__, __LINE__);
  }
}

template <class Int>
bool is_below_zero(const Int& a) {
  if constexpr (std::is_same_v<Int, int64_t>) {
    return a < 0;
  } else {
    return !a.sym_ge(0).expect_true(__FILE__, __LINE__);
  }
}

template <class Int>
Int product(c10::ArrayRef<Int> values) {
  Int result(1);
  for (const Int& v : values) result = result * v;
  return result;
}

std::string strip_brackets(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  const size_t end = text.find_last_not_of(" \t");
  if (begin == std::string::npos) return "";
  if (text[begin] == '[' && text[end] == ']') return text.substr(begin + 1, end - begin - 1);
  return text;
}

}  // namespace

ShapePlan::ShapePlan(std::string op, const Function& function,
                     const std::vector<std::pair<std::string, int64_t>>& constants)
    : op_(std::move(op)), function_(&function), constants_(constants) {
  symbol_names_ = {"..."};
  symbol_origins_ = {""};
  symbol_bound_ = {false};
  views_.resize(function.leaves.size());
  value_symbols_.assign(function.leaves.size(), -1);
  // Inputs first: outputs and expressions may use any name that an argument binds.
  for (const bool outputs : {false, true}) {
    for (size_t i = 0; i < function.leaves.size(); ++i) {
      const Leaf& leaf = function.leaves[i];
      if (!leaf.is_view() || leaf.is_output != outputs) continue;
      if (outputs && first_output_ < 0) first_output_ = static_cast<int>(i);
      if (const auto& shape = leaf.view().shape) {
        add_view(static_cast<int>(i), strip_brackets(*shape));
      } else {
        TORCH_CHECK(!leaf.is_output, op_, ": output ", leaf.name, " needs a shape: [Out(\"...\")]");
        views_[i].any = true;
      }
    }
  }
  if (function.kernel().launch_total) {
    const auto items = split_list(*function.kernel().launch_total);
    TORCH_CHECK(!items.empty() && items.size() <= 3, op_, ": LaunchTotal \"",
                shortened(*function.kernel().launch_total), "\" must list one to three numbers of threads, x first");
    for (const auto& item : items) {
      launch_.push_back(parse_expression(item, op_ + ": LaunchTotal",
                                         [&](const std::string& n) { return resolve(n, "LaunchTotal"); }));
    }
  }
  check_all_bound();
}

int ShapePlan::symbol(const std::string& name) {
  const auto it = std::find(symbol_names_.begin(), symbol_names_.end(), name);
  if (it != symbol_names_.end()) return static_cast<int>(it - symbol_names_.begin());
  symbol_names_.push_back(name);
  symbol_origins_.emplace_back();
  symbol_bound_.push_back(false);
  return static_cast<int>(symbol_names_.size()) - 1;
}

// A name is an integer parameter, an integer define or tuned variable, or else a dimension.
Expression ShapePlan::resolve(const std::string& name, const std::string& where) {
  for (size_t i = 0; i < function_->leaves.size(); ++i) {
    const Leaf& leaf = function_->leaves[i];
    if (leaf.name != name && leaf.path != name) continue;
    TORCH_CHECK(leaf.is_value() && !leaf.differentiable && leaf.element.shape.empty() &&
                    leaf.element.type_parameter < 0 && !is_floating_point(leaf.element.type),
                op_, ": ", where, " uses '", name, "', which is not an integer (it is ", leaf.slang_type, ")");
    const int index = symbol(name);
    value_symbols_[i] = index;
    symbol_bound_[index] = true;
    symbol_origins_[index] = name;
    return Expression::of_symbol(index);
  }
  for (const auto& [constant, value] : constants_) {
    if (constant == name) return Expression::of_constant(value);
  }
  return Expression::of_symbol(symbol(name));
}

void ShapePlan::add_view(int leaf, const std::string& text) {
  const Leaf& self = function_->leaves[leaf];
  const std::string where = (self.is_output ? "Out(\"" : "Shape(\"") + shortened(text) + "\") of " + self.name;
  ViewShape& shape = views_[leaf];
  const auto items = split_list(text);
  if (items.size() == 1 && is_name(items[0])) {  // another parameter's name alone stands for its shape
    for (size_t other = 0; other < function_->leaves.size(); ++other) {
      const Leaf& candidate = function_->leaves[other];
      if (!candidate.is_view() || candidate.name != items[0]) continue;
      TORCH_CHECK(static_cast<int>(other) != leaf, op_, ": ", where, " refers to itself");
      TORCH_CHECK(!candidate.is_output || static_cast<int>(other) < leaf, op_, ": ", where,
                  " refers to a later output");
      if (views_[other].any) {
        shape.any = true;
        shape.same_as = views_[other].same_as >= 0 ? views_[other].same_as : static_cast<int>(other);
        shape.text = "[" + candidate.name + "'s]";
      } else {
        TORCH_CHECK(views_[other].text.size() > 0, op_, ": ", where, " refers to ", candidate.name,
                    ", whose own shape comes later");
        shape = views_[other];
        shape.binds.assign(shape.dims.size(), false);
      }
      return;
    }
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i] == "...") {
      TORCH_CHECK(i == 0, op_, ": ", where, ": '...' must come first");
      TORCH_CHECK(!self.is_output || symbol_bound_[kLeadingSymbol], op_, ": ", where,
                  ": '...' is not bound by any input");
      shape.leading = true;
      symbol_bound_[kLeadingSymbol] = true;
      continue;
    }
    TORCH_CHECK(!items[i].empty(), op_, ": ", where, ": dimension ", i, " is empty");
    Expression dim =
        parse_expression(items[i], op_ + ": " + where, [&](const std::string& name) { return resolve(name, where); });
    const bool binds = dim.kind == Expression::Kind::Symbol && !symbol_bound_[dim.symbol] && !self.is_output;
    if (binds) {
      symbol_bound_[dim.symbol] = true;
      symbol_origins_[dim.symbol] = self.name;
    }
    shape.dims.push_back(std::move(dim));
    shape.binds.push_back(binds);
  }
  std::string shown = "[";
  for (size_t i = 0; i < items.size(); ++i) shown += (i ? ", " : "") + items[i];
  for (const int64_t n : self.element.shape) shown += (shown.size() > 1 ? ", " : "") + std::to_string(n);
  shape.text = shown + "]";
  const size_t rank = shape.dims.size() + (shape.leading ? 1 : 0);
  TORCH_CHECK(rank <= 5, op_, ": ", where, ": a view has at most 5 dimensions, got ", rank);
}

void ShapePlan::check_all_bound() const {
  for (size_t i = 1; i < symbol_names_.size(); ++i) {
    TORCH_CHECK(
        symbol_bound_[i], op_, ": '", symbol_names_[i],
        "' in a shape or launch expression is never bound: no input has it as a dimension, and it is neither an "
        "integer parameter nor an integer define");
  }
}

std::vector<Expression> ShapePlan::visible_dims(int leaf) const {
  const ViewShape& shape = views_[leaf];
  std::vector<Expression> dims;
  if (shape.leading) dims.push_back(Expression::of_symbol(kLeadingSymbol));
  dims.insert(dims.end(), shape.dims.begin(), shape.dims.end());
  return dims;
}

std::vector<Expression> ShapePlan::launch_dims() const {
  if (!launch_.empty()) return launch_;
  if (first_output_ < 0 || views_[first_output_].any) return {};
  std::vector<Expression> total = visible_dims(first_output_);
  if (total.empty()) total.push_back(Expression::of_constant(1));
  return total.size() == 1 ? total : std::vector<Expression>();
}

std::string ShapePlan::describe_symbol(int index) const {
  const std::string& origin = symbol_origins_[index];
  return origin.empty() || origin == symbol_names_[index] ? "" : " (from " + origin + ")";
}

template <class Int>
void ShapePlan::bind_view(const std::string& op, int leaf, c10::ArrayRef<Int> sizes, Bound<Int>& bound,
                          bool& leading_known) const {
  const Leaf& self = function_->leaves[leaf];
  const ViewShape& shape = views_[leaf];
  const size_t element_rank = self.element.shape.size();
  if (shape.any) {
    TORCH_CHECK(sizes.size() >= element_rank, op, ": expected ", self.name, " (", self.slang_type,
                ") to have at least ", element_rank, " dimensions, but got shape ", sizes);
    bound.any_shapes[leaf] = Sizes<Int>(sizes.begin(), sizes.end());
    return;
  }
  const size_t fixed = shape.dims.size() + element_rank;
  TORCH_CHECK(shape.leading ? sizes.size() >= fixed : sizes.size() == fixed, op, ": expected ", self.name,
              " to have shape ", shape.text, shape.leading ? " (at least " : " (", fixed, " dimensions), but got ",
              sizes);
  const size_t leading = sizes.size() - fixed;
  if (shape.leading && !leading_known) {
    leading_known = true;
    bound.leading = Sizes<Int>(sizes.begin(), sizes.begin() + leading);
    bound.symbols[kLeadingSymbol] = product(c10::ArrayRef<Int>(bound.leading));
  }
  for (size_t i = 0; i < shape.dims.size(); ++i) {
    if (shape.binds[i]) bound.symbols[shape.dims[i].symbol] = sizes[leading + i];
  }
}

template <class Int>
void ShapePlan::check_view(const std::string& op, int leaf, c10::ArrayRef<Int> sizes, const Bound<Int>& bound) const {
  const Leaf& self = function_->leaves[leaf];
  const ViewShape& shape = views_[leaf];
  const size_t element_rank = self.element.shape.size();
  const auto mismatch = [&](size_t dimension, const std::string& rule) {
    TORCH_CHECK(false, op, ": expected ", self.name, " to have shape ", shape.text, ", but got ", sizes, ": dimension ",
                dimension, " must be ", rule);
  };
  for (size_t i = 0; i < element_rank; ++i) {
    const size_t at = sizes.size() - element_rank + i;
    if (!equal(sizes[at], Int(self.element.shape[i]))) {
      mismatch(at, std::to_string(self.element.shape[i]) + " (" + self.slang_type + ")");
    }
  }
  if (shape.any) {
    if (shape.same_as < 0) return;
    const auto& other = bound.any_shapes[shape.same_as];
    const size_t rank = other.size() - function_->leaves[shape.same_as].element.shape.size();
    bool same = rank == sizes.size() - element_rank;
    for (size_t i = 0; same && i < rank; ++i) same = equal(sizes[i], other[i]);
    TORCH_CHECK(same, op, ": expected ", self.name, " to have the shape of ", function_->leaves[shape.same_as].name,
                ", ", c10::ArrayRef<Int>(other), ", but got ", sizes);
    return;
  }
  const size_t leading = sizes.size() - shape.dims.size() - element_rank;
  if (shape.leading) {
    bool same = leading == bound.leading.size();
    for (size_t i = 0; same && i < leading; ++i) same = equal(sizes[i], bound.leading[i]);
    TORCH_CHECK(same, op, ": expected ", self.name, " to have shape ", shape.text, ", but got ", sizes,
                ": its leading dimensions must be ", c10::ArrayRef<Int>(bound.leading), ", as for the other arguments");
  }
  for (size_t i = 0; i < shape.dims.size(); ++i) {
    if (shape.binds[i]) continue;
    const Int expected = evaluate<Int>(shape.dims[i], bound.symbols);
    if (equal(sizes[leading + i], expected)) continue;
    const Expression& dim = shape.dims[i];
    if (dim.kind == Expression::Kind::Constant) mismatch(leading + i, std::to_string(dim.constant));
    std::ostringstream rule;
    const auto items = split_list(shape.text.substr(1, shape.text.size() - 2));
    rule << items[i + (shape.leading ? 1 : 0)] << " = " << expected;
    if (dim.kind == Expression::Kind::Symbol) rule << describe_symbol(dim.symbol);
    mismatch(leading + i, rule.str());
  }
}

template <class Int>
Bound<Int> ShapePlan::bind(c10::ArrayRef<std::optional<c10::ArrayRef<Int>>> sizes, c10::ArrayRef<Int> values,
                           const std::string& op) const {
  Bound<Int> bound;
  bound.symbols.assign(symbol_names_.size(), Int(1));
  bool any = false;
  for (const auto& view : views_) any |= view.any;
  if (any) bound.any_shapes.resize(views_.size());
  bool leading_known = false;
  for (size_t i = 0; i < views_.size(); ++i) {
    if (value_symbols_[i] >= 0) bound.symbols[value_symbols_[i]] = values[i];
    if (sizes[i]) bind_view(op, static_cast<int>(i), *sizes[i], bound, leading_known);
  }
  for (size_t i = 0; i < views_.size(); ++i) {
    if (sizes[i]) check_view(op, static_cast<int>(i), *sizes[i], bound);
  }
  return bound;
}

template <class Int>
Sizes<Int> ShapePlan::output_sizes(int leaf, const Bound<Int>& bound) const {
  const Leaf& self = function_->leaves[leaf];
  const ViewShape& shape = views_[leaf];
  Sizes<Int> sizes;
  if (shape.any) {
    const auto& other = bound.any_shapes[shape.same_as];
    sizes.append(other.begin(), other.end() - function_->leaves[shape.same_as].element.shape.size());
  } else {
    if (shape.leading) sizes.append(bound.leading.begin(), bound.leading.end());
    for (size_t i = 0; i < shape.dims.size(); ++i) {
      sizes.push_back(evaluate<Int>(shape.dims[i], bound.symbols));
      TORCH_CHECK(!is_below_zero(sizes.back()), op_, ": output ", self.name, " of shape ", shape.text,
                  " would have a negative size ", sizes.back(), " in dimension ", sizes.size() - 1);
    }
  }
  for (const int64_t n : self.element.shape) sizes.push_back(Int(n));
  return sizes;
}

template <class Int>
Sizes<Int> ShapePlan::launch_total(const Bound<Int>& bound) const {
  Sizes<Int> total;
  for (const auto& e : launch_) {
    total.push_back(evaluate<Int>(e, bound.symbols));
    TORCH_CHECK(!is_below_zero(total.back()), op_, ": LaunchTotal is negative: ", total.back(), " threads in ",
                "xyz"[total.size() - 1]);
  }
  if (total.empty()) {
    Sizes<Int> sizes = output_sizes(first_output_, bound);
    sizes.resize(sizes.size() - function_->leaves[first_output_].element.shape.size(), Int(1));
    total.push_back(product(c10::ArrayRef<Int>(sizes)));
  }
  total.resize(3, Int(1));
  return total;
}

#define TORCH_SLANG_INSTANTIATE(Int)                                                                        \
  template Bound<Int> ShapePlan::bind(c10::ArrayRef<std::optional<c10::ArrayRef<Int>>>, c10::ArrayRef<Int>, \
                                      const std::string&) const;                                            \
  template Sizes<Int> ShapePlan::output_sizes(int, const Bound<Int>&) const;                                \
  template Sizes<Int> ShapePlan::launch_total(const Bound<Int>&) const;
TORCH_SLANG_INSTANTIATE(int64_t)
TORCH_SLANG_INSTANTIATE(c10::SymInt)
#undef TORCH_SLANG_INSTANTIATE

}  // namespace torch_slang
