#include "texts/text_source.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <set>

#include "common/interrupts.h"
#include "program/instantiations.h"
#include "program/tangents.h"
#include "texts/program_store.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

constexpr size_t kManyTexts = 64;  // some three seconds of the compiler's

// The module's plain functions in the types that are wanted of one of them: mostly one type, which goes for all.
std::vector<Instantiation> with_others(const std::vector<Function>& functions, const std::vector<ElementType>& types) {
  const bool are_one = std::all_of(types.begin(), types.end(), [&](ElementType type) { return type == types.front(); });
  if (types.empty() || !are_one || types.front() == ElementType::Float32) return plain_instantiations(functions);
  return plain_instantiations(functions, types.front());
}

bool has(const std::vector<Instantiation>& list, const Instantiation& wanted) {
  return std::any_of(list.begin(), list.end(), [&](const Instantiation& one) {
    return one.function == wanted.function && one.direction == wanted.direction && one.types == wanted.types &&
           one.sizes == wanted.sizes;
  });
}

// What the tries at a text came to that has no form without an error.
class FailedTries {
 public:
  void add(std::shared_ptr<const Program> program) {
    const DeviceText& text = program->texts.front();
    if (text.refused && refused_ == nullptr) refused_ = program;
    add(text.error, std::move(program));
  }
  void add(const CompileError& crash) { add(crash.what_without_backtrace(), nullptr); }

  // A refusal says what to write, so it stands in front of the error of the form that was tried first.
  std::shared_ptr<const Program> result() const {
    if (refused_ == nullptr) {
      if (first_ == nullptr) throw CompileError(error_);
      return first_;
    }
    if (refused_ == first_) return first_;
    auto both = std::make_shared<Program>(*refused_);
    both->texts.front().error += "\nThe form that was tried first:\n" + error_;
    return both;
  }

 private:
  void add(const std::string& error, std::shared_ptr<const Program> program) {
    if (!error_.empty()) return;
    error_ = error;
    first_ = std::move(program);
  }

  std::string error_;  // of the first try
  std::shared_ptr<const Program> first_, refused_;
};

// Of a derivative of tangents Slang may refuse a text, or crash, in a form that others need (kInlineEarly and its kin): the first try
// that compiles is used.
std::shared_ptr<const Program> load_with_workarounds(const CompileRequest& request) {
  const std::vector<std::vector<const char*>> tries = {
      {}, {kInlineEarly}, {kKeepStructs}, {kInlineEarly, kKeepStructs}, {kKeepReturns}};
  FailedTries failed;
  for (const auto& defines : tries) {
    CompileRequest changed = request;
    for (const char* define : defines) changed.defines.emplace_back(define, "1");
    try {
      auto program = load_program(changed);
      if (program->texts.empty() || program->texts.front().error.empty()) return program;
      failed.add(std::move(program));
    } catch (const CompileError& crash) {
      failed.add(crash);
    }
  }
  return failed.result();
}

}  // namespace

TextSource::TextSource(CompileRequest request, std::shared_ptr<const Program> program,
                       std::shared_future<std::shared_ptr<const Program>> pending)
    : request_(std::move(request)),
      program_(std::move(program)),
      process_(getpid()),
      complete_(program_),
      pending_(std::move(pending)) {
  take(*program_);
}

// If they could not be had, whoever needs a text runs the compiler again, and has the error. A fork has no thread that makes
// them.
void TextSource::take_pending() {
  std::shared_future<std::shared_ptr<const Program>> pending;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    pending = pending_;
  }
  if (!pending.valid()) return;
  std::shared_ptr<const Program> program;
  if (getpid() == process_) {
    wait_interruptibly_for(pending);
    try {
      program = pending.get();
    } catch (const std::exception&) {
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!pending_.valid()) return;  // another thread was here
  pending_ = {};
  if (program == nullptr) return;
  take(*program);
  complete_ = std::move(program);
}

