// Forks of a server of shells (main.cpp): what they are told on their standard input is a script.
#include <boost/test/unit_test.hpp>

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/files.h"
#include "common/fork_server.h"
#include "common/interrupts.h"
#include "common/temporary_folder.h"

BOOST_AUTO_TEST_SUITE(fork_server_test)

using namespace torch_slang;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kPatience{60000};

ForkServer& new_server(milliseconds patience = kPatience) { return *new ForkServer(patience); }

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::optional<ProcessResult> try_script(ForkServer& server, const std::string& script, int timeout_ms = 0) {
  ProcessRequest request;
  request.argv = {own_program(), "--shells"};
  request.input = script + "\n";
  request.timeout = milliseconds(timeout_ms);
  return server.run(request);
}

ProcessResult run_script(ForkServer& server, const std::string& script, int timeout_ms = 0) {
  auto result = try_script(server, script, timeout_ms);
  BOOST_REQUIRE(result.has_value());
  return *std::move(result);
}

// The server, which is a child of this process as its forks are, but has a program of its own.
std::vector<pid_t> servers() {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = read_file(entry.path().string() + "/stat").value_or("");
    const std::string command = read_file(entry.path().string() + "/cmdline").value_or("");
    const size_t behind = stat.rfind(')');
    if (behind == std::string::npos || command.find("--shells") == std::string::npos) continue;
    if (std::atoi(stat.c_str() + behind + 4) == ::getpid()) found.push_back(std::stoi(name));
  }
  return found;
}

void signal_new_servers(const std::vector<pid_t>& before, int signal) {
  for (const pid_t one : servers()) {
    if (std::find(before.begin(), before.end(), one) == before.end()) ::kill(one, signal);
  }
}

void wait_until(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(10));
  BOOST_TEST(holds());
}

}  // namespace

BOOST_AUTO_TEST_CASE(output_error_and_status_arrive) {
  ForkServer& server = new_server();
  const auto result = run_script(server, "echo out; echo err >&2; exit 3");
  BOOST_TEST(result.output == "out\n");
  BOOST_TEST(result.error == "err\n");
  BOOST_TEST(result.how_it_ended() == "exited with status 3");
  BOOST_TEST(run_script(server, "kill -SEGV $$").how_it_ended() == "was ended by signal 11 (Segmentation fault)");
  BOOST_TEST(run_script(server, "true").succeeded());
}

