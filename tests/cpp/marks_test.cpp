// Marks, as text and as both targets' compilers leave them.
#include <boost/test/unit_test.hpp>

#include "common/environment.h"
#include "common/files.h"
#include "common/process.h"
#include "common/temporary_folder.h"
#include "device_compilers/nvrtc/nvrtc_compiler.h"
#include "foreign/nvrtc_library.h"
#include "source/marks.h"
#include "source/source_text.h"
#include "square_source.h"

BOOST_AUTO_TEST_SUITE(marks_test)

using namespace torch_slang;

namespace {

using Marks = std::set<std::string>;

Marks cuda_marks(const KernelSource& source) {
  return find_marks(compile_cuda(source.op, cuda_source_text(source), "sm_90", cuda_options(source)).ptx,
                    source.view_count);
}

Marks host_marks(const KernelSource& source) {
  const std::string launcher =
      R"(extern "C" TSL_ROOT void entry(const TslArgs& args, uint3 thread, uint3 block, uint3 block_size, uint3 grid) {
  tsl::mark_control();
  Kernel kernel{{thread, block, block_size, grid, args}};
  kernel.)" +
      source.text.entry + "();\n}\n";
  const TemporaryFolder folder;
  ProcessRequest request;
  request.argv = {
      "c++", "-std=c++17", "-O2", "-w", "-shared", "-fPIC", "-x", "c++", "-", "-o", folder.file("kernel.so")};
  request.input = assemble_source(source, launcher);
  const ProcessResult result = run_process(request);
  BOOST_REQUIRE_MESSAGE(result.succeeded(), result.error);
  return find_marks(read_file_or_throw(folder.file("kernel.so")), source.view_count);
}

bool has_nvrtc() {
  try {
    find_nvrtc();
    return true;
  } catch (const c10::Error& error) {
    BOOST_REQUIRE(!environment_flag("TORCH_SLANG_REQUIRE_CUDA", false));
    BOOST_TEST_MESSAGE("CUDA is skipped: " << error.what_without_backtrace());
    return false;
  }
}

// What the run-time must not overlook: all but uses, and that elements are shared, which every access to a gradient shows
// that goes past registers (tests/gradients/test_own_elements.py).
Marks faults(const Marks& marks) {
  Marks rest;
  for (const std::string& mark : marks) {
    if (mark.rfind("uses", 0) != 0 && mark.rfind("shares", 0) != 0) rest.insert(mark);
  }
  return rest;
}

// The kernel also stores what it read of y to a third view.
KernelSource keeping_old(KernelSource source) {
  const std::string store = "y.store";
  source.text.body.replace(source.text.body.find(store), store.size(), "tsl_view(2).store<float>(i, old); y.store");
  source.view_count = 3;
  return source;
}

}  // namespace

BOOST_AUTO_TEST_CASE(well_formed_marks_are_found_wherever_they_stand) {
  const std::string binary("\0\x7f junk tsl-mark:control;\0tsl-mark:reads 3;tsl-mark:writes 12;tsl-mark:sums 0;", 79);
  BOOST_TEST(find_marks(binary, 4) == (Marks{"reads 3", "writes 12"}), boost::test_tools::per_element());
}

// Note [matrix kernels] in prelude/mma.h: one that find_marks did not know would never be looked at.
BOOST_AUTO_TEST_CASE(marks_of_matrix_kernels_are_found) {
  const Marks all{"block 288", "cluster 2", "kind 3686404", "map 0 1 128 2", "shared 230400", "tile 1282562"};
  std::string text = "tsl-mark:control;";
  for (const std::string& mark : all) text += " tsl-mark:" + mark + ";";
  BOOST_TEST(find_marks(text, 1) == all, boost::test_tools::per_element());
  BOOST_TEST(numbers_of(all, "shared") == std::vector<int>{230400}, boost::test_tools::per_element());
  BOOST_TEST(numbers_of(all, "share").empty());
}

