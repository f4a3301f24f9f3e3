// Choices by measurement: which of several equally right candidates was the fastest on some hardware
// for some kind of arguments. Choices are found by a key (a digest of all that they depend on), kept in memory and in the
// disk cache, where other processes find them, and can be written out and read in again. Any thread may call these.
//
// Note [choosing]
//   Whoever has a choice to make asks `get` first. If there is none and `mode` is On, it measures, and tells `put`. Off
//   means the first alternative, unmeasured; Frozen means that nothing may be measured. What callers keep of these answers
//   is good as long as `generation` stays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace torch_slang::choices {

// One alternative and how it did.
struct Attempt {
  std::string value;  // "BM=64, BN=32"
  double seconds = 0;  // of one call; 0: it was not measured
  std::string problem;  // why it was left out, or empty
};

struct Choice {
  std::string op;  // "slang::matmul_backward"
  std::string about;  // the rest of the case that it was made for, for people: "NVIDIA H200, x: float32 [1024, 512]"
  std::string value;  // of the attempt that won
  std::vector<Attempt> tried;
  double spent = 0;  // seconds that choosing took
};
using Keyed = std::pair<std::string, Choice>;

enum class Mode : int8_t { On, Off, Frozen };
const char* name_of(Mode mode);  // "on"
Mode mode();  // as set, else TORCH_SLANG_TUNING, else On
void set_mode(const std::string& name);  // throws for another word than on, off, frozen

// Seconds that one choice may take: as set, else TORCH_SLANG_TUNING_BUDGET, else 10.
double budget();
void set_budget(double seconds);

std::optional<Choice> get(const std::string& key);  // from memory, else from the disk
void put(const std::string& key, Choice choice);  // into both, and into the log

uint64_t generation();  // another number after set_mode, read_json and forget

std::vector<Keyed> known();  // choices that this process made, met or read, by op
std::vector<Keyed> made();  // those it made itself, in order
int64_t forget();  // all that is known, on the disk too; returns how many that were there

std::string to_json(const std::vector<Keyed>& choices);
int64_t read_json(const std::string& text);  // adds them to the known choices, in memory; throws if it is no such text

}  // namespace torch_slang::choices
