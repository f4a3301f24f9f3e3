// Com<T> owns a reference to one of Slang's COM objects; check_slang throws where a result is a failure.
#pragma once

#include <c10/util/Exception.h>
#include <slang.h>

#include <cstring>
#include <string>
#include <utility>

namespace torch_slang {

template <class T>
class Com {
 public:
  Com() = default;
  ~Com() {
    if (pointer_ != nullptr) pointer_->release();
  }
  Com(Com&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Com& operator=(Com&& other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }

  T* get() const { return pointer_; }
  T* operator->() const { return pointer_; }
  explicit operator bool() const { return pointer_ != nullptr; }

  // For calls that hand out a reference through a pointer: the object owned before is released.
  T** out() {
    if (pointer_ != nullptr) std::exchange(pointer_, nullptr)->release();
    return &pointer_;
  }

 private:
  T* pointer_ = nullptr;
};

inline bool same_id(const SlangUUID& a, const SlangUUID& b) { return std::memcmp(&a, &b, sizeof(SlangUUID)) == 0; }

// Files that Slang reads through an object of C++, which outlives Slang's use of it, so that COM's counting does nothing.
class FileSystem : public ISlangFileSystem {
 public:
  SlangResult SLANG_MCALL queryInterface(const SlangUUID& id, void** object) final {
    *object = castAs(id);
    return *object == nullptr ? SLANG_E_NO_INTERFACE : SLANG_OK;
  }
  uint32_t SLANG_MCALL addRef() final { return 1; }
  uint32_t SLANG_MCALL release() final { return 1; }
  void* SLANG_MCALL castAs(const SlangUUID& id) final {
    const bool known = same_id(id, ISlangUnknown::getTypeGuid()) || same_id(id, ISlangCastable::getTypeGuid()) ||
                       same_id(id, ISlangFileSystem::getTypeGuid());
    return known ? static_cast<ISlangFileSystem*>(this) : nullptr;
  }
};

inline std::string text_of(ISlangBlob* blob) {
  if (blob == nullptr) return {};
  std::string text(static_cast<const char*>(blob->getBufferPointer()), blob->getBufferSize());
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

// Bytes of ours as Slang takes them, with one reference for the caller.
ISlangBlob* make_blob(std::string bytes);

inline void check_slang(SlangResult result, const char* call) {
  TORCH_CHECK(SLANG_SUCCEEDED(result), "torch-slangc: ", call, " failed with result ", result);
}

}  // namespace torch_slang
