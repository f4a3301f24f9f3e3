#include <boost/test/unit_test.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "common/files.h"
#include "common/hash.h"
#include "common/temporary_folder.h"
#include "compile_source.h"
#include "compiler/compile.h"
#include "compiler/emit/passes.h"
#include "compiler/emit/statement_lines.h"
#include "compiler/source/session.h"
#include "compiler/text/tokens.h"
#include "program/compiler_client.h"
#include "program/enumerations.h"
#include "program/instantiations.h"
#include "rewritten.h"
#include "torch_slang/error.h"

BOOST_AUTO_TEST_SUITE(compiler_test)

using namespace torch_slang;

namespace {

std::string message_of(const c10::Error& error) { return error.what_without_backtrace(); }

template <class Act>
std::string compile_error_of(const Act& act) {
  try {
    act();
  } catch (const CompileError& error) {
    return message_of(error);
  }
  BOOST_FAIL("no CompileError");
  return {};
}

// A program in place of torch-slangc.
class FakeCompiler {
 public:
  explicit FakeCompiler(const std::string& script) {
    BOOST_REQUIRE(publish_file(path(), "#!/bin/sh\n" + script, 0755));
    set_compiler_path(path());
  }
  std::string path() const { return folder_.file("torch-slangc"); }

 private:
  TemporaryFolder folder_;
};

// METHODS: what a gradient wrapper of the user's own must have.
constexpr const char* kWrapperMethods = R"slang(
#define GIVES(N)                                                                            \
    T N<T : __BuiltinFloatingPointType>(uint i) { return T(0); }                            \
    T N<T : __BuiltinFloatingPointType, let K : int>(vector<uint, K> i) { return T(0); }
#define TAKES(N)                                                                            \
    void N<T : __BuiltinFloatingPointType>(uint i, T d) {}                                  \
    void N<T : __BuiltinFloatingPointType, let K : int>(vector<uint, K> i, T d) {}
#define METHODS                                                                             \
    GIVES(load_forward) TAKES(load_backward) TAKES(store_forward) GIVES(store_backward)     \
    GIVES(loadOnce_forward) TAKES(loadOnce_backward) TAKES(storeOnce_forward) GIVES(storeOnce_backward)
)slang";

constexpr const char* kHead = "[AutoPyBindCUDA] [CUDAKernel] ";

}  // namespace

BOOST_AUTO_TEST_SUITE(descriptors)

BOOST_AUTO_TEST_CASE(unmodified_slangtorch_kernel_needs_no_import) {
  const Program program = describe(R"slang([AutoPyBindCUDA] [CUDAKernel] [Differentiable]
void square(DiffTensorView input, DiffTensorView output)
{
    uint i = cudaThreadIdx().x;
    output[i] = input[i] * input[i];
})slang");
  const Function& square = function_named(program, "square");
  BOOST_TEST(square.is_kernel());
  BOOST_TEST(square.has_backward);
  BOOST_TEST(square.has_forward_derivative);
  BOOST_TEST(square.file == kPath);
  BOOST_TEST(square.line == 2);
  BOOST_TEST(square.view_count == 4);
  BOOST_TEST(square.slot_count == 2);  // one for each gradient
  const Leaf& output = leaf_named(square, "output");
  BOOST_TEST(output.differentiable);
  BOOST_TEST(output.place().primal_view == 2);
  BOOST_TEST(*output.diff_view() == 3);
  BOOST_TEST((output.element.type == ElementType::Float32));
}

BOOST_AUTO_TEST_CASE(attributes_are_read_from_kernels_parameters_and_fields) {
  const Program program = describe(R"slang(import torch_slang;
struct Grid { [Shape("N")] TensorView<float> cells; int n; }
[PyBindCUDA(Auto)] [CudaKernel] [LaunchTotal("F, N")] [BlockSize(64, 2, 1)] [Tune("BM", "32, 64")] [Tune("BN", "8")] [Parallel("N")]
void f(Grid grid, [In] TensorView<int> ids, [Out("N, F")] [Fill(0.5)] TensorView<float2> y) {}
[TorchOp] float g(float x, no_diff int k = 3, float eps = 0.25) { return x; })slang");
  const Function& f = function_named(program, "f");
  BOOST_TEST(*f.kernel().launch_total == "F, N");
  BOOST_TEST((f.kernel().block_size == std::vector<int64_t>{64, 2, 1}));
  BOOST_TEST(f.kernel().tune.size() == 2u);
  BOOST_TEST(f.kernel().tune[0].second == "32, 64");
  BOOST_TEST(*f.kernel().parallel == "N");
  BOOST_TEST(*leaf_named(f, "grid_cells").view().shape == "N");
  BOOST_TEST(leaf_named(f, "ids").view().is_in);
  const Leaf& y = leaf_named(f, "y");
  BOOST_TEST(y.is_output);
  BOOST_TEST(*y.view().shape == "N, F");
  BOOST_TEST(*y.view().fill == 0.5);
  BOOST_TEST((y.element.shape == std::vector<int64_t>{2}));
  BOOST_TEST(!f.has_backward);
  const Function& g = function_named(program, "g");
  BOOST_TEST(!g.is_kernel());
  BOOST_TEST(g.torch_op);
  BOOST_TEST(*leaf_named(g, "k").default_int == 3);
  BOOST_TEST(*leaf_named(g, "eps").default_float == 0.25);
}

