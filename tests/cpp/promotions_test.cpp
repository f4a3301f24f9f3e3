#include "compiler/ir/promotions.h"

#include <boost/test/unit_test.hpp>

#include <c10/util/Exception.h>

#include "compiler/ir/chunks.h"
#include "compiler/ir/instruction_edits.h"
#include "compiler/slang/library.h"
#include "compiler/source/session.h"

BOOST_AUTO_TEST_SUITE(promotions_test)

using namespace torch_slang;

namespace {

// A module (10) with two functions (11, 12); the first has two values (20, 21), of which the second uses the first.
InstructionTable two_functions() {
  return {.instructions = {{10, 0}, {11, 0}, {20, 0}, {21, 2}, {12, 1}},
          .children = {2, 2, 0, 0, 0},
          .locations = {0, 100, 200, 300, 400},
          .references = {-1, -1, 1, 1, 2, 2, -1, 1}};
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
  InstructionEdits edits(two_functions());
  const int64_t added = edits.insert(3, 30, 1, {2});
  edits.set_operand(3, 0, added);
  const InstructionTable made = edits.applied();
  BOOST_REQUIRE(made.instructions.size() == 6);
  BOOST_TEST(made.instructions[3].opcode == 30);
  BOOST_TEST(made.instructions[3].operands == 1u);
  BOOST_TEST(made.children == (std::vector<int64_t>{2, 3, 0, 0, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(made.locations == (std::vector<uint32_t>{0, 100, 200, 300, 300, 400}), boost::test_tools::per_element());
  BOOST_TEST(made.references == (std::vector<int64_t>{-1, -1, 1, 1, 2, 1, 3, 2, -1, 1}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_erased_instruction_is_gone) {
  InstructionEdits edits(two_functions());
  edits.erase(3);
  const InstructionTable made = edits.applied();
  BOOST_TEST(made.children == (std::vector<int64_t>{2, 1, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(made.references == (std::vector<int64_t>{-1, -1, 1, -1, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(erasing_what_is_used_is_refused) {
  InstructionEdits edits(two_functions());
  edits.erase(2);
  BOOST_CHECK_THROW(edits.applied(), c10::Error);
}

BOOST_AUTO_TEST_CASE(a_module_is_written_as_it_was_read) {
  const std::string module = serialized_module();
  Chunk root = read_chunks(module);
  BOOST_TEST((write_chunks(root) == module));
  Chunk* code = find_data(root, "ir  ");
  BOOST_REQUIRE(code != nullptr);
  const InstructionTable table = read_instructions(code->data);
  write_instructions(table, code->data);
  const InstructionTable again = read_instructions(code->data);
  BOOST_TEST((again.children == table.children));
  BOOST_TEST((again.references == table.references));
  BOOST_TEST((again.locations.size() == table.locations.size()));
}

BOOST_AUTO_TEST_CASE(other_bytes_are_refused) {
  const std::string module = serialized_module();
  for (const size_t size : {size_t{0}, size_t{3}, size_t{11}, size_t{400}, module.size() / 2}) {
    BOOST_CHECK_THROW(with_explicit_promotions(module.substr(0, size)), c10::Error);
  }
  Chunk root = read_chunks(module);
  find_data(root, "ir  ")->data[12] = '9';  // another version of the format
  BOOST_CHECK_THROW(with_explicit_promotions(write_chunks(root)), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
