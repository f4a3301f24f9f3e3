// Threads that meet, written against the services alone: no compiler runs here, so that sanitizers see everything. E.g.
//   g++ -std=c++20 -g -fsanitize=address,undefined -I csrc $TORCH_AND_BOOST_INCLUDES tests/cpp/thread_block_test.cpp
//       csrc/backend/cpu/{fiber,thread_block}.cpp csrc/common/{environment,error}.cpp -lc10
// and the same with -fsanitize=thread, or with -DTORCH_SLANG_FIBER_UCONTEXT.
#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <numeric>
#include <thread>
#include <vector>

#include "backend/cpu/thread_block.h"

BOOST_AUTO_TEST_SUITE(thread_block_test)

using namespace torch_slang;

namespace {

// Runs `body(thread, x, y, z)` for each thread of one block.
template <class Body>
std::string run_block(std::vector<uint32_t> size, const Body& body) {
  size.resize(3, 1);
  BlockWork work;
  std::copy(size.begin(), size.end(), work.block_size);
  work.args = &body;
  work.entry = [](const void* args, TslHostThread* self, const unsigned*, const unsigned index[3]) {
    (*static_cast<const Body*>(args))(self, index[0], index[1], index[2]);
  };
  return ThreadBlock::of_this_thread().run(work);
}

void barrier(TslHostThread* self) { self->barrier(self); }

struct Exchanged {
  unsigned mask;
  int values[kTslWaveSize];
  int sum() const {
    int total = 0;
    for (unsigned k = 0; k < kTslWaveSize; ++k) total += (mask >> k & 1) != 0 ? values[k] : 0;
    return total;
  }
};

Exchanged exchange(TslHostThread* self, unsigned mask, unsigned operation, int value) {
  Exchanged result{0, {}};
  result.mask = self->exchange(self, mask, operation, &value, sizeof(int), result.values);
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_threads_of_every_block_size_run_with_their_own_index) {
  for (std::vector<uint32_t> size : {std::vector<uint32_t>{1}, {31}, {33}, {7, 5}, {3, 4, 5}, {1024}, {16, 16, 4}}) {
    uint32_t count = std::accumulate(size.begin(), size.end(), 1u, std::multiplies<>());
    size.resize(3, 1);
    std::vector<int> seen(count);
    std::string reason = run_block(size, [&](TslHostThread* self, unsigned x, unsigned y, unsigned z) {
      unsigned linear = (z * size[1] + y) * size[0] + x;
      BOOST_TEST(self->lane == linear % 32);
      ++seen[linear];
    });
    BOOST_TEST(reason == "");
    BOOST_TEST(seen == std::vector<int>(count, 1), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(what_is_written_before_a_barrier_is_read_after_it) {
  for (uint32_t count : {2u, 32u, 100u, 1024u}) {
    std::vector<int> values(count);
    std::vector<int> sums(count);
    run_block({count}, [&](TslHostThread* self, unsigned x, unsigned, unsigned) {
      for (int round = 0; round < 3; ++round) {
        values[x] = static_cast<int>(x) + round;
        barrier(self);
        sums[x] += values[(x + 1) % count];
        barrier(self);
      }
    });
    for (uint32_t x = 0; x < count; ++x) BOOST_TEST(sums[x] == static_cast<int>(3 * ((x + 1) % count) + 3));
  }
}

BOOST_AUTO_TEST_CASE(threads_that_left_count_as_arrived_at_a_barrier) {
  std::vector<int> order;
  std::string reason = run_block({96}, [&](TslHostThread* self, unsigned x, unsigned, unsigned) {
    if (x % 3 == 0 || (x >= 32 && x < 64)) return;
    order.push_back(0);
    barrier(self);
    order.push_back(1);
  });
  BOOST_TEST(reason == "");
  BOOST_TEST(order.size() == 2 * (21u + 22u));
  BOOST_TEST(std::is_sorted(order.begin(), order.end()));
}

BOOST_AUTO_TEST_CASE(lanes_of_a_full_mask_exchange_their_values) {
  std::vector<Exchanged> results(70);
  run_block({70}, [&](TslHostThread* self, unsigned x, unsigned, unsigned) {
    results[x] = exchange(self, ~0u, 1, static_cast<int>(x * x));
  });
  for (unsigned x = 0; x < 70; ++x) {
    unsigned lanes = std::min(32u, 70 - x / 32 * 32);
    BOOST_TEST(results[x].mask == (lanes == 32 ? ~0u : (1u << lanes) - 1));
    for (unsigned k = 0; k < lanes; ++k)
      BOOST_TEST(results[x].values[k] == static_cast<int>((x / 32 * 32 + k) * (x / 32 * 32 + k)));
  }
}

// The shape of Slang's text: two arms with a mask each, and a ballot in either arm that joins them again.
BOOST_AUTO_TEST_CASE(two_arms_of_a_branch_meet_apart_and_join_again) {
  const unsigned odd = 0xaaaaaaaa;
  std::vector<int> apart(32);
  std::vector<int> joined(32);
  run_block({32}, [&](TslHostThread* self, unsigned x, unsigned, unsigned) {
    if (x % 2 == 1) {
      apart[x] = exchange(self, odd, 7, 1).sum();
      joined[x] = exchange(self, ~0u, 9, static_cast<int>(x)).sum();
    } else {
      joined[x] = exchange(self, ~0u, 9, static_cast<int>(x)).sum();
    }
  });
  for (int x = 0; x < 32; ++x) {
    BOOST_TEST(apart[x] == (x % 2 == 1 ? 16 : 0));
    BOOST_TEST(joined[x] == 31 * 16);
  }
}

BOOST_AUTO_TEST_CASE(lanes_that_leave_are_no_longer_waited_for) {
  std::vector<int> sums(32, -1);
  std::string reason = run_block({32}, [&](TslHostThread* self, unsigned x, unsigned, unsigned) {
    for (unsigned round = 0; round < x; ++round) sums[x] = exchange(self, ~0u, 3, 1).sum();
  });
  BOOST_TEST(reason == "");
  for (int x = 1; x < 32; ++x) BOOST_TEST(sums[x] == 32 - x);
}

BOOST_AUTO_TEST_CASE(whoever_is_here_meets_by_operation_the_lowest_first) {
  std::vector<unsigned> masks(32);
  std::vector<int> order;
  run_block({32}, [&](TslHostThread* self, unsigned x, unsigned, unsigned) {
    masks[x] = exchange(self, 0, x < 10 ? 20 : 10, 0).mask;
    order.push_back(static_cast<int>(x));
  });
  for (unsigned x = 0; x < 32; ++x) BOOST_TEST(masks[x] == (x < 10 ? 0x3ffu : ~0x3ffu));
  BOOST_TEST(order.front() == 10);
}

BOOST_AUTO_TEST_CASE(lanes_at_a_barrier_do_not_hold_up_those_that_meet_whoever_is_here) {
  std::vector<unsigned> masks(64);
  std::string reason = run_block({64}, [&](TslHostThread* self, unsigned x, unsigned, unsigned) {
    if (x < 40) masks[x] = exchange(self, 0, 1, 0).mask;
    barrier(self);
  });
  BOOST_TEST(reason == "");
  for (unsigned x = 0; x < 64; ++x) BOOST_TEST(masks[x] == (x < 32 ? ~0u : x < 40 ? 0xffu : 0u));
}

BOOST_AUTO_TEST_CASE(a_value_may_lie_inside_its_result) {
  std::vector<int> sums(32);
  run_block({32}, [&](TslHostThread* self, unsigned x, unsigned, unsigned) {
    int values[kTslWaveSize];
    values[0] = static_cast<int>(x);
    self->exchange(self, ~0u, 1, &values[0], sizeof(int), values);
    sums[x] = std::accumulate(values, values + 32, 0);
  });
  BOOST_TEST(sums == std::vector<int>(32, 496), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(lanes_outside_a_meeting_keep_their_places) {
  run_block({32}, [&](TslHostThread* self, unsigned x, unsigned, unsigned) {
    if (x % 5 != 0) return;
    Exchanged result{0, {}};
    std::fill_n(result.values, 32, -1);
    int value = static_cast<int>(x);
    result.mask = self->exchange(self, 0, 1, &value, sizeof(int), result.values);
    for (int k = 0; k < 32; ++k) BOOST_TEST(result.values[k] == (k % 5 == 0 ? k : -1));
  });
}

BOOST_AUTO_TEST_CASE(threads_that_wait_forever_are_an_error_and_the_next_block_runs) {
  std::string reason = run_block({64}, [&](TslHostThread* self, unsigned x, unsigned, unsigned) {
    if (x == 5) {
      exchange(self, ~0u, 1, 0);
    } else {
      barrier(self);
    }
  });
  BOOST_TEST(reason.find("1 in wave operations, 63 at a barrier; thread (5, 0, 0)") != std::string::npos, reason);
  what_is_written_before_a_barrier_is_read_after_it().test_method();
}

BOOST_AUTO_TEST_CASE(blocks_run_on_several_os_threads_at_once) {
  std::vector<int> totals(4);
  std::vector<std::thread> threads;
  for (int& total : totals) {
    threads.emplace_back([&total] {
      for (int round = 0; round < 20; ++round) {
        run_block({128}, [&](TslHostThread* self, unsigned, unsigned, unsigned) {
          int sum = exchange(self, ~0u, 1, 1).sum();
          barrier(self);
          total += sum;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(totals == std::vector<int>(4, 20 * 128 * 32), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(large_local_arrays_fit_a_stack) {
  std::vector<int> sums(256);
  run_block({256}, [&](TslHostThread* self, unsigned x, unsigned, unsigned) {
    volatile int local[32 * 1024 / sizeof(int)];
    for (size_t k = 0; k < std::size(local); ++k) local[k] = static_cast<int>(x);
    barrier(self);
    for (size_t k = 0; k < std::size(local); k += 1024) sums[x] += local[k];
  });
  for (int x = 0; x < 256; ++x) BOOST_TEST(sums[x] == 8 * x);
}

// In a process of its own, which must not get to its end.
BOOST_AUTO_TEST_CASE(a_thread_that_needs_more_than_its_stack_does_not_write_over_another) {
  pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    std::signal(SIGBUS, SIG_DFL);
    ::close(STDERR_FILENO);
    run_block({2}, [](TslHostThread*, unsigned, unsigned, unsigned) {
      volatile char local[300 * 1024];
      for (size_t k = sizeof local; k > 0; k -= 1024) local[k - 1] = 1;
    });
    ::_exit(0);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(!(WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

BOOST_AUTO_TEST_SUITE_END()
