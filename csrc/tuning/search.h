// The search for the fastest candidate for a class of calls: Note [choosing] in tuning/choices.h. Results are kept by class in
// memory, and by a key on the disk. Any thread may ask; one at a time measures, and others wait for its result.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "backend/backend.h"
#include "common/log.h"
#include "common/once_each.h"
#include "tuning/choices.h"
#include "tuning/known_choices.h"

namespace torch_slang {

template <class Value>
class Search {
 public:
  struct Found {
    Value value;
    choices::Choice choice;  // without `about`
    bool is_worth_keeping = true;  // on the disk
  };

  // What a call takes without a search. `is_kept`: later calls of its class take the same.
  struct Answer {
    Value value;
    bool is_kept = false;
  };
  // A choice that nobody has made yet.
  struct Unknown {
    choices::Mode mode;
    bool is_capturing;  // the stream's work: nobody may wait for it
    const std::string& key;
    const std::string& about;
  };

  // One call that wants a value.
  class Subject {
   public:
    virtual ~Subject() = default;
    virtual c10::Device device() const = 0;
    virtual std::string name() const = 0;  // of the operator, for messages

    // The value if nothing is ever measured for such calls under this mode, else nothing.
    virtual std::optional<Value> decided(choices::Mode mode) = 0;
    virtual std::string key(const std::string& hardware) const = 0;
    virtual std::string about(const std::string& hardware) const = 0;
    virtual std::optional<Value> parsed(const std::string& text) = 0;  // nothing: it is no value of this call's
    // What this call takes if nothing is known and it may not measure, else nothing. Throws where it must not go on.
    virtual std::optional<Answer> unmeasured(const Unknown& unknown) = 0;
    virtual Found measured() = 0;  // throws c10::OutOfMemoryError if trying takes more memory than the call
    virtual Answer without_memory() = 0;
  };

  std::optional<Value> find(const CallClass& call) const { return known_.find(call); }
  bool has(const Value& value) const { return known_.has(value); }

  Value choose(const CallClass& call, Subject& subject) {
    const uint64_t generation = choices::generation();
    const choices::Mode mode = choices::mode();
    if (auto value = subject.decided(mode)) return known_.keep(call, generation, *std::move(value));

    Backend& backend = backend_for(subject.device().type());
    const std::string hardware = backend.hardware(subject.device());
    const std::string key = subject.key(hardware), about = subject.about(hardware);
    const auto known = [&]() -> std::optional<Value> {
      if (auto value = known_.find(call)) return value;  // of another thread
      const auto choice = choices::get(key);
      auto value = choice ? subject.parsed(choice->value) : std::nullopt;
      return value ? std::optional(known_.keep(call, generation, *std::move(value))) : std::nullopt;
    };
    if (auto value = known()) return *std::move(value);
    const auto answered = [&](Answer answer) {
      return answer.is_kept ? known_.keep(call, generation, std::move(answer.value)) : std::move(answer.value);
    };
    if (auto answer = subject.unmeasured({mode, backend.is_capturing(subject.device()), key, about})) {
      return answered(*std::move(answer));
    }

    // One call at a time measures, whatever its class: two would slow each other down. Compilers may run meanwhile.
    const auto measured = [&]() -> std::optional<Value> {
      try {
        Found found = subject.measured();
        found.choice.about = about;
        if (found.is_worth_keeping) choices::put(key, std::move(found.choice));
        return known_.keep(call, generation, std::move(found.value));
      } catch (const c10::OutOfMemoryError& error) {
        log_warning(subject.name(), " is not tuned for ", about, ": ", error.what_without_backtrace());
        return answered(subject.without_memory());
      }
    };
    return *measuring_.find_or_make({}, [](std::monostate) { return true; }, known, measured);
  }

 private:
  OnceEach<std::monostate> measuring_;
  KnownChoices<Value> known_;
};

}  // namespace torch_slang
