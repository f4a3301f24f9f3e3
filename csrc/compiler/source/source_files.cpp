#include "compiler/source/source_files.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "common/files.h"
#include "common/hash.h"
#include "common/identifiers.h"
#include "compiler/slang/com.h"
#include "compiler/slang/library.h"
#include "compiler/source/block_sizes.h"
#include "compiler/source/constant_calls.h"
#include "compiler/source/constructors.h"
#include "compiler/source/early_inlining.h"
#include "compiler/source/generic_tensors.h"
#include "compiler/source/hidden_flow.h"
#include "compiler/source/inlined_backwards.h"
#include "compiler/source/placeholders.h"
#include "compiler/source/preprocessor.h"
#include "compiler/source/source_bytes.h"
#include "compiler/source/while_loops.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

// A file that is part of a module begins with `implementing`, and sees what the module's first file imports.
bool is_part_of_module(const std::string& source) {
  for (const Token& token : split_tokens(source)) {
    if (token.kind == TokenKind::Identifier) return token.text == "implementing";
  }
  return false;
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

std::string SourceFiles::with_library(const std::string& written, const std::string& path) {
  std::optional<std::string> expanded;
  if (expand_ && hides_control_flow(included_.all_texts(written, path), defines_)) expanded = expand_(written, path);
  return with_head(declared(expanded ? *expanded : written), path);
}

std::string SourceFiles::with_head(const std::string& source, const std::string& path) {
  const std::string macros = attribute_macros();
  if (is_part_of_module(source)) return macros + line_directive(1, path) + changed(source, path);
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  const size_t begin = source.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  const bool imports = imports_functions_ && submodule_text(path) == nullptr;
  return (imports ? kImportFunctions : "import torch_slang;\n") + macros + line_directive(1, path) +
         changed(with_whole_block_sizes(source.substr(begin)), path);
}

std::string SourceFiles::changed(std::string source, const std::string& path) {
  const bool is_ours = submodule_text(path) != nullptr;  // it says itself what is inlined
  if (!is_ours) source = without_inlined_backwards(std::move(source), backwards_);
  source = included_.with_quotes(std::move(source), path);
  if (!changes_.left_out.has("while loops")) source = with_for_loops(source);
  std::vector<KeptExits> kept;
  if (changes_.kept_exits) kept = all_kept_exits(source);
  if (changes_.single_exits) source = with_single_exits(source, &kept);
  note_kept_exits(kept, path);
  if (changes_.early_inlining) source = with_early_inlining(source);
  return changes_.constructors ? with_constructors(source) : source;
}

void SourceFiles::note_kept_exits(const std::vector<KeptExits>& kept, const std::string& path) {
  for (const KeptExits& one : kept) {
    const std::string what = one.statement.empty() ? "as it is declared" : "as it has `" + one.statement + "`";
    kept_exits_[one.function] = what + " (" + path + ":" + std::to_string(one.line) + ")";
  }
}

std::string SourceFiles::declared(const std::string& source) {
  const bool has_derivatives = names_.count("Differentiable") > 0 || names_.count("BackwardDifferentiable") > 0;
  if (!changes_.derivatives || !has_derivatives) return source;
  return declared_[source] = text_beside(source);
}

UndeclaredStructs SourceFiles::structs() const {
  UndeclaredStructs structs(kept_structs_);
  for (const auto& [path, facts] : facts_) structs.add(facts, path);
  for (const auto& [source, text] : declared_) structs.add(StructFacts(source), "its text");
  structs.decide();
  return structs;
}

// Beside all that is known of the files.
std::string SourceFiles::text_beside(const std::string& source) const {
  UndeclaredStructs structs(kept_structs_);
  for (const auto& [path, facts] : facts_) structs.add(facts, path);
  structs.add(StructFacts(source), "");
  structs.decide();
  const LeftOutRepairs& left_out = changes_.left_out;
  const std::string declared =
      left_out.has("undeclared structs") ? source : structs.with_declarations(source, changes_.declaring);
  return left_out.has("constant calls") ? declared : with_constant_calls(declared, structs.outs());
}

void SourceFiles::declare(Declaring how, Names kept) {
  changes_.declaring = how;
  kept_structs_ = std::move(kept);
  declared_.clear();
}

bool SourceFiles::has_declared() const {
  return changes_.declaring != Declaring::None && !declared_.empty() && !structs().declared().empty();
}

bool SourceFiles::would_declare_more() const {
  return std::any_of(declared_.begin(), declared_.end(),
                     [&](const auto& one) { return text_beside(one.first) != one.second; });
}

void SourceFiles::take(const SourceFiles& others) {
  imports_functions_ = others.imports_functions_;
  contents_ = others.contents_;
  digests_ = others.digests_;
  names_ = others.names_;
  backwards_ = others.backwards_;
  facts_ = others.facts_;
  kept_structs_ = others.kept_structs_;
}

void SourceFiles::take(const std::string& path, const std::string& text) { enter(absolute_path(path), text); }

const std::string* SourceFiles::read(const std::string& path) {
  const std::string absolute = absolute_path(path);
  if (const auto known = contents_.find(absolute); known != contents_.end()) return &known->second;
  return enter(absolute, is_file(absolute) ? read_file(absolute) : std::nullopt);
}

const std::string* SourceFiles::enter(const std::string& absolute, const std::optional<std::string>& content) {
  digests_[absolute] = content ? digest_of(*content) : "";
  if (!content) return nullptr;
  if (is_compiled_module(absolute)) {
    any_identifier(*content, [&](std::string_view name) { return names_.emplace(name), false; });
  } else {
    note_names(*content);
  }
  std::string& kept = contents_[absolute];
  kept = fill_placeholders(*content, defines_);
  if (!is_compiled_module(absolute)) facts_.insert_or_assign(absolute, StructFacts(kept));
  return &kept;
}

std::string SourceFiles::read_or_throw(const std::string& path) {
  const std::string* content = read(path);
  TORCH_CHECK(content != nullptr, "torch_slang: cannot read ", path);
  return *content;
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
  const std::string name = path;
  const auto give = [&](std::string text) {
    *blob = make_blob(std::move(text));
    return SLANG_OK;
  };
  // Slang may ask with or without the leading slash.
  const std::string folder = std::string(kLibraryFolder).substr(1);
  if (const size_t at = name.find(folder); at != std::string::npos) {
    const char* text = library_text(name.substr(at + folder.size()));
    return text == nullptr ? SLANG_E_NOT_FOUND : give(library_head_ + text);
  }
  const std::string* content = read(name);
  if (content == nullptr) {
    const char* text = submodule_text(name);
    return text == nullptr ? SLANG_E_NOT_FOUND : give(library_head_ + with_head(text, name));
  }
  if (is_compiled_module(name)) return give(*content);
  check_bytes(*content, name);
  const std::string text = changes_.generic_tensors ? with_generic_tensors(*content) : *content;
  return give(is_slang_source(name) ? with_library(text, name) : changed(declared(text), name));
}

SlangResult SourceFiles::queryInterface(const SlangUUID& id, void** object) {
  *object = castAs(id);
  return *object == nullptr ? SLANG_E_NO_INTERFACE : SLANG_OK;
}

void* SourceFiles::castAs(const SlangUUID& id) {
  const bool known = same_id(id, ISlangUnknown::getTypeGuid()) || same_id(id, ISlangCastable::getTypeGuid()) ||
                     same_id(id, ISlangFileSystem::getTypeGuid());
  return known ? static_cast<ISlangFileSystem*>(this) : nullptr;
}

}  // namespace torch_slang
