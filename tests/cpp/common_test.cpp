#include <boost/test/unit_test.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "common/dynamic_library.h"
#include "common/environment.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/interrupts.h"
#include "common/log.h"
#include "common/process.h"
#include "common/temporary_folder.h"
#include "torch_slang/error.h"

BOOST_AUTO_TEST_SUITE(common_test)

using namespace torch_slang;

namespace {

ProcessResult run_shell(const std::string& script, int timeout_ms = 0, const std::string& input = {}) {
  ProcessRequest request;
  request.argv = {"sh", "-c", script};
  request.timeout = std::chrono::milliseconds(timeout_ms);
  request.input = input;
  request.environment = {{"TORCH_SLANG_TEST_WORD", "a b;c"}};
  return run_process(request);
}

// Writes to stderr while it lives are collected.
class CapturedStderr {
 public:
  CapturedStderr() : saved_(::dup(2)) { BOOST_REQUIRE(std::freopen(file_.c_str(), "w", stderr) != nullptr); }
  ~CapturedStderr() { restore(); }
  std::string text() {
    restore();
    return *read_file(file_);
  }

 private:
  void restore() {
    if (saved_ < 0) return;
    std::fflush(stderr);
    ::dup2(saved_, 2);
    ::close(saved_);
    saved_ = -1;
  }

