#include "compiler/compile.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "compiler/declared_module.h"
#include "compiler/emit/members.h"
#include "compiler/emit/passes.h"
#include "compiler/emit/rereads.h"
#include "compiler/emit/text_facts.h"
#include "compiler/emit/written_views.h"
#include "compiler/emitted_kernel.h"
#include "compiler/forked_tasks.h"
#include "compiler/forked_texts.h"
#include "compiler/forward_calls.h"
#include "compiler/host/host_text.h"
#include "compiler/module_files.h"
#include "compiler/reflect/describe.h"
#include "compiler/reflect/host_signature.h"
#include "compiler/reflect/imported_functions.h"
#include "compiler/reflect/own_derivatives.h"
#include "compiler/slang/library.h"
#include "compiler/source/crash_hints.h"
#include "compiler/source/directives.h"
#include "compiler/source/file_scope.h"
#include "compiler/source/generic_tensors.h"
#include "compiler/source/own_tangents.h"
#include "compiler/source/tuned_variables.h"
#include "compiler/text/refused_text.h"
#include "compiler/wrap/known_pairs.h"
#include "compiler/wrap/wrapper.h"
#include "program/enumerations.h"
#include "program/instantiations.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

class Compilation {
 public:
  Compilation(Session& session, const CompileRequest& request, const Progress& progress, const TextObserver& observer)
      : session_(session),
        request_(request),
        progress_(progress),
        observer_(observer),
        name_(std::filesystem::path(request.path).stem().string()),
        modules_(request, session),
        source_(session_.files().with_library(modules_.text({}), request.path)) {}

  Program run(Extent extent, const DescriptionObserver& described) {
    Program program;
    program.module_name = name_;
    program.tuned = values_of_tuned(source_, request_.defines);
    describe(program);
    add_sources(program);
    if (extent != Extent::DescribeOnly) {
      if (described) described(program);
      if (!request_.host_text_alone) add_texts(program, wanted(program, extent));
      if (request_.instantiations.empty() && !program.host_functions.empty()) add_host_text(program);
      add_sources(program);
    }
    return program;
  }

 private:
  // None: only the forward text is read, so Note [promotions] makes no edits. StoresApart: Note [nested stores].
  enum class Derivatives { None, Right, StoresApart };

  // The files that were read so far, and the facts that were found in them.
  void add_sources(Program& program) const {
    program.slang_version = session_.slang_version();
    program.files = session_.files().manifest();
    for (const auto& [name, value] : request_.defines) {
      if (uses(macro_name(name))) program.used_defines.insert(name);
    }
    const std::string caution = untested_version(program.slang_version);
    if (!caution.empty()) program.cautions.insert(caution);
  }

  void describe(Program& program) {
    progress_("the declarations", {});
    SourceFiles& files = session_.files();
    files.check_bytes(modules_.text({}), request_.path);
    std::string diagnostics;
    const auto load = [&](std::string* said) {
      source_ = files.with_library(modules_.text({}), request_.path);
      return session_.load(modules_.next_copy(source_), said);
    };
    slang::IModule* module = files.refusal().empty() ? declared_.load(load, &diagnostics) : nullptr;
    // Note [bytes of sources]
    if (!files.refusal().empty()) {
      throw_compile_error("torch_slang: ", request_.path, " does not compile\n", files.refusal());
    }
    if (module == nullptr) {
      const std::string hints = is_crash(diagnostics) ? "\n" + crash_hints(modules_.text({}), request_.path) : "";
      throw_compile_error("torch_slang: ", request_.path, " does not compile\n", diagnostics, hints);
    }
    program.warnings = diagnostics;
    shader_parameters_ = shader_parameters(module);
    const auto source_of = [&](const std::string& path) { return session_.source_of(path); };
    std::vector<DescribedFunction> all = describe_module(session_.slang(), module, request_.path, source_of);
    add_imported_functions(all, session_.slang(), session_.imports(), source_of);
    for (DescribedFunction& one : all) {
      if (one.host) {
        one.host->function = std::move(one.function);
        program.host_functions.push_back(*std::move(one.host));
      } else {
        program.functions.push_back(one.function);
        functions_[one.function.name] = std::move(one);
      }
    }
    find_written_views(program.functions);
    refuse_equal_names(program.host_functions);
  }

