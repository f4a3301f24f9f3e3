// Tasks that forks of a process do: whatever becomes of a fork, each task is done once, here or there.
#include "compiler/forked_tasks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace torch_slang {
namespace {

struct Outcome {
  std::map<size_t, int> here;  // how often each task was done in this process
  std::map<size_t, std::string> there;
  std::vector<size_t> waited_for;
};

std::string long_text(size_t i) { return std::to_string(i) + std::string(300'000, 'x') + '\0' + "end"; }

Outcome run(size_t count, size_t processes, const std::function<std::string(size_t)>& there = long_text) {
  Outcome outcome;
  ForkedTasks tasks;
  tasks.count = count;
  tasks.processes = processes;
  tasks.here = [&](size_t i) {
    if (outcome.here.empty()) usleep(300'000);  // forks take theirs meanwhile
    ++outcome.here[i];
  };
  tasks.there = there;
  tasks.waiting_for = [&](size_t i) { outcome.waited_for.push_back(i); };
  outcome.there = run_forked(tasks);
  for (size_t i = 0; i < count; ++i) BOOST_TEST(outcome.here[i] + outcome.there.count(i) == 1, "task " << i);
  return outcome;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(forked_tasks_test)

BOOST_AUTO_TEST_CASE(forks_return_what_they_made) {
  for (const size_t processes : {2, 3, 8, 100}) {
    for (const size_t count : {2, 7, 40}) {
      const Outcome outcome = run(count, processes);
      BOOST_TEST(!outcome.there.empty());
      for (const auto& [i, text] : outcome.there) BOOST_TEST((text == long_text(i)));
    }
  }
}

BOOST_AUTO_TEST_CASE(one_process_or_one_task_needs_no_fork) {
  const pid_t self = getpid();
  const auto there = [](size_t) -> std::string { std::abort(); };
  BOOST_TEST(run(5, 1, there).here.size() == 5);
  BOOST_TEST(run(5, 0, there).here.size() == 5);
  BOOST_TEST(run(1, 8, there).here.size() == 1);
  BOOST_TEST(run(0, 8, there).here.empty());
  BOOST_TEST(getpid() == self);
}

BOOST_AUTO_TEST_CASE(what_a_fork_cannot_do_is_done_here) {
  const auto killed_at_3 = [](size_t i) {
    if (i == 3) raise(SIGKILL);
    return long_text(i);
  };
  BOOST_TEST(run(9, 3, killed_at_3).here[3] == 1);
  const auto throws_at_2 = [](size_t i) -> std::string {
    if (i == 2) throw std::runtime_error("no");
    return long_text(i);
  };
  BOOST_TEST(run(9, 3, throws_at_2).here[2] == 1);
  const Outcome none = run(9, 4, [](size_t) -> std::string { _exit(0); });
  BOOST_TEST(none.there.empty());
}

BOOST_AUTO_TEST_CASE(whoever_waits_says_for_which_task) {
  const auto slow = [](size_t i) {
    usleep(600'000);
    return long_text(i);
  };
  const Outcome outcome = run(2, 2, slow);
  BOOST_REQUIRE(outcome.there.size() == 1);
  BOOST_TEST(outcome.waited_for == std::vector<size_t>{outcome.there.begin()->first});
}

BOOST_AUTO_TEST_CASE(an_error_here_ends_the_forks) {
  ForkedTasks tasks;
  tasks.count = 4;
  tasks.processes = 4;
  tasks.here = [](size_t) {
    usleep(300'000);
    throw std::runtime_error("wrong");
  };
  tasks.there = [](size_t) -> std::string {
    for (;;) pause();
  };
  tasks.waiting_for = [](size_t) {};
  BOOST_CHECK_THROW(run_forked(tasks), std::runtime_error);
  BOOST_TEST(waitpid(-1, nullptr, WNOHANG) == -1);  // none is left
}

BOOST_AUTO_TEST_CASE(there_is_a_processor) { BOOST_TEST(usable_processors() >= 1U); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace torch_slang
