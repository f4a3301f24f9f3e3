#include "compiler/source/session.h"

#include <slang-deprecated.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "common/files.h"
#include "compiler/ir/library_calls.h"
#include "compiler/ir/repairs.h"
#include "compiler/slang/library.h"
#include "compiler/source/directives.h"
#include "compiler/source/own_accesses.h"
#include "compiler/source/preprocessor.h"
#include "program/instantiations.h"
#include "program/tangents.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

// Stands where Slang would put its own CUDA prelude.
constexpr std::string_view kPreludeEnd = "//torch_slang: end of prelude\n";

struct Macro {
  const char* name;
  const char* value;
};

// Note [kernel attributes]
//   To Slang, [CudaKernel] makes an entry point: it would be emitted on its own, refuse differentiable parameters, and be
//   invisible to reflection. Renamed to attributes of our library, kernels are ordinary functions that reflection shows.
//   It does not show which of Slang's derivative attributes a function has either, so each brings one of ours along. Those that name
//   a function do so by macros with arguments, which cannot be given to a session: attribute_macros in source_files.cpp.
constexpr std::array<Macro, 10> kMacros = {{
    {"CudaKernel", "TorchSlangKernel"},
    {"CUDAKernel", "TorchSlangKernel"},
    {"AutoPyBindCUDA", "PyBindCUDA(Auto)"},
    {"TorchEntryPoint", "TorchSlangHost, TorchEntryPoint"},
    {"CudaHost", "TorchSlangHostHelper, TorchEntryPoint"},
    {"CUDAHost", "TorchSlangHostHelper, TorchEntryPoint"},
    {"ForwardDifferentiable", "TorchSlangForwardOnly, ForwardDifferentiable"},
    {"BackwardDerivative", "TorchSlangOwnBackward, BackwardDerivative"},
    {"NoDiffThis", "TorchSlangNoDiffThis, NoDiffThis"},
    {"DerivativeMember", "TorchSlangDerivativeMember, DerivativeMember"},
}};

std::string behind_prelude(const std::string& emitted) {
  if (emitted.empty()) return {};
  const size_t end = emitted.find(kPreludeEnd);
  TORCH_INTERNAL_ASSERT(end != std::string::npos, "emitted text has no end of the prelude");
  return emitted.substr(end + kPreludeEnd.size());
}

// Slang's error of a call whose function has no derivative.
bool lacks_derivative(std::string_view diagnostics) { return diagnostics.find("[E41022]") != std::string_view::npos; }

// The last names of the functions that such errors are about: `scene.trace<float>` is `trace`.
Names functions_without_derivative(const std::string& diagnostics) {
  constexpr std::string_view kBefore = "-differentiable function `";
  Names names;
  if (!lacks_derivative(diagnostics)) return names;
  for (size_t at = 0; (at = diagnostics.find(kBefore, at)) != std::string::npos;) {
    at += kBefore.size();
    const std::string name = diagnostics.substr(at, diagnostics.find_first_of("`<", at) - at);
    names.insert(name.substr(name.find_last_of(".:") + 1));
  }
  return names;
}

std::vector<const char*> search_paths(const CompileRequest& request) {
  std::vector<const char*> paths;
  for (const std::string& folder : request.include_dirs) paths.push_back(folder.c_str());
  return paths;
}

// Note [host attributes]
//   Host functions dispatch Slang's own kernels, so where they are emitted the attributes stay unchanged. Where
//   kernels are emitted Slang leaves out [TorchEntryPoint] functions, but not [CudaHost] ones, and then cannot write their
//   types: there they pass for the former.
bool keeps_meaning(const Macro& macro) {
  const std::string_view name = macro.name;
  return name == "CudaKernel" || name == "CUDAKernel" || name == "CudaHost" || name == "CUDAHost";
}

constexpr Macro kOrder2 = {"TORCH_SLANG_ORDER_2", "1"};  // for the library

bool has_define(const CompileRequest& request, std::string_view name) {
  return std::any_of(request.defines.begin(), request.defines.end(),
                     [&](const auto& define) { return define.first == name; });
}