  // Note [written views]. One choice of types stands for all.
  void find_written_views(std::vector<Function>& functions) {
    std::vector<Function*> group;
    std::vector<Instantiation> wanted;
    for (Function& function : functions) {
      if (!needs_written_views(function)) continue;
      group.push_back(&function);
      wanted.push_back(some_instantiation(function));
    }
    const std::vector<DeviceText> texts = texts_of(wanted, Derivatives::None);
    for (size_t i = 0; i < group.size(); ++i) {
      note_written_views(*group[i], texts[i]);
      functions_[group[i]->name].function = *group[i];
    }
  }

  std::vector<Instantiation> wanted(const Program& program, Extent extent) const {
    if (!request_.instantiations.empty()) return request_.instantiations;
    return extent == Extent::AllTypes ? all_instantiations(program.functions) : usual_instantiations(program.functions);
  }

  void add_texts(Program& program, const std::vector<Instantiation>& wanted) {
    progress_("the generated kernels", {});
    for (const bool order_2 : {false, true}) {
      std::vector<Instantiation> group;
      for (const Instantiation& one : wanted) {
        if (needs_order_2(one) == order_2) group.push_back(one);
      }
      for (DeviceText& text : texts_of(group, Derivatives::Right)) {
        inline_headers(text, request_, session_.files());
        program.texts.push_back(std::move(text));
      }
    }
  }

  std::vector<DeviceText> texts_of(const std::vector<Instantiation>& group, Derivatives derivatives) {
    std::vector<Loaded> modules;
    load_groups(group, derivatives, modules);
    const auto make = [&](size_t i) { return text_or_form_apart(group[i], modules[i]); };
    // Who observes wants to see all of them. Slang numbers types for createDynamicObject in the order in which it meets them.
    const bool by_one = observer_ || uses("createDynamicObject");
    return make_texts(group, by_one ? 1 : usable_processors(), make, progress_);
  }

  // A copy of a module with wrappers behind it, or why there is none.
  struct Loaded {
    slang::IModule* module = nullptr;
    std::string diagnostics;
    Session* session = nullptr;  // that has the module
  };

  // Adds the copy that each wrapper stands in: one of each module with all of them; if that does not compile, one with each half of
  // them, and so on, so that a wrapper that fails does not break the others.
  void load_groups(const std::vector<Instantiation>& group, Derivatives derivatives, std::vector<Loaded>& modules) {
    if (group.empty()) return;
    const auto module_of = [&](const Instantiation& one) { return described(one.function).imported_from; };
    const std::string first = module_of(group.front());
    auto middle = std::find_if(group.begin(), group.end(), [&](const auto& one) { return module_of(one) != first; });
    if (middle == group.end()) {
      const Loaded loaded = load_wrappers(group, derivatives);
      if (loaded.module != nullptr || group.size() == 1) {
        modules.insert(modules.end(), group.size(), loaded);
        return;
      }
      middle = group.begin() + static_cast<std::ptrdiff_t>(group.size() / 2);
    }
    load_groups({group.begin(), middle}, derivatives, modules);
    load_groups({middle, group.end()}, derivatives, modules);
  }

