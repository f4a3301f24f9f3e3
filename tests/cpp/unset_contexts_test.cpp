#include "compiler/emit/unset_contexts.h"

#include <boost/test/unit_test.hpp>

#include <string>

#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(unset_contexts_test)

using torch_slang::rewritten;
using torch_slang::unset_contexts;

BOOST_AUTO_TEST_CASE(contexts_of_accesses_are_not_cleared) {
  BOOST_TEST(rewritten(unset_contexts, "s_bwdCallableCtx_DiffTensorView_load_0 _S2 = {};\nf();") ==
             "s_bwdCallableCtx_DiffTensorView_load_0 _S2;\nf();");
  BOOST_TEST(rewritten(unset_contexts, "s_bwdCallableCtx_DiffTensorView_store_3 _S2\n#line 3\n = { };") ==
             "s_bwdCallableCtx_DiffTensorView_store_3 _S2;\n#line 3\n");
  const std::string type = "s_bwdCallableCtx_DiffTensorView_load_0";
  for (const char* empty : {"()", "{}"})
    BOOST_TEST(rewritten(unset_contexts, type + " _S2 = " + type + empty + ";") == type + " _S2;");
  for (const char* method :
       {"load_forward", "loadFixed_value", "storeUniformOnce_tangent", "storeOnce", "loadUniform"}) {
    const std::string context = std::string("s_bwdCallableCtx_DiffTensorView_") + method + "_7";
    BOOST_TEST(rewritten(unset_contexts, context + " _S2 = {};") == context + " _S2;");
  }
}

BOOST_AUTO_TEST_CASE(all_else_stays) {
  for (const char* text : {
           "s_bwdCallableCtx_helper_0 _S2 = {};",
           "s_bwdCallableCtx_DiffTensorView_load_twice_0 _S2 = {};",
           "s_bwdCallableCtx_DiffTensorView_reload_0 _S2 = {};",
           "s_bwdCallableCtx_DiffTensorView_load_0 _S2 = other;",
           "s_bwdCallableCtx_DiffTensorView_load_0 _S2 = { 1 };",
           "s_bwdCallableCtx_DiffTensorView_load_0 _S2;",
           "FixedArray<s_bwdCallableCtx_DiffTensorView_load_0, 4> _S2 = {};",
           "struct s_bwdCallableCtx_DiffTensorView_load_0\n{ uint _S1; };",
           "// s_bwdCallableCtx_DiffTensorView_load_0 _S2 = {};",
           "s_bwdCallableCtx_DiffTensorView_load_0 _S2 =",
       }) {
    BOOST_TEST(rewritten(unset_contexts, text) == text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
