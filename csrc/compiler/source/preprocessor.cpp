#include "compiler/source/preprocessor.h"

#include <slang-deprecated.h>

#include <algorithm>
#include <vector>

#include "common/identifiers.h"
#include "compiler/slang/com.h"
#include "compiler/source/directives.h"

namespace torch_slang {
namespace {

constexpr std::string_view kLine = "tsl_line_";

// Slang writes tokens without their places. So a name that says it, tsl_line_<file>_<line>, stands before the first word of each line;
// not inside of parentheses, where it would become part of a macro's argument.
class FilesWithLines final : public FileSystem {
 public:
  explicit FilesWithLines(const Preprocessor::Read& read) : read_(read) {}

  std::string with_names(const SourceCode& source, const std::string& path) {
    const std::string name = std::string(kLine) + std::to_string(paths_.size()) + "_";
    paths_.push_back(path);
    std::string result;
    size_t line = 1, last = 0;
    int depth = 0;
    for (const Token& token : source.tokens()) {
      const bool is_first = is_code(token) && line != last;
      if (is_first && depth == 0 && token.text != "(") result += name + std::to_string(line) + " ";
      if (is_code(token)) last = line;
      if (token.text == "(") ++depth;
      if (token.text == ")") --depth;
      result += token.text;
      line += static_cast<size_t>(std::count(token.text.begin(), token.text.end(), '\n'));
    }
    return result;
  }

  std::string with_line_directives(std::string_view text) const {
    std::string result;
    for (const Token& token : split_tokens(text)) {
      if (token.kind == TokenKind::Identifier && token.text.starts_with(kLine)) {
        const std::string place(token.text.substr(kLine.size()));
        const size_t bar = place.find('_');
        const std::string& path = paths_.at(std::stoul(place.substr(0, bar)));
        result += "\n" + line_directive(std::stoul(place.substr(bar + 1)), path) + "\n";
      } else {
        result += token.text;
      }
    }
    return result;
  }

  SlangResult SLANG_MCALL loadFile(const char* path, ISlangBlob** blob) override {
    const SourceCode* source = read_(path);
    if (source == nullptr) return SLANG_E_NOT_FOUND;
    *blob = make_blob(with_names(*source, path));
    return SLANG_OK;
  }

 private:
  const Preprocessor::Read& read_;
  std::vector<std::string> paths_;
};

class Writer final : public ISlangWriter {
 public:
  std::string text;

  char* SLANG_MCALL beginAppendBuffer(size_t size) override {
    buffer_.resize(size);
    return buffer_.data();
  }
  SlangResult SLANG_MCALL endAppendBuffer(char* buffer, size_t size) override { return write(buffer, size); }
  SlangResult SLANG_MCALL write(const char* characters, size_t size) override {
    text.append(characters, size);
    return SLANG_OK;
  }
  void SLANG_MCALL flush() override {}
  SlangBool SLANG_MCALL isConsole() override { return false; }
  SlangResult SLANG_MCALL setMode(SlangWriterMode) override { return SLANG_OK; }
  SlangResult SLANG_MCALL queryInterface(const SlangUUID& id, void** object) override {
    const bool known = same_id(id, ISlangUnknown::getTypeGuid()) || same_id(id, ISlangWriter::getTypeGuid());
    *object = known ? static_cast<ISlangWriter*>(this) : nullptr;
    return known ? SLANG_OK : SLANG_E_NO_INTERFACE;
  }
  uint32_t SLANG_MCALL addRef() override { return 1; }
  uint32_t SLANG_MCALL release() override { return 1; }

 private:
  std::vector<char> buffer_;
};

// `#lang slang 2026` and `#language`, which hold for the whole file.
std::string language_of(const SourceCode& source) {
  for (const Token& token : source.tokens()) {
    if (token.kind != TokenKind::Directive) continue;
    const std::vector<Token> words = words_of(token);
    if (!words.empty() && words[0].text.starts_with("lang")) return std::string(token.text) + "\n";
  }
  return "";
}

}  // namespace

std::optional<std::string> Preprocessor::expanded(const SourceCode& source) const {
  FilesWithLines files(read_);
  Writer writer;
  std::vector<const char*> folders;
  for (const std::string& folder : request_.include_dirs) folders.push_back(folder.c_str());
  std::vector<slang::PreprocessorMacroDesc> macros;
  for (const auto& [name, value] : request_.defines) macros.push_back({name.c_str(), value.c_str()});
  slang::CompilerOptionEntry preprocess = {};
  preprocess.name = slang::CompilerOptionName::PreprocessorOutput;
  preprocess.value.intValue0 = 1;
  slang::SessionDesc desc = {};
  desc.searchPaths = folders.data();
  desc.searchPathCount = static_cast<SlangInt>(folders.size());
  desc.preprocessorMacros = macros.data();
  desc.preprocessorMacroCount = static_cast<SlangInt>(macros.size());
  desc.fileSystem = &files;
  desc.compilerOptionEntries = &preprocess;
  desc.compilerOptionEntryCount = 1;
  Com<slang::ISession> session;
  check_slang(global_->createSession(desc, session.out()), "createSession");
  Com<slang::ICompileRequest> run;
  check_slang(session->createCompileRequest(run.out()), "createCompileRequest");
  run->setWriter(SLANG_WRITER_CHANNEL_STD_OUTPUT, &writer);
  const int unit = run->addTranslationUnit(SLANG_SOURCE_LANGUAGE_SLANG, "preprocessed");
  run->addTranslationUnitSourceString(unit, source.file().c_str(), files.with_names(source, source.file()).c_str());
  const SlangResult result = run->compile();
  Com<ISlangBlob> messages;
  run->getDiagnosticOutputBlob(messages.out());
  const bool has_error = mentions_name(text_of(messages.get()), "error");
  if (SLANG_FAILED(result) || has_error || writer.text.empty()) return std::nullopt;
  return language_of(source) + files.with_line_directives(writer.text);
}

}  // namespace torch_slang
