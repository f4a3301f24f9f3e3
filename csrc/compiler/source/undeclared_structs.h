// Declares the structs of a source IDifferentiable that are not, and may carry a derivative.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/source/constant_calls.h"
#include "compiler/source/type_declarations.h"

namespace torch_slang {

// Note [undeclared structs]
//   To Slang a struct that is not IDifferentiable has no derivative, and what is put into one (`Pair p = {x, y};`) loses its own,
//   without a word. No user means that. So structs with fields that may have a derivative are declared IDifferentiable, in the
//   text that Slang reads; it leaves out the fields that cannot have one, and those that are `no_diff`.
//     - An interface with differentiable methods is declared so too: its values are constants otherwise, in generic functions as
//       well, and so are type parameters that structs have fields of. An interface that is the type of a struct's field stays as it
//       is: Slang cannot differentiate that struct. Where a value loses its derivative in such an interface, Note [lost derivatives]
//       says so in an error.
//     - A struct with tensors in it that a kernel has as parameter stays as it is. A kernel's parameter of a struct that is
//       declared here becomes `no_diff`: it is passed as before. So do the parameters of functions whose derivative is written by
//       the user, or called by name: it has the parameters that the user gave it.
//     - Constructors of such structs become [Differentiable].
//   A function that returns such a struct and is called where a derivative is wanted becomes [Differentiable] if Slang asks for that
//   (E41022): to Slang its value was a constant, as the struct was. It often makes one of tensors that have no derivative.
//   Where that does not compile, the structs that Slang's messages name stay as they are, or less is done (Declaring), at last
//   nothing. The derivatives of functions that have values of such a struct, or call one that has, are then refused, with what
//   Slang said.
enum class Declaring { None, Structs, All };  // All: interfaces, type parameters and constructors too

struct NamesInFunction {
  std::string qualified_name;
  Names names;
};

// What one source has to say.
struct StructFacts {
  StructFacts() = default;
  // `differentiated`: functions that become [Differentiable].
  explicit StructFacts(const SourceCode& code, const Names& differentiated = {});

  std::vector<TypeDeclaration> types;
  Names extended;       // extension X : IDifferentiable
  Names conforming;     // interfaces that an extension gives to a type
  Names of_kernels;     // in parameters of kernels
  Names derived_by_name;  // functions in bwd_diff(f), [BackwardDerivativeOf(f)] and the like
  Names forward_by_name;  // those in fwd_diff(f)
  Names called;         // in bodies of differentiable functions
  Names built;          // structs of which such bodies make values
  std::multimap<std::string, NamesInFunction> functions;  // differentiable ones, by their last name
  OutParameters outs;  // Note [constant calls]
};

// What all sources of a module say together.
class UndeclaredStructs {
 public:
  // `kept`: these stay as they are. `differentiated`: these functions become [Differentiable].
  explicit UndeclaredStructs(Names kept = {}, Names differentiated = {})
      : kept_(std::move(kept)), differentiated_(std::move(differentiated)) {}

  void add(const StructFacts& facts, const std::string& path);
  void decide();  // when all are added

  // The structs, and interfaces, that are declared.
  const Names& declared() const { return declared_; }
  const OutParameters& outs() const { return all_.outs; }
  // The functions whose forward derivative is called by name.
  const Names& forward_derivatives() const { return all_.forward_by_name; }
  // The names in a differentiable function, and in those that it names.
  Names names_reached(const std::string& qualified_name) const;
  void declare_in(SourceCode& code, Declaring how) const;
  // Whether a function of the name may become [Differentiable]: it is in the code, and returns a struct that is declared.
  bool may_differentiate(const SourceCode& code, std::string_view function) const;
  // Of the structs that ought to be declared, and are not, one whose values the function or what it calls may have: its name, and
  // where it is. What it calls goes by last names: one of two functions of a name may be refused for the other, but none is missed.
  std::optional<std::pair<std::string, std::string>> lost_in(const std::string& qualified_name, Declaring how) const;

 private:
  friend class Declarer;
  bool holds_views(const TypeDeclaration& type) const;
  bool may_carry(const TypeDeclaration& type) const;
  bool may_declare(const TypeDeclaration& type) const;
  bool may_declare_interface(const TypeDeclaration& type) const;
  bool is_lost(const TypeDeclaration& type, Declaring how) const;

  const Names kept_, differentiated_;
  std::vector<std::pair<TypeDeclaration, std::string>> types_;  // with their files
  std::map<std::string, const TypeDeclaration*, std::less<>> by_name_;
  StructFacts all_;
  Names viewing_, carrying_, declared_;
};

}  // namespace torch_slang
