// A Program is what torch-slangc makes of one .slang module: a descriptor of each kernel and function, and device text
// for each instantiation asked for. Plain data: the compiler writes it, the run-time reads it, neither needs the other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "program/accumulation.h"
#include "program/enumerations.h"

namespace torch_slang {

// A leaf's element type: concrete, or the function's type parameter with this index.
struct Element {
  ElementType type = ElementType::Float32;
  int type_parameter = -1;  // >= 0: `type` is meaningless, the instantiation decides
  // {} scalar, {3} float3, {rows, columns} matrix, {n} or {n, ...} array of those. Of a plain function, -1 - k stands for
  // its size parameter k, whose value the tensors decide.
  std::vector<int64_t> shape;
};

// Where a tensor stands in the argument block.
struct BlockPlace {
  int primal_view = 0;  // indices into the argument block's views
  std::optional<int> diff_view;
  std::optional<int> slot;  // of a plain function's input: the first of its slots
};

// A tensor.
struct ViewLeaf : BlockPlace {
  static constexpr const char* kName = "view";
  bool is_in = false;  // [In]: never written
  // Of a plain function: Note [whole tensors].
  bool is_whole = false;
  bool is_written = false;  // a whole one that the function stores to
  std::optional<int> rank;  // of a whole one, elements excluded; none: any
  std::optional<std::string> shape;  // text of [Shape] or [Out]
  std::optional<double> fill;  // [Fill(v)]
  Accumulation accumulation = Accumulation::Atomic;
  int copies = 0;  // N: replicas, or recorded pairs a thread
  // The first of the slots that describe the gradient's memory: Note [gradient slots] in abi.h.
  std::optional<int> gradient_slots;

  const AccumulationRow& gathering() const { return row_of(accumulation); }
};

// A scalar, vector, matrix or array.
struct ValueLeaf {
  static constexpr const char* kName = "value";
  int slot = 0;  // first of the slots with the components, row-major
  // Of differentiable ones: a device pointer to the components, or null: use the slots; and where the gradient is summed,
  // Note [value gradients] in abi.h.
  std::optional<int> pointer_slot = {}, gradient_slot = {};
  int64_t multiple_of = 1;  // [MultipleOf(n)] of an integer: calls with other values are refused
};

// A plain function's input that the loop makes: Note [elementwise functions].
struct GeneratedLeaf : BlockPlace {
  static constexpr const char* kName = "generated";
};

using LeafKind = std::variant<ViewLeaf, ValueLeaf, GeneratedLeaf>;

// One flattened argument, with what all kinds have. Fields of struct parameters become leaves named `parameter_field`.
struct Leaf {
  std::string name;  // "x", "cfg_gain"
  std::string path;  // "x", "cfg.gain": as the user wrote it
  std::string slang_type;  // for messages: "DiffTensorView<float>"
  LeafKind kind;
  Element element;
  bool is_output = false;  // [Out], or a plain function's result
  bool differentiable = false;  // a DiffTensorView, or a float value that is not no_diff, of a differentiable kernel
  // Of a plain function's input: why it has no gradient, if nobody said that it is a constant ("the struct S is not
  // IDifferentiable"). A tensor that requires grad is refused there.
  std::string no_gradient;
  std::optional<double> default_float;
  std::optional<int64_t> default_int;
  // Of a function made by program/tangents.h.
  int origin = -1;  // the leaf of the other function that this one is, or is the tangent of
  bool is_tangent = false;
  bool is_hidden = false;  // an output that the kernel stores but the operator does not return

  bool is_view() const { return std::holds_alternative<ViewLeaf>(kind); }
  bool is_value() const { return std::holds_alternative<ValueLeaf>(kind); }
  bool is_generated() const { return std::holds_alternative<GeneratedLeaf>(kind); }

  // Calls the function that takes this kind: there must be one for each.
  template <class... Functions>
  decltype(auto) visit(const Functions&... functions) const {
    struct Each : Functions... {
      using Functions::operator()...;
    };
    return std::visit(Each{functions...}, kind);
  }

  // These throw where the leaf is of another kind.
  ViewLeaf& view() { return std::get<ViewLeaf>(kind); }
  const ViewLeaf& view() const { return std::get<ViewLeaf>(kind); }
  const ValueLeaf& value() const { return std::get<ValueLeaf>(kind); }
  const BlockPlace& place() const {
    return visit([](const BlockPlace& place) -> const BlockPlace& { return place; },
                 [](const ValueLeaf&) -> const BlockPlace& { throw std::bad_variant_access(); });
  }

