#include "compiler/source/source_files.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "common/files.h"
#include "common/hash.h"
#include "common/identifiers.h"
#include "compiler/slang/library.h"
#include "compiler/source/block_sizes.h"
#include "compiler/source/constant_calls.h"
#include "compiler/source/constructors.h"
#include "compiler/source/directives.h"
#include "compiler/source/early_inlining.h"
#include "compiler/source/generic_tensors.h"
#include "compiler/source/hidden_flow.h"
#include "compiler/source/inlined_backwards.h"
#include "compiler/source/placeholders.h"
#include "compiler/source/preprocessor.h"
#include "compiler/source/source_bytes.h"
#include "compiler/source/while_loops.h"

namespace torch_slang {
namespace {

// A file that is part of a module begins with `implementing`, and sees what the module's first file imports.
bool is_part_of_module(const SourceCode& code) {
  size_t at = 0;
  while (at < code.size() && !code.is_name(at)) ++at;
  return code[at] == "implementing";
}

void take_byte_order_mark(SourceCode& code) {
  if (code.text().starts_with("\xef\xbb\xbf")) code.replace({0, 3}, "");
}

std::string absolute_path(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}
bool is_slang_source(const std::string& path) { return path.ends_with(".slang"); }
bool is_compiled_module(const std::string& path) { return path.ends_with(".slang-module"); }

// Slang's attributes that name a function, and ours that say the name to reflection.
constexpr std::array<std::pair<const char*, const char*>, 3> kNamingAttributes = {
    {{"ForwardDerivative", "TorchSlangOwnForward"},
     {"ForwardDerivativeOf", "TorchSlangForwardOf"},
     {"BackwardDerivativeOf", "TorchSlangBackwardOf"}}};

std::string attribute_macros() {
  std::string text;
  for (const auto& [slangs, ours] : kNamingAttributes) {
    text += c10::str("#define ", slangs, "(...) ", ours, "(#__VA_ARGS__), ", slangs, "(__VA_ARGS__)\n");
  }
  return text;
}

}  // namespace

SourceFiles::SourceFiles(std::string library_head, Defines defines, std::vector<std::string> include_dirs,
                         Changes changes)
    : library_head_(std::move(library_head)),
      defines_(std::move(defines)),
      included_(std::move(include_dirs), [this](const std::string& path) { return read(path); }),
      changes_(changes) {}

std::string SourceFiles::with_library(const std::string& source, const std::string& path) {
  ChangingSource changing(source, path);
  return with_library(changing);
}

std::string SourceFiles::with_library(ChangingSource& source) {
  if (expand_ && hides_control_flow(included_.with_included(source.code()), defines_)) {
    if (auto expanded = expand_(source.code())) source.put(*std::move(expanded));
  }
  declare(source);
  return with_head(source);
}

std::string SourceFiles::with_head(ChangingSource& source) {
  const std::string path = source.file();
  std::string head = attribute_macros() + line_directive(1, path) + "\n";
  if (!is_part_of_module(source.code())) {
    const bool imports = imports_functions_ && submodule_text(path) == nullptr;
    head.insert(0, imports ? kImportFunctions : "import torch_slang;\n");
    source.apply(take_byte_order_mark);
    source.apply(complete_block_sizes);
  }
  change(source);
  return head + source.text();
}

void SourceFiles::change(ChangingSource& source) {
  const bool is_ours = submodule_text(source.file()) != nullptr;  // it says itself what is inlined
  if (!is_ours) source.apply(keep_backwards_calls, backwards_);
  source.apply([&](SourceCode& code) { included_.quote(code); });
  if (!changes_.left_out.has("while loops")) source.apply(write_for_loops);
  std::vector<KeptExits> kept;
  if (changes_.kept_exits) kept = all_kept_exits(source.code());
  if (changes_.single_exits) source.apply(write_single_exits, &kept);
  note_kept_exits(kept);
  if (changes_.early_inlining) source.apply(inline_early);
  if (changes_.constructors) source.apply(write_constructors);
}

void SourceFiles::note_kept_exits(const std::vector<KeptExits>& kept) {
  for (const KeptExits& one : kept) {
    const std::string what = one.statement.empty() ? "as it is declared" : "as it has `" + one.statement + "`";
    kept_exits_[one.function] = what + " (" + one.location + ")";
  }
}

void SourceFiles::declare(ChangingSource& source) {
  const bool has_derivatives = names_.count("Differentiable") > 0 || names_.count("BackwardDifferentiable") > 0;
  if (!changes_.derivatives || !has_derivatives) return;
  Declared& declared = declared_[source.text()];
  declared = {source.file(), "", StructFacts(source.code(), differentiated_)};
  declare_beside(source, declared.facts);
  declared.text = source.text();
}

UndeclaredStructs SourceFiles::structs() const {
  UndeclaredStructs structs(kept_structs_, differentiated_);
  for (const auto& [path, facts] : facts_) structs.add(facts, path);
  for (const auto& [source, declared] : declared_) structs.add(declared.facts, "its text");
  structs.decide();
  return structs;
}

// Beside all that is known of the files.
void SourceFiles::declare_beside(ChangingSource& source, const StructFacts& own) const {
  UndeclaredStructs structs(kept_structs_, differentiated_);
  for (const auto& [path, facts] : facts_) structs.add(facts, path);
  structs.add(own, "");
  structs.decide();
  const LeftOutRepairs& left_out = changes_.left_out;
  if (!left_out.has("undeclared structs"))
    source.apply([&](SourceCode& code) { structs.declare_in(code, changes_.declaring); });
  if (!left_out.has("constant calls")) source.apply(make_calls_constant, structs.outs());
}

void SourceFiles::declare(Declaring how, Names kept) {
  changes_.declaring = how;
  kept_structs_ = std::move(kept);
  declared_.clear();
}

bool SourceFiles::differentiate(const Names& functions) {
  const UndeclaredStructs structs = this->structs();
  Names differentiated = functions.empty() ? Names() : differentiated_;
  for (const std::string& function : functions) {
    const bool may = std::any_of(declared_.begin(), declared_.end(), [&](const auto& one) {
      return structs.may_differentiate(SourceCode(one.first, one.second.path), function);
    });
    if (may) differentiated.insert(function);
  }
  if (differentiated == differentiated_) return false;
  differentiated_ = std::move(differentiated);
  for (const auto& [path, code] : contents_) {
    if (code != nullptr && !is_compiled_module(path))
      facts_.insert_or_assign(path, StructFacts(*code, differentiated_));
  }
  declared_.clear();
  return true;
}

bool SourceFiles::has_declared() const {
  return changes_.declaring != Declaring::None && !declared_.empty() && !structs().declared().empty();
}

bool SourceFiles::would_declare_more() const {
  return std::any_of(declared_.begin(), declared_.end(), [&](const auto& one) {
    ChangingSource source(one.first, one.second.path);
    declare_beside(source, one.second.facts);
    return source.text() != one.second.text;
  });
}

void SourceFiles::take(const SourceFiles& others) {
  imports_functions_ = others.imports_functions_;
  contents_ = others.contents_;
  digests_ = others.digests_;
  names_ = others.names_;
  backwards_ = others.backwards_;
  facts_ = others.facts_;
  kept_structs_ = others.kept_structs_;
  differentiated_ = others.differentiated_;
}

void SourceFiles::take(const std::string& path, const std::string& text) { enter(absolute_path(path), text); }

const SourceCode* SourceFiles::read(const std::string& path) {
  const std::string absolute = absolute_path(path);
  if (const auto known = contents_.find(absolute); known != contents_.end()) return known->second.get();
  return enter(absolute, is_file(absolute) ? read_file(absolute) : std::nullopt);
}

const SourceCode* SourceFiles::enter(const std::string& absolute, const std::optional<std::string>& content) {
  digests_[absolute] = content ? digest_of(*content) : "";
  if (!content) return nullptr;
  auto code = std::make_unique<SourceCode>(*content, absolute);
  if (is_compiled_module(absolute)) {
    any_identifier(*content, [&](std::string_view name) { return names_.emplace(name), false; });
  } else {
    add_code_names(*code, names_);
  }
  fill_placeholders(*code, defines_);
  if (code->is_edited()) code = std::make_unique<SourceCode>(code->edited(), absolute);
  if (!is_compiled_module(absolute)) facts_.insert_or_assign(absolute, StructFacts(*code, differentiated_));
  return (contents_[absolute] = std::move(code)).get();
}

std::string SourceFiles::read_or_throw(const std::string& path) {
  const SourceCode* code = read(path);
  TORCH_CHECK(code != nullptr, "torch_slang: cannot read ", path);
  return code->text();
}

void SourceFiles::check_bytes(const std::string& text, const std::string& path) {
  if (!refusal_.empty()) return;
  if (const auto wrong = first_wrong_byte(text)) refusal_ = path + *wrong + ": save the file as UTF-8";
}

std::vector<SourceFile> SourceFiles::manifest() const {
  std::vector<SourceFile> files;
  for (const auto& [path, digest] : digests_) files.push_back({path, digest});
  return files;
}

SlangResult SourceFiles::loadFile(const char* path, ISlangBlob** blob) {
  try {
    return load(path, blob);
  } catch (const c10::Error& error) {  // of ours: changes overlap
    if (refusal_.empty()) refusal_ = error.what_without_backtrace();
    return SLANG_E_INTERNAL_FAIL;
  }
}

SlangResult SourceFiles::load(const std::string& path, ISlangBlob** blob) {
  const auto give = [&](std::string text) {
    *blob = make_blob(std::move(text));
    return SLANG_OK;
  };
  // Slang may ask with or without the leading slash.
  const std::string folder = std::string(kLibraryFolder).substr(1);
  if (const size_t at = path.find(folder); at != std::string::npos) {
    const char* text = library_text(path.substr(at + folder.size()));
    return text == nullptr ? SLANG_E_NOT_FOUND : give(library_head_ + text);
  }
  const SourceCode* code = read(path);
  if (code == nullptr) {
    const char* text = submodule_text(path);
    if (text == nullptr) return SLANG_E_NOT_FOUND;
    ChangingSource source(text, path);
    return give(library_head_ + with_head(source));
  }
  if (is_compiled_module(path)) return give(code->text());
  check_bytes(code->text(), path);
  ChangingSource source(code->text(), path);
  if (changes_.generic_tensors) source.apply(make_tensors_generic);
  if (is_slang_source(path)) return give(with_library(source));
  declare(source);
  change(source);
  return give(source.text());
}

}  // namespace torch_slang
