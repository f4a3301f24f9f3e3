#include "compiler/forked_texts.h"

#include <c10/util/Exception.h>

#include <utility>

#include "compiler/forked_tasks.h"
#include "program/instantiations.h"

namespace torch_slang {

std::vector<DeviceText> make_texts(const std::vector<Instantiation>& wanted, size_t processes,
                                   const std::function<DeviceText(size_t)>& make,
                                   const std::function<void(const std::string&, const std::string&)>& progress) {
  std::vector<DeviceText> texts(wanted.size());
  ForkedTasks tasks;
  tasks.count = wanted.size();
  tasks.processes = processes;
  tasks.here = [&](size_t i) { texts[i] = make(i); };
  tasks.there = [&](size_t i) {
    Program made;
    made.texts = {make(i)};
    return to_json(made);
  };
  tasks.waiting_for = [&](size_t i) { progress(describe_instantiation(wanted[i]), wanted[i].function); };
  for (const auto& [i, json] : run_forked(tasks)) {
    try {
      texts[i] = std::move(program_from_json(json).texts.front());
    } catch (const c10::Error&) {  // it has a file's name that is no UTF-8
      texts[i] = make(i);
    }
  }
  return texts;
}

}  // namespace torch_slang