  // Of any kind.
  bool is_whole() const { return is_view() && view().is_whole; }
  bool is_written() const { return is_view() && view().is_written; }
  std::optional<int> diff_view() const {
    return visit([](const BlockPlace& place) { return place.diff_view; },
                 [](const ValueLeaf&) { return std::optional<int>(); });
  }
  bool has_gradient() const {
    return visit([](const BlockPlace& place) { return place.diff_view.has_value(); },
                 [](const ValueLeaf& value) { return value.gradient_slot.has_value(); });
  }
};

// Note [elementwise functions]
//   A plain function is applied to each element of its broadcast arguments. Every leaf is a View: an
//   element of it is one value of the leaf's type, whose shape is the tensor's trailing dimensions. Inputs come first, in
//   the order of the parameters; behind them come the outputs (is_output): the returned value, then what `out` and `inout`
//   parameters give. An `inout` parameter is both, an input `p` and an output `p_out`; an `out` parameter p is the output
//   `p`; the returned value is `result`, its fields `result_<field>`. An input has component slots too, from `slot` on, if
//   its size is known: a tensor of the host's is given in them, its view is then null. A differentiable leaf has a diff_view:
//   the gradient, of an output given to a backward, of an input taken from it.
//   In a function that Module::generating makes, which no Program holds, an input may be Generated: its slots say how the loop
//   makes it (Note [generated arguments] in functions/generated_arguments.h). It has its views still, since the text names
//   them, but there is nothing in them, and it is not differentiable.

// Note [whole tensors]
//   A parameter (or field) of a plain function that is a view is seen whole by each call of the function, and takes no part
//   in broadcasting: is_whole. Its element, views, accumulation and gradient slots are those of a kernel's view. One that the
//   function stores to is_written: the operator changes the caller's tensor. SlangPy's tensors (slang/slangpy.slang) are views
//   with a rank.

// A parameter as declared, for funcinfo, error messages and struct results: a leaf, or a struct of fields.
struct Parameter {
  std::string name;
  std::string slang_type;
  int leaf = -1;  // >= 0: index into leaves; -1: a struct
  std::vector<Parameter> fields;
};

struct TypeParameter {
  std::string name;  // "T"
  std::vector<ElementType> allowed;  // those that satisfy its constraints
};

// What a function is asked for that was marked as a kernel.
struct KernelFunction {
  static constexpr const char* kName = "kernel";
  std::optional<std::string> launch_total;  // text: "F, N"
  std::vector<int64_t> block_size;  // {} : the run-time chooses
  std::vector<std::pair<std::string, std::string>> tune;  // [Tune(name, values)]: see program/tuned.h
  std::optional<std::string> parallel;
};

// Note [elementwise functions]
struct PlainFunction {
  static constexpr const char* kName = "plain";
  std::string overloaded;  // the name that it shares with others: "blend" of "blend_float3"
  std::vector<std::string> size_parameters;  // `let N : int`
  std::vector<Parameter> results;  // `result`, then `out` and `inout` parameters
  std::vector<std::string> order;  // the names of all its parameters, `out` ones too

  // Of a function whose generic arguments somebody gave ("copy<4>", named copy_4), which no Program holds: the generic
  // function and the given arguments; -1 and nothing where the tensors decide.
  std::string instance_of;
  std::vector<std::optional<ElementType>> given_types;
  std::vector<int64_t> given_sizes;
};

struct Function {
  std::string name;  // "cube"; a kernel in a namespace of the source: "ns_cube"
  std::string qualified_name;  // "ns.cube" as Slang spells it
  std::string file;
  int line = 0;
  std::variant<KernelFunction, PlainFunction> kind;
  bool torch_op = false;  // [TorchOp]
  bool has_backward = false;  // [Differentiable] links both; PyBindCUDA{Fwd,Bwd}Diff choose one
  bool has_forward_derivative = false;
  std::vector<TypeParameter> type_parameters;
  bool wants_generic_arguments = false;  // no argument says what some of these are: refused until they are given
  std::vector<Parameter> parameters;  // of a plain function, its inputs
  std::vector<Leaf> leaves;  // flattened, in order
  int view_count = 0;  // of the argument block
  int slot_count = 0;
  std::string refusal;  // not empty: why this function cannot become an operator (an error once it is asked for)
  std::string tangents_of;  // not empty: the function whose tangents this one computes (program/tangents.h)
  bool has_values = false;  // and, behind them, the function's results

  bool is_kernel() const { return std::holds_alternative<KernelFunction>(kind); }
  // These throw where the function is of the other kind.
  KernelFunction& kernel() { return std::get<KernelFunction>(kind); }
  const KernelFunction& kernel() const { return std::get<KernelFunction>(kind); }
  PlainFunction& plain() { return std::get<PlainFunction>(kind); }
  const PlainFunction& plain() const { return std::get<PlainFunction>(kind); }

