#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <ctime>
#include <string>

#include "compiler/emit/added_gradients.h"
#include "compiler/emit/contexts.h"
#include "compiler/emit/lost_copies.h"
#include "compiler/emit/missing_names.h"

BOOST_AUTO_TEST_SUITE(long_texts_test)

using namespace torch_slang;

namespace {

// A backward of straight code, in which each gradient goes into all that follow.
std::string backward(int calls) {
  std::string text =
      "#line 1 \"f.slang\"\n__device__ void s_bwdProp_f_0(s_bwdCallableCtx_f_0 * c, float * out, float d) {\n";
  std::string last = "d";
  for (int i = 0; i < calls; ++i) {
    const std::string n = std::to_string(i);
    text += "#line 2\nfloat g" + n + ";\ns_bwdCallableCtx_sin_0 c" + n + ";\n(&c" + n +
            ")->_S6 = (&c->value0_3)->value" + n + "_0;\ns_bwdProp_sin_0(&c" + n + ", &g" + n + ", " + last +
            ");\nfloat r" + n + " = g" + n + " + " + last + ";\n";
    last = "r" + n;
  }
  return text + "*out = " + last + ";\n}\n";
}

// The least of three, since a machine does other things too.
double seconds(int calls) {
  const std::string text = backward(calls);
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    EmittedCode code(text);
    restore_missing_names(code);
    read_contexts_in_place(code);
    store_values_in_contexts(code);
    repair_lost_copies(code);
    add_met_gradients(code);
    BOOST_TEST(code.edited() == text);
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

}  // namespace

// Twice the text takes about twice as long; eight times, if each statement asks for each gradient of each copy of each.
BOOST_AUTO_TEST_CASE(time_grows_about_as_the_text_does) { BOOST_TEST(seconds(1200) < 4.5 * seconds(600)); }

BOOST_AUTO_TEST_SUITE_END()
