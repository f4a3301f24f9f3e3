#include <boost/test/unit_test.hpp>

#include <cstdlib>

#include "cache/cache.h"
#include "common/files.h"
#include "common/temporary_folder.h"
#include "compile_source.h"
#include "compiler/reflect/parameter_texts.h"
#include "program/instantiations.h"
#include "texts/program_store.h"
#include "texts/text_source.h"
#include "torch_slang/error.h"

BOOST_AUTO_TEST_SUITE(compiler_functions_test)

// Plain functions: their descriptors, their device text, and when it is made.

using namespace torch_slang;

namespace {

using Shape = std::vector<int64_t>;

std::string names_of(const std::vector<Leaf>& leaves) {
  std::string names;
  for (const Leaf& leaf : leaves) names += (leaf.is_output ? ">" : "") + leaf.name + " ";
  return names;
}

// "scene(light(gain) w)" with the leaves' numbers behind their names.
std::string shown(const std::vector<Parameter>& trees) {
  std::string text;
  for (const Parameter& tree : trees) {
    text += (text.empty() ? "" : " ") + tree.name;
    text += tree.leaf >= 0 ? ":" + std::to_string(tree.leaf) : "(" + shown(tree.fields) + ")";
  }
  return text;
}

const std::string& refusal_of(const Program& program, const std::string& name) {
  return function_named(program, name).refusal;
}

Program compile_instantiations(CompileRequest request, std::vector<Instantiation> wanted) {
  request.instantiations = std::move(wanted);
  return compile_texts(request);
}

// Without TSL_AT marks and line directives.
std::string plain(const DeviceText& text) {
  std::string result;
  for (size_t begin = 0; begin < text.body.size();) {
    size_t end = text.body.find('\n', begin);
    end = end == std::string::npos ? text.body.size() : end + 1;
    std::string line = text.body.substr(begin, end - begin);
    begin = end;
    if (line.starts_with("#line")) continue;
    if (const size_t mark = line.find("TSL_AT("); mark != std::string::npos) {
      line.erase(mark, line.find("; ", mark) + 2 - mark);
    }
    result += line;
  }
  return result;
}

std::string input(int view, int component = 0, const std::string& type = "float") {
  return "tsl_input<" + type + ">((int(" + std::to_string(view) + ")), (int(" + std::to_string(component) + ")))";
}

std::string output(int view, int component = 0, const std::string& type = "float") {
  return "tsl_output<" + type + ">((int(" + std::to_string(view) + ")), (int(" + std::to_string(component) + ")), ";
}

void check_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) BOOST_TEST(contains(text, part), part << " is not in\n" << text);
}

void check_lacks(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) BOOST_TEST(!contains(text, part), part << " is in\n" << text);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(function_descriptors)

BOOST_AUTO_TEST_CASE(inputs_come_first_and_each_differentiable_leaf_has_a_gradient) {
  const Program program = describe(R"slang(
[Differentiable] float f(float x, no_diff float c, int n, float3 v, float2x3 m, double w[4]) { return x * v.y; })slang");
  const Function& f = function_named(program, "f");
  BOOST_TEST(f.refusal == "");
  BOOST_TEST(!f.is_kernel());
  BOOST_TEST(f.has_backward);
  BOOST_TEST(f.has_forward_derivative);
  BOOST_TEST(names_of(f.leaves) == "x c n v m w >result ");
  BOOST_TEST(shown(f.parameters) == "x:0 c:1 n:2 v:3 m:4 w:5");
  BOOST_TEST(shown(f.plain().results) == "result:6");
  std::string differentiable;
  int views = 0, slots = 0;
  for (const Leaf& leaf : f.leaves) {
    BOOST_TEST(leaf.is_view());
    BOOST_TEST(leaf.place().primal_view == views++);
    BOOST_TEST(leaf.diff_view().value_or(-1) == (leaf.differentiable ? views++ : -1));
    if (leaf.differentiable) differentiable += leaf.name + " ";
    if (leaf.is_output) continue;
    int64_t count = 1;
    for (const int64_t size : leaf.element.shape) count *= size;
    BOOST_TEST(*leaf.place().slot == slots);
    slots += static_cast<int>(count);
  }
  BOOST_TEST(differentiable == "x v m w result ");
  BOOST_TEST(f.view_count == views);
  BOOST_TEST(f.slot_count == slots);
  BOOST_TEST((leaf_named(f, "m").element.shape == Shape{2, 3}));
  BOOST_TEST((leaf_named(f, "w").element.type == ElementType::Float64));
  BOOST_TEST((leaf_named(f, "w").element.shape == Shape{4}));
}

