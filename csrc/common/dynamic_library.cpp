#include "common/dynamic_library.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <link.h>

#include <utility>

namespace torch_slang {

DynamicLibrary::DynamicLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(name_, other.name_);
  return *this;
}

DynamicLibrary DynamicLibrary::open(const std::string& name) {
  std::string reason;
  auto library = try_open(name, &reason);
  TORCH_CHECK(library.has_value(), "cannot load the library ", name, ": ", reason);
  return *std::move(library);
}

std::optional<DynamicLibrary> DynamicLibrary::try_open(const std::string& name, std::string* reason) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return DynamicLibrary(handle, name);
  const char* said = ::dlerror();
  if (reason != nullptr) *reason = said != nullptr ? said : "unknown reason";
  return std::nullopt;
}

std::optional<DynamicLibrary> DynamicLibrary::already_loaded(const std::string& name) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) {
    ::dlerror();
    return std::nullopt;
  }
  return DynamicLibrary(handle, name);
}

std::string DynamicLibrary::file_of(const void* function) {
  Dl_info info{};
  const bool known = ::dladdr(function, &info) != 0 && info.dli_fname != nullptr;
  return known ? info.dli_fname : "";
}

std::string DynamicLibrary::path() const {
  link_map* map = nullptr;
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr || *map->l_name == '\0')
    return name_;
  return map->l_name;
}

void* DynamicLibrary::find(const char* symbol) const { return ::dlsym(handle_, symbol); }

void* DynamicLibrary::symbol(const char* symbol) const {
  void* address = find(symbol);
  TORCH_CHECK(address != nullptr, "the library ", path(), " has no symbol ", symbol);
  return address;
}

}  // namespace torch_slang
