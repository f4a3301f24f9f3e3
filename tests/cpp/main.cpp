// The frame of every test program: Boost.Test itself is compiled here, once for all of them.
#define BOOST_TEST_MODULE torch_slang
#include <boost/test/included/unit_test.hpp>