BOOST_AUTO_TEST_CASE(one_server_gives_children_of_this_process) {
  ForkServer& server = new_server();
  const auto before = servers();
  const std::string own = std::to_string(::getpid()) + "\n";
  BOOST_TEST(run_script(server, "echo $PPID").output == own);
  const auto first = servers();
  BOOST_TEST(first.size() == before.size() + 1);
  BOOST_TEST(run_script(server, "echo $PPID").output == own);
  BOOST_TEST(servers() == first, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(big_input_and_output_arrive_whole) {
  ForkServer& server = new_server();
  const std::string comment = "#" + std::string(3000000, 'x') + "\n";
  const auto result = run_script(server, comment + "head -c 3000000 /dev/zero >&2 & head -c 5000000 /dev/zero; wait");
  BOOST_TEST(result.output.size() == 5000000u);
  BOOST_TEST(result.error.size() == 3000000u);
}

BOOST_AUTO_TEST_CASE(environment_folder_and_processors_are_those_of_now) {
  ForkServer& server = new_server();
  ::unsetenv("TORCH_SLANG_TEST_NOW");
  BOOST_TEST(run_script(server, "echo \"[$TORCH_SLANG_TEST_NOW]\"").output == "[]\n");
  ::setenv("TORCH_SLANG_TEST_NOW", "a b\nc", 1);
  BOOST_TEST(run_script(server, "echo \"[$TORCH_SLANG_TEST_NOW]\"").output == "[a b\nc]\n");
  ::unsetenv("TORCH_SLANG_TEST_NOW");
  BOOST_TEST(run_script(server, "echo \"[$TORCH_SLANG_TEST_NOW]\"").output == "[]\n");

  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  BOOST_TEST(run_script(server, "/bin/pwd").output == std::filesystem::current_path().string() + "\n");
  std::filesystem::current_path(before);

  cpu_set_t all;
  cpu_set_t one;
  BOOST_REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  BOOST_REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  BOOST_TEST(run_script(server, "nproc").output == "1\n");
  BOOST_REQUIRE(::sched_setaffinity(0, sizeof all, &all) == 0);
  BOOST_TEST(run_script(server, "nproc").output == std::to_string(CPU_COUNT(&all)) + "\n");
}

BOOST_AUTO_TEST_CASE(time_out_kills_the_whole_group_and_not_the_server) {
  ForkServer& server = new_server();
  const TemporaryFolder folder;
  run_script(server, "true");
  const auto result = run_script(server, "echo before; (sleep 2; touch " + folder.file("late") + ") & sleep 60", 700);
  BOOST_TEST(result.timed_out);
  BOOST_TEST(result.output == "before\n");
  const auto there = servers();
  BOOST_TEST(run_script(server, "echo after").output == "after\n");
  BOOST_TEST(servers() == there, boost::test_tools::per_element());
  std::this_thread::sleep_for(milliseconds(1700));
  BOOST_TEST(!is_file(folder.file("late")));
}

BOOST_AUTO_TEST_CASE(interrupt_ends_the_fork) {
  struct Wanted : std::exception, Interrupted {};
  static std::atomic<bool> wanted;
  wanted = false;
  ForkServer& server = new_server();
  const TemporaryFolder folder;
  set_interrupt_check([] {
    if (wanted) throw Wanted();
  });
  std::thread person([&] {
    while (!is_file(folder.file("there"))) std::this_thread::sleep_for(milliseconds(5));
    wanted = true;
  });
  BOOST_CHECK_THROW(try_script(server, "touch " + folder.file("there") + "; sleep 60"), Interrupted);
  person.join();
  set_interrupt_check(nullptr);
  BOOST_TEST(run_script(server, "echo after").output == "after\n");
}

BOOST_AUTO_TEST_CASE(many_threads_each_get_their_own_answer) {
  ForkServer& server = new_server();
  std::vector<std::string> outputs(24);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < outputs.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto result = try_script(server, "sleep 0.1; echo " + std::to_string(i));
      if (result) outputs[i] = result->output;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < outputs.size(); ++i) BOOST_TEST(outputs[i] == std::to_string(i) + "\n");
}

BOOST_AUTO_TEST_CASE(forks_outlive_the_thread_that_asked_first) {
  ForkServer& server = new_server();
  std::thread([&] { try_script(server, "true"); }).join();
  const auto there = servers();
  BOOST_TEST(run_script(server, "sleep 0.2; echo there").output == "there\n");
  BOOST_TEST(servers() == there, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(server_that_nobody_asks_ends) {
  ForkServer& server = new_server(milliseconds(300));
  const auto before = servers();
  for (const std::string word : {"first", "second"}) {
    BOOST_TEST(run_script(server, "sleep 0.6; echo " + word).output == word + "\n");
    wait_until([&] { return servers() == before; });
  }
}

BOOST_AUTO_TEST_CASE(server_that_does_not_answer_is_given_up) {
  ForkServer& server = new_server();
  const auto before = servers();
  run_script(server, "true");
  signal_new_servers(before, SIGSTOP);
  BOOST_TEST(!try_script(server, "echo lost", 200).has_value());
  wait_until([&] { return servers() == before; });
  BOOST_TEST(!try_script(server, "echo no").has_value());  // it may be slow again
}

// Else it would do what the process may no longer do.
BOOST_AUTO_TEST_CASE(process_with_other_rights_or_limits_has_another_server) {
  ForkServer& server = new_server();
  rlimit before = {};
  BOOST_REQUIRE(::getrlimit(RLIMIT_CORE, &before) == 0);
  run_script(server, "true");
  const auto there = servers();
  rlimit less = before;
  less.rlim_cur = before.rlim_max == 0 ? 0 : before.rlim_max == RLIM_INFINITY ? 4096 : before.rlim_max - 1;
  if (less.rlim_cur == before.rlim_cur) return;  // it cannot be less
  BOOST_REQUIRE(::setrlimit(RLIMIT_CORE, &less) == 0);
  BOOST_TEST(run_script(server, "echo there").output == "there\n");
  BOOST_TEST((servers() != there));
  BOOST_REQUIRE(::setrlimit(RLIMIT_CORE, &before) == 0);

  if (::geteuid() != 0) return;
  constexpr uid_t kNobody = 65534;
  BOOST_REQUIRE(::setresuid(kNobody, kNobody, 0) == 0);
  const auto result = try_script(server, "id -u");
  BOOST_REQUIRE(::setresuid(0, 0, 0) == 0);
  BOOST_TEST((!result || result->output == "65534\n"));  // nothing where the program's folder is root's alone
  BOOST_TEST(run_script(server, "id -u").output == "0\n");
}

BOOST_AUTO_TEST_CASE(server_with_threads_does_not_fork) {
  ProcessRequest request;
  request.argv = {own_program(), "--threads"};
  request.input = "echo\n";
  BOOST_TEST(!new_server().run(request).has_value());
  request.argv = {"sh", "-c", "exec " + own_program() + " --shells"};
  BOOST_TEST(new_server().run(request).has_value());
}

BOOST_AUTO_TEST_CASE(fork_that_is_another_ones_child_is_refused) {
  ForkServer& server = new_server();
  ProcessRequest request;
  request.argv = {"sh", "-c", own_program() + " --shells; true"};
  request.input = "echo\n";
  BOOST_TEST(!server.run(request).has_value());
}

BOOST_AUTO_TEST_CASE(killed_server_is_followed_by_another) {
  ForkServer& server = new_server();
  const auto before = servers();
  run_script(server, "true");
  signal_new_servers(before, SIGKILL);
  BOOST_TEST(!try_script(server, "echo lost").has_value());  // the caller runs it by itself
  BOOST_TEST(run_script(server, "echo next").output == "next\n");
}

BOOST_AUTO_TEST_CASE(program_that_is_no_server_gives_nothing) {
  for (const std::string& program : {std::string("true"), std::string("torch_slang_no_such_program")}) {
    ProcessRequest request;
    request.argv = {program};
    request.input = "echo";
    BOOST_TEST(!new_server().run(request).has_value());
  }
}

BOOST_AUTO_TEST_CASE(fork_of_this_process_has_a_server_of_its_own) {
  ForkServer& server = new_server();
  run_script(server, "true");
  const auto there = servers();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto result = try_script(server, "echo $PPID");
    ::_exit(result && result->output == std::to_string(::getpid()) + "\n" ? 0 : 1);
  }
  int status = -1;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
  BOOST_TEST(servers() == there, boost::test_tools::per_element());
  BOOST_TEST(run_script(server, "echo still").output == "still\n");
}

BOOST_AUTO_TEST_SUITE_END()