// Nothing but derivatives in forward mode is asked for.
bool is_of_tangents(const CompileRequest& request) {
  return !request.instantiations.empty() &&
         std::all_of(request.instantiations.begin(), request.instantiations.end(),
                     [](const Instantiation& one) { return has_forward_derivative(one.direction); });
}

Changes changes_for(const CompileRequest& request, Session::Output output, bool generic_tensors, Declaring how) {
  const bool is_second = output == Session::Output::SecondDerivatives;
  const bool is_tangents = is_second || is_of_tangents(request);
  LeftOutRepairs left_out(request);
  return {.constructors = is_second && !has_define(request, kKeepStructs),
          .single_exits = is_tangents && !has_define(request, kKeepReturns) && !left_out.has("single exits"),
          .kept_exits = is_tangents && has_define(request, kKeepReturns),
          .early_inlining = is_second && has_define(request, kInlineEarly),
          .generic_tensors = generic_tensors,
          .derivatives = output != Session::Output::HostFunctions,
          .declaring = how,
          .left_out = std::move(left_out)};
}

std::vector<slang::PreprocessorMacroDesc> macros(const CompileRequest& request, Session::Output output,
                                                 const std::set<std::string>& own_accesses) {
  std::vector<slang::PreprocessorMacroDesc> all;
  for (const Macro& macro : kMacros) {
    if (output != Session::Output::HostFunctions || !keeps_meaning(macro)) all.push_back({macro.name, macro.value});
  }
  if (output == Session::Output::SecondDerivatives) all.push_back({kOrder2.name, kOrder2.value});
  for (const std::string& macro : own_accesses) all.push_back({macro.c_str(), ""});
  for (const auto& [name, value] : request.defines) all.push_back({name.c_str(), value.c_str()});
  return all;
}

std::vector<std::string> folders_of(const CompileRequest& request) {
  std::vector<std::string> folders = request.include_dirs;
  if (!request.source) folders.push_back(parent_path(request.path));
  return folders;
}

}  // namespace

std::string undefine_macros(const CompileRequest& request) {
  std::string text;
  for (const Macro& macro : kMacros) text += std::string("#undef ") + macro.name + "\n";
  for (const auto& define : request.defines) text += "#undef " + macro_name(define.first) + "\n";
  return text;
}

Com<slang::IGlobalSession> make_global_session() {
  Com<slang::IGlobalSession> global;
  const SlangGlobalSessionDesc desc = {};
  check_slang(slang::createGlobalSession(&desc, global.out()), "createGlobalSession");
  global->setLanguagePrelude(SLANG_SOURCE_LANGUAGE_CUDA, kPreludeEnd.data());
  return global;
}

Session::Session(const CompileRequest& request, Library library, const std::optional<std::string>& text,
                 Com<slang::IGlobalSession> global)
    : files_(undefine_macros(request) + "#line 1\n", request.defines, request.include_dirs,
             changes_for(request, Output::Kernels, /*generic_tensors=*/false, Declaring::All)),
      users_(folders_of(request)),
      global_(std::move(global)) {
  if (request.source) own_.emplace(*request.source, request.path);
  if (text && !request.source) files_.take(request.path, *text);
  own_accesses_ = own_accesses(sources());
  open(request, library, Output::Kernels);
}

Session::Session(const CompileRequest& request, const Session& sibling, Output output, bool generic_tensors)
    : files_(undefine_macros(request) + "#line 1\n", request.defines, request.include_dirs,
             changes_for(request, output, generic_tensors, sibling.files_.declaring())),
      users_(folders_of(request)) {
  if (request.source) own_.emplace(*request.source, request.path);
  sibling.global_->addRef();
  *global_.out() = sibling.global_.get();
  files_.take(sibling.files_);
  own_accesses_ = sibling.own_accesses_;
  // The library of order 2 in Slang's own form makes Slang crash on some kernels, and refuse structs with constructors.
  open(request, output == Output::SecondDerivatives ? Library::FromText : Library::AsBuilt, output);
}

