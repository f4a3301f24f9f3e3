// The files that Slang sees: those on disk, and the library's own under a folder that exists only here. Keeps a record of
// every file read and of every path where Slang looked in vain, which together are a Program's manifest.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/slang/com.h"
#include "compiler/source/included_files.h"
#include "compiler/source/single_exits.h"
#include "compiler/source/source_code.h"
#include "compiler/source/undeclared_structs.h"
#include "compiler/text/code_names.h"
#include "compiler/text/left_out_repairs.h"
#include "program/program.h"

namespace torch_slang {

inline constexpr const char* kLibraryFolder = "/torch_slang.library/";

// The changes that are made to a user's source before Slang reads it.
struct Changes {
  bool constructors = false;  // Note [constructors] in constructors.h
  bool single_exits = false;  // Note [single exits] in single_exits.h
  bool kept_exits = false;  // what that note says is not changed, but found
  bool early_inlining = false;  // Note [functions inlined early] in early_inlining.h
  bool generic_tensors = false;  // Note [generic tensors] in generic_tensors.h
  bool derivatives =
      true;  // Note [undeclared structs] in undeclared_structs.h, Note [constant calls] in constant_calls.h
  Declaring declaring = Declaring::All;
  LeftOutRepairs left_out;
};

// Of both modules of the library: Note [functions on demand].
inline constexpr const char* kImportFunctions = "import torch_slang; import torch_slang.functions;\n";

// Lives as long as the session that reads through it.
class SourceFiles final : public FileSystem {
 public:
  using Defines = std::vector<std::pair<std::string, std::string>>;
  // What the preprocessor makes of a source; none if it has an error.
  using Expand = std::function<std::optional<std::string>(const SourceCode& source)>;

  // `library_head`: stands in front of each file of the library. `defines`: their %NAME% is filled in every file on disk.
  SourceFiles(std::string library_head, Defines defines, std::vector<std::string> include_dirs, Changes changes = {});

  // For files that hide control flow: Note [hidden control flow] in hidden_flow.h.
  void set_expand(Expand expand) { expand_ = std::move(expand); }
  // Note [single exits]: the functions that would need the change and are left as they are, by name, and why.
  const std::map<std::string, std::string>& kept_exits() const { return kept_exits_; }
  const SourceCode* read(const std::string& path);  // null if there is no such file

  // The files that another session of the same request has read, or what somebody has read of one, are not read again.
  void take(const SourceFiles& others);
  void take(const std::string& path, const std::string& text);
  std::string read_or_throw(const std::string& path);  // a c10::Error that names it
  bool exists(const std::string& path) { return read(path) != nullptr; }  // either answer goes into the record
  // Why a file was refused that Slang, or a caller, was to be given; or empty. (No exception may pass through Slang.)
  const std::string& refusal() const { return refusal_; }
  void check_bytes(const std::string& text, const std::string& path);
  // Text that makes `import torch_slang;` unnecessary, followed by the user's own, whose lines keep their numbers and path.
  std::string with_library(const std::string& source, const std::string& path);
  std::vector<SourceFile> manifest() const;
  using Contents = std::map<std::string, std::shared_ptr<const SourceCode>>;
  const Contents& contents() const { return contents_; }  // of the files read, by path
  // The names in the code of all files so far, and of texts that are noted besides.
  const NameSet& names() const { return names_; }
  template <class Text>
  void note_names(const Text& text) {
    add_code_names(text, names_);
  }

  // Note [undeclared structs]
  Declaring declaring() const { return changes_.declaring; }
  void declare(Declaring how, Names kept);
  bool has_declared() const;  // any of the texts that were given since
  // The texts would be others, now that all files are known.
  bool would_declare_more() const;
  UndeclaredStructs structs() const;
  const Names& kept_structs() const { return kept_structs_; }
  // Those of the functions that may become [Differentiable] do so, or, if there are no names, those that had become so no longer do.
  // False: nothing has changed.
  bool differentiate(const Names& functions);
  // Note [functions on demand]. False: they are already.
  const LeftOutRepairs& left_out() const { return changes_.left_out; }
  bool import_functions() { return !std::exchange(imports_functions_, true); }

  SlangResult SLANG_MCALL loadFile(const char* path, ISlangBlob** blob) override;

 private:
  SlangResult load(const std::string& path, ISlangBlob** blob);
  std::string with_library(ChangingSource& source);
  std::string with_head(ChangingSource& source);
  void change(ChangingSource& source);  // to what Slang is to see of a user's
  void note_kept_exits(const std::vector<KeptExits>& kept);
  void declare(ChangingSource& source);
  void declare_beside(ChangingSource& source, const StructFacts& facts) const;
  const SourceCode* enter(const std::string& path, const std::optional<std::string>& content);

  std::string library_head_;
  Defines defines_;
  const IncludedFiles included_;
  Changes changes_;
  Expand expand_;
  std::map<std::string, std::string> kept_exits_;
  std::string refusal_;
  NameSet backwards_;  // functions that the sources so far have named as such: Note [inlined backwards]
  Contents contents_;
  NameSet names_;
  std::map<std::string, std::string> digests_;  // empty: not there
  std::map<std::string, StructFacts> facts_;  // by path
  struct Declared {
    std::string path, text;  // what became of it
    StructFacts facts;
  };
  std::map<std::string, Declared> declared_;  // by the text that it was
  Names kept_structs_, differentiated_;
  bool imports_functions_ = false;
};

}  // namespace torch_slang
