// Repairs of Slang's derivatives that a request leaves out, to see whether Slang still needs them: Note [ledger].
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"

namespace torch_slang {

// Note [ledger]
//   Each repair of an error of Slang's has programs in tests/slang_bugs, the smallest that show it. tests/slang_bugs/test_slang_bugs.py runs them
//   twice: as they are, and with the repair left out, by a define whose value names it, or several: `lost parts, mixed stores`. The second must be wrong: once
//   it is right, Slang has mended the error, and the repair goes.
inline constexpr const char* kLeaveOut = "TORCH_SLANG_LEAVE_OUT";

class LeftOutRepairs {
 public:
  LeftOutRepairs() = default;
  explicit LeftOutRepairs(const CompileRequest& request);
  // Throws CompileError if the define names something that is no repair. `others`: the names of all repairs but those of sources.
  void check(const std::vector<std::vector<std::string_view>>& others) const;

  bool has(std::string_view repair) const { return names_.find(repair) != names_.end(); }

 private:
  void add(std::string_view names);

  std::set<std::string, std::less<>> names_;
};

}  // namespace torch_slang
