// Translates Slang's types to the Program's. Types that no argument can have are told by name.
#pragma once

#include <slang.h>

#include <optional>
#include <string>
#include <vector>

#include "program/program.h"

namespace torch_slang {

std::string name_of(slang::TypeReflection* type);  // as Slang writes it: "DiffTensorView<vector<float,3>, AtomicAdd>"

struct Gathering {
  Accumulation accumulation = Accumulation::Atomic;
  int64_t copies = 0;  // N
  slang::TypeReflection* wrapper = nullptr;
};

// A tensor of SlangPy's (slang/slangpy.slang), or an interface of such.
struct SlangpyTensor {
  std::string concrete;  // the struct that is bound: of ITensor<float, 2>, Tensor<float, 2>
  slang::TypeReflection* element = nullptr;
  int rank = 0;  // 0: not known
  bool is_written = false;
  bool is_differentiable = false;
};

// The meaning of the types of one function: its type parameters, and which types are differentiable.
class TypeReader {
 public:
  TypeReader(slang::ShaderReflection* layout, std::vector<std::string> type_parameters,
             std::vector<bool> differentiable_parameters, std::vector<std::string> size_parameters = {});

  // Scalar or enumeration (as its integer type), vector, matrix, or array of those; nothing for other types.
  std::optional<Element> element(slang::TypeReflection* type) const;
  // The same of a view's element, which may also be a struct of numbers of one type without padding: {n}.
  std::optional<Element> view_element(slang::TypeReflection* type) const;
  // The element type T of TensorView<T> or DiffTensorView<T, A>; null if the type is no view.
  slang::TypeReflection* viewed(slang::TypeReflection* type) const;
  bool is_diff_view(slang::TypeReflection* type) const;
  std::optional<SlangpyTensor> slangpy_tensor(slang::TypeReflection* type) const;
  // How DiffTensorView<T, A> gathers its gradient: what A says.
  Gathering gathering(slang::TypeReflection* diff_view) const;
  // A type's name, that of a view as users write it: "DiffTensorViewR<float, 32>".
  std::string view_name(slang::TypeReflection* type) const;
  bool is_struct(slang::TypeReflection* type) const;
  std::optional<int64_t> array_size(slang::TypeReflection* type) const;  // nothing: no array, or of unknown size
  // Whether a size of the array, vector or matrix, or of what it consists of, is computed from size parameters.
  bool has_computed_size(slang::TypeReflection* type) const;
  bool is_differentiable(slang::TypeReflection* type) const;  // conforms to IDifferentiable
  // Whether a derivative of the type has the type's fields. Not so where a struct has fields without a derivative, or
  // names a Differential of its own.
  bool is_own_differential(slang::TypeReflection* type) const;
  int type_parameter(slang::TypeReflection* type) const;  // index, or -1
  std::vector<ElementType> allowed(const std::vector<slang::TypeReflection*>& constraints) const;

 private:
  // Of an array, vector or matrix, outermost first; a size parameter k is -1 - k. Nothing where one is not known.
  std::optional<std::vector<int64_t>> sizes(slang::TypeReflection* type) const;

  slang::ShaderReflection* layout_;
  std::vector<std::string> type_parameters_;
  std::vector<bool> differentiable_parameters_;
  std::vector<std::string> size_parameters_;
};

bool conforms(slang::ShaderReflection* layout, slang::TypeReflection* type, slang::TypeReflection* interface);

}  // namespace torch_slang
