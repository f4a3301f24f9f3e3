#include "compiler/slang/com.h"

namespace torch_slang {
namespace {

class Bytes final : public ISlangBlob {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}

  const void* SLANG_MCALL getBufferPointer() override { return bytes_.data(); }
  size_t SLANG_MCALL getBufferSize() override { return bytes_.size(); }
  SlangResult SLANG_MCALL queryInterface(const SlangUUID& id, void** object) override {
    if (!same_id(id, ISlangUnknown::getTypeGuid()) && !same_id(id, ISlangBlob::getTypeGuid())) {
      return SLANG_E_NO_INTERFACE;
    }
    addRef();
    *object = static_cast<ISlangBlob*>(this);
    return SLANG_OK;
  }
  uint32_t SLANG_MCALL addRef() override { return ++references_; }
  uint32_t SLANG_MCALL release() override {
    const uint32_t left = --references_;
    if (left == 0) delete this;
    return left;
  }

 private:
  ~Bytes() = default;

  std::string bytes_;
  uint32_t references_ = 0;
};

}  // namespace

ISlangBlob* make_blob(std::string bytes) {
  auto* blob = new Bytes(std::move(bytes));
  blob->addRef();
  return blob;
}

}  // namespace torch_slang