BOOST_AUTO_TEST_CASE(what_out_and_inout_parameters_give_are_results_behind_the_returned_one) {
  const Program program = describe(R"slang(
struct S : IDifferentiable { float a; int n; }
[Differentiable] float f(out int count, float x, inout S state, out float3 y, in out int k) { y = x; count = 1; return x; }
[Differentiable] void g(float2 v, out float r) { r = v.x; })slang");
  const Function& f = function_named(program, "f");
  BOOST_TEST(names_of(f.leaves) == "x state_a state_n k >result >count >state_out_a >state_out_n >y >k_out ");
  BOOST_TEST(shown(f.parameters) == "x:0 state(a:1 n:2) k:3");
  BOOST_TEST(shown(f.plain().results) == "result:4 count:5 state(a:6 n:7) y:8 k:9");
  BOOST_TEST(leaf_named(f, "state_out_a").path == "state.a");
  BOOST_TEST(leaf_named(f, "state_out_a").differentiable);
  BOOST_TEST(!leaf_named(f, "state_out_n").differentiable);
  BOOST_TEST(!leaf_named(f, "y").place().slot);
  BOOST_TEST(shown(function_named(program, "g").plain().results) == "r:1");
}

BOOST_AUTO_TEST_CASE(structs_are_taken_apart_and_enumerations_are_their_integers) {
  const Program program = describe(R"slang(
enum Kind { A, B }
namespace n { enum Small : uint8_t { C }; struct Inner : IDifferentiable { float gain; no_diff float k; Kind kind; }; }
struct Outer : IDifferentiable { n.Inner inner[2]; float4x4 pose; n.Small codes[3]; static const int kCount = 2; }
struct Plain { float a; }
[Differentiable] Outer f(Outer o, no_diff n.Inner constant, Plain p, float x) { return o; })slang");
  const Function& f = function_named(program, "f");
  BOOST_TEST(f.refusal == "");
  BOOST_TEST(shown(f.parameters) ==
             "o(inner(0(gain:0 k:1 kind:2) 1(gain:3 k:4 kind:5)) pose:6 codes:7) "
             "constant(gain:8 k:9 kind:10) p(a:11) x:12");
  BOOST_TEST(leaf_named(f, "o_inner_1_gain").path == "o.inner[1].gain");
  BOOST_TEST(leaf_named(f, "result_inner_0_gain").path == "result.inner[0].gain");
  const Leaf& codes = leaf_named(f, "o_codes");
  BOOST_TEST((codes.element.type == ElementType::UInt8));
  BOOST_TEST((codes.element.shape == Shape{3}));
  BOOST_TEST(codes.slang_type == "n.Small[3]");
  BOOST_TEST((leaf_named(f, "o_inner_0_kind").element.type == ElementType::Int32));
  std::string differentiable;
  for (const Leaf& leaf : f.leaves) differentiable += leaf.differentiable ? leaf.name + " " : "";
  BOOST_TEST(differentiable ==
             "o_inner_0_gain o_inner_1_gain o_pose p_a x result_inner_0_gain result_inner_1_gain result_pose ");
}

BOOST_AUTO_TEST_CASE(defaults_are_what_slang_would_pass) {
  const Program program = describe(R"slang(
enum Kind { A, B = 7, C }
static const float kScale = 2;
float f(matrix<float, 2, 3> m, // f(int a = 1, int b)
        float a = 3, float b = -1.5, half c = 0.5, double d = 1.5, double e = -0.1lf, double g = 0.1, int h = -3,
        uint8_t i = 200, int64_t j = 5000000000LL, bool k = true, bool l = false, Kind n = Kind.B, Kind o = Kind::C,
        float p = kScale, bool q = !true, int r = 2.7, float2 s = float2(1, 2), uint64_t t = 0xFFFFFFFFFFFFFFFFULL)
{ return a; }
[CudaKernel] void kernel(TensorView<float> x, half c = 0.5, bool k = true) {})slang");
  const Function& f = function_named(program, "f");
  const auto number = [&](const char* name) { return leaf_named(f, name).default_float.value_or(-99); };
  const auto whole = [&](const char* name) { return leaf_named(f, name).default_int.value_or(-99); };
  BOOST_TEST(number("a") == 3.0);
  BOOST_TEST(number("b") == -1.5);
  BOOST_TEST(number("c") == 0.5);
  BOOST_TEST(number("d") == 1.5);
  BOOST_TEST(number("e") == -0.1);
  BOOST_TEST(number("g") == static_cast<double>(0.1F));  // a literal without suffix is of single precision
  BOOST_TEST(whole("h") == -3);
  BOOST_TEST(whole("i") == 200);
  BOOST_TEST(whole("j") == 5000000000);
  BOOST_TEST(whole("k") == 1);
  BOOST_TEST(whole("l") == 0);
  BOOST_TEST(whole("n") == 7);
  BOOST_TEST(whole("o") == 8);
  BOOST_TEST(whole("r") == 2);
  for (const char* unknown : {"m", "p", "q", "s", "t", "result"}) {
    BOOST_TEST(!leaf_named(f, unknown).default_float.has_value(), unknown);
    BOOST_TEST(!leaf_named(f, unknown).default_int.has_value(), unknown);
  }
  BOOST_TEST(*leaf_named(function_named(program, "kernel"), "c").default_float == 0.5);
  BOOST_TEST(*leaf_named(function_named(program, "kernel"), "k").default_int == 1);
}

