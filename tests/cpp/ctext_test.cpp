// The strict reader of emitted text, edits, and the refusal of forms that it does not know.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <c10/util/Exception.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "compiler/ctext/emitted_code.h"
#include "compiler/emit/known_forms.h"
#include "compiler/text/refused_text.h"

BOOST_AUTO_TEST_SUITE(ctext_test)

using namespace torch_slang;
namespace data = boost::unit_test::data;

namespace {

using Kind = EmittedStatement::Kind;

std::string function_of(const std::string& statements, const std::string& name = "s_bwdProp_f_0") {
  return "#line 7 \"a.slang\"\n__device__ void " + name + "(float3  * x_0, int n_0)\n{\n" + statements + "\n}\n";
}

// Whether the parts of a statement stand one behind the other, and nothing but brackets and heads is outside of them.
bool is_covered(const Code& code, const EmittedStatement& statement) {
  if (statement.kind == Kind::Block) {
    size_t at = statement.span.begin + 1;
    for (const EmittedStatement& part : statement.parts) {
      if (part.span.begin != at || part.span.end <= at || !is_covered(code, part)) return false;
      at = part.span.end;
    }
    return code[at] == "}" && at + 1 == statement.span.end;
  }
  for (const EmittedStatement& part : statement.parts) {
    if (part.span.begin < statement.span.begin || part.span.end > statement.span.end || !is_covered(code, part))
      return false;
  }
  return true;
}

void check_is_read(const std::string& text) {
  const EmittedCode code(text);
  BOOST_TEST(code.edited() == text);
  BOOST_TEST(!code.unknown().has_value());
  for (const EmittedFunction& function : code.functions()) {
    BOOST_TEST(!function.unknown.has_value());
    BOOST_TEST(is_covered(code, function.body));
  }
  BOOST_CHECK_NO_THROW(refuse_unknown_forms(code, Known::Everywhere));
}

std::string refusal_of(const std::string& text, Known where = Known::InDerivatives) {
  const EmittedCode code(text);
  BOOST_TEST(code.edited() == text);
  try {
    refuse_unknown_forms(code, where);
  } catch (const RefusedText& refused) {
    return refused.reason;
  }
  return "";
}

const char* const kKnown[] = {
    "float3 a_0 = make_float3 (1.0f, 2.5e-3f, .5f);",
    "FixedArray<FixedArray<float, 3> , 4>  a_0 = { { 1.0f, 2.0f }, {} };",
    "(&(&x_0->value0_1)->value1_0)->primal_0 = - (*x_0)[n_0 + int(1)].x;",
    "*&((&a_0)->b_1) = a_0.rows[int(1)].y * (n_0 > int(2) ? 1.0f : 2.0f);",
    "for(;;)\n{\nif(n_0 < int(3))\n{\n}\nelse\n{\nbreak;\n}\nn_0 = n_0 + int(1);\n}",
    "for (int i_0 = 0; i_0 < 4; ++i_0) { continue; }",
    "do\n{\nn_0 = n_0 >> 1;\n}\nwhile(n_0 > int(0));",
    "switch(n_0)\n{\ncase int(0):\ncase int(1):\n{\nbreak;\n}\ndefault:\n{\nreturn;\n}\n}",
    "s_bwdCallableCtx_f_0 _S1 = s_bwdCallableCtx_f_0 { 1.0f, int(2) };",
    "bool b_0 = (F32_abs((a_0))) <= 1.0f && !(n_0 != int(3)) || (n_0 & 1U) == 0U;",
    "float b_0 = ((float) n_0) + (float)n_0 + *(const float*)&n_0;",
    "tsl_add_only<float>((int(0)), (n_0), (tsl::Vec<float, 3>::of(1.0f)));",
    "asm volatile(\"mov.u32 %0, %%laneid;\" : \"=r\"(n_0) : : \"memory\");",
    "unsigned long long k_0 = 3ULL; static const int t_0[3] = {1, 2, 3};",
    "n_0 <<= 2; n_0 += int(1); ;",
    "auto p_0 = reinterpret_cast<const float4*>(x_0) + n_0;",
};

const std::pair<const char*, const char*> kUnknown[] = {
    {"goto end_0;", "`goto end_0`"},
    {"float a_0 = 1.0f;\nagain_0: a_0 = 2.0f;", "`again_0:a_0=2.0f`"},
    {"n_0 = 1, n_0 = 2;", "`n_0=1,n_0=2`"},
    {"int a_0 = n_0 = 3;", "`int a_0=n_0=3`"},
    {"auto f_0 = [](int a) { return a; };", "`auto f_0=[](int a){"},
    {"int a_0, b_0;", "`int a_0,b_0`"},
    {"float a_0 = (int const volatile n_0);", "`float a_0=("},
    {"throw 3;", "`throw 3`"},
    {"try { } catch (...) { }", "`try{}catch"},
    {"if (n_0 > 1) { n_0 = @; }", "`n_0=@`"},
    {"while (n_0 > 1, true) { }", "`while(n_0>1,true)"},
};

}  // namespace