// Note [capabilities of host functions]
//   Slang says that part of what a host function does needs C++ (to fill a tensor, to wait) and part CUDA (the kernels that
//   it dispatches), and refuses both in one function. Files that have such functions are compiled without that check.
bool Session::has_host_functions() const { return files_.names().count("TorchEntryPoint") > 0; }

// Macros of the request may stand for attributes: their values count as code.
void Session::note_names(const CompileRequest& request) {
  if (own_) {
    files_.note_names(*own_);
  } else if (!request.path.empty()) {
    files_.read_or_throw(request.path);
  }
  for (const auto& define : request.defines) files_.note_names(define.second);
}

const SourceCode* Session::source_of(const std::string& path) const {
  if (own_ && own_->file() == path) return &*own_;
  const auto found = files_.contents().find(path);
  return found == files_.contents().end() ? nullptr : found->second.get();
}

std::vector<const SourceCode*> Session::sources() const {
  std::vector<const SourceCode*> sources;
  if (own_) sources.push_back(&*own_);
  for (const auto& [path, code] : files_.contents()) sources.push_back(code.get());
  return sources;
}

bool Session::gives_way(const CompileRequest& request) {
  std::set<std::string> found = own_accesses(sources());
  if (found == own_accesses_) return false;
  own_accesses_ = std::move(found);
  open(request, Library::FromText, Output::Kernels);
  return true;
}

void Session::declare(const CompileRequest& request, Declaring how, Names kept) {
  files_.declare(how, std::move(kept));
  open(request, Library::AsBuilt, Output::Kernels);
}

bool Session::declares_more(const CompileRequest& request) {
  if (!files_.would_declare_more()) return false;
  declare(request, files_.declaring(), files_.kept_structs());
  return true;
}

bool Session::differentiates_more(const CompileRequest& request, const std::string& diagnostics) {
  const Names functions = functions_without_derivative(diagnostics);
  if (functions.empty() || !files_.differentiate(functions)) return false;
  open(request, Library::AsBuilt, Output::Kernels);
  return true;
}

bool Session::differentiates_none(const CompileRequest& request) {
  if (!files_.differentiate({})) return false;
  open(request, Library::AsBuilt, Output::Kernels);
  return true;
}

bool Session::imports_functions(const CompileRequest& request, std::string_view diagnostics) {
  if (!lacks_derivative(diagnostics) || !files_.import_functions()) return false;
  open(request, Library::AsBuilt, Output::Kernels);
  return true;
}

std::string Session::said(const Com<ISlangBlob>& blob) const {
  return without_foreign_lines(text_of(blob.get()), users_);
}

void Session::open(const CompileRequest& request, Library library, Output output) {
  output_ = output;
  note_names(request);
  files_.set_expand([this, &request](const SourceCode& source) {
    const auto read = [this](const std::string& included) { return files_.read(included); };
    return Preprocessor(global_.get(), request, read).expanded(source);
  });
  slang::TargetDesc target = {};
  target.format = output == Output::HostFunctions ? SLANG_CPP_PYTORCH_BINDING : SLANG_CUDA_SOURCE;
  const auto paths = search_paths(request);
  const auto defines = macros(request, output, own_accesses_);
  slang::SessionDesc desc = {};
  desc.targets = &target;
  desc.targetCount = 1;
  desc.searchPaths = paths.data();
  desc.searchPathCount = static_cast<SlangInt>(paths.size());
  desc.preprocessorMacros = defines.data();
  desc.preprocessorMacroCount = static_cast<SlangInt>(defines.size());
  desc.fileSystem = &files_;
  slang::CompilerOptionEntry ignore_capabilities = {};
  ignore_capabilities.name = slang::CompilerOptionName::IgnoreCapabilities;
  ignore_capabilities.value.intValue0 = 1;
  if (has_host_functions()) {
    desc.compilerOptionEntries = &ignore_capabilities;
    desc.compilerOptionEntryCount = 1;
  }
  check_slang(global_->createSession(desc, session_.out()), "createSession");

  const bool is_as_built = library == Library::AsBuilt && own_accesses_.empty();
  if (!is_as_built || !load_compiled_library()) load_library_text();
}