BOOST_AUTO_TEST_CASE(default_texts_are_found_behind_generics_comments_and_brackets) {
  const std::string source =
      "int g(int a = 1);\n\nint f<let N : int>(vector<int, N> v, int b[2] = { 1, 2 },\n"
      "  /* int c = 3, */ int d = max(1, 2), int e = 1 < 2)\n{}";
  const auto defaults = [](const std::string& text, int line, const char* function) {
    std::vector<std::string> values;
    for (const ParameterText& one : parameter_texts(SourceCode(text), line, function))
      values.push_back(one.default_value);
    return values;
  };
  const std::vector<std::string> expected = {"", "{1,2}", "max(1,2)", "1<2"};
  BOOST_TEST(defaults(source, 3, "f") == expected, boost::test_tools::per_element());
  BOOST_TEST(defaults(source, 1, "g") == std::vector<std::string>{"1"}, boost::test_tools::per_element());
  BOOST_TEST(defaults(source, 2, "g").empty());
  BOOST_TEST(defaults("int f(int a = 1", 1, "f").empty());
}

BOOST_AUTO_TEST_CASE(no_diff_is_what_the_user_wrote_of_a_parameter) {
  std::vector<bool> constant;
  const SourceCode source("float f(no_diff S a, S b = no_diff(S()), inout no_diff S c /* no_diff */, S no_diff_d)");
  for (const ParameterText& one : parameter_texts(source, 1, "f")) constant.push_back(one.no_diff);
  const std::vector<bool> expected = {true, false, true, false};
  BOOST_TEST(constant == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(type_and_size_parameters_are_left_to_the_tensors) {
  const Program program = describe(R"slang(import torch_slang;
struct Grid<let K : int, U : __BuiltinFloatingPointType> : IDifferentiable { U w[K]; U gain; }
[TorchOp] [Differentiable] T f<let N : int, T : IReal, let M : int>(T x[N], matrix<float, N, M> m, T rows[M][N], vector<float, 3> v) { return x[0]; }
[Differentiable] vector<S, 3> g<S : __BuiltinFloatingPointType, let N : uint>(Grid<N, S> grid, vector<S, 3> v) { return v * grid.gain; }
[Differentiable] float h(Grid<4, float> grid) { return grid.w[3]; })slang");
  const Function& f = function_named(program, "f");
  BOOST_TEST(f.refusal == "");
  BOOST_TEST(f.torch_op);
  BOOST_TEST(f.plain().size_parameters == (std::vector<std::string>{"N", "M"}), boost::test_tools::per_element());
  BOOST_TEST(f.type_parameters.size() == 1u);
  BOOST_TEST((leaf_named(f, "x").element.shape == Shape{-1}));
  BOOST_TEST(leaf_named(f, "x").element.type_parameter == 0);
  BOOST_TEST(!leaf_named(f, "x").place().slot);
  BOOST_TEST((leaf_named(f, "m").element.shape == Shape{-1, -2}));
  BOOST_TEST((leaf_named(f, "rows").element.shape == Shape{-2, -1}));
  BOOST_TEST((leaf_named(f, "v").element.shape == Shape{3}));
  BOOST_TEST(leaf_named(f, "v").place().slot.value() == 0);
  const Function& g = function_named(program, "g");
  BOOST_TEST(g.refusal == "");
  BOOST_TEST(leaf_named(g, "grid_w").element.type_parameter == 0);
  BOOST_TEST((leaf_named(g, "grid_w").element.shape == Shape{-1}));
  BOOST_TEST(leaf_named(g, "grid_w").differentiable);
  BOOST_TEST((leaf_named(g, "result").element.shape == Shape{3}));
  BOOST_TEST((leaf_named(function_named(program, "h"), "grid_w").element.shape == Shape{4}));
}

BOOST_AUTO_TEST_CASE(methods_are_functions_of_this) {
  const Program program = describe(R"slang(import torch_slang;
interface IModel : IDifferentiable { [Differentiable] float eval(float x); }
namespace nn
{
  struct Weights : IModel
  {
    float w;
    int n;
    struct Inner { float q; float twice() { return 2 * q; } }
    __init(float v) { w = v; n = 0; }
    [TorchOp] [Differentiable] float eval(float x) { return w * x; }
    [Differentiable] [mutating] float decay(float by) { w *= by; return w; }
    static float step(float x) { return x > 0 ? 1 : 0; }
    [Differentiable] [NoDiffThis] float constant(float x) { return detach(w) * x; }
    property float p { get { return w; } set { w = newValue; } }
    __subscript(int i) -> float { get { return w; } }
    [CudaKernel] static void run(TensorView<float> x) {}
  };
}
struct Layer<T : __BuiltinFloatingPointType, let N : int> : IDifferentiable
{
  T w[N];
  [Differentiable] T eval(T x[N], This other) { return w[0] * x[0]; }
  U mixed<U : __BuiltinFloatingPointType>(U x) { return x; }
}
nn.Weights operator+(nn.Weights a, nn.Weights b) { return a; })slang");
  std::string names;
  for (const Function& function : program.functions) names += function.name + " ";
  BOOST_TEST(
      names ==
      "nn_Weights_Inner_twice nn_Weights___init nn_Weights_eval nn_Weights_decay nn_Weights_step nn_Weights_constant "
      "Layer_eval Layer_mixed ");
  const Function& eval = function_named(program, "nn_Weights_eval");
  BOOST_TEST(eval.qualified_name == "nn.Weights.eval");
  BOOST_TEST(eval.torch_op);
  BOOST_TEST(shown(eval.parameters) == "this(w:0 n:1) x:2");
  BOOST_TEST(eval.parameters[0].slang_type == "nn.Weights");
  BOOST_TEST(leaf_named(eval, "this_w").path == "this.w");
  BOOST_TEST(leaf_named(eval, "this_w").differentiable);
  const Function& decay = function_named(program, "nn_Weights_decay");
  BOOST_TEST(shown(decay.plain().results) == "result:3 this(w:4 n:5)");
  BOOST_TEST(leaf_named(decay, "this_out_w").is_output);
  BOOST_TEST(shown(function_named(program, "nn_Weights_step").parameters) == "x:0");
  BOOST_TEST(!leaf_named(function_named(program, "nn_Weights_constant"), "this_w").differentiable);
  const Function& layer = function_named(program, "Layer_eval");
  BOOST_TEST(layer.parameters[0].slang_type == "Layer<T, N>");
  BOOST_TEST((leaf_named(layer, "other_w").element.shape == Shape{-1}));
  const Function& mixed = function_named(program, "Layer_mixed");
  BOOST_TEST(mixed.type_parameters.size() == 2u);
  BOOST_TEST(leaf_named(mixed, "x").element.type_parameter == 1);
}

BOOST_AUTO_TEST_CASE(a_function_goes_before_the_method_that_would_have_its_name) {
  const Program program = describe(R"slang(
struct S { float a; float f(float x) { return x; } }
float S_f(float y) { return y; })slang");
  BOOST_TEST(program.functions.size() == 1u);
  BOOST_TEST(program.functions[0].refusal == "");
  BOOST_TEST(shown(program.functions[0].parameters) == "y:0");
}

BOOST_AUTO_TEST_CASE(without_a_way_from_input_to_result_there_is_no_gradient) {
  const Program program = describe(R"slang(
struct Plain { int a; }
[Differentiable] int whole(float x) { return 3; }
[Differentiable] float constant(no_diff float x, int n) { return n; }
[Differentiable] float of_plain(Plain p) { return 1; }
[ForwardDifferentiable] float forward_alone(float x) { return x; }
float none(float x) { return x; })slang");
  for (const char* name : {"whole", "constant", "of_plain", "forward_alone", "none"}) {
    BOOST_TEST(!function_named(program, name).has_backward, name);
  }
  BOOST_TEST(function_named(program, "forward_alone").has_forward_derivative);
  BOOST_TEST(!function_named(program, "whole").has_forward_derivative);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_mapped_is_refused_with_its_parameter_and_type) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {"float f([Shape(\"N\")] TensorView<float> x) { return 1; }", {"parameter x has the attribute Shape", "kernels"}},
      {"TensorView<float> f(TensorView<float> x) { return x; }", {"its result result is a TensorView<float>"}},
      {"float f(float x[]) { return 1; }", {"parameter x has the type float[]"}},
      {"float f(Texture2D t, float x) { return 1; }", {"parameter t has the type Texture2D"}},
      {"float f(StructuredBuffer<float> b) { return 1; }", {"parameter b has the type StructuredBuffer"}},
      {"float f(Optional<float> o) { return 1; }", {"parameter o has the type Optional<float>"}},
      {"Tuple<float, int> f(float x) { return makeTuple(x, 1); }", {"its result result has the type Tuple"}},
      {"float f(IShape s) { return 1; }", {"parameter s has the type IShape"}},
      {"void f(inout DifferentialPair<float> x) {}", {"parameter x has the type DifferentialPair<float>"}},
      {"float f() { return 1; }", {"takes no argument"}},
      {"void f(float x) {}", {"gives nothing", "no out parameters", "stores to no tensor"}},
      {"int f(int result) { return result; }", {"result and result", "would both be called result", "rename"}},
      {"int f(inout int a, int a_out) { return a; }", {"a_out and a", "would both be called a_out"}},
      {"float f(V x, float x_a) { return 1; }", {"x.a and x_a", "rename"}},
      {"[Differentiable] float f(Renamed r) { return r.a; }", {"parameter r is a Renamed", "Differential of its own"}},
      {"float f(Derived d) { return d.b; }", {"d is a Derived", "inherits from the struct Base"}},
      {"float f<let N : int>(float x[N + 1]) { return 1; }", {"parameter x is a float[N+1]", "by itself"}},
      {"float f<let N : int>(vector<float, N * 2> x[3]) { return 1; }",
       {"parameter x[0] is a vector<float,2*N>", "by itself"}},
      {"float f<let N : int>(V x[N]) { return 1; }", {"parameter x has the type V[N]", "known size"}},
      {"float f<let N : int>(float x) { return N; }", {"no argument has its size N"}},
      {"float f<let B : bool>(float x) { return 1; }", {"generic parameter B is a bool"}},
      {"T f<T : IFloat>(float x) { return T(1); }", {"no argument has its type parameter T"}},
      {"float f<S : IShape>(S s) { return s.area(); }", {"type parameter S allows"}},
  };
  std::string source = R"slang(
interface IShape { float area(); }
struct Views { DiffTensorView<float> image; }
struct V { float a; }
struct Delta : IDifferentiable { float b; float a; }
struct Renamed : IDifferentiable
{
    typealias Differential = Delta;
    [DerivativeMember(Delta.b)] float a;
    [DerivativeMember(Delta.a)] float b;
    [Differentiable] static Delta dzero() { return { 0, 0 }; }
    [Differentiable] static Delta dadd(Delta x, Delta y) { return { x.b + y.b, x.a + y.a }; }
}
struct Base { float a; }
struct Derived : Base { float b; }
)slang";
  for (size_t i = 0; i < table.size(); ++i) {
    std::string text = table[i].first;
    const size_t at = text.find(" f(") == std::string::npos ? text.find(" f<") : text.find(" f(");
    text.replace(at + 1, 1, "f" + std::to_string(i));
    source += text + "\n";
  }
  const Program program = describe(source);
  for (size_t i = 0; i < table.size(); ++i) {
    const std::string& refusal = refusal_of(program, "f" + std::to_string(i));
    for (const std::string& part : table[i].second) {
      BOOST_TEST(contains(refusal, part), table[i].first << ": " << refusal << " lacks " << part);
    }
  }
}

