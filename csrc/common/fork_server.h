// A program that does its costly beginning once, and answers each request by a fork of itself.
//
// Note [fork server]
//   The program waits at a socket, its standard input. A request is a message with descriptors: the standard streams that the fork
//   is to have, its environment and its folder. Each fork is made a child of who asks (CLONE_PARENT), so that it is waited for, killed
//   and timed as any other child is.
//   The system ends a child when the thread that started it ends (Note [death of the parent] in process.h). A fork counts as started
//   by the thread that started the server. So the server has a thread of its own, which lives until the server and its forks are gone. It
//   ends a server that nobody has asked for a while, and when the process ends.
//   A fork has the rights and limits of its server, and the priority of the thread that asks. If the process has changed its own since
//   the server started, or a thread of higher priority asks than did at first, another server is started.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "common/per_process.h"
#include "common/process_request.h"

namespace torch_slang {

// Starts a server when it is asked for the first time, and again. Never destroyed: threads use it.
class ForkServer {
 public:
  explicit ForkServer(std::chrono::milliseconds patience) : patience_(patience) {}
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;
  ~ForkServer() = delete;

  // As run_process, by a fork of the server, whose argv is the request's. Nothing if there is no server or it cannot fork.
  std::optional<ProcessResult> run(const ProcessRequest& request);

 private:
  class Server;
  struct State;
  class Use;

  const std::chrono::milliseconds patience_;
  PerProcess<State> state_;
};

// What such a program does where its costly beginning is done. Returns true in each fork, which then has the standard streams, the
// environment, the folder and the processors of a request, and false in the server, once nobody can ask any more.
bool serve_forks();

}  // namespace torch_slang
