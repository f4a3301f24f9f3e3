// The rows of the table of passes, and what makes a table sound. It is checked as it is compiled.
#pragma once

#include <span>
#include <string_view>

namespace torch_slang {

class EmittedText;

// Note [table of passes]
//   A pass looks for forms of the text. If it runs before the pass that makes these forms, it changes nothing, and no error says so.
//   So each row has
//     - `needs`: the facts of the text that the pass relies on. Each row that gives one of them, for the same texts, stands above it;
//     - `gives`: the facts that hold after the pass;
//     - `reads` and `changes`: parts of the text. Passes share the tokens and the tree until one reads a part that another has
//       changed. Then tokens and tree are made anew. Two passes that share them and change the same tokens are an error with
//       the names of both.

// Facts of a text.
enum Facts : unsigned {
  kNone = 0,
  kMembers = 1 << 0,         // its declarations are members of a kernel object
  kDeclared = 1 << 1,        // all names that it uses are declared
  kReadInPlace = 1 << 2,     // arrays in contexts are read by element, without a copy of the array
  kRepaired = 1 << 3,        // its derivatives are right, or refused
  kLines = 1 << 4,           // statements say where they come from, and `files` is filled
  kMasks = 1 << 5,           // wave operations know their lanes
  kWideIndices = 1 << 6,     // conversions of indices to 32 bits can be checked
  kBounded = 1 << 7,         // loops end where the room for what they keep does
  kUnread = 1 << 8,          // additions whose result nobody reads are told apart
  kValidHost = 1 << 9,       // host functions that are no valid C++ are left out
};

// Parts of a text.
enum Parts : unsigned {
  kNothing = 0,
  kDeclarations = 1 << 0,  // structs, and heads of functions
  kStatements = 1 << 1,  // which there are, their order, and what they assign and call
  kOperations = 1 << 2,  // divisions, indices, conversions
  kLoopHeads = 1 << 3,
  kPlaces = 1 << 4,  // TSL_AT
  kDirectives = 1 << 5,
  kAll = (1 << 6) - 1,
};

enum class Texts { Kernel, Host, Both };

struct Pass {
  std::string_view name;
  Texts texts;
  int (*apply)(EmittedText& text);  // how often
  unsigned reads, changes;  // Parts
  unsigned needs = kNone, gives = kNone;  // Facts
  bool is_repair = false;  // of an error of Slang's, which a request may leave out: Note [ledger]

  constexpr bool is_for(Texts other) const { return texts == other || texts == Texts::Both || other == Texts::Both; }
};

// The first pass that does not stand where its needs are met; empty: none.
constexpr std::string_view misplaced(std::span<const Pass> passes) {
  for (size_t at = 0; at < passes.size(); ++at) {
    unsigned missing = passes[at].needs;  // facts that no row gives at all
    for (size_t giver = 0; giver < passes.size(); ++giver) {
      missing &= ~passes[giver].gives;
      const bool is_met = (passes[giver].gives & passes[at].needs) != 0;
      if (is_met && giver >= at && passes[giver].is_for(passes[at].texts)) return passes[at].name;
    }
    if (missing != kNone) return passes[at].name;
  }
  return {};
}

}  // namespace torch_slang
