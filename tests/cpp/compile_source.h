// Slang source through the compiler's parts in this process, and parts of what comes out.
#pragma once

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>

#include "compiler/compile.h"
#include "compiler/source/session.h"
#include "program/program.h"

namespace torch_slang {

inline const std::string kPath = "/nowhere/kernels.slang";

inline CompileRequest request_for(const std::string& source) {
  CompileRequest request;
  request.path = kPath;
  request.source = source;
  return request;
}

inline Program run_compiler(const CompileRequest& request, Extent extent) {
  Session session(request);
  return compile_request(session, request, extent, [](const std::string&, const std::string&) {});
}

inline Program describe(const std::string& source) { return run_compiler(request_for(source), Extent::DescribeOnly); }
inline Program compile_texts(const CompileRequest& request) { return run_compiler(request, Extent::Texts); }

inline const Function& function_named(const Program& program, const std::string& name) {
  const auto found = std::find_if(program.functions.begin(), program.functions.end(),
                                  [&](const Function& function) { return function.name == name; });
  BOOST_REQUIRE_MESSAGE(found != program.functions.end(), "no function " << name);
  return *found;
}

inline const Leaf& leaf_named(const Function& function, const std::string& name) {
  const auto found =
      std::find_if(function.leaves.begin(), function.leaves.end(), [&](const Leaf& leaf) { return leaf.name == name; });
  BOOST_REQUIRE_MESSAGE(found != function.leaves.end(), "no leaf " << name);
  return *found;
}

inline const DeviceText& text_of(const Program& program, const std::string& function, Direction direction) {
  const auto found = std::find_if(program.texts.begin(), program.texts.end(), [&](const DeviceText& text) {
    return text.function == function && text.direction == direction;
  });
  BOOST_REQUIRE_MESSAGE(found != program.texts.end(), "no text of " << function);
  return *found;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace torch_slang