  TemporaryFolder folder_;
  std::string file_ = folder_.file("stderr");
  int saved_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(errors)

BOOST_AUTO_TEST_CASE(errors_are_c10_errors_told_apart_by_type) {
  try {
    throw_compile_error("slang::sqr: line ", 3);
  } catch (const c10::Error& error) {
    BOOST_TEST(dynamic_cast<const CompileError*>(&error) != nullptr);
    BOOST_TEST(dynamic_cast<const LaunchError*>(&error) == nullptr);
    BOOST_TEST(error.what_without_backtrace() == std::string("slang::sqr: line 3"));
  }
  BOOST_CHECK_THROW(throw_launch_error("too large"), LaunchError);
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(variables)

BOOST_AUTO_TEST_CASE(empty_variable_counts_as_unset) {
  ::setenv("TORCH_SLANG_TEST", "", 1);
  BOOST_TEST(!environment("TORCH_SLANG_TEST").has_value());
  BOOST_TEST(environment_or("TORCH_SLANG_TEST", "x") == "x");
  BOOST_TEST(environment_flag("TORCH_SLANG_TEST", true));
}

BOOST_AUTO_TEST_CASE(wrong_value_names_the_variable_and_the_value) {
  const auto names_both = [](const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return text.find("TORCH_SLANG_TEST") != std::string::npos && text.find("'12x'") != std::string::npos;
  };
  ::setenv("TORCH_SLANG_TEST", "12x", 1);
  BOOST_CHECK_EXCEPTION(environment_integer("TORCH_SLANG_TEST", 0), c10::Error, names_both);
  BOOST_CHECK_EXCEPTION(environment_flag("TORCH_SLANG_TEST", false), c10::Error, names_both);
  ::setenv("TORCH_SLANG_TEST", "-12", 1);
  BOOST_TEST(environment_integer("TORCH_SLANG_TEST", 0) == -12);
  ::setenv("TORCH_SLANG_TEST", "off", 1);
  BOOST_TEST(!environment_flag("TORCH_SLANG_TEST", true));
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(logging)

BOOST_AUTO_TEST_CASE(level_decides_which_lines_appear) {
  CapturedStderr captured;
  set_log_level(LogLevel::Info);
  log_info("seen ", 1);
  log_debug("not seen");
  set_log_level(LogLevel::Off);
  log_warning("not seen either");
  set_log_level(LogLevel::Warning);
  BOOST_TEST(captured.text() == "torch_slang: seen 1\n");
}

BOOST_AUTO_TEST_CASE(one_warning_is_written_once) {
  CapturedStderr captured;
  for (int i = 0; i < 3; ++i) log_warning_once("only once");
  BOOST_TEST(captured.text() == "torch_slang: only once\n");
}

BOOST_AUTO_TEST_CASE(slow_compile_is_told_by_itself_and_a_failed_one_never) {
  CapturedStderr captured;
  {
    CompileTimer quick("quick", "cpu");
  }
  try {
    CompileTimer failed("failed", "cpu");
    throw std::runtime_error("no");
  } catch (const std::runtime_error&) {
  }
  {
    CompileTimer slow("slang::sqr", "sm_90");
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  }
  const std::string text = captured.text();
  const std::string first = "torch_slang: compiling slang::sqr for sm_90, which takes more than a second ...\n";
  BOOST_TEST(text.rfind(first, 0) == 0u);
  BOOST_TEST(text.rfind("torch_slang: compiled slang::sqr for sm_90 in 1.", first.size()) == first.size());
  BOOST_TEST(text.find('\n', first.size()) == text.size() - 1);
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(digests)

BOOST_AUTO_TEST_CASE(digests_are_sha256) {
  BOOST_TEST(digest_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  BOOST_TEST(digest_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  BOOST_TEST(digest_of(std::string(1000000, 'a')) ==
             "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

BOOST_AUTO_TEST_CASE(pieces_of_any_length_give_the_digest_of_the_whole) {
  std::string whole;
  Sha256 pieces;
  for (size_t size = 0; size < 200; ++size) {
    const std::string piece(size, static_cast<char>(size));
    whole += piece;
    pieces.update(piece);
  }
  BOOST_TEST(pieces.hex() == digest_of(whole));
}

BOOST_AUTO_TEST_CASE(field_boundaries_count) {
  BOOST_TEST(Digest().add("ab").add("c").hex() != Digest().add("a").add("bc").hex());
  BOOST_TEST(Digest().add(1).add(true).hex() == Digest().add(int64_t{1}).add(1u).hex());
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(files)

BOOST_AUTO_TEST_CASE(published_file_is_whole_private_and_leaves_no_temporary) {
  TemporaryFolder folder;
  const std::string content("a\0b", 3);
  BOOST_TEST(publish_file(folder.file("f"), "old"));
  BOOST_TEST(publish_file(folder.file("f"), content));
  BOOST_TEST(*read_file(folder.file("f")) == content);
  BOOST_TEST(list_folder(folder.path()) == std::vector<std::string>{"f"}, boost::test_tools::per_element());
  struct stat facts{};
  ::stat(folder.file("f").c_str(), &facts);
  BOOST_TEST((facts.st_mode & 0777) == 0600u);
  BOOST_TEST(!publish_file(folder.file("none/f"), content));
}

BOOST_AUTO_TEST_CASE(unreadable_file_is_told_by_path_and_reason) {
  TemporaryFolder folder;
  BOOST_TEST(!read_file(folder.file("none")).has_value());
  BOOST_CHECK_EXCEPTION(read_file_or_throw(folder.file("none")), c10::Error, [](const c10::Error& error) {
    return std::string(error.what_without_backtrace()).find("/none: No such file or directory") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(temporary_folder_goes_with_its_content) {
  std::string path;
  {
    TemporaryFolder first;
    TemporaryFolder moved = std::move(first);
    path = moved.path();
    BOOST_TEST(make_folders(moved.file("a/b/c")));
    BOOST_TEST(publish_file(moved.file("a/b/c/f"), "x"));
  }
  struct stat facts{};
  BOOST_TEST(::stat(path.c_str(), &facts) != 0);
}

BOOST_AUTO_TEST_CASE(make_folders_fails_on_a_file_in_the_way) {
  TemporaryFolder folder;
  publish_file(folder.file("f"), "x");
  BOOST_TEST(make_folders(folder.file("a/b")));
  BOOST_TEST(make_folders(folder.file("a/b")));
  BOOST_TEST(!make_folders(folder.file("f/b")));
  BOOST_TEST(!make_folders(folder.file("f")));
}

BOOST_AUTO_TEST_CASE(stamp_changes_with_the_content_and_survives_a_link) {
  TemporaryFolder folder;
  publish_file(folder.file("f"), "x");
  const auto before = file_stamp(folder.file("f"));
  BOOST_TEST(::symlink("f", folder.file("link").c_str()) == 0);
  BOOST_TEST(*file_stamp(folder.file("link")) == *before);
  publish_file(folder.file("f"), "xy");
  BOOST_TEST(*file_stamp(folder.file("f")) != *before);
  BOOST_TEST(!file_stamp(folder.file("none")).has_value());
}

BOOST_AUTO_TEST_CASE(programs_are_found_as_execvp_finds_them) {
  BOOST_TEST(find_program("sh").has_value());
  BOOST_TEST(!find_program("torch_slang_no_such_program").has_value());
  BOOST_TEST(!find_program("/tmp").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(process)

BOOST_AUTO_TEST_CASE(output_error_status_input_and_environment_arrive) {
  const auto result = run_shell("cat; printf '%s' \"$TORCH_SLANG_TEST_WORD\" >&2; exit 3", 0, "in put");
  BOOST_TEST(result.output == "in put");
  BOOST_TEST(result.error == "a b;c");
  BOOST_TEST(result.status == 3);
  BOOST_TEST(!result.succeeded());
  BOOST_TEST(result.how_it_ended() == "exited with status 3");
  BOOST_TEST(run_shell("true").succeeded());
}

BOOST_AUTO_TEST_CASE(output_is_heard_before_the_program_ends) {
  const TemporaryFolder folder;
  const std::string gate = folder.file("gate");
  ProcessRequest request;
  request.argv = {"sh", "-c", "echo one; while ! [ -e \"$0\" ]; do sleep 0.01; done; echo two", gate};
  std::string first;
  request.on_output = [&](const std::string& output) {
    if (first.empty()) first = output;
    publish_file(gate, "");
  };
  BOOST_TEST(run_process(request).output == "one\ntwo\n");
  BOOST_TEST(first == "one\n");
}

BOOST_AUTO_TEST_CASE(arguments_are_not_read_by_a_shell) {
  ProcessRequest request;
  request.argv = {"printf", "%s", "$HOME; `id` * \"x\""};
  BOOST_TEST(run_process(request).output == "$HOME; `id` * \"x\"");
}

BOOST_AUTO_TEST_CASE(big_output_on_both_streams_arrives_whole) {
  const auto result = run_shell("head -c 3000000 /dev/zero >&2 & head -c 5000000 /dev/zero; wait");
  BOOST_TEST(result.output.size() == 5000000u);
  BOOST_TEST(result.error.size() == 3000000u);
}

BOOST_AUTO_TEST_CASE(big_input_that_nobody_reads_is_no_trouble) {
  BOOST_TEST(run_shell("exit 0", 0, std::string(5000000, 'x')).succeeded());
  BOOST_TEST(run_shell("wc -c", 0, std::string(5000000, 'x')).output == "5000000\n");
}

BOOST_AUTO_TEST_CASE(time_out_kills_the_whole_group) {
  TemporaryFolder folder;
  const auto start = std::chrono::steady_clock::now();
  const auto result = run_shell("echo before; (sleep 3; touch " + folder.file("late") + ") & sleep 60", 300);
  BOOST_TEST((std::chrono::steady_clock::now() - start < std::chrono::seconds(2)));
  BOOST_TEST(result.timed_out);
  BOOST_TEST(result.output == "before\n");
  BOOST_TEST(result.how_it_ended() == "did not finish in 0.3 s and was killed");
  std::this_thread::sleep_for(std::chrono::milliseconds(3200));
  BOOST_TEST(!is_file(folder.file("late")));
}

BOOST_AUTO_TEST_CASE(time_out_counts_also_when_the_output_is_closed) {
  BOOST_TEST(run_shell("exec >&- 2>&-; sleep 60", 200).timed_out);
}

BOOST_AUTO_TEST_CASE(helper_that_outlives_the_program_does_not_hold_us) {
  const auto start = std::chrono::steady_clock::now();
  BOOST_TEST(run_shell("sleep 60 & echo done").output == "done\n");
  BOOST_TEST((std::chrono::steady_clock::now() - start < std::chrono::seconds(5)));
}

BOOST_AUTO_TEST_CASE(program_with_helpers_ends_as_it_would_alone) {
  ProcessRequest request;
  request.has_helpers = true;
  const auto run = [&](const std::string& script) {
    request.argv = {"sh", "-c", script, "name", "a b;c", "\"d"};
    return run_process(request);
  };
  request.input = "in put";
  BOOST_TEST(run("cat; printf '%s|' \"$@\" >&2; exit 3").output == "in put");
  BOOST_TEST(run("cat; printf '%s|' \"$@\" >&2; exit 3").error == "a b;c|\"d|");
  BOOST_TEST(run("exit 3").how_it_ended() == "exited with status 3");
  BOOST_TEST(run("kill -SEGV $$").how_it_ended() == "was ended by signal 11 (Segmentation fault)");
  BOOST_TEST(run("true").succeeded());
  request.timeout = std::chrono::milliseconds(300);
  BOOST_TEST(run("sleep 60").timed_out);
}

BOOST_AUTO_TEST_CASE(interrupt_ends_the_program) {
  struct Wanted : std::exception, Interrupted {};
  static std::atomic<bool> wanted;
  wanted = false;
  set_interrupt_check([] {
    if (wanted) throw Wanted();
  });
  const auto start = std::chrono::steady_clock::now();
  std::thread person([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    wanted = true;
  });
  BOOST_CHECK_THROW(run_shell("sleep 60"), Interrupted);
  person.join();
  set_interrupt_check(nullptr);
  BOOST_TEST((std::chrono::steady_clock::now() - start < std::chrono::seconds(5)));
}

BOOST_AUTO_TEST_CASE(signal_is_reported_by_number_and_name) {
  const auto result = run_shell("kill -SEGV $$");
  BOOST_TEST(result.signal == 11);
  BOOST_TEST(!result.succeeded());
  BOOST_TEST(result.how_it_ended() == "was ended by signal 11 (Segmentation fault)");
}

BOOST_AUTO_TEST_CASE(program_that_cannot_start_says_why) {
  ProcessRequest request;
  request.argv = {"torch_slang_no_such_program"};
  BOOST_TEST(run_process(request).start_error.find("torch_slang_no_such_program was not found") == 0u);
  TemporaryFolder folder;
  publish_file(folder.file("f"),
               "\x7f"
               "ELF no program",
               0700);
  request.argv = {folder.file("f")};
#ifndef __SANITIZE_THREAD__  // its fork does not tell the parent
  BOOST_TEST(run_process(request).how_it_ended() == "could not be started (Exec format error)");
#endif
}

BOOST_AUTO_TEST_CASE(child_inherits_no_open_files) {
  const int open = ::dup(1);  // without close-on-exec
  const auto result = run_shell("ls /proc/self/fd | wc -l");
  ::close(open);
  BOOST_TEST(std::stoi(result.output) <= 4);  // 0, 1, 2 and that of ls itself
}

BOOST_AUTO_TEST_CASE(many_threads_run_programs_at_once) {
  std::vector<std::thread> threads;
  std::vector<int> right(8, 0);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t, &right] {
      for (int i = 0; i < 10; ++i)
        right[t] += run_shell("cat; exit " + std::to_string(t), 0, std::to_string(i)).status == t;
    });
  }
  for (auto& thread : threads) thread.join();
  for (const int count : right) BOOST_TEST(count == 10);
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(libraries)

BOOST_AUTO_TEST_CASE(missing_library_and_missing_symbol_are_named) {
  BOOST_CHECK_EXCEPTION(DynamicLibrary::open("libtorch_slang_none.so"), c10::Error, [](const c10::Error& error) {
    return std::string(error.what_without_backtrace()).find("cannot load the library libtorch_slang_none.so") !=
           std::string::npos;
  });
  const auto math = DynamicLibrary::open("libm.so.6");
  BOOST_TEST(math.function<double(double)>("sqrt")(4.0) == 2.0);
  BOOST_TEST(math.find("no_such_symbol") == nullptr);
  BOOST_CHECK_EXCEPTION(math.symbol("no_such_symbol"), c10::Error, [](const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return text.find("libm.so.6 has no symbol no_such_symbol") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(only_libraries_that_the_process_has_are_already_loaded) {
  BOOST_TEST(DynamicLibrary::already_loaded("libc.so.6").has_value());
  BOOST_TEST(!DynamicLibrary::already_loaded("libtorch_slang_none.so").has_value());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
