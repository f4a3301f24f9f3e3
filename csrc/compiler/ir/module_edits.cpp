#include "compiler/ir/module_edits.h"

#include <c10/util/Exception.h>

#include <utility>

namespace torch_slang {

int64_t ModuleEdits::behind(int64_t at) const {
  for (int64_t left = 1; left > 0 && at < size(); ++at) left += (*this)[at].children - 1;
  return at;
}

std::vector<int64_t> ModuleEdits::children(int64_t at) const {
  std::vector<int64_t> all;
  const int64_t end = behind(at);
  for (int64_t child = at + 1; child < end; child = behind(child)) all.push_back(child);
  return all;
}

int64_t ModuleEdits::insert(int64_t at, int32_t opcode, int64_t type, std::vector<int64_t> operands) {
  const int64_t number = static_cast<int64_t>(all_.size());
  operands.insert(operands.begin(), type);
  all_.push_back({opcode, 0, (*this)[at].location, std::move(operands), ""});
  in_front_[at].push_back(number);
  return number;
}

void ModuleEdits::replace(int64_t at, int32_t opcode, int64_t type, std::vector<int64_t> operands) {
  operands.insert(operands.begin(), type);
  (*this)[at].opcode = opcode;
  (*this)[at].references = std::move(operands);
}

void ModuleEdits::redirect(const std::map<int64_t, int64_t>& targets) {
  for (Instruction& one : all_) {
    for (int64_t& reference : one.references) {
      if (const auto found = targets.find(reference); found != targets.end()) reference = found->second;
    }
  }
}

void ModuleEdits::erase(int64_t at) {
  TORCH_INTERNAL_ASSERT((*this)[at].children == 0);
  erased_.insert(at);
}

std::vector<int64_t> ModuleEdits::parents() const {
  std::vector<int64_t> all(count_, -1);
  std::vector<std::pair<int64_t, int64_t>> open;  // an instruction, and how many of its children are to come
  for (int64_t i = 0; i < size(); ++i) {
    while (!open.empty() && open.back().second == 0) open.pop_back();
    if (!open.empty()) {
      all[static_cast<size_t>(i)] = open.back().first;
      --open.back().second;
    }
    open.emplace_back(i, (*this)[i].children);
  }
  return all;
}

std::vector<Instruction> ModuleEdits::applied() const {
  std::vector<Instruction> old = all_;
  const std::vector<int64_t> parent = parents();
  const auto add_children = [&](int64_t at, int64_t more) {
    old[static_cast<size_t>(parent[static_cast<size_t>(at)])].children += more;
  };
  for (const auto& [at, added] : in_front_) add_children(at, static_cast<int64_t>(added.size()));
  for (const int64_t at : erased_) add_children(at, -1);

  std::vector<Instruction> made;
  std::vector<int64_t> numbers(all_.size(), -1);  // the new ones
  const auto append = [&](int64_t at) {
    numbers[static_cast<size_t>(at)] = static_cast<int64_t>(made.size());
    made.push_back(std::move(old[static_cast<size_t>(at)]));
  };
  for (int64_t at = 0; at < size(); ++at) {
    if (const auto added = in_front_.find(at); added != in_front_.end()) {
      for (const int64_t number : added->second) append(number);
    }
    if (erased_.count(at) == 0) append(at);
  }
  for (Instruction& one : made) {
    for (int64_t& reference : one.references) {
      if (reference < 0) continue;
      reference = numbers[static_cast<size_t>(reference)];
      TORCH_INTERNAL_ASSERT(reference >= 0, "an instruction that is used was erased");
    }
  }
  return made;
}

}  // namespace torch_slang
