#include <boost/test/unit_test.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "cache/cache.h"
#include "cache/entry.h"
#include "cache/folder.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/temporary_folder.h"

BOOST_AUTO_TEST_SUITE(cache_folder_test)

using namespace torch_slang;
using cache::IfMissing;
using cache::Kind;

namespace {

struct OwnFolder {
  OwnFolder() {
    ::setenv("TORCH_SLANG_CACHE_DIR", top.c_str(), 1);
    cache::write(Kind::Program, key, "payload");
  }

  TemporaryFolder root;
  std::string top = root.file("cache");
  std::string programs = top + "/program";
  std::string key = digest_of("key");
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_was_checked_is_used_when_the_path_means_another_folder, OwnFolder) {
  const Descriptor folder = cache::open_folder(Kind::Program, IfMissing::Leave);
  BOOST_REQUIRE(folder.is_open());
  BOOST_TEST(::rename(top.c_str(), root.file("elsewhere").c_str()) == 0);
  BOOST_TEST(make_folders(programs));
  publish_file(join_path(programs, key), "foreign");
  const auto bytes = read_descriptor(cache::open_entry(folder, key));
  BOOST_TEST(bytes->starts_with("payload"));
  BOOST_TEST(read_file(cache::path_in(folder, key))->starts_with("payload"));
  BOOST_TEST(cache::publish_entry(folder, digest_of("other"), "other"));
  BOOST_TEST(!is_file(join_path(programs, digest_of("other"))));
  BOOST_TEST(cache::remove_entry(folder, key));
  BOOST_TEST(is_file(join_path(programs, key)));
}

BOOST_FIXTURE_TEST_CASE(folder_of_a_kind_that_others_may_write_to_is_not_used, OwnFolder) {
  BOOST_TEST(::chmod(programs.c_str(), 0770) == 0);
  BOOST_TEST(!cache::read(Kind::Program, key).has_value());
  BOOST_TEST(!cache::write(Kind::Program, digest_of("other"), "payload"));
  BOOST_TEST(cache::write(Kind::Cubin, key, "payload"));  // each is checked for itself
}

BOOST_FIXTURE_TEST_CASE(folder_of_a_kind_that_is_a_link_is_not_used, OwnFolder) {
  BOOST_TEST(::rename(programs.c_str(), root.file("elsewhere").c_str()) == 0);
  BOOST_TEST(::symlink(root.file("elsewhere").c_str(), programs.c_str()) == 0);
  BOOST_TEST(!cache::read(Kind::Program, key).has_value());
}

BOOST_FIXTURE_TEST_CASE(cache_itself_may_be_a_link, OwnFolder) {
  BOOST_TEST(::rename(top.c_str(), root.file("elsewhere").c_str()) == 0);
  BOOST_TEST(::symlink(root.file("elsewhere").c_str(), top.c_str()) == 0);
  BOOST_TEST(cache::read(Kind::Program, key).has_value());
}

BOOST_FIXTURE_TEST_CASE(entry_that_is_a_link_or_a_pipe_is_a_miss, OwnFolder) {
  const std::string entry = join_path(programs, key);
  BOOST_TEST(::rename(entry.c_str(), root.file("elsewhere").c_str()) == 0);
  BOOST_TEST(::symlink(root.file("elsewhere").c_str(), entry.c_str()) == 0);
  BOOST_TEST(!cache::read(Kind::Program, key).has_value());
  BOOST_TEST(::unlink(entry.c_str()) == 0);
  BOOST_TEST(::mkfifo(entry.c_str(), 0600) == 0);
  BOOST_TEST(!cache::read(Kind::Program, key).has_value());
}

BOOST_FIXTURE_TEST_CASE(locks_and_unfinished_entries_are_no_keys, OwnFolder) {
  BOOST_TEST(cache::is_key(key));
  BOOST_TEST(!cache::is_key(key + ".lock"));
  BOOST_TEST(!cache::is_key(".tmp-1-2-3-4"));
}

BOOST_AUTO_TEST_SUITE_END()