BOOST_DATA_TEST_CASE(forms_of_slang_are_known, data::make(kKnown), statement) { check_is_read(function_of(statement)); }

BOOST_DATA_TEST_CASE(golden_texts_are_known,
                     data::make({"loops", "branches", "waves", "sums", "shared", "generic", "elements.2026.14.1",
                                 "own.2026.14.1"}),
                     name) {
  const std::filesystem::path file =
      std::filesystem::path(__FILE__).parent_path().parent_path() / "golden" / (std::string(name) + ".emitted");
  std::ifstream input(file);
  std::string text, line;
  for (bool any = false; std::getline(input, line);) {
    if (line.starts_with("@entry") && any) {
      check_is_read(text);
      text.clear();
    }
    any = true;
    if (!line.starts_with("@")) text += line + "\n";
  }
  BOOST_TEST(!text.empty());
  check_is_read(text);
}

BOOST_AUTO_TEST_CASE(an_unknown_form_in_a_derivative_is_refused_with_its_line) {
  for (const auto& [statement, quoted] : kUnknown) {
    BOOST_TEST_CONTEXT(statement) {
      const std::string refusal = refusal_of(function_of(statement));
      BOOST_TEST(refusal.find(quoted) != std::string::npos, refusal);
      BOOST_TEST(refusal.find("at a.slang:7") != std::string::npos, refusal);
    }
  }
}

BOOST_AUTO_TEST_CASE(functions_that_are_no_derivatives_may_have_what_they_like) {
  BOOST_TEST(refusal_of(function_of("goto end_0;", "helper_0")) == "");
  BOOST_TEST(refusal_of(function_of("goto end_0;"), Known::Nowhere) == "");
  BOOST_TEST(refusal_of("union U_0 { float a; int b; };\n") != "");
  BOOST_TEST(refusal_of("union U_0 { float a; int b; };\n", Known::Nowhere) == "");
}

BOOST_AUTO_TEST_CASE(what_stands_behind_an_unknown_form_is_read) {
  const EmittedCode code(function_of("goto end_0; if (n_0 > 1) { n_0 = 2; }") + function_of("n_0 = 3;", "g_0"));
  BOOST_REQUIRE_EQUAL(code.functions().size(), 2);
  BOOST_REQUIRE_EQUAL(code.functions()[0].body.parts.size(), 2);
  BOOST_TEST((code.functions()[0].body.parts[1].kind == Kind::If));
  BOOST_TEST(!code.functions()[1].unknown.has_value());
}

BOOST_AUTO_TEST_CASE(edits_that_overlap_are_an_error) {
  EmittedCode code("int a_0 = 1;\nint b_0 = 2;\n");
  code.replace({3, 4}, "3");
  code.insert(3, "- ");
  BOOST_TEST(code.edited() == "int a_0 = - 3;\nint b_0 = 2;\n");
  code.replace({2, 5}, ";");
  BOOST_CHECK_THROW(code.edited(), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