bool Session::load_compiled_library() {
  const auto compiled = read_file(join_path(program_folder(), kCompiledLibrary));
  const std::string digest = library_digest(global_->getBuildTagString());
  if (!compiled || !compiled->starts_with(digest)) return false;
  Com<ISlangBlob> blob, said;
  *blob.out() = make_blob(compiled->substr(digest.size()));
  const std::string path = join_path(kLibraryFolder, kCompiledLibrary);
  library_ = session_->loadModuleFromIRBlob(kLibraryModule, path.c_str(), blob.get(), said.out());
  return library_ != nullptr;
}

void Session::load_library_text() {
  const std::string path = join_path(kLibraryFolder, c10::str(kLibraryModule, ".slang"));
  Com<ISlangBlob> text;
  check_slang(files_.loadFile(path.c_str(), text.out()), "loading the library");
  std::string diagnostics;
  library_ = load({kLibraryModule, path, text_of(text.get())}, &diagnostics);
  TORCH_INTERNAL_ASSERT(library_ != nullptr, "the module torch_slang does not compile:\n", diagnostics);
}

std::string Session::compiled_library() {
  Com<ISlangBlob> blob;
  check_slang(library_->serialize(blob.out()), "IModule::serialize");
  std::string file = library_digest(global_->getBuildTagString());
  return file.append(static_cast<const char*>(blob->getBufferPointer()), blob->getBufferSize());
}

slang::IModule* Session::load(const ModuleSource& source, std::string* diagnostics) {
  Com<ISlangBlob> messages;
  slang::IModule* module = session_->loadModuleFromSourceString(source.name.c_str(), source.path.c_str(),
                                                                source.text.c_str(), messages.out());
  *diagnostics = said(messages) + files_.refusal();
  return module;
}

// Note [modules with places]
//   IModule::serialize leaves out where instructions stand in the source, of which the text's #line directives are made. A
//   compile request (of slang-deprecated.h) keeps that where debug information is asked for. It also notes lines as
//   instructions, which Note [promotions] drops again.
slang::IModule* Session::load_promoted(const ModuleSource& source, Stores stores, std::string* diagnostics) {
  std::string lost;
  slang::IModule* module = load_promoted(source, stores, source.text, &lost, diagnostics);
  const bool is_refused = module == nullptr && lacks_derivative(*diagnostics);
  if (lost.empty() && !is_refused) return module;
  // Note [functions on demand]
  module = load_promoted(source, stores, kImportFunctions + source.text, &lost, diagnostics);
  *diagnostics += lost;
  return module;
}

slang::IModule* Session::load_promoted(const ModuleSource& source, Stores stores, const std::string& text,
                                       std::string* lost, std::string* diagnostics) {
  Com<slang::ICompileRequest> request;
  check_slang(session_->createCompileRequest(request.out()), "createCompileRequest");
  const char* arguments[] = {"-emit-ir", "-no-codegen"};
  check_slang(request->processCommandLineArguments(arguments, 2), "ICompileRequest::processCommandLineArguments");
  request->setOutputContainerFormat(SLANG_CONTAINER_FORMAT_SLANG_MODULE);
  request->setDebugInfoLevel(SLANG_DEBUG_INFO_LEVEL_MINIMAL);
  const int unit = request->addTranslationUnit(SLANG_SOURCE_LANGUAGE_SLANG, source.name.c_str());
  const std::string whole = text + kLibraryCalls;
  request->addTranslationUnitSourceString(unit, source.path.c_str(), whole.c_str());
  const SlangResult result = request->compile();
  request->setDebugInfoLevel(SLANG_DEBUG_INFO_LEVEL_NONE);  // the session's, to which it belongs
  Com<ISlangBlob> messages, module, more;
  request->getDiagnosticOutputBlob(messages.out());
  *diagnostics = said(messages) + files_.refusal();
  if (SLANG_FAILED(result)) return nullptr;
  check_slang(request->getContainerCode(module.out()), "ICompileRequest::getContainerCode");
  // Slang cannot emit the second derivatives of `__kept`.
  const Chains chains = output_ == Output::SecondDerivatives ? Chains::Whole : Chains::Broken;
  const std::string bytes(static_cast<const char*>(module->getBufferPointer()), module->getBufferSize());
  *module.out() = make_blob(repaired_module(bytes, lost, files_.left_out(), stores, chains));
  if (!lost->empty()) return nullptr;
  slang::IModule* loaded =
      session_->loadModuleFromIRBlob(source.name.c_str(), source.path.c_str(), module.get(), more.out());
  *diagnostics += said(more);
  return loaded;
}

