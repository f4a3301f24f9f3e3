#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

#include "common/environment.h"
#include "common/files.h"
#include "common/quoted_files.h"
#include "common/shell_words.h"
#include "common/temporary_folder.h"
#include "compiler/ctext/line_names.h"
#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(texts_test)

using namespace torch_slang;

namespace {

std::string split(const char* text) {
  const auto words = split_shell_words(text);
  if (!words) return "open";
  std::string shown;
  for (const std::string& word : *words) shown += "<" + word + ">";
  return shown;
}

}  // namespace

BOOST_AUTO_TEST_CASE(words_are_split_as_a_shell_splits_them) {
  BOOST_TEST(split("") == "");
  BOOST_TEST(split("  a\tb\n c ") == "<a><b><c>");
  BOOST_TEST(split("'a b'c \"d e\"\"f\" ''") == "<a bc><d ef><>");
  BOOST_TEST(split("a\\ b \\' \\\\") == "<a b><'><\\>");
  BOOST_TEST(split("\"\\\" \\\\ \\n $x\" '\\'") == "<\" \\ \\n $x><\\>");
  BOOST_TEST(split("'a") == "open");
  BOOST_TEST(split("\"a\\\"") == "open");
  BOOST_TEST(split("a\\") == "open");
}

BOOST_AUTO_TEST_CASE(names_in_line_directives_are_escaped_and_nothing_else) {
  BOOST_TEST(rewritten(escape_line_names, "#line 3 \"a\"b\\c\"\nx \"#line 1 \\\"\"\n#line 4\n") ==
             "#line 3 \"a\\\"b\\\\c\"\nx \"#line 1 \\\"\"\n#line 4\n");
  BOOST_TEST(rewritten(escape_line_names, "#line 1 \"plain\"") == "#line 1 \"plain\"");
  BOOST_TEST(rewritten(escape_line_names, "") == "");
}

BOOST_AUTO_TEST_CASE(sizes_have_units_of_1024) {
  BOOST_TEST(*parse_size("1000") == 1000);
  BOOST_TEST(*parse_size("1.5k") == 1536);
  BOOST_TEST(*parse_size("2 GiB") == int64_t{2} << 30);
  for (const char* wrong : {"", "G", "-1", "1X", "1iB", "1MM", "nan", "inf", "1e30"}) BOOST_TEST(!parse_size(wrong));
}

BOOST_AUTO_TEST_CASE(of_foreign_files_a_message_has_the_place_alone) {
  TemporaryFolder own, foreign;
  const std::string mine = own.file("m.slang"), secret = foreign.file("secret");
  publish_file(mine, "mine");
  publish_file(secret, "hush");
  const UsersFiles users({own.path()});
  const auto is_quoted = [&](const std::string& said) {
    return without_foreign_lines(said, users).find("hush") != std::string::npos;
  };
  BOOST_TEST(is_quoted(mine + ":1:2: error: 'hush'\n    1 | hush\n"));
  for (const char* said : {":1:2: error: 'hush'\n    1 | hush\n      | ^\n", "(1): error: hush\n  hush\n  ^\n",
                           "(2): error 10005: newline in hush\nhush\n^\n", ":7: Error: no such instruction: `hush'\n",
                           ":1:1: fatal error: hush\nhush: In hush\nhush\n"}) {
    BOOST_TEST(!is_quoted(secret + said), said);
  }
  const std::string rich =
      "error[E30015]: undefined 'hush'\n --> " + secret + ":1:5\n  |\n1 | hush\n  | ^ 'hush'\n--'\n";
  BOOST_TEST(!is_quoted(rich));
  const std::string both = without_foreign_lines(rich + mine + ":3:1: error: my 'mistake'\n 3 | mistake\n", users);
  BOOST_TEST(both.find(mine + ":3:1: error: my 'mistake'\n 3 | mistake\n") != std::string::npos);
  const std::string plain = "nothing of\nany file";
  BOOST_TEST(without_foreign_lines(plain, users) == plain);
}

BOOST_AUTO_TEST_SUITE_END()
