#include "compiler/emit/wave_masks.h"
#include "compiler/text/refused_text.h"

#include <boost/test/unit_test.hpp>

#include <string>

BOOST_AUTO_TEST_SUITE(wave_masks_test)

using torch_slang::RefusedText;
using torch_slang::write_wave_masks;

namespace {

// `statements` in a helper that has a mask, and in a kernel, whose return ends the thread.
std::string text_with(const std::string& helper, const std::string& kernel) {
  return "uint WaveGetActiveMask_0(uint _S1) { return _S1; }\n"
         "uint count_0(uint _S2) { uint _S3 = (__popc(__ballot_sync((WaveGetActiveMask_0(_S2)), (true)))); return _S3; "
         "}\n"
         "int helper_0(int v, uint _S4) { " +
         helper + " }\nvoid kernel_0(int v, uint _S50) { " + kernel +
         " }\nvoid entry() { uint _S99 = __ballot_sync(4294967295U, true); kernel_0(1, _S99); return; }\n";
}

struct Masked {
  std::string body;
  bool scattered = false;
};

Masked with_masks(std::string body) {
  Masked text;
  torch_slang::EmittedCode code(std::move(body));
  write_wave_masks(code, {"user.slang"}, text.scattered);
  text.body = code.edited();
  return text;
}

std::string masked(const std::string& helper, const std::string& kernel = "helper_0(v, _S50); return;") {
  return with_masks(text_with(helper, kernel)).body;
}

bool is_scattered(const std::string& helper) {
  return with_masks(text_with(helper, "helper_0(v, _S50); return;")).scattered;
}

size_t count_of(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// Ballots beside the entry's and the one of count_0.
size_t ballots(const std::string& text) { return count_of(text, "__ballot_sync(") - 2; }

}  // namespace

BOOST_AUTO_TEST_CASE(text_without_wave_operations_stays) {
  const std::string text = "int f_0(int v) { if(v > 0) { return 1; } return 2; }";
  BOOST_TEST(with_masks(text).body == text);
}

BOOST_AUTO_TEST_CASE(behind_a_return_there_are_those_that_did_not_take_it) {
  const std::string text = masked("if(v < 0) { return 0; } uint _S5 = count_0(_S4); return int(_S5);");
  BOOST_TEST(ballots(text) == 1u);
  BOOST_TEST(text.find("tsl_wave = tsl_wave1 & ~tsl_took1;") != std::string::npos);
  BOOST_TEST(text.find("count_0(tsl_wave)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(arms_that_nobody_leaves_need_no_ballot_at_their_end) {
  const std::string text = masked(
      "uint _S5 = __ballot_sync(_S4, v > 0); if(v > 0) { count_0(_S5); uint _S6 = __ballot_sync(_S4, true); } "
      "count_0(_S4); return 0;");
  BOOST_TEST(ballots(text) == 1u);
  BOOST_TEST(text.find("tsl_wave = tsl_wave1;") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(who_returns_from_inside_an_arm_votes_no_but_not_in_a_kernel) {
  const std::string statements = "if(v > 0) { if(v > 1) { return; } } count_0(";
  const std::string helper = masked("if(v > 0) { if(v > 1) { return 1; } } count_0(_S4); return 0;");
  BOOST_TEST(count_of(helper, "__ballot_sync(tsl_wave1, false)") == 1u);
  BOOST_TEST(count_of(helper, "tsl_wave = __ballot_sync(tsl_wave1, true)") == 1u);
  const std::string kernel = masked("return 0;", statements + "_S50); return;");
  BOOST_TEST(count_of(kernel, "__ballot_sync(tsl_wave1, false)") == 0u);
  BOOST_TEST(count_of(kernel, "tsl_wave = __ballot_sync(tsl_wave1, true)") == 1u);
}

BOOST_AUTO_TEST_CASE(cases_are_told_apart_by_their_number_and_not_by_the_selector) {
  const std::string text = masked(
      "switch(v) { case int(0): case int(1): { uint _S5 = count_0(_S4); break; } default: { uint _S6 = count_0(_S4); "
      "break; } } "
      "return 0;");
  BOOST_TEST(text.find("__match_any_sync(tsl_wave1, tsl_case1)") != std::string::npos);
  BOOST_TEST(ballots(text) == 0u);
}

BOOST_AUTO_TEST_CASE(a_loop_has_in_each_turn_those_that_begin_it) {
  const std::string text =
      masked("for(;;) { if(v < 3) { } else { break; } uint _S5 = count_0(_S4); } count_0(_S4); return 0;");
  BOOST_TEST(ballots(text) == 1u);
  BOOST_TEST(text.find("tsl_wave = tsl_wave1;") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(copies_of_what_follows_a_turn_are_one_operation) {
  const std::string text = masked(
      "for(;;) { if(v < 3) { uint _S5 = count_0(_S4); continue; } if(v > 9) { break; } uint _S5 = count_0(_S4); } "
      "return 0;");
  BOOST_TEST(count_of(text, "tsl_wave = __ballot_sync(tsl_turn1, true);") == 2u);
  BOOST_TEST(count_of(text, "__ballot_sync(tsl_turn1, false); break;") == 1u);
}

BOOST_AUTO_TEST_CASE(text_says_whether_lanes_of_one_operation_may_stand_in_several_places) {
  BOOST_TEST(!is_scattered("if(v > 0) { uint _S5 = count_0(_S4); } else { uint _S6 = count_0(_S4); } return 0;"));
  BOOST_TEST(!is_scattered("for(;;) { if(v < 3) { } else { break; } uint _S5 = count_0(_S4); } return 0;"));
  // The step of a loop, in front of `continue` too; and ways to the next turn that end with the same vote.
  BOOST_TEST(is_scattered(
      "for(;;) { if(v < 3) { uint _S5 = count_0(_S4); continue; } if(v > 9) { break; } uint _S5 = count_0(_S4); } "
      "return 0;"));
  BOOST_TEST(
      is_scattered("for(;;) { uint _S5 = count_0(_S4); if(v < 3) { continue; } if(v > 9) { break; } } return 0;"));
}

BOOST_AUTO_TEST_CASE(lanes_that_go_to_the_next_turn_leave_the_branches_around_them_first) {
  const std::string text = masked(
      "for(;;) { if(v < 3) { if(v < 2) { if(v < 1) { uint _S5 = count_0(_S4); continue; } } uint _S6 = count_0(_S4); } "
      "if(v > 9) { break; } uint _S5 = count_0(_S4); } return 0;");
  BOOST_TEST(text.find("__ballot_sync(tsl_wave3, false); __ballot_sync(tsl_wave2, false); "
                       "tsl_wave = __ballot_sync(tsl_turn1, true);") != std::string::npos);
  BOOST_TEST(count_of(text, "__ballot_sync(tsl_wave2, false)") == 1u);
}

BOOST_AUTO_TEST_CASE(copies_have_the_same_ballots_whatever_is_around_them) {
  const std::string copy = "uint _S5 = count_0(_S4); if(_S5 > 2) { return 1; } break;";
  const std::string text =
      masked("switch(v) { case int(3): { if(v > 1) { } else { " + copy +
             " } uint _S6 = count_0(_S4); return 2; } case int(0): { " + copy + " } } count_0(_S4); return 0;");
  BOOST_TEST(count_of(text, "; if(_S5 > 2) { __ballot_sync(tsl_wave1, false); return 1; } break;") == 2u);
}

BOOST_AUTO_TEST_CASE(what_is_not_known_is_refused_with_its_function_and_line) {
  const auto says = [](const RefusedText& unclear) {
    return unclear.reason.find("helper (user.slang:7)") != std::string::npos;
  };
  const std::string line = "TSL_AT(0, 7); ";
  for (const std::string& form :
       {std::string("while(v > 0) { count_0(_S4); }"), std::string("int r = v > 0 ? count_0(_S4) : 0;"),
        std::string("bool b = v > 0 && count_0(_S4) > 1;"),
        std::string("if(v > 0) { uint _S5 = count_0(_S4); } else { uint _S5 = count_0(_S4); }"),
        std::string("switch(v) { case int(0): { count_0(_S4); break; } case int(1): { count_0(_S4); break; } }")}) {
    BOOST_CHECK_EXCEPTION(masked("uint _S4 = __match_any_sync(v, v); " + line + form + " return 0;"), RefusedText,
                          says);
  }
}

BOOST_AUTO_TEST_CASE(a_form_that_the_reader_does_not_know_is_refused_with_its_line) {
  for (const std::string form : {"goto end;", "v=1, v = 2;", "auto f = [](int a) { return a; };"}) {
    const auto says = [&](const RefusedText& refused) {
      return refused.reason.find("`" + form.substr(0, 3)) != std::string::npos &&
             refused.reason.find("at user.slang:7") != std::string::npos &&
             refused.reason.find("in helper") != std::string::npos;
    };
    BOOST_CHECK_EXCEPTION(masked("uint _S5 = count_0(_S4); TSL_AT(0, 7); " + form + " return 0;"), RefusedText, says);
    BOOST_CHECK_NO_THROW(with_masks(text_with("count_0(_S4); return 0;", "helper_0(v, _S50); return;") +
                                    "void alone_0(int v) { " + form + " }"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