  // Slang emits all of them or none.
  void add_host_text(Program& program) {
    std::string names, refusals;
    for (const HostFunction& one : program.host_functions) {
      names += (names.empty() ? "" : ", ") + one.function.name;
      if (!one.function.refusal.empty()) refusals += one.function.name + " is refused: " + one.function.refusal + "\n";
    }
    progress_("the host functions " + names, {});
    Session session(request_, session_, Session::Output::HostFunctions);
    std::string diagnostics;
    const std::string emitted = session.emit_host(name_, request_.path, source_, &diagnostics);
    if (!emitted.empty()) {
      program.host_text.body = shape_host_text(emitted, program.host_functions);
    } else {
      program.host_text.error = c10::str(
          "the host functions ([TorchEntryPoint]) of ", request_.path, " do not compile (", names,
          "); in place of the statements reported below, write a kernel with [Out] parameters and call it from ",
          "Python\n", refusals, explain_host_diagnostics(diagnostics));
    }
  }

  // Tries a second form where a text is refused. If Slang crashes on it, the progress line says the refusal in the message.
  DeviceText text_or_form_apart(const Instantiation& one, const Loaded& loaded) {
    progress_(describe_instantiation(one), one.function);
    DeviceText text = text_of_one(one, loaded);
    if (!text.refused) return text;
    progress_(describe_instantiation(one) + " in another form, since " + text.error, one.function);
    DeviceText other = text_of_one(one, load_wrappers({one}, Derivatives::StoresApart));
    return other.error.empty() ? other : text;
  }

  DeviceText text_of_one(const Instantiation& instantiation, const Loaded& loaded) {
    DeviceText text = empty_text(instantiation);
    text.entry = entry_name(instantiation);
    const Function& function = described(instantiation.function).function;
    if (instantiation.direction == Direction::TangentsBackward && has_bfloat16(function, instantiation)) {
      text.error = c10::str("torch_slang: ", describe_instantiation(instantiation), " in ", request_.path,
                            " is not available in bfloat16, whose arithmetic Slang differentiates once: call it with "
                            "another dtype");
      return text;
    }
    if (const auto reason = why_wrong(instantiation)) {
      text.error = c10::str("torch_slang: ", describe_instantiation(instantiation), " in ", request_.path,
                            " would be wrong: ", *reason);
      return text;
    }
    std::string diagnostics = loaded.module == nullptr ? loaded.diagnostics : "";
    std::unique_ptr<EmittedText> emitted;
    const auto held = has_forward_derivative(text.direction) ? Differentials::Tangents : Differentials::Gradients;
    if (loaded.module != nullptr) {
      emitted = emit_kernel(*loaded.session, loaded.module, text.entry, held, &diagnostics);
    }
    try {
      if (emitted != nullptr) {
        refuse_lost_forward_calls(emitted->code(), session_);
        text.rereads = is_backward(text.direction) && uses("PreferRecompute") && loads_among_gradients(*emitted);
        const auto counts = apply_passes(*emitted, text, session_.files().left_out());
        if (observer_) observer_(text, emitted->emitted(), counts);
        const bool meets = depends_on_threads(emitted->code(), text) || (text.waves && !sees_tensors(function));
        if (!function.is_kernel() && meets) {
          text.error = c10::str("torch_slang: ", describe_instantiation(instantiation), " in ", request_.path,
                                " is applied to each element by itself, but it asks for thread indices, group-shared "
                                "memory, barriers or wave operations; make it a [CudaKernel]");
          return text;
        }
        if (instantiation.direction != Direction::Forward) note_for_audits(text, instantiation);
        return text;
      }
    } catch (const UnsupportedGlobal& global) {
      diagnostics = explain_global(global, shader_parameters_);
    } catch (const RefusedText& refused) {
      text.error = c10::str("torch_slang: ", describe_instantiation(instantiation), " in ", request_.path,
                            " is refused: ", refused.reason);
      text.refused = true;
      return text;
    }
    text.error = c10::str("torch_slang: ", describe_instantiation(instantiation), " in ", request_.path,
                          " does not compile\n", diagnostics, is_crash(diagnostics) ? hints(instantiation) : "");
    return text;
  }

  std::string hints(const Instantiation& one) {
    const std::string& import = described(one.function).imported_from;
    const bool is_second = one.direction == Direction::TangentsBackward;
    return "\n" + crash_hints(modules_.text(import), modules_.path(import), is_second, one.function);
  }

