#include "compiler/source/loop_copies.h"

#include <c10/util/StringUtil.h>

#include <boost/test/unit_test.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(loop_copies_test)

namespace {

std::string with_copies(const std::string& source) {
  torch_slang::SourceCode code(source, "a.slang");
  torch_slang::ChangingFunctions changing;
  changing.add(code);
  torch_slang::write_copies(code, changing);
  return code.edited();
}

std::string looped(const std::string& before, const std::string& in_loop) {
  return "[Differentiable] float f(float2 p) { float2 u = p * 2; " + before + " for (int k = 0; k < 2; ++k) { " +
         in_loop + " } return u.x; }";
}

const std::string kChange =
    "void change(inout float2 v) {} struct Box { float2 v; [mutating] void set(float x) {} } ";

void check_becomes(const std::string& before, const std::string& from, const std::string& to) {
  BOOST_TEST(with_copies(kChange + looped(before, from)) == kChange + looped(before, to));
}

}  // namespace

BOOST_AUTO_TEST_CASE(variables_whose_parts_change) {
  check_becomes("float2 v = p.yx;", "float2 t = v; t[k] = 2;", "float2 t = tsl_copy(v); t[k] = 2;");
  check_becomes("float2 v = p.yx;", "u = v; u.y *= 2;", "u = tsl_copy(v); u.y *= 2;");
  check_becomes("float2 v = u;", "float2 t = v; change(t);", "float2 t = tsl_copy(v); change(t);");
  check_becomes("Box v;", "Box t = v, w; t.set(1);", "Box t = tsl_copy(v), w; t.set(1);");
  check_becomes("float2 v;", "a[0] = v; a[0].x++;", "a[0] = tsl_copy(v); a[0].x++;");
  check_becomes("float v[2] = {1, 2};", "float t[2] = v; t[k]++;", "float t[2] = tsl_copy(v); t[k]++;");
}

BOOST_AUTO_TEST_CASE(values_of_any_form) {
  for (const auto& [from, to] : {
           std::pair("(v)", "tsl_copy((v))"),
           std::pair("v * 1", "tsl_copy(v * 1)"),
           std::pair("c ? v : u", "tsl_copy(c ? v : u)"),
           std::pair("float2(v)", "tsl_copy(float2(v))"),
           std::pair("{v}", "{tsl_copy(v)}"),
           std::pair("{{v}}", "{{tsl_copy(v)}}"),
           std::pair("u = v", "tsl_copy(u = v)"),
           std::pair("makeTuple<float2, float>(v, 1)._0", "tsl_copy(makeTuple<float2, float>(v, 1)._0)"),
           std::pair("k < 1 ? v : u", "tsl_copy(k < 1 ? v : u)"),
       }) {
    check_becomes("", c10::str("float2 t = ", from, "; t[k] = 2;"), c10::str("float2 t = ", to, "; t[k] = 2;"));
  }
  check_becomes("", "float2 t = 0; t += v; t[k] = 2;", "float2 t = 0; t += tsl_copy(v); t[k] = 2;");
  check_becomes("", "set(t = v); t[k] = 2;", "set(t = tsl_copy(v)); t[k] = 2;");
}

BOOST_AUTO_TEST_CASE(other_assignments_stay) {
  for (const std::string in_loop : {
           "float2 t = v; u += t.x;",                   // t's parts stay
           "float2 t = v; t = v.yx;",                   // they do not change alone
           "float2 t = float2(v.x, k); t[k] = 2;",      // new values
           "float2 t = {v.x, v.y}; t[k] = 2;",
           "float2 t = 2; t[k] = 2;",
           "float2 t = float2(2); t[k] = 2;",
           "Box b; b.v = v; b.v = u;",                  // no part of b.v
           "float t = v.x; t += u[0];",                 // numbers
           "IShape t = v; change(t);",                  // interfaces
           "TensorView<float> t = v; t[k] = 2;",        // views
           "const float2 t = v; u = t[0];",
       }) {
    BOOST_TEST(with_copies(kChange + looped("", in_loop)) == kChange + looped("", in_loop));
  }
  for (const std::string source : {
           "[Differentiable] float f(float2 v) { v.x = 1; float2 t = v; t[0] = 2; return t.x; }",
           "float f(float2 v) { v.x = 1; for (;;) { float2 t = v; t[0] = 2; } }",
           "[Differentiable] float f(float2 v) { v.x = 1; [ForceUnroll] for (;;) { float2 t = v; t[0] = 2; } }",
       }) {
    BOOST_TEST(with_copies(source) == source);
  }
}

BOOST_AUTO_TEST_CASE(inlined_functions) {
  const std::string head = "[ForceInline] [Differentiable] ";
  for (const auto& [from, to] : {
           std::pair("float2 f(float2 p, int k) { p[k] = 1; return p; }",
                     "float2 f(float2 p, int k) { p = tsl_copy(p); p[k] = 1; return tsl_copy(p); }"),
           std::pair("float f(vector<T, 2> p) { p[0] = 1; return p.x; }",
                     "float f(vector<T, 2> p) { p = tsl_copy(p); p[0] = 1; return p.x; }"),
           std::pair("void f(out float2 o, float2 p) { o = p; }", "void f(out float2 o, float2 p) { o = tsl_copy(p); }"),
           std::pair("float2 f(float2 p) { return p * 1; }", "float2 f(float2 p) { return tsl_copy(p * 1); }"),
       }) {
    BOOST_TEST(with_copies(head + from) == head + to);
  }
  for (const std::string source : {"float f(float x) { x += 1; return x; }", "void f(inout float2 p) { p[0] = 1; return; }"}) {
    BOOST_TEST(with_copies(head + source) == head + source);
  }
}

BOOST_AUTO_TEST_SUITE_END()
