#include "compiler/forked_tasks.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "common/descriptor.h"
#include "common/files.h"
#include "common/may_fork.h"
#include "compiler/crash_signals.h"

namespace torch_slang {
namespace {

constexpr size_t kMostProcesses = 8;  // each may take 100 MB

// Memory that forks share with their parent.
struct Board {
  std::atomic<size_t> next{0};  // the first task that nobody has taken
  std::atomic<size_t> at[kMostProcesses];  // of each fork: the task that it took last, or looked at

  // Takes the next task and returns its number; `count` or more if none is left. The number is put into `at` first, so that `at`
  // is right even of a fork that is stopped as soon as it has taken the task.
  size_t take(size_t slot, size_t count) {
    size_t task = next;
    do at[slot] = task;
    while (task < count && !next.compare_exchange_weak(task, task + 1));
    return task;
  }
};

struct Unmap {
  void operator()(Board* board) const { ::munmap(board, sizeof(Board)); }
};
using SharedBoard = std::unique_ptr<Board, Unmap>;

SharedBoard make_board() {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return SharedBoard(memory == MAP_FAILED ? nullptr : new (memory) Board);
}

// Where memory is short, the system ends a fork before its parent and before the program that started torch-slangc. The parent does
// the fork's tasks then.
void go_first() { write_all(Descriptor(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)), "1000"); }

// What stands before each result in a fork's file.
struct Header {
  size_t task;
  size_t size;
};

// A fork writes its results to a file in memory. So it does not wait for its parent to read them, and if it dies, the results of the
// tasks that it finished are there.
class Fork {
 public:
  explicit Fork(size_t slot) : slot_(slot), results_(file_in_memory("torch_slang_results")) {}
  ~Fork() {
    if (process_ > 0) ::kill(process_, SIGKILL);
    wait();
  }
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;

  bool start(const ForkedTasks& tasks, Board& board) {
    if (!results_.is_open()) return false;
    board.at[slot_] = tasks.count;
    const pid_t parent = ::getpid();
    process_ = ::fork();
    if (process_ == 0) work(tasks, board, parent);
    return process_ > 0;
  }

  // The number of the task that the fork is at; the tasks' count or more if it is at none.
  size_t at(const Board& board) const { return board.at[slot_]; }

  void wait() {
    while (process_ > 0 && ::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
    process_ = 0;
  }

  void read(std::map<size_t, std::string>& results) const {
    ::lseek(results_.get(), 0, SEEK_SET);
    const std::string all = read_descriptor(results_).value_or("");
    for (std::string_view rest = all; rest.size() >= sizeof(Header);) {
      Header header;
      std::memcpy(&header, rest.data(), sizeof header);
      rest.remove_prefix(sizeof header);
      if (rest.size() < header.size) return;  // the fork died as it wrote this
      results[header.task] = rest.substr(0, header.size);
      rest.remove_prefix(header.size);
    }
  }

 private:
  [[noreturn]] void work(const ForkedTasks& tasks, Board& board, pid_t parent) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    go_first();
    for (const int signal : kCrashSignals) ::signal(signal, SIG_DFL);
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    const bool quiet = nowhere >= 0 && ::dup2(nowhere, STDOUT_FILENO) >= 0 && ::dup2(nowhere, STDERR_FILENO) >= 0;
    if (!quiet || ::getppid() != parent) ::_exit(1);
    try {
      for (size_t i; (i = board.take(slot_, tasks.count)) < tasks.count;) {
        const std::string text = tasks.there(i);
        const Header header{i, text.size()};
        if (!write_all(results_, {reinterpret_cast<const char*>(&header), sizeof header})) break;
        if (!write_all(results_, text)) break;
      }
    } catch (...) {  // the parent tries, and reports it
    }
    ::_exit(0);
  }

  const size_t slot_;
  const Descriptor results_;
  pid_t process_ = 0;
};

}  // namespace

size_t usable_processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<size_t>(CPU_COUNT(&set)) : 1;
}

std::map<size_t, std::string> run_forked(const ForkedTasks& tasks) {
  const size_t processes = may_fork() ? std::min({tasks.processes, tasks.count, kMostProcesses}) : 1;
  const SharedBoard board = processes > 1 ? make_board() : nullptr;
  std::list<Fork> forks;
  for (size_t slot = 1; board != nullptr && slot < processes; ++slot) {
    if (!forks.emplace_back(slot).start(tasks, *board)) {
      forks.pop_back();
      break;
    }
  }
  std::map<size_t, std::string> results;
  std::vector<bool> is_done(tasks.count);
  if (!forks.empty()) {
    for (size_t i; (i = board->take(0, tasks.count)) < tasks.count; is_done[i] = true) tasks.here(i);
  }
  for (Fork& fork : forks) {
    if (fork.at(*board) < tasks.count) tasks.waiting_for(fork.at(*board));
    fork.wait();
    fork.read(results);
  }
  for (size_t i = 0; i < tasks.count; ++i) {
    if (!is_done[i] && results.count(i) == 0) tasks.here(i);
  }
  return results;
}

}  // namespace torch_slang