BOOST_AUTO_TEST_CASE(numbers_are_read_as_assemblers_write_them_and_registers_are_all_views) {
  const std::string text =
      "tsl-mark:control; tsl-mark:reads $3; tsl-mark:writes #1; tsl-mark:adds %eax; tsl-mark:takes w0;";
  const Marks expected{"reads 3", "writes 1", "adds 0", "adds 1", "takes 0", "takes 1"};
  BOOST_TEST(find_marks(text, 2) == expected, boost::test_tools::per_element());
}

// Which views those may be the text says: Note [written views].
BOOST_AUTO_TEST_CASE(loads_and_stores_of_registers_have_one_mark) {
  const std::string text = "tsl-mark:control; tsl-mark:reads %eax; tsl-mark:writes w3; tsl-mark:writes %ebx;";
  const Marks expected{std::string(kReadsSome), std::string(kWritesSome)};
  BOOST_TEST(find_marks(text, 4) == expected, boost::test_tools::per_element());
}

// Each register's numbers, by way of moves; of a register with another value, all views.
BOOST_AUTO_TEST_CASE(registers_of_ptx_hold_the_numbers_that_are_moved_there) {
  const std::string text =
      ".version 8.7\n.entry one()\n{\n\t.reg .b32 %r<9>;\n\t// tsl-mark:control;\n\tmov.u32 %r1, 2;\n\t@%p1 mov.b32 "
      "%r2, %r1;\n"
      "\tmov.u32 %r2, 0;\n\t// tsl-mark:adds %r2;\n\t// tsl-mark:shares %r1 at 0:17;\n\tmov.u32 %r3, 1;\n"
      "\tld.global.v2.u32 {%r3, %r4}, [%rd1];\n\t// tsl-mark:takes %r3;\n\t// tsl-mark:reads %r5;\n}\n"
      ".func two()\n{\n\tmov.u32 %r1, 1;\n\tadd.s32 %r2, %r1, %r1;\n\t// tsl-mark:writes %r1;\n}\n";
  const Marks expected{"adds 0",  "adds 2",  "shares 2 at 0:17",      "takes 0",
                       "takes 1", "takes 2", std::string(kReadsSome), "writes 1"};
  BOOST_TEST(find_marks(text, 3) == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(templates_of_marks_are_not_marks) {
  const std::string text =
      "tsl-mark:control; tsl-mark:reads %2; tsl-mark:\" mark \"; tsl-mark:reads ; tsl-mark:uses %0; tsl-mark:reads 1";
  BOOST_TEST(find_marks(text, 4).empty());
}

BOOST_AUTO_TEST_CASE(without_the_control_every_mark_counts_as_present) {
  const Marks marks = find_marks("tsl-mark:reads 1;", 2);
  for (const char* mark : {"reads some", "writes some", "takes 1", "adds 0"}) BOOST_TEST(marks.count(mark) == 1u, mark);
  BOOST_TEST(marks.count("adds 2") == 0u);
}

BOOST_AUTO_TEST_CASE(marks_survive_their_text_form) {
  for (const Marks& marks : {Marks{}, Marks{"reads 3"}, Marks{"reads 3", "writes 0"}}) {
    BOOST_TEST(marks_from_text(marks_to_text(marks)) == marks, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(marks_are_present_exactly_where_their_code_is) {
  const std::string absent = "tsl::absent(tsl::present_view(args, 1))";
  const std::string readonly = "tsl::readonly(tsl::present_view(args, 1))";
  const struct {
    const char* claim;
    KernelSource source;
    Marks expected;
  } cases[] = {
      {"present views have none", square_source("v * old"), {}},
      {"a read of an absent view whose value reaches nothing", square_source("v * old", absent), {}},
      {"a read of an absent view whose value is stored", keeping_old(square_source("v", absent)), {"reads 1"}},
      {"a store to an absent view", square_source("v", absent), {}},
      {"a store to a view that is only read", square_source("v", readonly), {"writes 1"}},
  };
  const bool cuda = has_nvrtc();
  for (const auto& [claim, source, expected] : cases) {
    BOOST_TEST_CONTEXT(claim) {
      BOOST_TEST(faults(host_marks(source)) == expected, boost::test_tools::per_element());
      if (cuda) BOOST_TEST(faults(cuda_marks(source)) == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_done_with_gradients_leaves_its_mark) {
  const auto doing = [](const std::string& statement) {
    KernelSource source = square_source("v); TensorView g = tsl_view(2); " + statement + "; (void)(old");
    source.make_view =
        "const tsl::View view = tsl::present_view(args, k);\n"
        "return k == 2 ? tsl::gradient(tsl::of_scalars(view, tsl::kFloat32), 0) : view;";
    source.view_count = 3;
    source.slot_count = 4;
    return source;
  };
  const struct {
    const char* statement;
    Marks expected;
  } cases[] = {
      {"tsl_accumulate<float>(g, i, v, TSL_MODE(0))", {"adds 2"}},
      {"tsl_accumulate<float>(g, i, v, TSL_MODE(-1))", {"adds 2"}},
      {"tsl_accumulate<float>(g, i, v, TSL_MODE(2))", {"adds 2"}},  // once its record is full
      {"tsl_accumulate_fixed<float>(g, 0u, v, TSL_MODE(0))", {"adds 2"}},
      {"tsl_add<float>(g, i, v, TSL_MODE(0))", {}},
      {"tsl_set<float>(g, i, v, TSL_MODE(-1))", {}},
      {"x.store<float>(i, tsl_take<float>(g, i, TSL_MODE(0)))", {"takes 2"}},
      {"x.store<float>(i, tsl_take_uniform<float>(g, i, TSL_MODE(0)))", {"takes 2"}},
      {"x.store<float>(i, tsl_take_once<float>(g, i, TSL_MODE(0)))", {}},
      {"x.store<float>(i, tsl_take_once<float>(g, i, TSL_MODE(3)))", {"takes 2"}},
      {"tsl_gradient<float>(3, 0, v)", {}},
      {"g.store<double>(i, 1.0)", {"retypes 2", "takes 2"}},
      {"atomicAdd(g.data_ptr_at<__half>(i), __half(1.0f))", {"adds 2", "retypes 2", "takes 2"}},
      {"g.store<float2>(i, float2())", {"retypes 2", "takes 2"}},
      {"x.store<float>(i, g.load<float2>(i).x)", {"retypes 2", "takes 2"}},
      {"x.store<float>(i, g.load<float>(i))", {"takes 2"}},
      {"g.store<int>(i, 1)", {"takes 2"}},
      {"if (i == 3 && x.id == 1) tsl_accumulate<float>(g, i, v, TSL_MODE(0))", {}},
  };
  const bool cuda = has_nvrtc();
  for (const auto& [statement, expected] : cases) {
    BOOST_TEST_CONTEXT(statement) {
      KernelSource source = doing(statement);
      if (std::string_view(statement).starts_with("tsl_gradient")) source.text.uses = {"tsl_gradient"};
      BOOST_TEST(faults(host_marks(source)) == expected, boost::test_tools::per_element());
      if (cuda) BOOST_TEST(faults(cuda_marks(source)) == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(store_that_is_never_reached_leaves_no_mark) {
  KernelSource source = square_source("v); if (i == 3 && x.id == 1) tsl_view(0).store<float>(i, v");
  source.make_view = "return k == 0 ? tsl::readonly(tsl::present_view(args, k)) : tsl::present_view(args, k);";
  BOOST_TEST(faults(host_marks(source)).empty());
  if (has_nvrtc()) BOOST_TEST(faults(cuda_marks(source)).empty());
}

BOOST_AUTO_TEST_SUITE_END()