BOOST_AUTO_TEST_CASE(gradient_views_say_how_they_gather) {
  const Program program = describe(kWrapperMethods + std::string(R"slang(
struct Own : IDiffTensorWrapper
{
    TensorView<float> diff;
    static const int kNothing = 0;
    METHODS
}
static const int kCopies = 8;
struct Pair { DiffTensorViewR<half3, kCopies> left; DiffTensorViewAA<float> right; }
[CudaKernel] [Differentiable]
void f(DiffTensorView x, Pair pair, float scale, DiffTensorViewASR<double, 2 * 3> s, DiffTensorView<float, Own> own) {}
[CudaKernel] void g(DiffTensorViewR<float, 4> x) {})slang"));
  const struct {
    const char* leaf;
    Accumulation accumulation;
    int copies, slots;
    const char* type;
  } table[] = {
      {"x", Accumulation::Atomic, 0, 0, "DiffTensorView<float>"},
      {"pair_left", Accumulation::Replicated, 8, 1, "DiffTensorViewR<vector<half,3>, 8>"},
      {"pair_right", Accumulation::Atomic, 0, 4, "DiffTensorView<float>"},
      {"s", Accumulation::Recorded, 6, 8, "DiffTensorViewASR<double, 6>"},
      {"own", Accumulation::Custom, 0, 12, "DiffTensorView<float, Own>"},
  };
  const Function& f = function_named(program, "f");
  BOOST_TEST(f.refusal == "");
  for (const auto& [name, accumulation, copies, slots, type] : table) {
    const Leaf& leaf = leaf_named(f, name);
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST((leaf.view().accumulation == accumulation));
      BOOST_TEST(leaf.view().copies == copies);
      BOOST_TEST(*leaf.view().gradient_slots == slots);
      BOOST_TEST(leaf.slang_type == type);
    }
  }
  BOOST_TEST(f.slot_count == 13);
  BOOST_TEST(function_named(program, "g").slot_count == 3);  // for a launch that is given the gradient
}

BOOST_AUTO_TEST_CASE(structs_and_arrays_are_flattened_in_order) {
  const Program program = describe(R"slang(
struct Light : IDifferentiable { float gain; float3 tint; no_diff float k; int mode; }
struct Scene { Light light; DiffTensorView<float> image; float3x2 m; float w[4]; }
[CudaKernel] [Differentiable] void f(Scene scene, Light lamp, no_diff Light sun, DiffTensorView<half> a[2], bool flag) {})slang");
  const Function& f = function_named(program, "f");
  std::string names;
  for (const Leaf& leaf : f.leaves) names += leaf.name + " ";
  BOOST_TEST(names ==
             "scene_light_gain scene_light_tint scene_light_k scene_light_mode scene_image scene_m scene_w "
             "lamp_gain lamp_tint lamp_k lamp_mode sun_gain sun_tint sun_k sun_mode a_0 a_1 flag ");
  BOOST_TEST(leaf_named(f, "scene_image").differentiable);
  BOOST_TEST(!leaf_named(f, "scene_light_gain").differentiable);  // Scene itself is not differentiable
  BOOST_TEST(leaf_named(f, "lamp_tint").differentiable);
  BOOST_TEST(!leaf_named(f, "lamp_k").differentiable);
  BOOST_TEST(!leaf_named(f, "sun_tint").differentiable);
  BOOST_TEST((leaf_named(f, "scene_m").element.shape == std::vector<int64_t>{3, 2}));
  BOOST_TEST(leaf_named(f, "a_1").path == "a[1]");
  BOOST_TEST(f.parameters[0].fields[0].fields[1].leaf == 1);
  // lamp_gain: one component, then its pointer and its gradient's.
  const Leaf& gain = leaf_named(f, "lamp_gain");
  BOOST_TEST(*gain.value().pointer_slot == gain.value().slot + 1);
  BOOST_TEST(*gain.value().gradient_slot == gain.value().slot + 2);
  BOOST_TEST(*leaf_named(f, "lamp_tint").value().pointer_slot == leaf_named(f, "lamp_tint").value().slot + 3);
}

BOOST_AUTO_TEST_CASE(generic_kernels_list_the_types_that_their_constraints_allow) {
  const Program program = describe(R"slang(import torch_slang;
[CudaKernel] void a<T : __BuiltinFloatingPointType>(TensorView<T> x, T s) {}
[CudaKernel] [Differentiable] void b<T : IFloat>(DiffTensorView<T> x) {}
[CudaKernel] void c<T : __BuiltinIntegerType>(TensorView<vector<T, 2>> x) {})slang");
  const auto allowed = [&](const char* name) {
    std::string text;
    for (const ElementType type : function_named(program, name).type_parameters.at(0).allowed)
      text += std::string(name_of(type)) + " ";
    return text;
  };
  BOOST_TEST(allowed("a") == "float16 float32 float64 ");
  BOOST_TEST(allowed("b") == "float16 bfloat16 float32 float64 ");
  BOOST_TEST(allowed("c") == "int8 int16 int32 int64 uint8 uint16 uint32 uint64 ");
  BOOST_TEST(leaf_named(function_named(program, "a"), "s").element.type_parameter == 0);
  BOOST_TEST(leaf_named(function_named(program, "b"), "x").differentiable);
}

