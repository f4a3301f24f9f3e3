#include "tuning/choices.h"

#include <c10/util/Exception.h>

#include <boost/json.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "cache/cache.h"
#include "common/environment.h"
#include "common/log.h"

namespace torch_slang::choices {
namespace {

namespace json = boost::json;

constexpr int kFormat = 1;
constexpr double kDefaultBudget = 10;
constexpr size_t kMadeAtMost = 10000;  // a process that makes more does not need to be told of all
constexpr const char* kModes[] = {"on", "off", "frozen"};

struct Store {
  std::mutex mutex;
  std::map<std::string, Choice> known;
  std::vector<Keyed> made;
  std::optional<double> budget;
  std::atomic<int> mode{-1};  // -1: as the environment says
  std::atomic<uint64_t> generation{1};
};

Store& store() {
  static auto* instance = new Store;  // never destroyed: operators may run while the process ends
  return *instance;
}

Mode mode_named(const std::string& name, const char* where) {
  for (size_t i = 0; i < std::size(kModes); ++i) {
    if (name == kModes[i]) return static_cast<Mode>(i);
  }
  TORCH_CHECK(false, "torch_slang: expected ", where, " to be on, off or frozen, but got '", name, "'");
}

json::object object_of(const Choice& choice) {
  json::array tried;
  for (const Attempt& attempt : choice.tried) {
    json::object one{{"value", attempt.value}};
    if (attempt.seconds > 0) one["seconds"] = attempt.seconds;
    if (!attempt.problem.empty()) one["problem"] = attempt.problem;
    tried.push_back(std::move(one));
  }
  return {{"op", choice.op},
          {"about", choice.about},
          {"value", choice.value},
          {"spent", choice.spent},
          {"tried", std::move(tried)}};
}

std::string text_in(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  TORCH_CHECK(value != nullptr && value->is_string(), "torch_slang.tuning: expected ", name,
              " of a choice to be a string");
  return std::string(value->as_string());
}

double number_in(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  boost::system::error_code wrong;
  const double number = value == nullptr ? 0 : value->to_number<double>(wrong);
  TORCH_CHECK(!wrong, "torch_slang.tuning: expected ", name, " of a choice to be a number");
  return number;
}

Choice choice_of(const json::value& value) {
  TORCH_CHECK(value.is_object(), "torch_slang.tuning: expected a choice to be an object");
  const json::object& object = value.as_object();
  Choice choice{
      text_in(object, "op"), text_in(object, "about"), text_in(object, "value"), {}, number_in(object, "spent")};
  const json::value* tried = object.if_contains("tried");
  if (tried == nullptr || !tried->is_array()) return choice;
  for (const json::value& one : tried->as_array()) {
    TORCH_CHECK(one.is_object(), "torch_slang.tuning: expected the list of tried candidates to hold objects");
    const json::object& attempt = one.as_object();
    choice.tried.push_back({text_in(attempt, "value"), number_in(attempt, "seconds"),
                            attempt.contains("problem") ? text_in(attempt, "problem") : ""});
  }
  return choice;
}

std::map<std::string, Choice> parse(const std::string& text) {
  boost::system::error_code wrong;
  const json::value all = json::parse(text, wrong);
  TORCH_CHECK(!wrong && all.is_object(), "torch_slang.tuning: this is no text of choices");
  const json::value* format = all.as_object().if_contains("format");
  TORCH_CHECK(format != nullptr && *format == kFormat, "torch_slang.tuning: expected choices of format ", kFormat);
  const json::value* choices = all.as_object().if_contains("choices");
  TORCH_CHECK(choices != nullptr && choices->is_object(), "torch_slang.tuning: this text has no choices");
  std::map<std::string, Choice> result;
  for (const auto& [key, value] : choices->as_object()) result.emplace(std::string(key), choice_of(value));
  return result;
}

// A damaged entry is as good as none.
std::optional<Choice> read_from_disk(const std::string& key) {
  const auto text = cache::read(cache::Kind::Choice, key);
  if (!text) return std::nullopt;
  try {
    const auto found = parse(*text);
    const auto it = found.find(key);
    if (it != found.end()) return it->second;
  } catch (const c10::Error& error) {
    log_info("a kept choice cannot be read: ", error.what_without_backtrace());
  }
  return std::nullopt;
}

void log(const Choice& choice) {
  if (!log_enabled(LogLevel::Info)) return;
  std::string text = choice.op + " (" + choice.about + "): chose " + choice.value + " of " +
                     std::to_string(choice.tried.size()) + " in " + c10::str(choice.spent) + " s";
  for (const Attempt& attempt : choice.tried) {
    text += "\n    " + attempt.value + ": ";
    text += attempt.problem.empty() ? c10::str(attempt.seconds * 1e3, " ms") : attempt.problem;
  }
  log_info(text);
}

}  // namespace

const char* name_of(Mode mode) { return kModes[static_cast<size_t>(mode)]; }

Mode mode() {
  const int set = store().mode;
  if (set >= 0) return static_cast<Mode>(set);
  const auto given = environment("TORCH_SLANG_TUNING");
  const Mode chosen = given ? mode_named(*given, "the environment variable TORCH_SLANG_TUNING") : Mode::On;
  store().mode = static_cast<int>(chosen);
  return chosen;
}

void set_mode(const std::string& name) {
  store().mode = static_cast<int>(mode_named(name, "the mode of tuning"));
  ++store().generation;
}

double budget() {
  {
    const std::lock_guard<std::mutex> lock(store().mutex);
    if (store().budget) return *store().budget;
  }
  const auto given = environment("TORCH_SLANG_TUNING_BUDGET");
  if (!given) return kDefaultBudget;
  double seconds = 0;
  const char* end = given->data() + given->size();
  const auto [stop, problem] = std::from_chars(given->data(), end, seconds);
  TORCH_CHECK(problem == std::errc() && stop == end && seconds >= 0,
              "torch_slang: expected the environment variable TORCH_SLANG_TUNING_BUDGET to be seconds, but got '",
              *given, "'");
  return seconds;
}

void set_budget(double seconds) {
  TORCH_CHECK(seconds >= 0, "torch_slang: expected the budget of tuning to be seconds, but got ", seconds);
  const std::lock_guard<std::mutex> lock(store().mutex);
  store().budget = seconds;
}

std::optional<Choice> get(const std::string& key) {
  {
    const std::lock_guard<std::mutex> lock(store().mutex);
    const auto it = store().known.find(key);
    if (it != store().known.end()) return it->second;
  }
  auto choice = read_from_disk(key);
  if (!choice) return choice;
  const std::lock_guard<std::mutex> lock(store().mutex);
  return store().known.emplace(key, *std::move(choice)).first->second;
}

void put(const std::string& key, Choice choice) {
  log(choice);
  cache::write(cache::Kind::Choice, key, to_json({{key, choice}}));
  const std::lock_guard<std::mutex> lock(store().mutex);
  store().known[key] = choice;
  if (store().made.size() < kMadeAtMost) store().made.emplace_back(key, std::move(choice));
}

uint64_t generation() { return store().generation; }

std::vector<Keyed> known() {
  std::vector<Keyed> all;
  {
    const std::lock_guard<std::mutex> lock(store().mutex);
    all.assign(store().known.begin(), store().known.end());
  }
  std::stable_sort(all.begin(), all.end(), [](const Keyed& a, const Keyed& b) {
    return std::tie(a.second.op, a.second.about) < std::tie(b.second.op, b.second.about);
  });
  return all;
}

std::vector<Keyed> made() {
  const std::lock_guard<std::mutex> lock(store().mutex);
  return store().made;
}

int64_t forget() {
  const int64_t on_disk = cache::clear(cache::Kind::Choice);
  const std::lock_guard<std::mutex> lock(store().mutex);
  const auto in_memory = static_cast<int64_t>(store().known.size());
  store().known.clear();
  ++store().generation;
  return std::max(on_disk, in_memory);
}

std::string to_json(const std::vector<Keyed>& choices) {
  json::object all;
  for (const auto& [key, choice] : choices) all[key] = object_of(choice);
  return json::serialize(json::object{{"format", kFormat}, {"choices", std::move(all)}});
}

int64_t read_json(const std::string& text) {
  std::map<std::string, Choice> given = parse(text);
  const std::lock_guard<std::mutex> lock(store().mutex);
  for (auto& [key, choice] : given) store().known[key] = std::move(choice);
  ++store().generation;
  return static_cast<int64_t>(given.size());
}

}  // namespace torch_slang::choices
