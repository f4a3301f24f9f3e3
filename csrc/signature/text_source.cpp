#include "signature/text_source.h"

#include <algorithm>
#include <exception>
#include <set>

#include "common/error.h"
#include "common/interrupts.h"
#include "program/instantiations.h"
#include "program/tangents.h"
#include "signature/program_store.h"

namespace torch_slang {
namespace {

bool has_tangents(Direction direction) {
  return direction == Direction::Tangents || direction == Direction::TangentsBackward;
}

constexpr size_t kManyTexts = 64;  // some three seconds of the compiler's
// Kernels of a module, in a type that load() has not compiled them for: so many come alone, then they come with neighbours.
constexpr size_t kKernelsAlone = 3;
constexpr size_t kKernelTexts = 16;  // one second of the compiler's

// Mostly one type, which goes for all.
bool are_one(const std::vector<ElementType>& types) {
  return std::all_of(types.begin(), types.end(), [&](ElementType type) { return type == types.front(); });
}

// The module's plain functions in the types that are wanted of one of them.
std::vector<Instantiation> with_others(const std::vector<Function>& functions, const std::vector<ElementType>& types) {
  if (types.empty() || !are_one(types) || types.front() == ElementType::Float32) return plain_instantiations(functions);
  return plain_instantiations(functions, types.front());
}

// The kernels in whose company a kernel is compiled for a type: neighbours in the source, the same for each of them.
std::vector<Instantiation> with_neighbours(const std::vector<Function>& functions, const Instantiation& wanted) {
  if (wanted.types.empty() || !are_one(wanted.types)) return {};
  const auto all = kernel_instantiations(functions, wanted.types.front());
  const auto place = std::find_if(all.begin(), all.end(), [&](const Instantiation& one) {
    return one.function == wanted.function && one.types == wanted.types && one.sizes == wanted.sizes;
  });
  if (place == all.end()) return {};
  const auto first = static_cast<size_t>(place - all.begin()) / kKernelTexts * kKernelTexts;
  const auto last = std::min(first + kKernelTexts, all.size());
  return {all.begin() + static_cast<std::ptrdiff_t>(first), all.begin() + static_cast<std::ptrdiff_t>(last)};
}

bool has_error(const Program& program) { return !program.texts.empty() && !program.texts.front().error.empty(); }

// Of a second derivative Slang may refuse a text, or crash, where all calls are inlined early, which others need (Note
// [functions inlined early] in compiler/source/session.cpp). If neither way will do, it ends as the first did.
std::shared_ptr<const Program> load_either_way(CompileRequest request) {
  std::shared_ptr<const Program> inlined;
  std::exception_ptr crash;
  try {
    inlined = load_program(request);
    if (!has_error(*inlined)) return inlined;
  } catch (const CompileError&) {
    crash = std::current_exception();
  }
  request.defines.emplace_back(kKeepCalls, "1");
  try {
    const auto called = load_program(request);
    if (!has_error(*called)) return called;
  } catch (const CompileError&) {  // the first failure is what the caller hears of
  }
  if (crash != nullptr) std::rethrow_exception(crash);
  return inlined;
}

}  // namespace

bool TextSource::Run::has(const Instantiation& wanted) const {
  return std::any_of(list.begin(), list.end(), [&](const Instantiation& one) {
    return one.function == wanted.function && one.direction == wanted.direction && one.types == wanted.types &&
           one.sizes == wanted.sizes;
  });
}

TextSource::TextSource(CompileRequest request, std::shared_ptr<const Program> program)
    : request_(std::move(request)), program_(std::move(program)) {
  take(*program_);
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
                        " was loaded: load that again, and call what the new module has");
  }
}

const DeviceText* TextSource::find(const Instantiation& wanted) const {
  const auto found = texts_.find(Key{wanted.function, wanted.direction, wanted.types, wanted.sizes});
  return found == texts_.end() ? nullptr : &found->second;
}

size_t TextSource::kernels_known(const std::vector<ElementType>& types) const {
  std::set<std::string> names;
  for (const auto& [key, text] : texts_) {
    if (std::get<std::vector<ElementType>>(key) == types) names.insert(text.function);
  }
  return names.size();
}

// Of what is used at all a backward is likely to be wanted too, and of a plain function so are its module's others, and those
// of a kernel after a few: one run of the compiler costs less than one for each, unless there are very many. The list
// depends on the module and `wanted` alone, as far as it can: the disk cache knows a run by its list.
std::vector<Instantiation> TextSource::to_ask_for(const Instantiation& wanted) const {
  const auto function = std::find_if(program_->functions.begin(), program_->functions.end(),
                                     [&](const Function& one) { return one.name == wanted.function; });
  const bool comes_alone = wanted.direction == Direction::Jvp || has_tangents(wanted.direction);
  if (function == program_->functions.end() || comes_alone) return {wanted};
  std::vector<Instantiation> list;
  std::set<Key> listed;
  const auto add = [&](const Instantiation& one) {
    if (find(one) == nullptr && listed.emplace(one.function, one.direction, one.types, one.sizes).second)
      list.push_back(one);
  };
  if (!function->is_kernel) {
    for (const Instantiation& one : with_others(program_->functions, wanted.types)) {
      if (list.size() < kManyTexts) add(one);
    }
  } else if (kernels_known(wanted.types) >= kKernelsAlone) {
    for (const Instantiation& one : with_neighbours(program_->functions, wanted)) {
      if (listed.emplace(one.function, one.direction, one.types, one.sizes).second) list.push_back(one);
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

void TextSource::run_compiler(const std::vector<Instantiation>& list) {
  CompileRequest request = request_;
  request.instantiations = list;
  const auto program =
      has_tangents(list.front().direction) ? load_either_way(std::move(request)) : load_program(request);
  check_same_files(*program);
  const std::lock_guard<std::mutex> lock(mutex_);
  take(*program);
}

// Runs the compiler (true), or waits for a run that another thread has begun. What that ends with is for the other thread:
// whoever needs the text then runs the compiler again.
bool TextSource::bring(const Instantiation& wanted) {
  std::promise<void> end;
  auto run = runs_.end();
  std::shared_future<void> other;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = std::find_if(runs_.begin(), runs_.end(), [&](const Run& one) { return one.has(wanted); });
    if (known != runs_.end()) {
      other = known->end;
    } else if (find(wanted) == nullptr) {
      run = runs_.insert(runs_.end(), {to_ask_for(wanted), end.get_future().share()});
    } else {
      return false;  // it came meanwhile
    }
  }
  if (other.valid()) {
    wait_interruptibly_for(other);
    return false;
  }
  const auto finish = [&] {
    const std::lock_guard<std::mutex> lock(mutex_);
    runs_.erase(run);
    end.set_value();
  };
  try {
    run_compiler(run->list);
  } catch (...) {
    finish();
    throw;
  }
  finish();
  return true;
}

const DeviceText& TextSource::text(const std::string& function, Direction direction,
                                   const std::vector<ElementType>& types, const std::vector<int64_t>& sizes) {
  const Instantiation wanted{function, direction, types, sizes};
  const DeviceText* text = known(wanted);
  for (bool has_run = false; text == nullptr; text = known(wanted)) {
    if (has_run) throw_compile_error(request_.path, ": the compiler gave no text for ", describe_instantiation(wanted));
    has_run = bring(wanted);
  }
  if (!text->error.empty()) {
    throw_compile_error(request_.path, ": ", describe_instantiation(wanted), " does not compile\n", text->error);
  }
  return *text;
}

}  // namespace torch_slang
