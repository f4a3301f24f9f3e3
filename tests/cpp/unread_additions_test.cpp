// Which atomic additions nobody reads, in text of the shape that Slang emits.
#include "compiler/emit/unread_additions.h"

#include <boost/test/unit_test.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(unread_additions_test)

using namespace torch_slang;

namespace {

std::string marked(const std::string& body) {
  const std::string before = "__device__ void f_0(TensorView v_0, int i_0, float x_0) { ";
  EmittedCode code(before + body + " }");
  write_unread_additions(code);
  const std::string text = code.edited();
  return text.substr(before.size(), text.size() - before.size() - 2);
}

void stays(const std::string& body) { BOOST_TEST(marked(body) == body); }

std::string addition(const std::string& to) {
  return "*((&" + to + ")) = atomicAdd((v_0).data_ptr_at<float>((i_0)), (x_0));";
}
const std::string kMarked = "tsl_add_only((v_0).data_ptr_at<float>((i_0)), (x_0));";

}  // namespace

BOOST_AUTO_TEST_CASE(results_that_nothing_names_again_are_not_read) {
  BOOST_TEST(marked("float a_0; " + addition("a_0") + " return;") == "float a_0; " + kMarked + " return;");
  BOOST_TEST(marked("float a_0 = 1.0f; if(x_0 > 0) { " + addition("a_0") + " } " + addition("a_0")) ==
             "float a_0 = 1.0f; if(x_0 > 0) { " + kMarked + " } " + kMarked);
}

BOOST_AUTO_TEST_CASE(what_is_named_again_may_be_read) {
  stays("float a_0; " + addition("a_0") + " x_0 = a_0;");
  stays("float a_0; for(;;) { g_0(&a_0); " + addition("a_0") + " }");
  stays("float a_0; " + addition("a_0") + " return a_0;");
}

BOOST_AUTO_TEST_CASE(results_that_outlive_the_function_may_be_read) {
  stays(addition("a_0"));  // a parameter, or memory that the block shares
  stays("float a_0; *((&a_0)) = atomicAdd((v_0).data_ptr_at<float>((i_0)), (x_0)) + 1.0f;");
}

BOOST_AUTO_TEST_CASE(integers_are_left_as_they_are) {
  stays("int a_0; *((&a_0)) = atomicAdd((v_0).data_ptr_at<int>((i_0)), (int(1)));");
}

BOOST_AUTO_TEST_CASE(each_result_counts_for_itself) {
  BOOST_TEST(marked("float a_0; float b_0; " + addition("a_0") + " " + addition("b_0") + " x_0 = b_0;") ==
             "float a_0; float b_0; " + kMarked + " " + addition("b_0") + " x_0 = b_0;");
}

BOOST_AUTO_TEST_SUITE_END()