BOOST_AUTO_TEST_CASE(derivative_attributes_choose_what_is_linked) {
  const Program program = describe(R"slang(import torch_slang;
[PyBindCUDABwdDiff(Auto)] [CudaKernel] [Differentiable] void only_backward(DiffTensorView x) {}
[PyBindCUDAFwdDiff(Auto)] [CudaKernel] [Differentiable] void only_forward(DiffTensorView x) {}
[CudaKernel] [ForwardDifferentiable] void forward_kind(DiffTensorView x) {}
[CudaKernel] [BackwardDerivative(own_backward)] void own(DiffTensorView x) {}
void own_backward(DiffTensorView x) {})slang");
  const auto linked = [&](const char* name) {
    const Function& function = function_named(program, name);
    return std::pair(function.has_forward_derivative, function.has_backward);
  };
  BOOST_TEST((linked("only_backward") == std::pair(false, true)));
  BOOST_TEST((linked("only_forward") == std::pair(true, false)));
  BOOST_TEST((linked("forward_kind") == std::pair(true, false)));
  BOOST_TEST((linked("own") == std::pair(false, true)));  // Slang's forward derivative of it would be zero
}

BOOST_AUTO_TEST_CASE(what_cannot_be_an_operator_is_refused_with_its_parameter_and_type) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {"void f(out TensorView<float> y) {}", {"parameter y is `out TensorView<float>`", "without out"}},
      {"void f(inout float y) {}", {"parameter y is `inout float`"}},
      {"void f(S p) {}", {"parameter p.a has the type Ptr<float"}},
      {"void f(TensorView<float3x3> x) {}", {"parameter x is a TensorView<matrix<float,3,3>>"}},
      {"float f(TensorView<float> x) { return 1; }", {"returns nothing", "float"}},
      {"void f<let N : int>(TensorView<float> x) {}", {"generic over the value N"}},
      {"void f(V x, float x_a) {}", {"x.a and x_a", "rename"}},
      {"void f(DiffTensorViewR<float, 0> x) {}", {"parameter x is a DiffTensorViewR<float, 0>", "N must be from 1"}},
      {"void f(DiffTensorViewASR<float, 70000> x) {}", {"DiffTensorViewASR<float, 70000>", "to 65536"}},
      {"void f(DiffTensorView<Flagged> x) {}",
       {"parameter x is a DiffTensorView<Flagged>", "the derivative of Flagged"}},
      {"void f(DiffTensorView<Counted> x) {}", {"parameter x is a DiffTensorView<Counted>"}},
      {"void f(DiffTensorViewR<Renamed, 2> x) {}", {"DiffTensorViewR<Renamed, 2>", "no Differential of its own"}},
      {"void f(DiffTensorView<float, Bare> x) {}", {"the wrapper Bare must have", "TensorView<float> diff"}},
      {"void f(DiffTensorView<float, Rich> x) {}", {"the wrapper Rich must have", "no other field"}},
      {"void f([Shape(\"N\")] int n) {}", {"parameter n has the attribute Shape", "it is a int"}},
  };
  std::string source = R"slang(
struct S { Ptr<float> a; }
struct V { float a; }
struct Flagged : IDifferentiable { float a; no_diff float k; }
struct Counted : IDifferentiable { float a; int k; }
struct Delta : IDifferentiable { float b; float a; }
struct Renamed : IDifferentiable
{
    typealias Differential = Delta;
    [DerivativeMember(Delta.a)] float a;
    [DerivativeMember(Delta.b)] float b;
    [Differentiable] static Delta dzero() { return { 0, 0 }; }
    [Differentiable] static Delta dadd(Delta x, Delta y) { return { x.b + y.b, x.a + y.a }; }
}
struct Bare : IDiffTensorWrapper { METHODS }
struct Rich : IDiffTensorWrapper { TensorView<float> diff; float scale; METHODS }
)slang";
  source = kWrapperMethods + source;
  for (size_t i = 0; i < table.size(); ++i) {
    std::string text = table[i].first;
    text.replace(text.find(" f") + 1, 1, "f" + std::to_string(i));
    source += kHead + text + "\n";
  }
  const Program program = describe(source);
  for (size_t i = 0; i < table.size(); ++i) {
    const std::string& refusal = function_named(program, "f" + std::to_string(i)).refusal;
    for (const std::string& part : table[i].second) BOOST_TEST(contains(refusal, part), refusal << " lacks " << part);
  }
}

