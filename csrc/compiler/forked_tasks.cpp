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
#include <list>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "common/descriptor.h"

namespace torch_slang {
namespace {

constexpr size_t kMostProcesses = 8;  // each may take 100 MB

// Memory that forks share with their parent.
struct Board {
  std::atomic<size_t> next{0};  // the first task that nobody has taken
  std::atomic<size_t> at[kMostProcesses];  // of each fork: the task that it took last, or looked at

  // The next task, or one that is none. `at` is told before the task is taken: whoever dies or hangs then is there.
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

bool write_all(int file, const void* data, size_t size) {
  const char* bytes = static_cast<const char*>(data);
  for (size_t done = 0; done < size;) {
    const ssize_t written = ::write(file, bytes + done, size - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

// Never a standard stream, which a fork turns away.
Descriptor file_in_memory() {
  const Descriptor file(::memfd_create("torch_slang_results", MFD_CLOEXEC));
  return Descriptor(::fcntl(file.get(), F_DUPFD_CLOEXEC, 3));
}

// Where memory is short, a fork is ended before its parent, or whoever started that: its tasks are done all the same.
void go_first() {
  const Descriptor file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  write_all(file.get(), "1000", 4);
}

// What stands before each result in a fork's file.
struct Header {
  size_t task;
  size_t size;
};

// Its results go to a file in memory: it need not wait for a reader, and what it has finished before it died is there.
class Fork {
 public:
  explicit Fork(size_t slot) : slot_(slot), results_(file_in_memory()) {}
  ~Fork() {
    if (process_ > 0) ::kill(process_, SIGKILL);
    wait();
  }
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;

  bool start(const ForkedTasks& tasks, Board& board) {
    if (!results_.is_open()) return false;
    board.at[slot_] = tasks.count;  // none
    const pid_t parent = ::getpid();
    process_ = ::fork();
    if (process_ == 0) work(tasks, board, parent);
    return process_ > 0;
  }

  // The task that it is at, or one that is none.
  size_t at(const Board& board) const { return board.at[slot_]; }

  void wait() {
    while (process_ > 0 && ::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
    process_ = 0;
  }

  void read(std::map<size_t, std::string>& results) const {
    Header header;
    for (off_t at = 0; read_at(at, &header, sizeof header);) {
      std::string text(header.size, '\0');
      at += static_cast<off_t>(sizeof header);
      if (!read_at(at, text.data(), text.size())) return;
      at += static_cast<off_t>(text.size());
      results[header.task] = std::move(text);
    }
  }

 private:
  [[noreturn]] void work(const ForkedTasks& tasks, Board& board, pid_t parent) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    go_first();
    for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, SIG_DFL);
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    const bool quiet = nowhere >= 0 && ::dup2(nowhere, STDOUT_FILENO) >= 0 && ::dup2(nowhere, STDERR_FILENO) >= 0;
    if (!quiet || ::getppid() != parent) ::_exit(1);
    try {
      for (size_t i; (i = board.take(slot_, tasks.count)) < tasks.count;) {
        const std::string text = tasks.there(i);
        const Header header{i, text.size()};
        if (!write_all(results_.get(), &header, sizeof header)) break;
        if (!write_all(results_.get(), text.data(), text.size())) break;
      }
    } catch (...) {  // the parent tries, and reports it
    }
    ::_exit(0);
  }

  bool read_at(off_t from, void* to, size_t size) const {
    for (size_t done = 0; done < size;) {
      const ssize_t got =
          ::pread(results_.get(), static_cast<char*>(to) + done, size - done, from + static_cast<off_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      done += static_cast<size_t>(got);
    }
    return true;
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
  const size_t processes = std::min({tasks.processes, tasks.count, kMostProcesses});
  const SharedBoard board = processes > 1 ? make_board() : nullptr;
  std::list<Fork> forks;
  for (size_t slot = 1; board != nullptr && slot < processes; ++slot) {
    if (!forks.emplace_back(slot).start(tasks, *board)) {
      forks.pop_back();
      break;
    }
  }
  std::map<size_t, std::string> results;
  if (forks.empty()) {
    for (size_t i = 0; i < tasks.count; ++i) tasks.here(i);
    return results;
  }
  std::vector<bool> is_done(tasks.count);
  for (size_t i; (i = board->take(0, tasks.count)) < tasks.count; is_done[i] = true) tasks.here(i);
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