std::shared_ptr<const Program> TextSource::complete() {
  take_pending();
  const std::lock_guard<std::mutex> lock(mutex_);
  return complete_;
}

void TextSource::take(const Program& program) {
  for (const DeviceText& text : program.texts) {
    texts_.emplace(Key{text.function, text.direction, text.types, text.sizes}, text);
  }
}

// Texts of another state of the source would not fit the descriptors.
void TextSource::check_same_files(const Program& program) const {
  std::map<std::string, std::string> digests;
  for (const SourceFile& file : program_->files) digests.emplace(file.path, file.digest);
  for (const SourceFile& file : program.files) {
    const auto known = digests.find(file.path);
    if (known == digests.end() || known->second == file.digest) continue;
    throw_compile_error(file.path, " has changed since ", request_.path,
                        " was loaded: load that file again, and call the operators of the new module");
  }
}

const DeviceText* TextSource::find(const Instantiation& wanted) const {
  const auto found = texts_.find(Key{wanted.function, wanted.direction, wanted.types, wanted.sizes});
  return found == texts_.end() ? nullptr : &found->second;
}

// A kernel that is used is likely to need its backward too, and a plain function the other functions of its module: one run
// of the compiler costs less than one for each, unless there are very many. The list depends on the module and `wanted`
// alone, as far as it can: the disk cache knows a run by its list.
std::vector<Instantiation> TextSource::to_ask_for(const Instantiation& wanted) const {
  const auto function = std::find_if(program_->functions.begin(), program_->functions.end(),
                                     [&](const Function& one) { return one.name == wanted.function; });
  const bool comes_alone = has_forward_derivative(wanted.direction);
  if (function == program_->functions.end() || comes_alone) return {wanted};
  std::vector<Instantiation> list;
  std::set<Key> listed;
  const auto add = [&](const Instantiation& one) {
    if (find(one) == nullptr && listed.emplace(one.function, one.direction, one.types, one.sizes).second)
      list.push_back(one);
  };
  if (!function->is_kernel()) {
    for (const Instantiation& one : with_others(program_->functions, wanted.types)) {
      if (list.size() < kManyTexts) add(one);
    }
  }
  Instantiation both = wanted;
  both.direction = Direction::Forward;
  add(both);
  both.direction = Direction::Backward;
  if (function->has_backward || wanted.direction == Direction::Backward) add(both);
  return list;
}

const DeviceText* TextSource::known(const Instantiation& wanted) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return find(wanted);
}

// By the compiler, or by a run of it that another thread has begun. What that ends with is for the other thread: whoever needs the
// text then runs the compiler again.
const DeviceText* TextSource::brought(const Instantiation& wanted) {
  std::vector<Instantiation> list;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    list = to_ask_for(wanted);
  }
  const auto brings = [&](const std::vector<Instantiation>& other) { return has(other, wanted); };
  const auto run = [&] {
    CompileRequest request = request_;
    request.instantiations = list;
    const auto program =
        has_forward_derivative(wanted.direction) ? load_with_workarounds(request) : load_program(request);
    check_same_files(*program);
    const std::lock_guard<std::mutex> lock(mutex_);
    take(*program);
    return find(wanted);
  };
  return runs_.find_or_make(list, brings, [&] { return known(wanted); }, run);
}

const DeviceText& TextSource::text(const std::string& function, Direction direction,
                                   const std::vector<ElementType>& types, const std::vector<int64_t>& sizes) {
  const Instantiation wanted{function, direction, types, sizes};
  const DeviceText* text = known(wanted);
  if (text == nullptr) {
    take_pending();
    text = brought(wanted);
  }
  if (text == nullptr)
    throw_compile_error(request_.path, ": the compiler gave no text for ", describe_instantiation(wanted));
  if (!text->error.empty()) {
    throw_compile_error(request_.path, ": ", describe_instantiation(wanted), " does not compile\n", text->error);
  }
  return *text;
}

}  // namespace torch_slang