BOOST_AUTO_TEST_CASE(overloads_are_named_after_their_types) {
  const Program program =
      describe("float twice(float x) { return x; }\nfloat2 twice(float2 x, float a[3]) { return x; }\n");
  std::vector<std::string> names;
  for (const Function& function : program.functions) {
    BOOST_TEST(function.plain().overloaded == "twice");
    BOOST_TEST(function.refusal == "");
    names.push_back(function.name);
  }
  BOOST_TEST(names == (std::vector<std::string>{"twice_float", "twice_float2_float_3"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(function_texts)

BOOST_AUTO_TEST_CASE(components_are_fetched_and_given_by_view) {
  const CompileRequest request = request_for(R"slang(
struct S : IDifferentiable { float3 v; no_diff float k; int n; }
[TorchOp] [Differentiable] S f(S s, float x) { S r = s; r.v = s.v * x * s.k; return r; })slang");
  const Program program = compile_texts(request);
  const Function& f = function_named(program, "f");
  const DeviceText& forward = text_of(program, "f", Direction::Forward);
  BOOST_TEST(forward.error == "");
  const int v = leaf_named(f, "s_v").place().primal_view, result_v = leaf_named(f, "result_v").place().primal_view;
  const int n = leaf_named(f, "s_n").place().primal_view, result_n = leaf_named(f, "result_n").place().primal_view;
  check_contains(plain(forward), {input(v, 0), input(v, 1), input(v, 2), input(n, 0, "int"), output(result_v, 2),
                                  output(result_n, 0, "int")});
  const DeviceText& backward = text_of(program, "f", Direction::Backward);
  BOOST_TEST(backward.error == "");
  check_contains(plain(backward),
                 {input(v, 2), input(*leaf_named(f, "result_v").diff_view(), 2),
                  output(*leaf_named(f, "s_v").diff_view(), 2), output(*leaf_named(f, "x").diff_view())});
  check_lacks(plain(backward), {output(result_v), output(result_n, 0, "int"), input(result_n, 0, "int")});
}

// Note [derivatives of functions] in elementwise_wrapper.cpp.
BOOST_AUTO_TEST_CASE(derivatives_take_parameters_by_their_way) {
  const CompileRequest request = request_for(R"slang(
struct P : IDifferentiable { float a; int n; }
[TorchOp] [Differentiable] float f(float x, out float y, inout float z, out int n, no_diff float q, out P p, inout int m,
                                   no_diff inout float w, no_diff out float c, bool flag)
{
    y = x * z * q; z = z * x; n = 2; p.a = x; p.n = 3; m = m + 1; w = w + 1; c = q;
    return flag ? y * 2 : x;
})slang");
  const Program described = compile_texts(request);
  const Program program = compile_instantiations(
      request, {{"f", Direction::Forward, {}, {}}, {"f", Direction::Backward, {}, {}}, {"f", Direction::Jvp, {}, {}}});
  const Function& f = function_named(program, "f");
  const auto primal = [&](const char* name) { return leaf_named(f, name).place().primal_view; };
  const auto diff = [&](const char* name) { return *leaf_named(f, name).diff_view(); };
  const DeviceText& forward = text_of(program, "f", Direction::Forward);
  BOOST_TEST(forward.error == "");
  for (const char* name : {"result", "y", "z_out", "p_a", "w_out", "c"}) {
    check_contains(plain(forward), {output(primal(name))});
  }
  for (const char* name : {"n", "p_n", "m_out"}) check_contains(plain(forward), {output(primal(name), 0, "int")});
  const DeviceText& backward = text_of(program, "f", Direction::Backward);
  BOOST_TEST(backward.error == "");
  for (const char* name : {"result", "y", "z_out", "p_a"}) check_contains(plain(backward), {input(diff(name))});
  for (const char* name : {"x", "z"}) check_contains(plain(backward), {output(diff(name))});
  const DeviceText& jvp = text_of(program, "f", Direction::Jvp);
  BOOST_TEST(jvp.error == "");
  for (const char* name : {"x", "z"}) check_contains(plain(jvp), {input(diff(name))});
  for (const char* name : {"result", "y", "z_out", "p_a"}) check_contains(plain(jvp), {output(diff(name))});
}

BOOST_AUTO_TEST_CASE(types_and_sizes_are_put_in) {
  const CompileRequest request = request_for(R"slang(
struct Layer<T : __BuiltinFloatingPointType, let K : int> : IDifferentiable
{
    T w[K];
    [Differentiable] T scaled<U : __BuiltinFloatingPointType>(U by) { return w[K - 1] * __realCast<T>(by); }
}
[Differentiable] T f<let N : int, T : __BuiltinFloatingPointType>(Layer<T, N> layer, matrix<T, 2, N> m) { return layer.w[N - 1] * m[1][0]; })slang");
  const Program program = compile_instantiations(
      request, {{"f", Direction::Forward, {ElementType::Float64}, {3}},
                {"f", Direction::Backward, {ElementType::Float64}, {3}},
                {"Layer_scaled", Direction::Backward, {ElementType::Float32, ElementType::Float16}, {5}}});
  const DeviceText& forward = text_of(program, "f", Direction::Forward);
  BOOST_TEST(forward.error == "");
  BOOST_TEST(forward.sizes == std::vector<int64_t>{3}, boost::test_tools::per_element());
  BOOST_TEST(forward.entry == "tsl_f_forward_float64_3");
  check_contains(plain(forward), {input(0, 2, "double"), input(2, 5, "double"), "FixedArray<double, 3>"});
  BOOST_TEST(text_of(program, "f", Direction::Backward).error == "");
  const DeviceText& method = text_of(program, "Layer_scaled", Direction::Backward);
  BOOST_TEST(method.error == "");
  check_contains(plain(method), {output(1, 4), output(3, 0, "__half")});
  BOOST_CHECK_THROW(compile_instantiations(request, {{"f", Direction::Forward, {ElementType::Float64}, {}}}),
                    c10::Error);
}

BOOST_AUTO_TEST_CASE(large_arrays_are_fetched_in_loops) {
  const Program program = compile_texts(
      request_for("[TorchOp] float f(float x[1000]) { return x[7]; } [TorchOp] float g(float x[64]) { return x[7]; }"));
  check_contains(plain(text_of(program, "f", Direction::Forward)), {"tsl_input<float>((int(0)), (i"});
  check_contains(plain(text_of(program, "g", Direction::Forward)), {input(0, 63)});
}

BOOST_AUTO_TEST_CASE(enumerations_are_fetched_as_their_integers) {
  const Program program = compile_texts(request_for(R"slang(
enum Kind : uint8_t { A, B }
struct Box<T : __BuiltinFloatingPointType> { enum Mode { A, B }; T x; Mode modes[2]; }
[TorchOp] Box<T>.Mode mode<T : __BuiltinFloatingPointType>(Box<T> box, Kind kind) { return box.modes[int(kind)]; }
[CudaKernel] void f(TensorView<float> x, Kind kind) { x[0] = kind == Kind.B ? 1 : 0; })slang"));
  BOOST_TEST((leaf_named(function_named(program, "f"), "kind").element.type == ElementType::UInt8));
  BOOST_TEST(text_of(program, "f", Direction::Forward).error == "");
  check_contains(plain(text_of(program, "f", Direction::Forward)), {"tsl_slot<uchar>"});
  BOOST_TEST(text_of(program, "mode", Direction::Forward).error == "");
  check_contains(plain(text_of(program, "mode", Direction::Forward)),
                 {input(1, 1, "int"), input(2, 0, "uchar"), output(3, 0, "int")});
}

BOOST_AUTO_TEST_CASE(what_depends_on_threads_is_no_function_of_an_element) {
  const Program program = compile_texts(request_for(R"slang(
groupshared float tile[4];
[TorchOp] float meets(float x) { tile[0] = x; GroupMemoryBarrierWithGroupSync(); return tile[1]; }
[TorchOp] float sums(float x) { return WaveActiveSum(x); }
[TorchOp] float places(float x) { return x * cudaThreadIdx().x; }
[TorchOp] float good(float x) { return x; })slang"));
  for (const char* name : {"meets", "sums", "places"}) {
    check_contains(text_of(program, name, Direction::Forward).error, {"make it a [CudaKernel]", name});
  }
  BOOST_TEST(text_of(program, "good", Direction::Forward).error == "");
}

BOOST_AUTO_TEST_CASE(a_wrapper_that_does_not_compile_spoils_no_other) {
  const CompileRequest request = request_for(R"slang(
struct S { private float hidden; float shown; }
[TorchOp] float bad(S s) { return s.shown; }
[TorchOp] [Differentiable] float a(float x) { return x; }
[TorchOp] float b(float x) { return x; }
[TorchOp] float c(float x) { return x; })slang");
  const Program program = compile_texts(request);
  BOOST_TEST(program.texts.size() == 5u);
  const std::string& error = text_of(program, "bad", Direction::Forward).error;
  check_contains(error, {"the forward of bad in " + kPath + " does not compile", "hidden"});
  check_lacks(error, {"tsl_a_", "tsl_c_"});
  for (const char* name : {"a", "b", "c"}) BOOST_TEST(text_of(program, name, Direction::Forward).error == "");
  BOOST_TEST(text_of(program, "a", Direction::Backward).error == "");
}

BOOST_AUTO_TEST_CASE(every_function_of_the_survey_compiles) {
  CompileRequest request;
  request.path = join_path(parent_path(parent_path(__FILE__)), "helpers/kernels/functions_survey.slang");
  const Program described = run_compiler(request, Extent::DescribeOnly);
  std::string refused;
  for (const Function& function : described.functions) {
    if (!function.refusal.empty()) {
      refused += function.name + " ";
      continue;
    }
    const std::vector<int64_t> sizes(function.size_count(), 3);
    for (const ElementType type : {ElementType::Float32, ElementType::Float64}) {
      const std::vector<ElementType> types(function.type_parameters.size(), type);
      if (types.empty() && type != ElementType::Float32) continue;
      request.instantiations.push_back({function.name, Direction::Forward, types, sizes});
      if (function.has_backward) request.instantiations.push_back({function.name, Direction::Backward, types, sizes});
    }
  }
  BOOST_TEST(refused == "clipped_backward ");
  BOOST_TEST(request.instantiations.size() > 100u);
  const Program program = compile_texts(request);
  BOOST_TEST(program.texts.size() == request.instantiations.size());
  for (const DeviceText& text : program.texts) BOOST_TEST(text.error == "", text.error);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(which_texts)

BOOST_AUTO_TEST_CASE(plain_functions_wait_unless_they_are_operators_at_load) {
  const Program program = describe(R"slang(import torch_slang;
[CudaKernel] [Differentiable] void kernel(DiffTensorView<float> x) {}
[TorchOp] [Differentiable] T early<T : IReal>(T x) { return x; }
[Differentiable] float late(float x) { return x; }
T whole<T : __BuiltinIntegerType>(T x) { return x; }
float sized<let N : int>(float x[N]) { return x[0]; }
float refused(Texture2D x) { return 1; })slang");
  const auto listed = [](const std::vector<Instantiation>& list) {
    std::string text;
    for (const Instantiation& one : list) text += describe_instantiation(one) + "; ";
    return text;
  };
  BOOST_TEST(listed(usual_instantiations(program.functions)) ==
             "the forward of kernel; the backward of kernel; the forward of early for float32; "
             "the backward of early for float32; ");
  BOOST_TEST(listed(plain_instantiations(program.functions)) ==
             "the forward of early for float32; the backward of early for float32; the forward of late; "
             "the backward of late; the forward of whole for int8; ");
  BOOST_TEST(listed(plain_instantiations(program.functions, ElementType::Float64)) ==
             "the forward of early for float64; the backward of early for float64; the forward of late; "
             "the backward of late; ");
  BOOST_TEST(all_instantiations(program.functions).size() == 2u + 8u);
}

BOOST_AUTO_TEST_CASE(the_first_plain_function_brings_the_others) {
  TemporaryFolder folder;
  ::setenv("TORCH_SLANG_CACHE_DIR", folder.file("cache").c_str(), 1);
  CompileRequest request = request_for(R"slang(import torch_slang;
[TorchOp] float early(float x) { return x; }
[Differentiable] float a(float x) { return x * x; }
[Differentiable] T b<T : IReal>(T x) { return x * x; }
[Differentiable] T c<T : IReal>(T x) { return x + x; }
[Differentiable] float sized<let N : int>(float x[N]) { return x[0]; }
float meets(float x) { return WaveActiveSum(x); })slang");
  const auto program = load_program(request);
  BOOST_TEST(program->texts.size() == 1u);
  TextSource source(request, program);
  const auto runs = [before = cache::stats().slang_runs]() mutable {
    const int64_t now = cache::stats().slang_runs, count = now - before;
    before = now;
    return count;
  };
  auto counted = runs;
  counted();
  source.text("early", Direction::Forward, {});
  BOOST_TEST(counted() == 0);
  source.text("a", Direction::Backward, {});
  BOOST_TEST(counted() == 1);
  source.text("a", Direction::Forward, {});
  source.text("b", Direction::Backward, {ElementType::Float32});
  BOOST_CHECK_EXCEPTION(source.text("meets", Direction::Forward, {}), CompileError, [](const CompileError& error) {
    return contains(error.what_without_backtrace(), "the forward of meets does not compile");
  });
  BOOST_TEST(counted() == 0);
  source.text("b", Direction::Forward, {ElementType::Float64});
  BOOST_TEST(counted() == 1);
  source.text("b", Direction::Backward, {ElementType::Float64});
  source.text("c", Direction::Backward, {ElementType::Float64});
  BOOST_TEST(counted() == 0);
  source.text("sized", Direction::Forward, {}, {2});
  BOOST_TEST(counted() == 1);
  BOOST_TEST(source.text("sized", Direction::Backward, {}, {2}).entry == "tsl_sized_backward_2");
  BOOST_TEST(counted() == 0);
  source.text("sized", Direction::Backward, {}, {3});
  BOOST_TEST(counted() == 1);
}

BOOST_AUTO_TEST_CASE(texts_are_of_the_source_that_was_loaded) {
  TemporaryFolder folder;
  ::setenv("TORCH_SLANG_CACHE_DIR", folder.file("cache").c_str(), 1);
  const std::string helper = "module helper;\npublic float twice(float x) { return 2 * x; }";
  BOOST_REQUIRE(publish_file(folder.file("helper.slang"), helper));
  BOOST_REQUIRE(publish_file(folder.file("main.slang"), "import helper;\nT f<T : IFloat>(T x, float y) { return x; }"));
  CompileRequest request;
  request.path = folder.file("main.slang");
  TextSource source(request, load_program(request));
  source.text("f", Direction::Forward, {ElementType::Float32});
  BOOST_REQUIRE(publish_file(folder.file("helper.slang"), helper + " // changed"));
  source.text("f", Direction::Forward, {ElementType::Float32});
  BOOST_CHECK_EXCEPTION(
      source.text("f", Direction::Forward, {ElementType::Float64}), CompileError, [&](const CompileError& error) {
        return contains(error.what_without_backtrace(), folder.file("helper.slang") + " has changed since");
      });
  BOOST_REQUIRE(publish_file(folder.file("helper.slang"), helper));
  source.text("f", Direction::Forward, {ElementType::Float64});
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
