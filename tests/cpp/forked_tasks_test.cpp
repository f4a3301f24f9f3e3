// Tasks that forks of a process do: whatever becomes of a fork, each task is done once, here or there.
#include "compiler/forked_tasks.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/forked_texts.h"

namespace torch_slang {
namespace {

// Whether a fork has begun a task, in memory that it shares.
class Begun {
 public:
  Begun()
      : flag_(new (::mmap(nullptr, sizeof(Flag), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                  Flag(false)) {}
  ~Begun() { ::munmap(flag_, sizeof(Flag)); }
  void tell() const { *flag_ = true; }
  void wait() const {
    for (int tries = 0; !*flag_ && tries < 20'000; ++tries) usleep(1000);
  }

 private:
  using Flag = std::atomic<bool>;
  Flag* flag_;
};

using Task = std::function<std::string(size_t)>;

struct Outcome {
  std::map<size_t, int> here;  // how often each task was done in this process
  std::map<size_t, std::string> there;
  std::vector<size_t> waited_for;
};

std::string long_text(size_t i) { return std::to_string(i) + std::string(300'000, 'x') + '\0' + "end"; }

// With several processes, a fork begins a task before this one has done its first.
Outcome run(size_t count, size_t processes, const Task& there = long_text) {
  Outcome outcome;
  const Begun begun;
  ForkedTasks tasks;
  tasks.count = count;
  tasks.processes = processes;
  tasks.here = [&](size_t i) {
    if (count > 1 && processes > 1) begun.wait();
    ++outcome.here[i];
  };
  tasks.there = [&](size_t i) {
    begun.tell();
    return there(i);
  };
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
  const std::vector<Task> failures = {
      [](size_t) -> std::string { throw std::runtime_error("no"); },
      [](size_t) -> std::string { std::abort(); },
      [](size_t) -> std::string { _exit(0); },
      [](size_t) {
        raise(SIGKILL);
        return std::string();
      },
  };
  for (const Task& fails : failures) {
    BOOST_TEST(run(9, 4, fails).there.empty());
    const Outcome some = run(9, 2, [&](size_t i) { return i > 2 ? fails(i) : long_text(i); });
    for (const auto& [i, text] : some.there) BOOST_TEST((i <= 2 && text == long_text(i)));
  }
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
  const Begun begun;
  ForkedTasks tasks;
  tasks.count = 4;
  tasks.processes = 4;
  tasks.here = [&](size_t) {
    begun.wait();
    throw std::runtime_error("wrong");
  };
  tasks.there = [&](size_t) -> std::string {
    begun.tell();
    for (;;) pause();
  };
  tasks.waiting_for = [](size_t) {};
  BOOST_CHECK_THROW(run_forked(tasks), std::runtime_error);
  BOOST_TEST(waitpid(-1, nullptr, WNOHANG) == -1);  // none is left
}

// Texts of forks come together with this process's, in the order in which they were wanted.
BOOST_AUTO_TEST_CASE(texts_of_forks_are_as_if_made_here) {
  std::vector<Instantiation> wanted(6);
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i].function = "f" + std::to_string(i);
  const Begun begun;
  const pid_t self = getpid();
  const auto make = [&](size_t i) {
    if (getpid() == self)
      begun.wait();
    else
      begun.tell();
    DeviceText text;
    text.function = wanted[i].function;
    text.body = i == 5 ? "no UTF-8: \xff" : "body " + std::to_string(i);
    return text;
  };
  const auto texts = make_texts(wanted, 3, make, [](const std::string&, const std::string&) {});
  BOOST_REQUIRE(texts.size() == wanted.size());
  for (size_t i = 0; i < texts.size(); ++i) BOOST_TEST(texts[i].function == wanted[i].function);
  BOOST_TEST(texts[4].body == "body 4");
  BOOST_TEST((texts[5].body == "no UTF-8: \xff"));
}

BOOST_AUTO_TEST_CASE(there_is_a_processor) { BOOST_TEST(usable_processors() >= 1U); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace torch_slang
