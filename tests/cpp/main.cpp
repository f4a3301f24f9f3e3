// The frame of every test program: Boost.Test itself is compiled here, once for all of them.
#define BOOST_TEST_MODULE torch_slang
#define BOOST_TEST_NO_MAIN
#define BOOST_TEST_ALTERNATIVE_INIT_API
#include <unistd.h>

#include <boost/test/included/unit_test.hpp>
#include <string>
#include <thread>

#include "common/fork_server.h"

// `--shells`: the server of fork_server_test.cpp, whose forks are shells; `--threads`: it has another thread.
int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--threads") std::thread([] { pause(); }).detach();
  if (first != "--threads" && first != "--shells") return boost::unit_test::unit_test_main(&init_unit_test, argc, argv);
  return torch_slang::serve_forks() ? execl("/bin/sh", "sh", nullptr) : 0;
}
