#include "compiler/ir/loop_copies.h"

#include <boost/test/unit_test.hpp>

#include <slang.h>

#include <string>
#include <utility>
#include <vector>

#include "compile_source.h"
#include "compiler/ir/chunks.h"
#include "compiler/ir/instruction_facts.h"
#include "compiler/ir/instruction_table.h"
#include "compiler/ir/library_calls.h"
#include "compiler/ir/opcodes.h"
#include "compiler/slang/com.h"

BOOST_AUTO_TEST_SUITE(loop_copies_test)

using namespace torch_slang;

namespace {

using Stores = std::vector<std::string>;

std::vector<Instruction> instructions_of(const std::string& source) {
  Session session(request_for(source));
  std::string diagnostics;
  slang::IModule* module =
      session.load({"kernels", kPath, "import torch_slang;\n" + source + kLibraryCalls}, &diagnostics);
  BOOST_REQUIRE_MESSAGE(module != nullptr, diagnostics);
  Com<ISlangBlob> blob;
  check_slang(module->serialize(blob.out()), "IModule::serialize");
  Chunk root = read_chunks({static_cast<const char*>(blob->getBufferPointer()), blob->getBufferSize()});
  return read_instructions(find_data(root, "ir  ")->data);
}

std::string name_of(const ModuleEdits& module, int64_t at) {
  for (const int64_t one : module.children(at)) {
    if (module.opcode(one) == kNameHint) return module.text(module.operand(one, 0));
  }
  return "";
}

// A variable's name, with `[]` for each element and `.` for each field that the address goes through.
std::string place_of(const ModuleEdits& module, int64_t address) {
  std::string steps;
  for (; variable_of(module, address) != address; address = module.operand(address, 0))
    steps += module.opcode(address) == kElementAddress ? "[]" : ".";
  return name_of(module, address) + steps;
}

// Where the function `f` of the source stores copies, in order; and that the copies are of zeros, where they are.
Stores copies_in_f(const std::string& source) {
  ModuleEdits edits(instructions_of(source));
  const Annotations annotations(edits);
  LibraryCalls library(edits);
  renew_copies_in_loops(edits, annotations, library);
  const ModuleEdits module(edits.applied());
  Stores found;
  for (int64_t function = 0; function < module.size(); ++function) {
    if (module.opcode(function) != kFunction || name_of(module, function) != "f") continue;
    for (const int64_t at : body_of(module, function)) {
      if (!is_store(module, at)) continue;
      const int64_t value = module.operand(at, 1);
      if (module.opcode(value) != kCall) continue;
      if (name_of(module, function_of(module, module.operand(value, 0))) != "tsl_copy") continue;
      const bool are_zeros = module.opcode(module.operand(value, 1)) == kDefaultConstruct;
      found.push_back(place_of(module, module.operand(at, 0)) + (are_zeros ? " = zeros" : ""));
    }
  }
  return found;
}

void check(const std::string& source, const Stores& expected) {
  BOOST_TEST(copies_in_f(source) == expected, boost::test_tools::per_element());
}

// A function that changes parts of t and only reads u. `loop` is the head of the loop around that; without one it runs once.
std::string changes_a_copy(const std::string& attribute, const std::string& loop) {
  return attribute + " float f(float2 v, float x, int i)\n{\n    float s = x;\n    " + loop + R"(
    {
        float2 t = v, u = v;
        t[i] = s;
        s += t.x * t.y * u.x;
    }
    return s;
})";
}

const std::string kLoopHead = "[MaxIters(3)] for (int k = 0; k < 3; ++k)";

std::string in_a_loop(const std::string& statements) {
  return "[Differentiable] float f(float2 v, float2 w, float x, int i)\n{\n    float s = x;\n    " + kLoopHead +
         "\n    { " + statements + " }\n    return s;\n}\n";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_value_that_a_loop_changes_in_parts_is_copied_and_others_are_not) {
  check(changes_a_copy("[Differentiable]", kLoopHead), {"t"});
}

BOOST_AUTO_TEST_CASE(nothing_is_copied_outside_of_loops) { check(changes_a_copy("[Differentiable]", ""), {}); }

BOOST_AUTO_TEST_CASE(nothing_is_copied_in_loops_that_are_unrolled) {
  check(changes_a_copy("[Differentiable]", "[ForceUnroll] for (int k = 0; k < 3; ++k)"), {});
}

BOOST_AUTO_TEST_CASE(nothing_is_copied_in_functions_that_have_no_derivative) {
  check(changes_a_copy("", kLoopHead) + "[Differentiable] float2 g(float2 v) { return v * v; }", {});
}

BOOST_AUTO_TEST_CASE(all_of_an_inlined_function_counts_as_a_loop) {
  check(changes_a_copy("[ForceInline] [Differentiable]", ""), {"t"});
}

BOOST_AUTO_TEST_CASE(what_an_inlined_function_gives_is_copied) {
  const std::string body = " [Differentiable] void f(out float2 r, float2 v) { float2 u = v; r = u; }";
  check("[ForceInline]" + body, {"r"});
  check(body, {});
}

BOOST_AUTO_TEST_CASE(a_field_that_changes_in_parts_is_copied_and_numbers_are_not) {
  check("struct Pair : IDifferentiable { float2 a; float b; };\n" +
            in_a_loop("Pair p; p = { w, x }; p.a = v; p.b = s; p.a[i] = x; s += p.a.x * p.a.y * p.b;"),
        {"p", "p."});
}

BOOST_AUTO_TEST_CASE(a_variable_that_begins_by_parts_in_a_loop_begins_with_a_copy_of_zeros) {
  check(in_a_loop("float2 t; t.x = v.x; t.y = x; t[i] = s; s += t.x * t.y;"), {"t = zeros"});
}

BOOST_AUTO_TEST_CASE(elements_with_known_indices_are_copied_and_others_are_not) {
  const std::string end = " s += t[i].x * t[0].y;";
  check(in_a_loop("float2 t[2]; t[0] = v; t[1] = w;" + end), {"t = zeros", "t[]", "t[]"});
  check(in_a_loop("float2 t[2]; t[i] = v;" + end), {"t = zeros"});
  check(in_a_loop("float2 t[2]; [ForceUnroll] for (int j = 0; j < 2; ++j) t[j] = v;" + end), {"t = zeros", "t[]"});
}

BOOST_AUTO_TEST_CASE(what_a_callee_may_change_is_copied) {
  check("[Differentiable] void g(inout float2 t, float x) { t.x = x; }\n" +
            in_a_loop("float2 t = v; g(t, s); float2 u = w; s += t.x * u.x;"),
        {"t"});
}

BOOST_AUTO_TEST_SUITE_END()
