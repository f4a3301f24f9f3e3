// The numbers that registers of PTX text hold.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace torch_slang {

// Of one function. NVRTC writes virtual registers: one for each value, however many of its paths give it another constant.
class PtxRegisters {
 public:
  // `function`: from its `{` to its `}`.
  explicit PtxRegisters(std::string_view function);

  // The constants that the register of this name, "%r7", is given by moves, also by way of other registers; nothing if some of
  // its values are no constants. A path that gives it no value counts for nothing.
  std::optional<std::set<std::string>> numbers_in(std::string_view name) const;

 private:
  struct Definitions {
    std::vector<std::string_view> moved;  // numbers, and registers
    bool has_others = false;  // results of instructions that are no moves
  };
  void add(std::string_view line);
  bool collect(std::string_view name, std::set<std::string_view>& seen, std::set<std::string>& numbers) const;

  std::unordered_map<std::string_view, Definitions> definitions_;
};

}  // namespace torch_slang