  // Of either.
  size_t size_count() const { return is_kernel() ? 0 : plain().size_parameters.size(); }
  const std::string& text_name() const {  // that its device text has
    return is_kernel() || plain().instance_of.empty() ? name : plain().instance_of;
  }
};

// A [TorchEntryPoint] function: it runs on the host, allocates tensors and dispatches kernels of its module.
struct HostFunction {
  Function function;  // name, place, parameters and their leaves; views are its TorchTensors
  Parameter result;  // neither leaf nor fields: void
  std::vector<Leaf> result_leaves;
};

// C++ of all host functions of a module, which stands behind the prelude's host_abi.h and host_function.h. Each has an entry
// point `tsl_host_<name>`, a TslHostEntry.
struct HostText {
  std::string body;
  std::string error;  // not empty: they do not compile (Slang's diagnostics)
};

// Device text of one function in one direction for one choice of type parameters. The final source is
//   abi.h, prelude, `file_scope`, struct Kernel : tsl::KernelBase { `body` }; and the backend's launcher,
// where `body` holds member functions and types only and `entry` is the name of the member (no parameters, returns void).
struct DeviceText {
  std::string function;
  Direction direction = Direction::Forward;
  std::vector<ElementType> types;  // one for each type parameter
  std::vector<int64_t> sizes;  // one for each size parameter
  std::string entry;
  std::string file_scope;  // what users ask for by __requirePrelude
  std::string body;
  bool barriers = false;  // group-shared memory or barriers: a block's threads meet
  bool waves = false;  // wave operations: lanes meet
  bool scattered_waves = false;  // lanes of one operation may stand in several places: Note [repeated operations]
  bool rereads = false;  // a backward that runs functions again which load from views: Note [read again] in rereads.h
  std::set<std::string, std::less<>> uses;  // which of the names in program/intrinsics.h stand in `body`
  std::vector<int> loaded, stored;  // numbers of the views that `body` may load from and store to: Note [written views]
  std::vector<std::string>
      files;  // that TSL_AT(file, line) in `body` names by index: where the user's statements stand
  std::string own_derivative;  // of a derivative: a function that it may call whose derivative the user wrote
  bool constants = false;  // the module's files have words that make values constants of derivatives: no_diff, detach
  std::set<std::string> sites;  // "file, line" of each TSL_AT in `body`
  std::string error;  // not empty: this instantiation does not compile (Slang's diagnostics)
  bool died = false;  // the error is of a compiler that crashed or was stopped: another time it may not
  bool refused = false;  // the error is torch-slangc's: it says what would be wrong, and what to write
};

// Files that went into a Program, so that a cached one can be checked without starting a compiler.
struct SourceFile {
  std::string path;  // absolute
  std::string digest;  // of the content; empty: the file must not exist (it would shadow a later one)
};

struct Program {
  std::string module_name;
  std::string slang_version;  // of the compiler that made it: "2026.12"
  std::vector<Function> functions;
  std::vector<std::pair<std::string, std::string>> tuned;  // values given to [Tune] variables: the first of their lists
  std::set<std::string, std::less<>> used_defines;  // the request's macros that the code of the module's files names
  std::vector<DeviceText> texts;
  std::vector<HostFunction> host_functions;
  HostText host_text;
  std::vector<SourceFile> files;
  std::string warnings;  // the compiler's, for the log
  std::set<std::string>
      cautions;  // torch-slangc's own, which the log has whatever its level is: a Slang that was not tested
};

struct Instantiation {
  std::string function;
  Direction direction = Direction::Forward;
  std::vector<ElementType> types;
  std::vector<int64_t> sizes;
};

// What torch-slangc is asked. Without `instantiations` it describes the module and gives the texts that nearly every
// program wants: forward and backward of each kernel with fixed types, and of generic ones for float.
struct CompileRequest {
  std::string path;  // absolute; for source text without a file, the name that diagnostics show
  std::optional<std::string> source;
  std::vector<std::pair<std::string, std::string>> defines;
  std::vector<std::string> include_dirs;
  std::vector<Instantiation> instantiations;
  bool description_alone = false;  // no text
  bool host_text_alone = false;  // no device text
};

bool sees_tensors(const Function& function);  // Note [whole tensors]
int64_t component_count(const Element& element);  // 1 for a scalar; size parameters are not looked up

std::string to_json(const Program& program);
Program program_from_json(const std::string& text);  // throws c10::Error, naming the fault
std::string to_json(const CompileRequest& request);
CompileRequest request_from_json(const std::string& text);

}  // namespace torch_slang
