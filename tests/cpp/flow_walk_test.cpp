#include <boost/test/unit_test.hpp>

#include <set>
#include <string>

#include "compiler/ctext/lvalues.h"
#include "compiler/emit/flow_walk.h"

BOOST_AUTO_TEST_SUITE(flow_walk_test)

using namespace torch_slang;

namespace {

struct Numbers : std::set<std::string> {
  void join(const Numbers& other) { insert(other.begin(), other.end()); }
};

// What `x` may hold at `use(x);`, and whether anything reaches that.
class Holds : FlowWalk<Numbers> {
 public:
  explicit Holds(const EmittedCode& code) : FlowWalk(code) { follow(code.functions()[0].body, {}); }

  std::string text() const {
    if (!reached_) return "nothing reaches it";
    std::string all;
    for (const std::string& one : found_) all += one;
    return all;
  }

 private:
  void simple(const EmittedStatement& statement, Numbers& numbers) override {
    if (const auto found = code_.assignment(statement)) {
      numbers.clear();
      numbers.insert(code_.text_without_spaces(found->value));
    } else if (code_[statement.span.begin] == "use" && is_final()) {
      reached_ = true;
      found_ = numbers;
    }
  }

  Numbers found_;
  bool reached_ = false;
};

std::string holds(const std::string& statements) {
  return Holds(EmittedCode("__device__ void f() { " + statements + " }")).text();
}

}  // namespace

BOOST_AUTO_TEST_CASE(branches_join) {
  BOOST_TEST(holds("x = 1; use(x);") == "1");
  BOOST_TEST(holds("x = 1; if(c) x = 2; use(x);") == "12");
  BOOST_TEST(holds("x = 1; if(c) { x = 2; } else { x = 3; } use(x);") == "23");
  BOOST_TEST(holds("x = 1; if(c) { x = 2; return; } use(x);") == "1");
  BOOST_TEST(holds("return; use(x);") == "nothing reaches it");
}

BOOST_AUTO_TEST_CASE(loops_are_left_by_their_head_or_by_break) {
  BOOST_TEST(holds("x = 1; for(;;) { if(c) { x = 2; break; } x = 3; } use(x);") == "2");
  BOOST_TEST(holds("x = 1; for(;;) { use(x); if(c) { x = 2; break; } x = 3; }") == "13");
  BOOST_TEST(holds("x = 1; for(;i < n;) { x = 2; } use(x);") == "12");
  BOOST_TEST(holds("x = 1; for(;;) { if(c) { x = 2; continue; } x = 3; break; } use(x);") == "3");
  BOOST_TEST(holds("x = 1; for(;;) { use(x); if(c) { x = 2; continue; } x = 3; break; }") == "12");
  BOOST_TEST(holds("x = 1; do { use(x); x = 2; } while(c);") == "12");
  BOOST_TEST(holds("for(;;) { for(;;) { x = 1; break; } use(x); break; }") == "1");
  BOOST_TEST(holds("for(;;) { x = 1; } use(x);") == "nothing reaches it");
}

BOOST_AUTO_TEST_CASE(a_switch_is_entered_at_each_label) {
  BOOST_TEST(holds("x = 1; switch(i) { case 0: { x = 2; break; } default: { use(x); } }") == "1");
  BOOST_TEST(holds("x = 1; switch(i) { case 0: { x = 2; } case 1: { use(x); break; } }") == "12");
  BOOST_TEST(holds("x = 1; switch(i) { case 0: { x = 2; break; } case 1: { x = 3; } } use(x);") == "123");
  BOOST_TEST(holds("for(;;) { switch(i) { case 0: { x = 1; continue; } default: { x = 2; } } use(x); break; }") == "2");
}

BOOST_AUTO_TEST_SUITE_END()