// A module depends on its own file, and on all that those depend on which it imports.
std::vector<Session::Import> Session::imports() const {
  std::multimap<SlangInt, Import> by_files;
  for (SlangInt i = 0; i < session_->getLoadedModuleCount(); ++i) {
    slang::IModule* module = session_->getLoadedModule(i);
    const std::string path = module->getFilePath() == nullptr ? "" : module->getFilePath();
    if (files_.contents().count(path) == 0) continue;  // one of the library's, or a copy with wrappers
    by_files.emplace(module->getDependencyFileCount(), Import{module->getName(), path, module});
  }
  std::vector<Import> all;
  for (auto& [files, import] : by_files) all.push_back(std::move(import));
  return all;
}

void Session::promote_imports(const Session& sibling) {
  for (const Import& import : sibling.imports()) {
    Com<ISlangBlob> text;
    check_slang(files_.loadFile(import.path.c_str(), text.out()), "loading an imported file");
    std::string diagnostics;
    const ModuleSource source{import.name, import.path, text_of(text.get())};
    if (load_promoted(source, Stores::AsWritten, &diagnostics) == nullptr) {
      throw_compile_error("torch_slang: ", import.path, " does not compile\n", diagnostics);
    }
  }
}

// Note [whole program of the host]
//   The session's usual way to code asks for a layout of the program, which Slang has not for this target; a compile request
//   (of slang-deprecated.h) does not.
std::string Session::emit_host(const std::string& name, const std::string& path, const std::string& source,
                               std::string* diagnostics) {
  Com<slang::ICompileRequest> request;
  check_slang(session_->createCompileRequest(request.out()), "createCompileRequest");
  request->setTargetGenerateWholeProgram(0, true);
  const int unit = request->addTranslationUnit(SLANG_SOURCE_LANGUAGE_SLANG, name.c_str());
  request->addTranslationUnitSourceString(unit, path.c_str(), source.c_str());
  const SlangResult result = request->compile();
  Com<ISlangBlob> messages, code;
  request->getDiagnosticOutputBlob(messages.out());
  *diagnostics = said(messages);
  if (SLANG_FAILED(result)) return {};
  check_slang(request->getTargetCodeBlob(0, code.out()), "ICompileRequest::getTargetCodeBlob");
  return text_of(code.get());
}

std::string Session::emit(slang::IModule* module, const std::string& entry, Emission emission,
                          std::string* diagnostics) {
  const auto say = [&](const Com<ISlangBlob>& blob) { *diagnostics += said(blob); };
  Com<slang::IEntryPoint> entry_point;
  Com<slang::IComponentType> composite, linked;
  Com<ISlangBlob> check, first, second, third, code;
  module->findAndCheckEntryPoint(entry.c_str(), SLANG_STAGE_COMPUTE, entry_point.out(), check.out());
  say(check);
  if (!entry_point) return {};
  slang::IComponentType* parts[] = {module, entry_point.get()};
  session_->createCompositeComponentType(parts, 2, composite.out(), first.out());
  say(first);
  if (!composite) return {};
  slang::CompilerOptionEntry least = {};
  least.name = slang::CompilerOptionName::MinimumSlangOptimization;
  least.value.intValue0 = 1;
  composite->linkWithOptions(linked.out(), emission == Emission::Plain ? 1 : 0, &least, second.out());
  say(second);
  if (!linked) return {};
  linked->getEntryPointCode(0, 0, code.out(), third.out());
  say(third);
  return behind_prelude(text_of(code.get()));
}

}  // namespace torch_slang
