#include <boost/test/unit_test.hpp>

#include <string>

#include "packed.h"

#include "compiler/ctext/emitted_code.h"
#include "compiler/ctext/lvalues.h"
#include "compiler/emit/added_gradients.h"
#include "compiler/emit/contexts.h"
#include "compiler/emit/lost_copies.h"
#include "compiler/emit/missing_names.h"
#include "compiler/emit/refused_lost_parts.h"
#include "compiler/emit/refused_lost_values.h"
#include "compiler/emit/shared_stores.h"
#include "compiler/emit/unset_values.h"
#include "compiler/text/refused_text.h"

BOOST_AUTO_TEST_SUITE(wrong_gradients_test)

using namespace torch_slang;

namespace {

std::string backward(const std::string& statements) {
  return "__device__ void s_bwdProp_f_0(s_bwdCallableCtx_f_0 * c, FixedArray<double, 2> * out, double d) { " +
         statements + " }";
}

template <class Pass>
std::string passed(const Pass& pass, const std::string& text) {
  EmittedCode code(text);
  pass(code);
  return packed(code.edited());
}

void check_added(const std::string& statements, const std::string& expected) {
  BOOST_TEST(passed(add_met_gradients, backward(statements)) == packed(backward(expected)));
}
void check_repaired(const std::string& statements, const std::string& expected) {
  BOOST_TEST(passed(repair_lost_copies, backward(statements)) == packed(backward(expected)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(lvalues_are_read_in_all_their_spellings) {
  const auto path = [](const std::string& lvalue) {
    const EmittedCode code("__device__ void f() { " + lvalue + " = v; }");
    const auto found = code.assignment(code.functions()[0].body.parts[0]);
    std::string text = found->left.variable;
    for (const Step& step : found->left.steps) text += (step.literal ? "." : "?") + step.text;
    return text;
  };
  BOOST_TEST(path("x") == "x");
  BOOST_TEST(path("x[int(1)]") == "x.1");
  BOOST_TEST(path("x[1U][i + int(1)]") == "x.1?i+int(1)");
  BOOST_TEST(path("(&x)->field_0") == "x.field_0");
  BOOST_TEST(path("(&(&x)->field_0)->other_1[j]") == "x.field_0.other_1?j");
  BOOST_TEST(path("*&((&x)->y)") == "x.1");
  BOOST_TEST(path("*&(((&x)->rows + (int(2)))->z)") == "x.2.2");
  BOOST_TEST(path("*_slang_vector_get_element_ptr(((&x)->rows + (i)), j)") == "x?i?j");
  BOOST_TEST(path("*_slang_vector_get_element_ptr(&x, (c)->value0_0)") == "x?(c)->value0_0");
}

BOOST_AUTO_TEST_CASE(elements_that_may_be_the_same_are_added) {
  const std::string zero = "FixedArray<double, 2> z; dzero_0(&z); FixedArray<double, 2> g = z; ";
  check_added(zero + "g[int(1)] = d; g[i] = d * b;", zero + "g[int(1)] = d; tsl::add_to(g[i], d * b);");
  check_added(zero + "g[1U] = d; g[int(1)] = d;", zero + "g[1U] = d; tsl::add_to(g[int(1)], d);");
  check_added(zero + "g[0] = d; g[1] = d;", zero + "g[0] = d; g[1] = d;");
  check_added(
      "double2 g = make_double2 (0.0); *&((&g)->x) = d; *_slang_vector_get_element_ptr(&g, i) = d;",
      "double2 g = make_double2 (0.0); *&((&g)->x) = d; tsl::add_to(*_slang_vector_get_element_ptr(&g, i), d);");
}

BOOST_AUTO_TEST_CASE(what_is_no_gradient_stays_assigned) {
  const std::string primal = "double2 q = make_double2(0.0); q[i] = a; q[j] = b;";
  check_added(primal, primal);
  // A variable of Slang's for several values: the user's, then a gradient.
  const std::string both =
      "double2 q = make_double2(0.0); q[i] = a; q[j] = b; double2 t = q; q = make_double2(0.0); q[i] = d; ";
  check_added(both + "q[j] = d;", both + "tsl::add_to(q[j], d);");
  const std::string cleared = "double2 q = g; q[i] = 0.0; q[j] = 0.0;";
  check_added(cleared, cleared);
}

BOOST_AUTO_TEST_CASE(what_a_user_s_own_backward_assigns_stays_assigned) {
  const std::string summed =
      "double2 q = make_double2(0.0); q[i] = p.differential_0.x; q[j] = q[j] + p.differential_0.y;";
  const std::string own = "__device__ void own_backward_0() { " + summed + " }";
  BOOST_TEST(passed(add_met_gradients, own) == packed(own));
  check_added(summed, summed);  // [ForceInline] has put it into Slang's
}

BOOST_AUTO_TEST_CASE(gradients_of_an_unknown_beginning_are_refused) {
  EmittedCode code(backward("double2 q = other(c); q[i] = d; q[j] = d;"));
  BOOST_CHECK_THROW(add_met_gradients(code), RefusedText);
}

BOOST_AUTO_TEST_CASE(sums_of_inout_arguments_grow_in_loops) {
  const std::string head = "double s = 0.0; double g = d; for(;;) { if(g > 0.0) { } else { break; } ";
  const std::string tail = " } s_bwdProp_h_0(&c, &s, d);";
  check_added(head + "s = g * a;" + tail, head + "tsl::add_to(s, g * a);" + tail);
  check_added(head + "s = s + g;" + tail, head + "s = s + g;" + tail);
  check_added(head + "double t = s; double u = t + g; s = u;" + tail,
              head + "double t = s; double u = t + g; s = u;" + tail);
  check_added("double s = 0.0; s = d;" + tail.substr(2), "double s = 0.0; s = d;" + tail.substr(2));
}

BOOST_AUTO_TEST_CASE(what_was_changed_in_place_is_kept_for_who_wants_it) {
  const std::string head = "double2 x; double2 y; if(k) { x = a; *&((&x)->y) = v; y = b; } else { ";
  check_repaired(head + "x = b; *&((&x)->y) = w; x = a; y = x; }",
                 head + "x = b; *&((&x)->y) = w; const auto tsl_kept_1_x = x; x = a; y = tsl_kept_1_x; }");
  check_repaired(head + "x = b; *&((&x)->y) = w; y = x; x = a; }", head + "x = b; *&((&x)->y) = w; y = x; x = a; }");
  // A copy that begins the next change in place.
  const std::string change = head + "x = b; *&((&x)->y) = w; use(x); x = a; y = x; *&((&y)->x) = w; }";
  check_repaired(change, change);
  // What leaves a loop as a gradient was none in it.
  const std::string loop =
      "double2 x; double2 y; double2 z = n; for(;;) { if(k) { } else { z = make_double2(d); break; } if(l) { x = a; "
      "*&((&x)->y) = z.x; y = b; } else { x = b; *&((&x)->y) = z.y; ";
  check_repaired(loop + "x = a; y = x; } use(x); use(y); }",
                 loop + "const auto tsl_kept_1_x = x; x = a; y = tsl_kept_1_x; } use(x); use(y); }");
}

// Slang assigns what it makes of parts in the parts' order.
BOOST_AUTO_TEST_CASE(what_is_made_of_its_parts_overwrites_the_whole) {
  const std::string structs = "struct Two_0 { FixedArray<double, 2> a_0; double b_0; }; ";
  const std::string variables =
      "FixedArray<double, 2> x; FixedArray<double, 2> y; if(k) { x = a; x[i] = v; y = b; } else { x = b; x[i] = w; ";
  check_repaired(variables + "x[int(0)] = p; x[int(1)] = q; y = x; }",
                 variables + "const auto tsl_kept_1_x = x; x[int(0)] = p; x[int(1)] = q; y = tsl_kept_1_x; }");
  for (const std::string& change :
       {variables + "x[int(1)] = q; x[int(0)] = p; y = x; }", variables + "x[int(0)] = p; y = x; }"})
    check_repaired(change, change);
  // The last change is none of the parts.
  check_repaired(
      variables + "x[int(1)] = r; x[int(0)] = p; x[int(1)] = q; y = x; }",
      variables + "x[int(1)] = r; const auto tsl_kept_1_x = x; x[int(0)] = p; x[int(1)] = q; y = tsl_kept_1_x; }");
  // Parts of parts may be changes of the user's.
  EmittedCode nested(structs +
                     backward("Two_0 x; Two_0 y; if(k) { x = a; (&x)->b_0 = v; y = b; } else { x = b; (&x)->b_0 = w; "
                              "(&x)->a_0[int(0)] = p; (&x)->a_0[int(1)] = q; (&x)->b_0 = r; y = x; }"));
  BOOST_CHECK_THROW(repair_lost_copies(nested), RefusedText);
}

BOOST_AUTO_TEST_CASE(texts_that_may_lose_copies_are_found) {
  const auto may_lose = [](const std::string& body) { return may_lose_copies(EmittedCode(backward(body))); };
  const std::string head = "double2 x; double2 y; if(k) { x = a; *&((&x)->y) = v; y = b; } else { ";
  BOOST_TEST(may_lose(head + "x = b; *&((&x)->y) = w; x = a; y = a; }"));
  BOOST_TEST(may_lose(head + "x = b; *&((&x)->y) = w; x = y; }"));
  BOOST_TEST(!may_lose(head + "x = b; *&((&x)->y) = w; y = a; }"));
  const std::string made =
      "FixedArray<double, 2> x; FixedArray<double, 2> y; if(k) { x = a; x[i] = v; y = b; } else { "
      "x = b; x[i] = w; x[int(0)] = p; x[int(1)] = q; ";
  BOOST_TEST(may_lose(made + "y[int(0)] = p; y[int(1)] = q; }"));
  BOOST_TEST(may_lose(made + "y = x; }"));
  BOOST_TEST(!may_lose(made + "y[int(0)] = p; y[int(1)] = r; }"));
}

BOOST_AUTO_TEST_CASE(contexts_are_read_in_place) {
  BOOST_TEST(passed(read_contexts_in_place,
                    backward("FixedArray<double, 5> t = (&c->value0_0)->value1_0; double r = t[i];")) ==
             packed(backward("double r = (&c->value0_0)->value1_0[i];")));
  BOOST_TEST(passed(read_contexts_in_place,
                    backward("FixedArray<double, 5> t = (&c->value0_0)->value1_0; FixedArray<double, 5> u = t; "
                             "double r = u[i] * t[j];")) ==
             packed(backward("double r = (&c->value0_0)->value1_0[i] * (&c->value0_0)->value1_0[j];")));
}

BOOST_AUTO_TEST_CASE(contexts_hold_values) {
  const std::string structs =
      "struct s_bwdCallableCtx_g_0 { double3 _S1; double * _S2; }; struct Other_0 { double3 o_0; }; ";
  const auto stored = [&](const std::string& statements) {
    return passed(store_values_in_contexts, structs + backward(statements));
  };
  BOOST_TEST(stored("(&_S7)->_S1 = &v;") == packed(structs + backward("(&_S7)->_S1 = v;")));
  for (const char* const kept : {"(&_S7)->_S2 = &v;", "(&_S7)->o_0 = &v;", "(&_S7)->_S1 = f(&v);"}) {
    BOOST_TEST(stored(kept) == packed(structs + backward(kept)));
  }
}

BOOST_AUTO_TEST_CASE(names_that_are_missing_are_refused) {
  EmittedCode missing(backward("double2 _S1 = a; _S1[_S2] = 0.0;")),
      there(backward("int _S2 = 1; double2 _S1 = a; _S1[_S2] = 0.0;"));
  BOOST_CHECK_THROW(restore_missing_names(missing), RefusedText);
  BOOST_CHECK_NO_THROW(restore_missing_names(there));
}

BOOST_AUTO_TEST_CASE(parts_that_are_lost_are_refused) {
  const std::string structs = "struct Pair_0 { double a_0; FixedArray<double, 3> c_0; }; ";
  const std::string variables =
      "FixedArray<Pair_0, 2> v; FixedArray<FixedArray<double, 3>, 2> w; FixedArray<double3, 2> u; double s = d; "
      "Pair_0 p; FixedArray<double, 3> q; int i = int(1); ";
  const auto check = [&](const std::string& statement, bool right) {
    const EmittedCode code(structs + backward(variables + statement));
    if (right)
      BOOST_CHECK_NO_THROW(refuse_lost_parts(code));
    else
      BOOST_CHECK_THROW(refuse_lost_parts(code), RefusedText);
  };
  for (const char* statement :
       {"v[int(0)] = s;", "v[i] = q;", "w[i] = s;", "u[i] = s;", "(&v[i])->c_0 = s;", "double t = v[i];", "q = v[i];",
        "v[i] = 0.5;", "v[1U] = - 0.5;", "s = (&v[i])->c_0;", "(*out)[i] = v[i];"}) {
    BOOST_TEST_CONTEXT(statement) check(statement, false);
  }
  for (const char* statement :
       {"v[i] = p;", "(&v[i])->c_0 = q;", "(&v[i])->c_0[i] = s;", "w[i] = q;", "w[i][int(2)] = s;",
        "*&((&u[i])->y) = s;", "*out = unknown;", "(*out)[i] = s;", "s = i;", "i = s;", "v[i] = f(s);", "s = 0.5;",
        "w[i][int(2)] = 0.5;", "double t = (&v[i])->a_0;"}) {
    BOOST_TEST_CONTEXT(statement) check(statement, true);
  }
}

BOOST_AUTO_TEST_CASE(stores_to_group_shared_arrays_are_made_in_place) {
  const std::string shared =
      "__device__ FixedArray<float, 64>& tsl_var_a_0() { TSL_SHARED FixedArray<float, 64> value; return value; } "
      "__device__ float& tsl_var_one_0() { TSL_SHARED float value; return value; } ";
  const auto stored = [&](const std::string& statements) {
    return passed(store_to_shared_in_place, shared + backward(statements));
  };
  const std::string copy = "FixedArray<float, 64> _S1 = *&tsl_var_a_0(); ", back = "*&tsl_var_a_0() = _S1;";
  BOOST_TEST(stored(copy + "_S1[i] = v; _S1[j] = f(v); " + back) ==
             packed(shared + backward("auto& _S1 = *&tsl_var_a_0(); _S1[i] = v; _S1[j] = f(v); ;")));
  for (const char* const kept : {"(*&tsl_var_a_0())[i] = v;", "*&tsl_var_one_0() = v;",
                                 "c->value0_0 = *&tsl_var_a_0();", "float _S1 = (*&tsl_var_a_0())[i];"}) {
    BOOST_TEST(stored(kept) == packed(shared + backward(kept)));
  }
  for (const std::string& refused :
       {copy + "g(&_S1); " + back, copy + "_S1[i] = v; __syncthreads(); " + back,
        copy + "_S1[i] = v; " + back + " w = _S1[j];", std::string("*&tsl_var_a_0() = other;")}) {
    BOOST_TEST_CONTEXT(refused) BOOST_CHECK_THROW(stored(refused), RefusedText);
  }
}

BOOST_AUTO_TEST_CASE(values_that_slang_has_lost_are_refused) {
  for (const std::string lost : {"float3 _S6 = {}; float3 _S7 = _S6 * d;", "double _S6; if (c) { out = f_0(_S6); }",
                                 "float3 _S6 = {}; float3 _S8 = d; for (;;) { _S8 = _S8 * _S6.x; }"}) {
    const EmittedCode code(backward(lost));
    BOOST_TEST_CONTEXT(lost) BOOST_CHECK_THROW(refuse_lost_values(code), RefusedText);
  }
  for (const std::string meant : {
           "float3 _S6 = make_float3(0.0f); float3 _S7 = _S6 * d;",
           "float3 _S6 = {}; float3 _S7 = _S6;",
           "float3 _S6 = {}; if (c) { _S6 = d; } float3 _S7 = _S6 * d;",
           "P _S6 = {}; (&_S6)->y = d; e = d * _S6.y;",
           "P _S6; f_0(&_S6); e = d * _S6.y;",
           "s_bwdCallableCtx_g_0 _S6 = {}; f_0(_S6, d);",
       }) {
    const EmittedCode code(backward(meant));
    BOOST_TEST_CONTEXT(meant) BOOST_CHECK_NO_THROW(refuse_lost_values(code));
  }
  const EmittedCode users("__device__ double f_0(double d) { double _S6 = {}; return _S6 * d; }");
  BOOST_CHECK_NO_THROW(refuse_lost_values(users));
}

BOOST_AUTO_TEST_CASE(variables_that_are_read_unset_begin_as_zero) {
  const std::string pair = "struct DiffPair_double_0 { double primal_0; double differential_0; };";
  const auto check = [&](const std::string& text, const std::string& expected) {
    BOOST_TEST(passed(set_unset_values, pair + backward(text)) == packed(pair + backward(expected)));
  };
  check("DiffPair_double_0 _S1; (&_S1)->primal_0 = 0.0; double _S2; (&_S1)->differential_0 = _S2; f(&_S1); _S2 = d;",
        "DiffPair_double_0 _S1; (&_S1)->primal_0 = 0.0; double _S2 = {}; (&_S1)->differential_0 = _S2; f(&_S1); _S2 = "
        "d;");
  check("double _S2; if (c) { _S2 = d; } e = _S2;", "double _S2 = {}; if (c) { _S2 = d; } e = _S2;");
  check("DiffPair_double_0 _S1; (&_S1)->primal_0 = d; f(&_S1);",
        "DiffPair_double_0 _S1 = {}; (&_S1)->primal_0 = d; f(&_S1);");
  check("DiffPair_double_0 _S1; _S1.primal_0 = d; e = _S1.differential_0;",
        "DiffPair_double_0 _S1 = {}; _S1.primal_0 = d; e = _S1.differential_0;");
  for (const std::string set : {
           "double _S2; if (c) { _S2 = d; } else { _S2 = 1.0; } e = _S2;",
           "double _S2; f(&_S2); e = _S2;",
           "DiffPair_double_0 _S1; f(&_S1); e = _S1.differential_0;",
           "double _S2; for (;;) { _S2 = d; break; } e = _S2;",
           "FixedArray<double, 2> _S2; _S2[0] = d; e = _S2[1];",
           "s_bwdCallableCtx_g_0 _S2; f(_S2);",
       }) {
    check(set, set);
  }
}

BOOST_AUTO_TEST_SUITE_END()