  // A derivative of the user's own that Slang, or the view library, would take for zero.
  std::optional<std::string> why_wrong(const Instantiation& instantiation) {
    if (instantiation.direction == Direction::Forward) return std::nullopt;
    if (auto reason = declared_.why_lost(described(instantiation.function).function.qualified_name)) return reason;
    if (!has_forward_derivative(instantiation.direction)) return std::nullopt;
    if (const auto name = backward_only_callee(instantiation)) {
      return *name + " has a [BackwardDerivative] and no [ForwardDerivative], which Slang takes for zero";
    }
    if (const auto name = callee_with_kept_exits(instantiation)) {
      return "the `return` or `continue` in a loop of " + *name + " must go to the function's end there, and cannot " +
             session_.files().kept_exits().at(*name) + ": write the function without it, or the loop without `return`" +
             " and `continue`";
    }
    if (!needs_order_2(instantiation)) return std::nullopt;
    if (const auto name = callee_with_own_tangents(instantiation)) {
      return "the [ForwardDerivative] of " + *name +
             " reads or writes tangents through `diff` of a view, which has the gradient there";
    }
    return std::nullopt;
  }

  // Whether the code of the source, or of a file that it includes or imports, has this name.
  bool uses(std::string_view name) const { return session_.files().names().count(name) > 0; }

  void note_for_audits(DeviceText& text, const Instantiation& instantiation) {
    text.own_derivative = callee_among(functions_with_own_derivatives(session_.slang()), instantiation).value_or("");
    text.constants = may_have_constants(session_.files().names());
  }

  // A function without a forward derivative of its own that the kernel may call, as its own text shows: that of the
  // forward derivative need not name it.
  std::optional<std::string> backward_only_callee(Instantiation instantiation) {
    return callee_among(backward_only_functions(session_.slang()), std::move(instantiation));
  }

  // Note [single exits] in source/single_exits.h
  std::optional<std::string> callee_with_kept_exits(const Instantiation& instantiation) {
    std::set<std::string> found;
    for (const auto& [name, why] : session_.files().kept_exits()) found.insert(name);
    return callee_among(found, instantiation);
  }

  // Note [tangents of views] in source/own_tangents.h
  std::optional<std::string> callee_with_own_tangents(Instantiation instantiation) {
    const auto forwards = own_forward_derivatives(session_.slang());
    std::set<std::string> found, users = users_of_diff(session_.sources());
    for (const auto& [name, forward] : forwards) {
      if (users.count(forward) > 0) found.insert(name);
    }
    return callee_among(found, std::move(instantiation));
  }

  // One of these functions that the kernel may call.
  std::optional<std::string> callee_among(const std::set<std::string>& found, Instantiation instantiation) {
    if (found.empty()) return std::nullopt;
    const bool hidden = may_hide_calls(names_for_slang());
    instantiation.direction = Direction::Forward;
    std::string diagnostics, emitted;
    if (const Loaded loaded = load_wrappers({instantiation}, Derivatives::None); loaded.module != nullptr) {
      emitted = loaded.session->emit(loaded.module, entry_name(instantiation), Emission::Optimised, &diagnostics);
    }
    const Code code(emitted);
    for (const std::string& name : found) {
      if (hidden || emitted.empty() || may_call(code, name)) return name;
    }
    return std::nullopt;
  }

  // As Slang sees the source, which may have lost a [ForceInline]: Note [inlined backwards].
  NameSet names_for_slang() const {
    NameSet names;
    add_code_names(source_, names);
    for (const auto& [path, code] : session_.files().contents()) {
      if (path != request_.path) add_code_names(*code, names);
    }
    for (const auto& define : request_.defines) add_code_names(define.second, names);
    return names;
  }

