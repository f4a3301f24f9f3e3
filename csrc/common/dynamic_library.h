// A shared library opened at run time, closed when its owner goes. Libraries whose state must outlive static
// destructors (the CUDA driver) are kept by owners that are never destroyed.
#pragma once

#include <optional>
#include <string>

namespace torch_slang {

class DynamicLibrary {
 public:
  // `name` is a path or a name that the loader searches for. Symbols stay local to it.
  static DynamicLibrary open(const std::string& name);  // throws c10::Error with the loader's reason
  static std::optional<DynamicLibrary> try_open(const std::string& name, std::string* reason = nullptr);
  static std::optional<DynamicLibrary> already_loaded(const std::string& name);  // only if the process has it

  // The file, library or program, that holds this function; empty if the loader does not know.
  static std::string file_of(const void* function);

  ~DynamicLibrary();
  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;

  const std::string& name() const { return name_; }
  std::string path() const;  // of the file that the loader took

  void* find(const char* symbol) const;    // null if there is none
  void* symbol(const char* symbol) const;  // throws c10::Error naming library and symbol
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  DynamicLibrary(void* handle, std::string name);

  void* handle_;
  std::string name_;
};

}  // namespace torch_slang
