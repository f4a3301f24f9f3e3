#include "module/reserved_names.h"

#include <map>
#include <mutex>

namespace torch_slang {
namespace {

struct ReservedNames {
  std::mutex mutex;
  std::map<std::string, std::string> reasons;
};

ReservedNames& reserved_names() {
  static auto* instance = new ReservedNames;
  return *instance;
}

}  // namespace

bool is_special_in_python(const std::string& name) { return name.starts_with("__") && name.ends_with("__"); }

void reserve_name(const std::string& name, const std::string& what_it_is) {
  ReservedNames& all = reserved_names();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.reasons[name] = what_it_is;
}

std::string why_reserved(const std::string& name) {
  if (is_special_in_python(name)) return "its name, '" + name + "', has a meaning of its own in Python: rename it";
  ReservedNames& all = reserved_names();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.reasons.find(name);
  return found == all.reasons.end() ? "" : "its name, '" + name + "', is " + found->second + ": rename it";
}

}  // namespace torch_slang
