#include "compiler/ir/repairs.h"

#include <boost/test/unit_test.hpp>

#include <c10/util/Exception.h>

#include <algorithm>

#include "compiler/ir/chunks.h"
#include "compiler/ir/instruction_table.h"
#include "compiler/ir/module_edits.h"
#include "compiler/slang/library.h"
#include "compiler/source/session.h"

BOOST_AUTO_TEST_SUITE(promotions_test)

using namespace torch_slang;

namespace {

// A module (10) with two functions (11, 12); the first has two values (20, 21), of which the second uses the first.
std::vector<Instruction> two_functions() {
  return {{10, 2, 0, {-1}, ""},
          {11, 2, 100, {-1}, ""},
          {20, 0, 200, {1}, ""},
          {21, 0, 300, {1, 2, 2}, ""},
          {12, 0, 400, {-1, 1}, ""}};
}

std::vector<int64_t> children_of(const std::vector<Instruction>& module) {
  std::vector<int64_t> all;
  for (const Instruction& one : module) all.push_back(one.children);
  return all;
}

// The library in Slang's own form, which is as good as any module.
std::string serialized_module() {
  CompileRequest request;
  request.source = "";
  request.path = "empty.slang";
  Session session(request);
  return session.compiled_library().substr(library_digest(session.slang_version()).size());
}

}  // namespace

BOOST_AUTO_TEST_CASE(references_follow_instructions_that_move) {
  ModuleEdits edits(two_functions());
  edits.set_operand(3, 0, edits.insert(3, 30, 1, {2}));
  edits.replace(4, 31, -1, {3});
  const std::vector<Instruction> made = edits.applied();
  BOOST_REQUIRE(made.size() == 6);
  BOOST_TEST(made[3].opcode == 30);
  BOOST_TEST(made[3].location == 300u);
  BOOST_TEST(made[4].references == (std::vector<int64_t>{1, 3, 2}), boost::test_tools::per_element());
  BOOST_TEST(made[5].opcode == 31);
  BOOST_TEST(made[5].references == (std::vector<int64_t>{-1, 4}), boost::test_tools::per_element());
  BOOST_TEST(children_of(made) == (std::vector<int64_t>{2, 3, 0, 0, 0, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_erased_instruction_is_gone) {
  ModuleEdits edits(two_functions());
  edits.erase(3);
  const std::vector<Instruction> made = edits.applied();
  BOOST_TEST(children_of(made) == (std::vector<int64_t>{2, 1, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(made[3].opcode == 12);
}

BOOST_AUTO_TEST_CASE(children_are_those_of_the_level_below) {
  const ModuleEdits edits(two_functions());
  BOOST_TEST(edits.children(0) == (std::vector<int64_t>{1, 4}), boost::test_tools::per_element());
  BOOST_TEST(edits.children(1) == (std::vector<int64_t>{2, 3}), boost::test_tools::per_element());
  BOOST_TEST(edits.children(4).empty());
}

BOOST_AUTO_TEST_CASE(erasing_what_is_used_is_refused) {
  ModuleEdits edits(two_functions());
  edits.erase(2);
  BOOST_CHECK_THROW(edits.applied(), c10::Error);
}

BOOST_AUTO_TEST_CASE(a_module_is_written_as_it_was_read) {
  const std::string module = serialized_module();
  Chunk root = read_chunks(module);
  BOOST_TEST((write_chunks(root) == module));
  Chunk* code = find_data(root, "ir  ");
  BOOST_REQUIRE(code != nullptr);
  const std::vector<Instruction> before = read_instructions(code->data);
  write_instructions(before, code->data);
  const std::vector<Instruction> after = read_instructions(code->data);
  const auto same = [](const Instruction& a, const Instruction& b) {
    return a.opcode == b.opcode && a.children == b.children && a.references == b.references && a.text == b.text;
  };
  BOOST_TEST(std::equal(before.begin(), before.end(), after.begin(), after.end(), same));
}

BOOST_AUTO_TEST_CASE(other_bytes_are_refused) {
  std::string lost;
  const std::string module = serialized_module();
  for (const size_t size : {size_t{0}, size_t{3}, size_t{11}, size_t{400}, module.size() / 2}) {
    BOOST_CHECK_THROW(repaired_module(module.substr(0, size), &lost), c10::Error);
  }
  Chunk root = read_chunks(module);
  find_data(root, "ir  ")->data[12] = '9';  // another version of the format
  BOOST_CHECK_THROW(repaired_module(write_chunks(root), &lost), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
