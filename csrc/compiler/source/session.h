// A Slang session for one request: its macros, search paths, files and the preloaded library. It loads modules and emits code.
#pragma once

#include <slang.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/quoted_files.h"
#include "compiler/ir/repairs.h"
#include "compiler/slang/com.h"
#include "compiler/source/source_files.h"
#include "program/program.h"

namespace torch_slang {

// Slang's text as usual, or with the least optimisation.
enum class Emission { Optimised, Plain };

// Slang itself, with its core module: most of a small compile, and the same for all requests.
Com<slang::IGlobalSession> make_global_session();

// Directives after which no macro of the user's or of ours is defined.
std::string undefine_macros(const CompileRequest& request);

struct ModuleSource {
  std::string name, path, text;
};

class Session {
 public:
  enum class Library { AsBuilt, FromText };  // AsBuilt: the compiled one beside the program, if it is there

  // CUDA text, or C++ of [TorchEntryPoint] functions. SecondDerivatives: CUDA text, with the library's views of order 2, whose
  // forward derivatives have a backward.
  enum class Output { Kernels, HostFunctions, SecondDerivatives };

  // `text`: of the request's file, if somebody has read it.
  explicit Session(const CompileRequest& request, Library library = Library::AsBuilt,
                   const std::optional<std::string>& text = std::nullopt,
                   Com<slang::IGlobalSession> global = make_global_session());
  // One more for the same request, which shares what costs most to set up. `generic_tensors`: Note [generic tensors] in
  // generic_tensors.h.
  Session(const CompileRequest& request, const Session& sibling, Output output, bool generic_tensors = false);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The user's files that were read so far, and the request's own text.
  std::vector<const SourceCode*> sources() const;
  const SourceCode* source_of(const std::string& path) const;  // null: it was not read

  // Whether the files read since it was opened declare accesses of their own: Note [accesses of the user's own]. The session is
  // then opened anew, without ours, and the modules that were loaded before are gone.
  bool gives_way(const CompileRequest& request);

  // Declares the structs of the files so, or more of them once all files are known: Note [undeclared structs]. Opened anew if so.
  void declare(const CompileRequest& request, Declaring how, Names kept);
  bool declares_more(const CompileRequest& request);
  // The functions that Slang has refused a file for, and that may, become [Differentiable] (the same Note), or none is any longer.
  bool differentiates_more(const CompileRequest& request, const std::string& diagnostics);
  bool differentiates_none(const CompileRequest& request);

  // Note [functions on demand]
  //   Functions of Slang's core without derivatives (floor, fract, max3, ...) have one in the module torch_slang.functions. It takes
  //   0.1 s to load, and most files that name such a function need none, so it is imported where Slang has refused a
  //   file for a call without a derivative. The session is then opened anew.
  bool imports_functions(const CompileRequest& request, std::string_view diagnostics);

  // Loads source text as a module. Null if it does not compile; `diagnostics` then says why, and holds warnings else.
  slang::IModule* load(const ModuleSource& source, std::string* diagnostics);
  // The same, of a module that derivatives are made of: Note [promotions]. Modules that it imports must be promoted before.
  slang::IModule* load_promoted(const ModuleSource& source, Stores stores, std::string* diagnostics);
  struct Import {
    std::string name, path;
    slang::IModule* module;
  };
  // The modules of the user's that others import, each behind those that it imports itself.
  std::vector<Import> imports() const;
  // Whether it has loaded such modules; and loads those of another session here, promoted.
  bool has_imports() const { return !imports().empty(); }
  void promote_imports(const Session& sibling);
  // CUDA text of one entry point of the module, without Slang's prelude; empty on failure.
  std::string emit(slang::IModule* module, const std::string& entry, Emission emission, std::string* diagnostics);

  // C++ of the source's host functions, behind a prelude of Slang's; empty on failure. Of an Output::HostFunctions session.
  std::string emit_host(const std::string& name, const std::string& path, const std::string& source,
                        std::string* diagnostics);

  // The library in Slang's own form, as the file beside the program holds it.
  std::string compiled_library();

  std::string slang_version() const { return global_->getBuildTagString(); }
  SourceFiles& files() { return files_; }
  slang::ISession* slang() const { return session_.get(); }

 private:
  void open(const CompileRequest& request, Library library, Output output);
  void note_names(const CompileRequest& request);
  bool has_host_functions() const;
  bool load_compiled_library();
  void load_library_text();

  // `lost`: Note [lost derivatives]; null is returned then.
  slang::IModule* load_promoted(const ModuleSource& source, Stores stores, const std::string& text, std::string* lost,
                                std::string* diagnostics);

  std::string said(const Com<ISlangBlob>& blob) const;  // for the user: Note [the user's files]

  SourceFiles files_;
  std::optional<SourceCode> own_;  // of a request that has its text
  UsersFiles users_;
  std::set<std::string> own_accesses_;  // the macros that leave ours out
  Com<slang::IGlobalSession> global_;
  Com<slang::ISession> session_;
  Output output_ = Output::Kernels;
  slang::IModule* library_ = nullptr;  // owned by the session, as all modules are
};

}  // namespace torch_slang
