// Source assembly and NVRTC: all that works without a GPU. Without libnvrtc the compiles are skipped with a
// message, unless TORCH_SLANG_REQUIRE_CUDA=1.
#include <boost/test/unit_test.hpp>

#include <cstdlib>

#include "cache/cache.h"
#include "common/environment.h"
#include "common/files.h"
#include "common/temporary_folder.h"
#include "compiler/compile.h"
#include "compiler/source/session.h"
#include "device_compilers/nvrtc/cubin.h"
#include "device_compilers/nvrtc/nvrtc_compiler.h"
#include "foreign/nvrtc_library.h"
#include "prelude/abi.h"
#include "program/enumerations.h"
#include "source/source_text.h"
#include "square_source.h"
#include "torch_slang/error.h"

BOOST_AUTO_TEST_SUITE(cuda_compile_test)

using namespace torch_slang;

namespace {

constexpr const char* kArchitecture = "sm_90";

bool has_nvrtc() {
  try {
    find_nvrtc();
    return true;
  } catch (const c10::Error& error) {
    BOOST_REQUIRE(!environment_flag("TORCH_SLANG_REQUIRE_CUDA", false));
    BOOST_TEST_MESSAGE("skipped: " << error.what_without_backtrace());
    return false;
  }
}

boost::test_tools::assertion_result nvrtc_is_there(boost::unit_test::test_unit_id) { return has_nvrtc(); }

CudaCompilation compile(const KernelSource& source) {
  return compile_cuda(source.op, cuda_source_text(source), kArchitecture, cuda_options(source));
}

using Marks = std::set<std::string>;

// What the operator layer makes of a text, where all views have gradients and nothing is known of their sizes.
KernelSource source_of(const Function& function, const DeviceText& text, ElementType scalar) {
  KernelSource source;
  source.op = "slang::" + function.name;
  source.text = text;
  source.view_count = function.view_count;
  source.slot_count = function.slot_count;
  const std::string tag = "tsl::Scalar(" + std::to_string(static_cast<int>(scalar)) + ")";
  source.make_view = "switch (k) {\n";
  for (const Leaf& leaf : function.leaves) {
    if (!leaf.diff_view()) continue;
    const std::string view = std::to_string(*leaf.diff_view());
    source.make_view += "case " + view + ": return tsl::gradient(tsl::of_scalars(tsl::present_view(args, " + view +
                        "), " + tag + "), " + std::to_string(*leaf.view().gradient_slots) + ");\n";
  }
  source.make_view += "default: return tsl::aligned(tsl::present_view(args, k));\n}";
  return source;
}

// One kernel for each kind of element and way to gather, named after both.
Program gathering_kernels() {
  std::string text = "struct Pair : IDifferentiable { float a; float3 b; }\n#define COMMA ,\n";
  const std::pair<const char*, const char*> ways[] = {
      {"aa", "DiffTensorViewAA<"}, {"r", "DiffTensorViewR<"}, {"asr", "DiffTensorViewASR<"}};
  for (const std::string element : {"float", "double", "half", "BFloat16", "float3", "Pair"}) {
    for (const auto& [way, view] : ways) {
      const std::string type = view + element + (std::string(way) == "aa" ? ">" : ", 4>");
      text += "[CudaKernel] [Differentiable] void " + element + "_" + way + "(" + type + " x, " + type + " y)\n" +
              "{\n    uint i = cudaGlobalIdx().x;\n    if (i >= x.size(0)) return;\n" +
              "    y[i] = x[i / 2];\n    y.storeFixed(1, x.loadFixed(1));\n" +
              "    y.storeUniform(i, 0, x.loadUniform(i, 0));\n    y.storeOnce(i, 1, x.loadUniformOnce(i, 1));\n}\n";
    }
  }
  CompileRequest request;
  request.path = "/nowhere/gathering.slang";
  request.source = text;
  const Program described = [&] {
    Session session(request);
    return compile_request(session, request, Extent::DescribeOnly, [](const std::string&, const std::string&) {});
  }();
  for (const Function& function : described.functions) {
    if (!function.is_kernel()) continue;
    for (const Direction direction : {Direction::Backward, Direction::Jvp})
      request.instantiations.push_back({function.name, direction, {}, {}});
  }
  Session session(request);
  return compile_request(session, request, Extent::Texts, [](const std::string&, const std::string&) {});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(source_text)

BOOST_AUTO_TEST_CASE(prelude_files_appear_once_and_need_no_include_path) {
  const std::string text = assemble_source(square_source(), "");
  BOOST_TEST(text.find("#include \"") == std::string::npos);
  BOOST_TEST(text.find("#pragma once") == std::string::npos);
  const std::string once = "struct KernelBase : ThreadBase {";
  BOOST_TEST(text.find(once) != std::string::npos);
  BOOST_TEST(text.find(once) == text.rfind(once));
}

BOOST_AUTO_TEST_CASE(argument_block_has_at_least_one_of_each) {
  KernelSource source;
  BOOST_TEST(argument_block_size(source) == sizeof(TslHeader) + 72 + 8 + 8);
  source.view_count = 3;
  source.slot_count = 2;
  source.dim_count = 5;
  BOOST_TEST(argument_block_size(source) == sizeof(TslHeader) + 3 * 72 + 2 * 8 + 24);
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(nvrtc, *boost::unit_test::precondition(nvrtc_is_there))

BOOST_AUTO_TEST_CASE(small_source_becomes_a_cubin_for_an_architecture_without_a_gpu) {
  const std::string cubin = compile_for_architecture(square_source(), kArchitecture).image;
  BOOST_TEST(cubin.substr(0, 4) ==
             "\x7f"
             "ELF");
  const CudaCompilation compilation = compile(square_source());
  BOOST_TEST(compilation.registers > 0);
  BOOST_TEST(compilation.ptx.find(".entry tsl_entry") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(registers_are_read_from_the_cubin_and_garbage_has_none) {
  const std::string cubin = compile_for_architecture(square_source(), kArchitecture).image;
  const int registers = registers_of_cubin(cubin);
  BOOST_TEST((registers >= 6 && registers <= 64));
  for (size_t size = 0; size < cubin.size(); size += 37) {
    const int found = registers_of_cubin(std::string_view(cubin).substr(0, size));
    BOOST_TEST((found == 0 || found == registers));
  }
}

BOOST_AUTO_TEST_CASE(argument_block_has_the_size_that_the_kernel_expects) {
  for (const auto& [views, slots, dims] : {std::tuple{2, 0, 0}, {2, 3, 1}, {5, 1, 4}}) {
    KernelSource source = square_source();
    source.view_count = views;
    source.slot_count = slots;
    source.dim_count = dims;
    source.text.file_scope = "static_assert(sizeof(TslArgs) == " + std::to_string(argument_block_size(source)) + ");";
    BOOST_CHECK_NO_THROW(compile(source));
  }
}

BOOST_AUTO_TEST_CASE(fixed_block_becomes_launch_bounds) {
  KernelSource source = square_source();
  BOOST_TEST(compile(source).ptx.find(".maxntid") == std::string::npos);
  source.block[0] = 32;
  source.block[1] = 4;
  source.block[2] = 1;
  BOOST_TEST(compile(source).ptx.find(".maxntid 128") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(every_way_to_gather_compiles_for_every_kind_of_element) {
  const Program program = gathering_kernels();
  BOOST_TEST(program.texts.size() == 36u);
  const bool all = environment_flag("TORCH_SLANG_LONG_TESTS", false);
  // Texts with checks and without take turns: of each kernel, one direction has them. PTX is enough: what ptxas makes of
  // it is tested on one kernel above.
  const auto is_checked = [&](const DeviceText& text) {
    const size_t number = static_cast<size_t>(&text - program.texts.data());
    return (number / 2 + number) % 2 == 0;
  };
  for (const DeviceText& text : program.texts) {
    BOOST_TEST_CONTEXT(text.entry) {
      BOOST_TEST(text.error == "");
      const auto function = std::find_if(program.functions.begin(), program.functions.end(),
                                         [&](const Function& one) { return one.name == text.function; });
      KernelSource source = source_of(*function, text, function->leaves[0].element.type);
      for (const Checks checks : {Checks::None, Checks::All}) {
        if (!all && (checks == Checks::All) != is_checked(text)) continue;
        source.checks = checks;
        BOOST_CHECK_NO_THROW(compile_cuda(source.op, cuda_source_text(source), "compute_90", cuda_options(source)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(rejected_source_is_told_with_op_target_and_the_users_line) {
  BOOST_CHECK_EXCEPTION(compile(square_source("no_such_name")), CompileError, [](const CompileError& error) {
    const std::string text = error.what_without_backtrace();
    BOOST_TEST_INFO(text);
    BOOST_CHECK(text.find("slang::sqr: NVRTC 1") == 0);
    BOOST_CHECK(text.find("for sm_90") < text.find('\n'));
    BOOST_CHECK(text.find("/home/user/sqr.slang(14): error: identifier \"no_such_name\" is undefined") !=
                std::string::npos);
    return true;
  });
}

BOOST_AUTO_TEST_CASE(second_derivatives_call_a_function_of_one_number_once) {
  const auto calls = [](Direction direction, bool fast_math) {
    KernelSource source = square_source(
        "F32_sin(v) * F32_cos(v) + F32_tanh(v) * (F32_sin(v) - F32_tanh(v)) + F32_pow(v, v) * F32_pow(v, v)");
    source.text.direction = direction;
    source.fast_math = fast_math;
    const std::string ptx = compile(source).ptx;
    int count = 0;
    for (size_t at = ptx.find("call.uni"); at != std::string::npos; at = ptx.find("call.uni", at + 1)) ++count;
    return count;
  };
  BOOST_TEST(calls(Direction::TangentsBackward, false) == 3);  // sincos, tanh, pow
  BOOST_TEST(calls(Direction::TangentsBackward, true) == 0);
  BOOST_TEST(calls(Direction::Forward, false) == 0);
}

BOOST_AUTO_TEST_CASE(unknown_architecture_is_a_compile_error) {
  const KernelSource source = square_source();
  BOOST_CHECK_THROW(compile_cuda(source.op, cuda_source_text(source), "sm_12345", {}), CompileError);
}

BOOST_AUTO_TEST_CASE(architecture_follows_the_capability) {
  BOOST_TEST(architecture_for({9, 0, "H100"}, false) == "sm_90");
  BOOST_TEST(architecture_for({9, 0, "H100"}, true) == "sm_90a");
  BOOST_TEST(architecture_for({99, 0, "a GPU of the future"}, false).find("compute_") == 0u);
  BOOST_CHECK_EXCEPTION(architecture_for({1, 3, "a GPU of the past"}, false), c10::Error, [](const c10::Error& error) {
    return std::string(error.what_without_backtrace()).find("a GPU of the past (compute capability 1.3)") !=
           std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(virtual_architecture_gives_ptx) {
  const KernelSource source = square_source();
  const CudaCompilation compilation =
      compile_cuda(source.op, cuda_source_text(source), "compute_90", cuda_options(source));
  BOOST_TEST(compilation.image.find(".entry tsl_entry") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(second_load_comes_from_the_cache_with_its_marks) {
  TemporaryFolder folder;
  ::setenv("TORCH_SLANG_CACHE_DIR", folder.file("cache").c_str(), 1);
  KernelSource source = square_source("v * v", "tsl::readonly(tsl::present_view(args, 1))");
  const CudaTarget target{9, 0, "H100"};
  const auto runs = [] { return cache::stats().nvrtc_runs; };
  const int64_t before = runs();
  const CudaBinary first = load_or_compile(source, target);
  BOOST_TEST(runs() == before + 1);
  const CudaBinary second = load_or_compile(source, target);
  BOOST_TEST(runs() == before + 1);
  BOOST_TEST((first.image == second.image));
  BOOST_TEST(second.marks == Marks{"writes 1"}, boost::test_tools::per_element());

  source.fast_math = true;
  load_or_compile(source, target);
  load_or_compile(source, {10, 0, "B200"});
  BOOST_TEST(runs() == before + 3);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