BOOST_AUTO_TEST_CASE(elements_of_views_may_be_structs_without_padding) {
  const Program program = describe(R"slang(
struct P : IDifferentiable { float a; float3 b; }
struct Q { float a; float2 b; }
[CudaKernel] [Differentiable] void f(DiffTensorView<P> x) {}
[CudaKernel] void g(TensorView<Q> x) {})slang");
  BOOST_TEST((leaf_named(function_named(program, "f"), "x").element.shape == std::vector<int64_t>{4}));
  BOOST_TEST(contains(function_named(program, "g").refusal, "parameter x is a TensorView<Q>"));
}

BOOST_AUTO_TEST_CASE(namespaces_become_part_of_the_name) {
  const Program program = describe("namespace a { namespace b { [CudaKernel] void f(TensorView<float> x) {} } }");
  BOOST_TEST(function_named(program, "a_b_f").qualified_name == "a.b.f");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(texts)

BOOST_AUTO_TEST_CASE(forward_and_backward_of_a_kernel_are_written) {
  const Program program = compile_texts(request_for(R"slang(
[CudaKernel] [Differentiable] void f<T : __BuiltinFloatingPointType>(DiffTensorView<T> x, T s, DiffTensorView<T> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = s * x[i];
})slang"));
  BOOST_TEST(program.texts.size() == 2u);
  const DeviceText& forward = text_of(program, "f", Direction::Forward);
  BOOST_TEST(forward.error == "");
  BOOST_TEST(contains(forward.body, "void " + forward.entry + "()"));
  BOOST_TEST(!contains(forward.body, "__global__"));
  BOOST_TEST(contains(forward.body, "#line 2 \"" + kPath + "\""));
  const DeviceText& backward = text_of(program, "f", Direction::Backward);
  BOOST_TEST(backward.error == "");
  for (const char* part : {"tsl_take<float", "tsl_accumulate<float", "tsl_gradient<float"}) {
    BOOST_TEST(contains(backward.body, part), part);
  }
  BOOST_TEST(!backward.barriers);
  BOOST_TEST(!backward.waves);
}

BOOST_AUTO_TEST_CASE(forward_derivatives_take_tangents_and_gather_nothing) {
  CompileRequest request = request_for(R"slang(
struct Light : IDifferentiable { float gain; float3 tint; no_diff float k; int mode; }
[CudaKernel] [Differentiable] void f(DiffTensorViewR<float, 4> x, Light light, float2x2 m, int n, DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    y[i] = light.gain * x[i] * light.tint.y * light.k + m[0][1] * n;
})slang");
  request.instantiations = {{"f", Direction::Jvp, {}, {}}};
  const Program program = compile_texts(request);
  const DeviceText& jvp = text_of(program, "f", Direction::Jvp);
  BOOST_TEST(jvp.error == "");
  const Function& f = function_named(program, "f");
  const auto tangents = [&](const char* leaf) {
    return contains(jvp.body,
                    "tsl_tangent<float>((int(" + std::to_string(*leaf_named(f, leaf).value().gradient_slot) + ")), ");
  };
  for (const char* leaf : {"light_gain", "light_tint", "m"}) BOOST_TEST(tangents(leaf), leaf);
  for (const char* part : {"tsl_get<float>", "tsl_put<float>"}) BOOST_TEST(contains(jvp.body, part), part);
  for (const char* part : {"tsl_accumulate", "tsl_take", "tsl_gradient"}) BOOST_TEST(!contains(jvp.body, part), part);
}

BOOST_AUTO_TEST_CASE(recorded_gradients_are_finished_where_the_thread_ends) {
  const Program program = compile_texts(request_for(R"slang(
[CudaKernel] [Differentiable]
void f(DiffTensorViewASR<half3, 5> x, DiffTensorViewASR<double, 2> z, DiffTensorView<float> y) { y[0] = x[0].x; })slang"));
  const std::string& backward = text_of(program, "f", Direction::Backward).body;
  for (const char* part : {"tsl_finish((int(1)), (int(5)))", "tsl_finish((int(3)), (int(2)))"}) {
    BOOST_TEST(contains(backward, part), part);
  }
  BOOST_TEST(contains(text_of(program, "f", Direction::Forward).body, "tsl_finish"));  // of a launch with gradients
}

BOOST_AUTO_TEST_CASE(statements_know_their_lines_in_every_direction) {
  const Program program = compile_texts(request_for(R"slang([Differentiable] float twice(float a)
{
    return a * 2;
}
[CudaKernel] [Differentiable] void f(DiffTensorView<float> x, TensorView<float> p, DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0))
        return;
    float a = x.load(i);

    float b = x[i + 1] + p[i];
    for (int k = 0; k < 3; ++k)
        b += x.loadUniform(i, k);
    y[i] = a * twice(b);
    y.storeOnce(i,
        x.loadFixed(0));
})slang"));
  const auto at = [](const DeviceText& text, const std::string& part) {
    const size_t found = text.body.find(part);
    BOOST_REQUIRE_MESSAGE(found != std::string::npos, part << " is not in\n" << text.body);
    const size_t mark = text.body.rfind("TSL_AT(", found);
    return mark == std::string::npos ? "" : text.body.substr(mark, text.body.find(')', mark) + 1 - mark);
  };
  const DeviceText& forward = text_of(program, "f", Direction::Forward);
  BOOST_TEST(forward.files == std::vector<std::string>{kPath}, boost::test_tools::per_element());
  BOOST_TEST(at(forward, "a_0 * 2.0f") == "TSL_AT(0, 3)");
  BOOST_TEST(at(forward, "(p_0).load") == "TSL_AT(0, 12)");
  BOOST_TEST(at(forward, "twice_0(b_") == "TSL_AT(0, 15)");
  const DeviceText& backward = text_of(program, "f", Direction::Backward);
  BOOST_TEST(backward.files == std::vector<std::string>{kPath}, boost::test_tools::per_element());
  BOOST_TEST(at(backward, "    TSL_AT(0, 14); s_bwdProp_DiffTensorView_loadUniform_0(&") != "");
  BOOST_TEST(at(backward, "s_bwdProp_DiffTensorView_loadFixed_0(&_") == "TSL_AT(0, 17)");
  BOOST_TEST(at(backward, "s_bwdProp_DiffTensorView_storeOnce_0(&_") == "TSL_AT(0, 16)");
  BOOST_TEST(at(backward, "s_bwdProp_twice_0(&_") == "TSL_AT(0, 15)");
}

BOOST_AUTO_TEST_CASE(lines_are_told_only_where_a_statement_may_stand) {
  std::vector<std::string> files;
  std::string text =
      "#line 3 \"core\"\n__device__ float g_0()\n{\n    return 1;\n}\n\n"
      "#line 7 \"/a/b.slang\"\nstruct Pair { float x; float y; };\n"
      "__device__ void none_0()\n{\n    g_0();\n}\n\n"
      "#line 9 \"/a/b.slang\"\n__device__ void f_0(int n)\n{\n"
      "    Pair p = { 1, 2 };\n    for(int i = 0; i < n; ++i)\n    {\n        g_0();\n    }\n"
      "    if(n > 0)\n    {\n        g_0();\n    }\n    else\n    {\n        g_0();\n    }\n"
      "    switch(n)\n    {\n    case 1:\n        {\n            g_0();\n            break;\n        }\n    }\n"
      "    do\n    {\n        g_0();\n    } while(n < 3);\n}\n";
  text = rewritten(add_statement_lines, text, files);
  BOOST_TEST(files == std::vector<std::string>{"/a/b.slang"}, boost::test_tools::per_element());
  std::string told;
  for (size_t i = text.find("TSL_AT"); i != std::string::npos; i = text.find("TSL_AT", i + 1)) {
    const size_t from = text.find("; ", i) + 2;
    told += text.substr(i + 7, text.find(')', i) - i - 7) + ": " +
            text.substr(from, text.find_first_of("\n({", from) - from) + "\n";
  }
  BOOST_TEST(told ==
             "0, 11: Pair p = \n0, 12: for\n0, 14: g_0\n0, 16: if\n0, 18: g_0\n0, 22: g_0\n0, 24: "
             "switch\n0, 28: g_0\n0, 29: break;\n0, 32: do\n0, 34: g_0\n");
}

BOOST_AUTO_TEST_CASE(module_variables_become_members_and_meetings_are_noticed) {
  const Program program = compile_texts(request_for(R"slang(
static const float kTable[4] = { 1, 2, 3, 4 };
groupshared float tile[64];
float device_word() { __target_switch { case cuda: __requirePrelude("__device__ float word() { return 1; }"); __intrinsic_asm "word()"; } }
[CudaKernel] void meet(TensorView<float> x)
{
    uint i = cudaThreadIdx().x;
    tile[i] = kTable[i % 4];
    GroupMemoryBarrierWithGroupSync();
    x[i] = tile[63 - i];
}
[CudaKernel] void wave(TensorView<float> x) { x[0] = WaveActiveSum(x[0]) + device_word(); })slang"));
  const DeviceText& meet = text_of(program, "meet", Direction::Forward);
  BOOST_TEST(meet.barriers);
  BOOST_TEST(!meet.waves);
  BOOST_TEST(contains(meet.body, "TSL_SHARED FixedArray<float, 64> value"));
  BOOST_TEST(contains(meet.body, "static const FixedArray<float, 4> value"));
  BOOST_TEST(!contains(meet.body, "__shared__"));
  const DeviceText& wave = text_of(program, "wave", Direction::Forward);
  BOOST_TEST(wave.waves);
  BOOST_TEST(!wave.barriers);
  BOOST_TEST(contains(wave.file_scope, "float word()"));
  BOOST_TEST(!contains(wave.body, "float word()"));
}

BOOST_AUTO_TEST_CASE(an_instantiation_that_fails_does_not_spoil_the_others) {
  const Program program = compile_texts(request_for(R"slang(
uniform float scale;
[CudaKernel] void bad(TensorView<float> x) { x[0] = scale; }
[CudaKernel] void good(TensorView<float> x) { x[0] = 1; })slang"));
  const std::string& error = text_of(program, "bad", Direction::Forward).error;
  BOOST_TEST(contains(error, "the forward of bad in " + kPath), error);
  BOOST_TEST(contains(error, "shader parameters scale"), error);
  BOOST_TEST(text_of(program, "good", Direction::Forward).error == "");
}

BOOST_AUTO_TEST_CASE(prototypes_and_strings_survive_as_they_should) {
  DeviceText text;
  EmittedText emitted(
      "#define N /* #line 3 */ 4\n\n#line 1 \"a.slang\"\n__device__ void f_0();\n"
      "__device__ void f_0() { say(\"; } t_0\"); t_0; }\n"
      "__device__ static const int t_0 = int(3);\nextern \"C\" __global__ void go() { f_0(); }\n",
      Texts::Kernel);
  apply_passes(emitted, text);
  BOOST_TEST(text.file_scope == "#define N /* #line 3 */ 4\n\n");
  BOOST_TEST(!contains(text.body, "f_0();\n__device__"));
  BOOST_TEST(contains(text.body, "say(\"; } t_0\");"));
  BOOST_TEST(contains(text.body, "; tsl_var_t_0();"));
  BOOST_TEST(
      contains(text.body, "__device__ const int& tsl_var_t_0() { static const int value = int(3); return value; }"));
  BOOST_TEST(!contains(text.body, "extern"));
}

BOOST_AUTO_TEST_CASE(identifiers_are_replaced_whole_and_only_in_code) {
  BOOST_TEST(replace_identifier("T a_T = T(1); // T\n\"T\" View<T>", "T", "float") ==
             "float a_T = float(1); // T\n\"T\" View<float>");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(files)

BOOST_AUTO_TEST_CASE(manifest_holds_what_was_read_and_where_nothing_was_found) {
  TemporaryFolder folder;
  BOOST_REQUIRE(make_folders(folder.file("late")));
  const std::string imported = "float twice(float x) { return 2 * x; }\nvoid look(DiffTensorView v) {}";
  BOOST_REQUIRE(publish_file(folder.file("late/helper.slang"), imported));
  BOOST_REQUIRE(publish_file(folder.file("late/text.slangh"), "static const float kOne = 1;"));
  BOOST_REQUIRE(publish_file(folder.file("main.slang"),
                             "import helper;\n#include \"text.slangh\"\n"
                             "[CudaKernel] void f(TensorView<float> x) { x[0] = twice(kOne) * SCALE; }"));
  CompileRequest request;
  request.path = folder.file("main.slang");
  request.include_dirs = {folder.file("late")};
  request.defines = {{"SCALE", "3"}};
  const Program program = compile_texts(request);
  BOOST_TEST(text_of(program, "f", Direction::Forward).error == "");
  const auto digest = [&](const std::string& name) {
    for (const SourceFile& file : program.files) {
      if (file.path == folder.file(name)) return file.digest.empty() ? "absent" : file.digest;
    }
    return std::string("not in the manifest");
  };
  BOOST_TEST(digest("main.slang") != "absent");
  BOOST_TEST(digest("late/helper.slang") == digest_of(imported));
  BOOST_TEST(digest("text.slangh") == "absent");     // it would go before late/text.slangh
  BOOST_TEST(digest("helper.slang") == "absent");
  BOOST_TEST(digest("late/text.slangh").size() > 8u);
}

BOOST_AUTO_TEST_CASE(headers_asked_for_by_requirePrelude_are_put_in_place) {
  TemporaryFolder folder;
  BOOST_REQUIRE(publish_file(folder.file("a.cuh"),
                             "#pragma once\n#include \"b.cuh\"\n#include <mma.h>\n__device__ float a();\n"));
  BOOST_REQUIRE(publish_file(folder.file("b.cuh"), "struct B {};\n"));
  CompileRequest request = request_for(R"slang(
float a() { __target_switch { case cuda: __requirePrelude("#include \"a.cuh\""); __intrinsic_asm "a()"; } }
[CudaKernel] void f(TensorView<float> x) { x[0] = a(); })slang");
  request.include_dirs = {folder.path()};
  const Program program = compile_texts(request);
  const std::string& text = text_of(program, "f", Direction::Forward).file_scope;
  BOOST_TEST(contains(text, "struct B {};"));
  BOOST_TEST(contains(text, "__device__ float a();"));
  BOOST_TEST(contains(text, "#include <mma.h>"));
  BOOST_TEST(contains(text, "#line 3 \"" + folder.file("a.cuh") + "\""));
  BOOST_TEST(!contains(text, "#pragma once"));
}

BOOST_AUTO_TEST_CASE(a_module_of_several_files_compiles) {
  TemporaryFolder folder;
  BOOST_REQUIRE(
      publish_file(folder.file("part.slang"), "// a part\nimplementing whole;\nfloat part(float x) { return x; }"));
  BOOST_REQUIRE(publish_file(folder.file("whole.slang"),
                             "module whole;\n__include part;\n"
                             "[CudaKernel] void f(DiffTensorView<float> x) { x[0] = part(x[1]); }"));
  CompileRequest request;
  request.path = folder.file("whole.slang");
  BOOST_TEST(text_of(compile_texts(request), "f", Direction::Forward).error == "");
}

BOOST_AUTO_TEST_CASE(a_file_may_have_the_librarys_name_and_a_byte_order_mark) {
  CompileRequest request =
      request_for("\xef\xbb\xbf[CudaKernel] void f(DiffTensorView<float> x)\r\n{\r\n  x[0] = 1;\r\n}");
  request.path = "/nowhere/torch_slang.slang";
  BOOST_TEST(text_of(compile_texts(request), "f", Direction::Forward).error == "");
}

BOOST_AUTO_TEST_CASE(macros_of_the_user_do_not_reach_the_library) {
  CompileRequest request = request_for("[CudaKernel] void f(DiffTensorView<float> x) { x[0] = N; }");
  request.defines = {{"N", "4"}, {"T", "float"}, {"diff", "other"}, {"x", "x"}};
  const Program program = compile_texts(request);
  BOOST_TEST(text_of(program, "f", Direction::Forward).error == "");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(diagnostics)

BOOST_AUTO_TEST_CASE(errors_show_the_users_file_line_and_caret) {
  const std::string error =
      compile_error_of([] { describe("[CudaKernel] void f(TensorView<float> x)\n{\n    x[0] = missing;\n}"); });
  BOOST_TEST(error.starts_with("torch_slang: " + kPath + " does not compile\n"), error);
  for (const std::string& part : {kPath + ":3:", std::string("x[0] = missing;"), std::string("^^^^^^^")}) {
    BOOST_TEST(contains(error, part), error);
  }
  BOOST_TEST(!contains(error, "import torch_slang"), error);
}

BOOST_AUTO_TEST_CASE(an_error_in_the_first_line_has_its_right_place) {
  const std::string error = compile_error_of([] { describe("void f(Missing x) {}"); });
  BOOST_TEST(contains(error, kPath + ":1:8"), error);
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_read_is_named) {
  CompileRequest request;
  request.path = "/nowhere/at_all.slang";
  BOOST_CHECK_EXCEPTION(compile_texts(request), c10::Error, [](const c10::Error& error) {
    return contains(message_of(error), "cannot read /nowhere/at_all.slang");
  });
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(client)

BOOST_AUTO_TEST_CASE(a_crash_names_the_kernel_that_was_being_compiled) {
  const FakeCompiler fake("echo '@at the backward of f for float64' >&2; kill -SEGV $$");
  const std::string error = compile_error_of([] { torch_slang::compile(request_for("")); });
  BOOST_TEST(contains(error, "signal 11"), error);
  BOOST_TEST(contains(error, "while compiling the backward of f for float64 in " + kPath), error);
}

BOOST_AUTO_TEST_CASE(a_compiler_that_hangs_is_ended_and_the_kernel_named) {
  const FakeCompiler fake("echo '@at the forward of g' >&2; sleep 60");
  ::setenv("TORCH_SLANG_COMPILE_TIMEOUT", "1", 1);
  const std::string error = compile_error_of([] { torch_slang::compile(request_for("")); });
  ::unsetenv("TORCH_SLANG_COMPILE_TIMEOUT");
  BOOST_TEST(contains(error, "did not finish in 1 s"), error);
  BOOST_TEST(contains(error, "the forward of g"), error);
}

BOOST_AUTO_TEST_CASE(an_ordinary_error_is_passed_on_whole) {
  const FakeCompiler fake(
      "echo '@at the declarations' >&2; echo 'one sentence' >&2; echo ' --> a.slang:3:4' >&2; exit 1");
  const std::string error = compile_error_of([] { torch_slang::compile(request_for("")); });
  BOOST_TEST(error == "one sentence\n --> a.slang:3:4\n");
}

BOOST_AUTO_TEST_CASE(a_crash_over_one_kernel_leaves_the_others) {
  Program described;
  for (const char* name : {"good", "bad"}) {
    Function function;
    function.name = name;
    described.functions.push_back(function);
  }
  Program answer;
  answer.texts.resize(1);
  answer.texts[0].function = "good";
  answer.texts[0].body = "text";
  for (const std::string at : {"the forward of bad", "the generated kernels"}) {
    const FakeCompiler fake(
        "input=$(cat)\n"
        "case \"$input\" in *'\"description_alone\":true'*) echo '" +
        to_json(described) +
        "'; exit 0;; esac\n"
        "case \"$input\" in *'\"function\":\"good\"'*) echo '" +
        to_json(answer) + "'; exit 0;; esac\necho '@at " + at + "' >&2; kill -SEGV $$");
    const Program program = torch_slang::compile(request_for(""));
    BOOST_TEST(program.texts.size() == 2u);
    BOOST_TEST(text_of(program, "good", Direction::Forward).body == "text");
    const std::string& error = text_of(program, "bad", Direction::Forward).error;
    BOOST_TEST(contains(error, "signal 11"), error);
    BOOST_TEST(contains(error, at), error);
  }
}

BOOST_AUTO_TEST_CASE(a_crash_over_one_of_many_kernels_costs_few_runs) {
  Program described, answer;
  for (int i = 0; i < 9; ++i) {
    Function function;
    function.name = i == 4 ? "bad" : "good" + std::to_string(i);
    described.functions.push_back(function);
    if (i == 4) continue;
    answer.texts.emplace_back();
    answer.texts.back().function = function.name;
  }
  TemporaryFolder folder;
  const FakeCompiler fake("input=$(cat); echo run >> " + folder.file("runs") +
                          "\ncase \"$input\" in *'\"description_alone\":true'*) echo '" + to_json(described) +
                          "'; exit 0;; esac\n"
                          "case \"$input\" in *'\"function\":\"good8\"'*) case \"$input\" in *bad*) ;; *) echo '" +
                          to_json(answer) + "'; exit 0;; esac;; esac\n" +
                          "echo '@at the forward of bad' >&2; kill -SEGV $$");
  const Program program = torch_slang::compile(request_for(""));
  BOOST_TEST(program.texts.size() == 9u);
  for (const DeviceText& text : program.texts) {
    BOOST_TEST(text.died == (text.function == "bad"));
    BOOST_TEST(contains(text.error, "signal 11") == text.died);
  }
  BOOST_TEST(*read_file(folder.file("runs")) == "run\nrun\nrun\nrun\n");  // all, descriptors, the others, bad alone
}

BOOST_AUTO_TEST_CASE(a_missing_compiler_is_named) {
  set_compiler_path("/nowhere/torch-slangc");
  BOOST_CHECK_EXCEPTION(torch_slang::compile(request_for("")), c10::Error, [](const c10::Error& error) {
    return contains(message_of(error), "/nowhere/torch-slangc") && contains(message_of(error), "TORCH_SLANG_COMPILER");
  });
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(json)

BOOST_AUTO_TEST_CASE(a_program_survives_as_text) {
  Program program;
  program.module_name = "m";
  Function function;
  function.name = "f";
  function.kernel().block_size = {1, 2, 3};
  function.kernel().tune = {{"BM", "1, 2"}};
  function.kernel().launch_total = "N";
  function.type_parameters = {{"T", {ElementType::BFloat16, ElementType::Float64}}};
  Leaf leaf;
  leaf.name = "x\"\n\t\\ \xc3\xa9";
  leaf.kind = ValueLeaf{.slot = 7, .gradient_slot = 8};
  leaf.default_float = 1e-300;
  leaf.default_int = int64_t{1} << 62;
  leaf.element.shape = {3, 2};
  function.leaves = {leaf};
  Parameter parameter;
  parameter.fields.resize(2);
  parameter.fields[1].leaf = 7;
  function.parameters = {parameter};
  Function plain;
  plain.kind.emplace<PlainFunction>().overloaded = "g";
  program.functions = {function, plain};
  DeviceText text;
  text.direction = Direction::Backward;
  text.types = {ElementType::Float16};
  text.waves = true;
  program.texts = {text};
  program.files = {{"/a", ""}, {"/b", "12"}};
  const Program again = program_from_json(to_json(program));
  BOOST_TEST(to_json(again) == to_json(program));
  BOOST_TEST(again.functions[0].is_kernel());
  BOOST_TEST(!again.functions[1].is_kernel());
  BOOST_TEST(again.functions[1].plain().overloaded == "g");
  BOOST_TEST(again.functions[0].leaves[0].name == leaf.name);
  BOOST_TEST(again.functions[0].leaves[0].value().slot == 7);
  BOOST_TEST(*again.functions[0].leaves[0].value().gradient_slot == 8);
  BOOST_TEST(*again.functions[0].leaves[0].default_int == *leaf.default_int);
  BOOST_TEST(*again.functions[0].leaves[0].default_float == 1e-300);
  BOOST_TEST(again.functions[0].parameters[0].fields[1].leaf == 7);
}

BOOST_AUTO_TEST_CASE(damaged_text_is_an_error_that_names_the_place) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"{", "damaged program text"},
      {"[]", "this is no Program: the field torch_slang_program is missing"},
      {R"slang({"torch_slang_program": 1})slang", "a Program of another version"},
      {R"slang({"torch_slang_program": 6, "functions": [{"line": "three"}]})slang",
       "program.functions[0].line should be a number"},
      {R"slang({"torch_slang_program": 6, "texts": [{"direction": "sideways"}]})slang",
       "program.texts[0].direction should be a name"},
      {R"slang({"torch_slang_program": 6, "functions": [{"plain": {}}, {"kernel": {}, "leaves": 3}]})slang",
       "program.functions[1].leaves should be a list"},
      {R"slang({"torch_slang_program": 6, "functions": [{"kernel": {}, "leaves": [{"sphere": {}}]}]})slang",
       "program.functions[0].leaves[0] should be of a kind"},
      {R"slang({"torch_slang_program": 6, "functions": [{"name": "f"}]})slang",
       "program.functions[0] should be of a kind"},
  };
  for (const auto& [text, part] : table) {
    BOOST_CHECK_EXCEPTION(program_from_json(text), c10::Error,
                          [&](const c10::Error& error) { return contains(message_of(error), part); });
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
