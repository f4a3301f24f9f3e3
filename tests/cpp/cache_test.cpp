#include <boost/test/unit_test.hpp>

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "cache/cache.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/process.h"
#include "common/temporary_folder.h"

BOOST_AUTO_TEST_SUITE(cache_test)

using namespace torch_slang;
using cache::Kind;

namespace {

// Each test has a cache folder of its own, and the counters' change since its start.
struct OwnCache {
  OwnCache() { ::setenv("TORCH_SLANG_CACHE_DIR", folder.c_str(), 1); }
  cache::Stats since() const {
    cache::Stats now = cache::stats();
    now.hits -= before.hits;
    now.misses -= before.misses;
    now.writes -= before.writes;
    now.damaged -= before.damaged;
    return now;
  }
  std::string entry(Kind kind) const { return folder + "/" + cache::name_of(kind) + "/" + key; }

  TemporaryFolder root;
  std::string folder = root.file("cache");
  std::string key = digest_of("key");
  cache::Stats before = cache::stats();
};

void change_file(const std::string& path, const std::function<void(std::string&)>& change) {
  std::string bytes = read_file_or_throw(path);
  change(bytes);
  BOOST_REQUIRE(publish_file(path, bytes));
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_was_written_is_read_back_under_its_kind_and_key_only, OwnCache) {
  const std::string payload("binary\0text", 11);
  BOOST_TEST(!cache::read(Kind::Program, key).has_value());
  BOOST_TEST(cache::write(Kind::Program, key, payload));
  BOOST_TEST(*cache::read(Kind::Program, key) == payload);
  BOOST_TEST(!cache::read(Kind::Cubin, key).has_value());
  BOOST_TEST(!cache::read(Kind::Program, digest_of("other")).has_value());
  BOOST_TEST(cache::write(Kind::Program, key, ""));
  BOOST_TEST(cache::read(Kind::Program, key)->empty());
  BOOST_TEST(since().hits == 2);
  BOOST_TEST(since().misses == 3);
  BOOST_TEST(since().writes == 2);
  BOOST_TEST(since().damaged == 0);
}

BOOST_FIXTURE_TEST_CASE(damaged_entry_is_deleted_and_a_miss, OwnCache) {
  const std::pair<const char*, std::function<void(std::string&)>> damages[] = {
      {"payload bit", [](std::string& bytes) { bytes[2] ^= 1; }},
      {"checksum bit", [](std::string& bytes) { bytes.back() ^= 1; }},
      {"truncated", [](std::string& bytes) { bytes.resize(bytes.size() - 5); }},
      {"truncated to less than a trailer", [](std::string& bytes) { bytes.resize(7); }},
      {"empty", [](std::string& bytes) { bytes.clear(); }},
      {"longer", [](std::string& bytes) { bytes += "x"; }},
      {"foreign version", [](std::string& bytes) { bytes[bytes.size() - 64 - 16] ^= 2; }},
      {"foreign file", [](std::string& bytes) { bytes.assign(1000, 'x'); }},
  };
  int64_t damaged = 0;
  for (const auto& [name, damage] : damages) {
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(cache::write(Kind::Cubin, key, "payload"));
      change_file(entry(Kind::Cubin), damage);
      BOOST_TEST(!cache::read(Kind::Cubin, key).has_value());
      BOOST_TEST(!is_file(entry(Kind::Cubin)));
      BOOST_TEST(since().damaged == ++damaged);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(entry_moved_to_another_key_is_damaged, OwnCache) {
  cache::write(Kind::Program, key, "payload");
  const std::string other = digest_of("other");
  BOOST_TEST(::rename(entry(Kind::Program).c_str(), (folder + "/program/" + other).c_str()) == 0);
  BOOST_TEST(!cache::read(Kind::Program, other).has_value());
  BOOST_TEST(since().damaged == 1);
}

BOOST_FIXTURE_TEST_CASE(entry_that_cannot_be_read_is_a_miss_and_stays, OwnCache) {
  cache::write(Kind::Program, key, "payload");
  BOOST_TEST(::unlink(entry(Kind::Program).c_str()) == 0);
  BOOST_TEST(::mkdir(entry(Kind::Program).c_str(), 0700) == 0);
  BOOST_TEST(!cache::read(Kind::Program, key).has_value());
  BOOST_TEST(since().damaged == 0);
  BOOST_TEST(!cache::write(Kind::Program, key, "payload"));
}

BOOST_FIXTURE_TEST_CASE(shared_object_loads_from_its_verified_entry, OwnCache) {
  const std::string source = root.file("f.cpp");
  publish_file(source, "extern \"C\" int forty_two() { return 42; }");
  ProcessRequest compile;
  compile.argv = {"c++", "-shared", "-fPIC", source, "-o", root.file("f.so")};
  BOOST_REQUIRE(run_process(compile).succeeded());
  const std::string object = read_file_or_throw(root.file("f.so"));
  BOOST_REQUIRE(cache::write(Kind::Object, key, object));

  std::string payload;
  const auto library = cache::load_object(key, &payload);
  BOOST_REQUIRE(library.has_value());
  BOOST_TEST((payload == object));
  BOOST_TEST(library->function<int()>("forty_two")() == 42);
}

BOOST_FIXTURE_TEST_CASE(new_folder_is_private, OwnCache) {
  cache::write(Kind::Program, key, "payload");
  struct stat facts{};
  ::stat(folder.c_str(), &facts);
  BOOST_TEST((facts.st_mode & 0777) == 0700u);
  ::stat(entry(Kind::Program).c_str(), &facts);
  BOOST_TEST((facts.st_mode & 0777) == 0600u);
}

BOOST_FIXTURE_TEST_CASE(folder_that_others_may_write_to_is_neither_read_nor_written, OwnCache) {
  cache::write(Kind::Program, key, "payload");
  for (const mode_t mode : {0770, 0707, 0777}) {
    BOOST_TEST(::chmod(folder.c_str(), mode) == 0);
    BOOST_TEST(!cache::read(Kind::Program, key).has_value());
    BOOST_TEST(!cache::write(Kind::Program, digest_of("other"), "payload"));
  }
  ::chmod(folder.c_str(), 0700);
  BOOST_TEST(cache::read(Kind::Program, key).has_value());
  BOOST_TEST(!is_file(folder + "/program/" + digest_of("other")));
}

BOOST_FIXTURE_TEST_CASE(folder_below_one_that_anyone_may_write_to_is_not_used, OwnCache) {
  cache::write(Kind::Program, key, "payload");
  ::chmod(root.path().c_str(), 0777);
  BOOST_TEST(!cache::read(Kind::Program, key).has_value());
  ::chmod(root.path().c_str(), 01777);
  BOOST_TEST(cache::read(Kind::Program, key).has_value());
}

BOOST_FIXTURE_TEST_CASE(entry_that_others_may_write_to_is_not_read, OwnCache) {
  cache::write(Kind::Program, key, "payload");
  ::chmod(entry(Kind::Program).c_str(), 0666);
  BOOST_TEST(!cache::read(Kind::Program, key).has_value());
  ::chmod(entry(Kind::Program).c_str(), 0600);
  ::rename(entry(Kind::Program).c_str(), root.file("elsewhere").c_str());
  BOOST_TEST(::symlink(root.file("elsewhere").c_str(), entry(Kind::Program).c_str()) == 0);
  BOOST_TEST(!cache::read(Kind::Program, key).has_value());
}

BOOST_FIXTURE_TEST_CASE(another_users_folder_is_neither_read_nor_written, OwnCache) {
  if (::geteuid() != 0) {
    BOOST_TEST_MESSAGE("skipped: only root can give a folder away");
    return;
  }
  cache::write(Kind::Program, key, "payload");
  BOOST_TEST(::chown(folder.c_str(), 12345, 12345) == 0);
  BOOST_TEST(!cache::read(Kind::Program, key).has_value());
  BOOST_TEST(!cache::write(Kind::Program, key, "payload"));
  BOOST_TEST(::chown(folder.c_str(), 0, 0) == 0);
  BOOST_TEST(::chown(entry(Kind::Program).c_str(), 12345, 12345) == 0);
  BOOST_TEST(!cache::read(Kind::Program, key).has_value());
}

BOOST_AUTO_TEST_CASE(folder_that_cannot_be_made_is_no_error) {
  for (const char* folder : {"/proc/no_such_folder/cache", "/dev/null/cache"}) {
    ::setenv("TORCH_SLANG_CACHE_DIR", folder, 1);
    BOOST_TEST(!cache::write(Kind::Program, digest_of("key"), "payload"));
    BOOST_TEST(!cache::read(Kind::Program, digest_of("key")).has_value());
    BOOST_TEST(cache::clear() == 0);
  }
}

BOOST_FIXTURE_TEST_CASE(clear_removes_entries_and_nothing_else, OwnCache) {
  cache::write(Kind::Program, key, "payload");
  cache::write(Kind::Object, key, "payload");
  publish_file(folder + "/mine", "not an entry");
  BOOST_TEST(cache::clear() == 2);
  BOOST_TEST(!cache::read(Kind::Program, key).has_value());
  BOOST_TEST(is_file(folder + "/mine"));
}

BOOST_AUTO_TEST_CASE(folder_comes_from_the_variables_in_order) {
  ::setenv("TORCH_SLANG_CACHE_DIR", "/a", 1);
  BOOST_TEST(cache::path() == "/a");
  ::unsetenv("TORCH_SLANG_CACHE_DIR");
  ::setenv("XDG_CACHE_HOME", "/b", 1);
  BOOST_TEST(cache::path() == "/b/torch_slang");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  ::setenv("HOME", "/c", 1);
  BOOST_TEST(cache::path() == "/c/.cache/torch_slang");
}

// Every reader sees no entry or a whole one, whichever writer it came from, and nothing is ever called damaged.
BOOST_FIXTURE_TEST_CASE(processes_and_threads_share_a_folder, OwnCache) {
  const auto payload = [](int who) { return std::string(20000 + 1000 * who, static_cast<char>('a' + who)); };
  const auto work = [&](int first) {
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int who = first; who < first + 4; ++who) {
      threads.emplace_back([&, who] {
        for (int i = 0; i < 50; ++i) {
          cache::write(Kind::Program, key, payload(who));
          const auto found = cache::read(Kind::Program, key);
          wrong += !found || *found != payload(found->front() - 'a');
        }
      });
    }
    for (auto& thread : threads) thread.join();
    return static_cast<int>(wrong + cache::stats().damaged - before.damaged);
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work(4) != 0);
  BOOST_TEST(work(0) == 0);
  int status = -1;
  ::waitpid(child, &status, 0);
  BOOST_TEST(status == 0);
  BOOST_TEST(list_folder(folder + "/program").size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
