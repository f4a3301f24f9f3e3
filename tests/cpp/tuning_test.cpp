#include <boost/test/unit_test.hpp>

#include <cstdlib>

#include "common/files.h"
#include "common/hash.h"
#include "common/identifiers.h"
#include "common/temporary_folder.h"
#include "compile_source.h"
#include "compiler/source/tuned_variables.h"
#include "program/tuned.h"
#include "tuned/tuned_module.h"
#include "tuned/tuning.h"
#include "tuning/choices.h"

BOOST_AUTO_TEST_SUITE(tuning_test)

// Tuned variables as text, their combinations, which one is chosen, and the store of choices.

using namespace torch_slang;
using Pairs = std::vector<std::pair<std::string, std::string>>;
using Texts = std::vector<std::string>;

BOOST_AUTO_TEST_CASE(values_are_split_outside_brackets) {
  BOOST_TEST((split_values("32, 64,128") == Texts{"32", "64", "128"}));
  BOOST_TEST(
      (split_values(" max(8, 4) , vector<float, 3> ,{1, 2}") == Texts{"max(8, 4)", "vector<float, 3>", "{1, 2}"}));
  BOOST_TEST(split_values("").empty());
  BOOST_TEST(split_values(" , ").empty());
}

BOOST_AUTO_TEST_CASE(tune_attributes_are_found_in_text) {
  const auto found = tuned_variables(R"slang(
// [Tune("COMMENT", "1")]
static const int x = Tune("CALL", "1");
[CudaKernel] [ Tune ( "BM" , "32, 64" ) ]
[BlockSize(1, 1, 1), Tune("BN", "8")] /* [Tune("BLOCK", "1")] */ void f() {}
[Tune("BM", "1")] [Tune("no name", "1")] [Tune("EMPTY", "")] [Tune("LAST", "a")] void g() {})slang");
  BOOST_TEST((found == Pairs{{"BM", "32"}, {"BN", "8"}, {"LAST", "a"}}));
}

BOOST_AUTO_TEST_CASE(a_define_goes_before_the_first_value) {
  CompileRequest request;
  const char* source = "[Tune(\"A\", \"1, 2\")] [Tune(\"B\", \"3\")] void f() {}";
  request.defines = {{"A", "7"}};
  BOOST_TEST((with_tuned_variables(request, source).defines == Pairs{{"A", "7"}, {"B", "3"}}));
  BOOST_TEST((with_tuned_variables(request, "").defines == Pairs{{"A", "7"}}));
}

BOOST_AUTO_TEST_CASE(device_code_knows_the_zeros_of_a_multiple) {
  CompileRequest request = request_for(R"slang([PyBindCUDA(Auto)] [CudaKernel]
void f([MultipleOf(24)] int width, [MultipleOf(3)] int odd, [Shape("N")] TensorView<int> x, [Out("N")] TensorView<int> y)
{
    y[cudaGlobalIdx().x] = x[cudaGlobalIdx().x] + width + odd;
})slang");
  const Program program = compile_texts(request);
  BOOST_TEST(leaf_named(function_named(program, "f"), "width").value().multiple_of == 24);
  BOOST_TEST(leaf_named(function_named(program, "f"), "odd").value().multiple_of == 3);
  const std::string& body = text_of(program, "f", Direction::Forward).body;
  BOOST_TEST(contains(body, "& int(-8)"));
  BOOST_TEST(!contains(body, "& int(-1)"));
}

BOOST_AUTO_TEST_CASE(combinations_begin_with_the_first_values) {
  const auto all = combinations({{"A", {"1", "2"}}, {"B", {"x", "y"}}});
  BOOST_TEST(all.size() == 4u);
  BOOST_TEST(describe(all[0]) == "A=1, B=x");
  BOOST_TEST(describe(all[1]) == "A=1, B=y");
  BOOST_TEST(describe(all[3]) == "A=2, B=y");
  BOOST_TEST(combinations({}).size() == 1u);
}

BOOST_AUTO_TEST_CASE(names_in_expressions_are_whole_words) {
  BOOST_TEST(mentions_name("cdiv(N, BM) * 32", "BM"));
  BOOST_TEST(mentions_name("BM", "BM"));
  BOOST_TEST(!mentions_name("BMX + XBM + B_BM", "BM"));
  BOOST_TEST(mentions_name("BMX + BM", "BM"));
}

BOOST_AUTO_TEST_CASE(the_order_decides_between_values_that_are_equally_fast) {
  BOOST_TEST(first_of_fastest({2}) == 0u);
  BOOST_TEST(first_of_fastest({1.2, 1.009, 1, 1.001}) == 1u);
  BOOST_TEST(first_of_fastest({1.011, 1.2, 1}) == 2u);
  BOOST_TEST(first_of_fastest({0, 0, 0}) == 0u);
}

BOOST_AUTO_TEST_CASE(choices_are_kept_and_read_again) {
  const TemporaryFolder folder("torch_slang_tuning_test");
  ::setenv("TORCH_SLANG_CACHE_DIR", folder.file("cache").c_str(), 1);
  const std::string key = digest_of("key");
  BOOST_TEST(!choices::get(key).has_value());
  choices::Choice choice{"slang::f", "CPU", "A=1", {{"A=1", 0.5, ""}, {"A=2", 0, "too large"}}, 2};
  choices::put(key, choice);
  BOOST_TEST(choices::made().size() == 1u);
  const std::string text = choices::to_json(choices::known());

  choice.value = "A=2";
  choices::put(key, choice);
  BOOST_TEST(choices::get(key)->value == "A=2");
  const uint64_t generation = choices::generation();
  BOOST_TEST(choices::read_json(text) == 1);
  BOOST_TEST(choices::generation() != generation);
  const auto read = choices::get(key);
  BOOST_TEST(read->value == "A=1");
  BOOST_TEST(read->tried.size() == 2u);
  BOOST_TEST(read->tried[0].seconds == 0.5);
  BOOST_TEST(read->tried[1].problem == "too large");
  BOOST_TEST(read->spent == 2);

  BOOST_TEST(choices::forget() == 1);
  BOOST_TEST(!choices::get(key).has_value());
  BOOST_CHECK_THROW(choices::read_json("{}"), c10::Error);
  BOOST_CHECK_THROW(choices::set_mode("sometimes"), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
