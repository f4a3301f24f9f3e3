// Gives device texts for one module: from its Program, or, for an instantiation nobody asked for before, from the disk
// cache or another run of the compiler.
#pragma once

#include <sys/types.h>

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "common/once_each.h"
#include "program/program.h"

namespace torch_slang {

class TextSource {
 public:
  // `pending`: the same Program with texts that are on their way, or invalid.
  TextSource(CompileRequest request, std::shared_ptr<const Program> program,
             std::shared_future<std::shared_ptr<const Program>> pending = {});

  // The Program with the texts that it was loaded with, once they are there; without them if they could not be had.
  std::shared_ptr<const Program> complete();

  // Throws CompileError if the instantiation does not compile. The reference stays valid as long as this object. The
  // first plain function that is asked for in a type brings the texts of all of them in it.
  const DeviceText& text(const std::string& function, Direction direction, const std::vector<ElementType>& types,
                         const std::vector<int64_t>& sizes = {});

 private:
  using Key = std::tuple<std::string, Direction, std::vector<ElementType>, std::vector<int64_t>>;
  void take(const Program& program);
  void take_pending();
  void check_same_files(const Program& program) const;
  const DeviceText* find(const Instantiation& wanted) const;
  std::vector<Instantiation> to_ask_for(const Instantiation& wanted) const;
  const DeviceText* known(const Instantiation& wanted);
  const DeviceText* brought(const Instantiation& wanted);

  const CompileRequest request_;
  const std::shared_ptr<const Program> program_;
  const pid_t process_;
  std::mutex mutex_;  // not held while the compiler runs
  std::map<Key, DeviceText> texts_;
  OnceEach<std::vector<Instantiation>> runs_;  // of the compiler; the key lists the texts that a run makes
  std::shared_ptr<const Program> complete_;
  std::shared_future<std::shared_ptr<const Program>> pending_;  // invalid once its texts are taken
};

}  // namespace torch_slang