  // A text of order 2 is made in a session of its own: Note [views of order 2] in slang/view.slang. So are all where other
  // modules are imported, since `session_` has loaded those as they are: Note [promotions].
  Session& session_for(const Instantiation& one, Derivatives derivatives) {
    if (!needs_order_2(one) && (derivatives == Derivatives::None || !session_.has_imports())) return session_;
    return sibling_for(one, sessions_, /*generic_tensors=*/false);
  }

  using Sessions = std::array<Session*, 2>;  // the second of order 2; made at first need, never destroyed: compile.h

  Session& sibling_for(const Instantiation& one, Sessions& sessions, bool generic_tensors) {
    const bool is_second = needs_order_2(one);
    Session*& session = sessions[is_second ? 1 : 0];
    if (session == nullptr) {
      const auto output = is_second ? Session::Output::SecondDerivatives : Session::Output::Kernels;
      session = new Session(request_, session_, output, generic_tensors);
      session->promote_imports(session_);
    }
    return *session;
  }

  bool needs_order_2(const Instantiation& one) const {
    return one.direction == Direction::TangentsBackward ||
           (one.direction == Direction::Tangents && described(one.function).function.is_kernel());
  }

  Loaded load_wrappers(const std::vector<Instantiation>& instantiations, Derivatives derivatives) {
    const std::string import = described(instantiations.front().function).imported_from;
    std::string source = undefine_macros(request_) + "#line 1 \"torch_slang wrapper\"\n";
    for (const Instantiation& one : instantiations) source += wrapper_source(described(one.function), one);
    if (needs_order_2(instantiations.front())) source += known_pairs(functions_, import);
    const Stores stores = derivatives == Derivatives::StoresApart ? Stores::Apart : Stores::AsWritten;
    Loaded loaded;
    const auto load = [&](Session& session, const std::string& text) {
      loaded.session = &session;
      const ModuleSource copy = modules_.next_copy(text + "\n" + source, import);
      loaded.module = derivatives == Derivatives::None ? session.load(copy, &loaded.diagnostics)
                                                       : session.load_promoted(copy, stores, &loaded.diagnostics);
      return loaded.module != nullptr;
    };
    const std::string own = modules_.text(import), path = modules_.path(import);
    const GenericTensors generic = generic_tensors(session_.sources(), own);
    if (generic == GenericTensors::AllFiles) {
      Session& session = sibling_for(instantiations.front(), generic_, /*generic_tensors=*/true);
      if (load(session, session.files().with_library(with_generic_tensors(own), path))) return loaded;
    }
    Session& session = session_for(instantiations.front(), derivatives);
    const std::string text = &session == &session_ ? source_ : session.files().with_library(own, path);
    if (generic == GenericTensors::OwnFile && load(session, with_generic_tensors(text))) return loaded;
    load(session, text);
    return loaded;
  }

  const DescribedFunction& described(const std::string& name) const {
    const auto found = functions_.find(name);
    if (found == functions_.end())
      throw_compile_error("torch_slang: ", request_.path, " has no kernel or function ", name);
    const std::string& refusal = found->second.function.refusal;
    if (!refusal.empty() && !found->second.function.wants_generic_arguments)
      throw_compile_error("torch_slang: ", name, " in ", request_.path, " cannot be an operator: ", refusal);
    return found->second;
  }

  Session& session_;
  Sessions sessions_ = {};
  Sessions generic_ = {};  // that read interfaces as generic parameters
  const CompileRequest& request_;
  const Progress& progress_;
  const TextObserver& observer_;
  DeclaredModule declared_{session_, request_};
  std::string name_;
  ModuleFiles modules_;
  std::string source_;
  std::map<std::string, DescribedFunction> functions_;
  std::vector<std::string> shader_parameters_;
};

}  // namespace

Program compile_request(Session& session, const CompileRequest& request, Extent extent, const Progress& progress,
                        const TextObserver& observer, const DescriptionObserver& described) {
  return Compilation(session, request, progress, observer).run(extent, described);
}

}  // namespace torch_slang
