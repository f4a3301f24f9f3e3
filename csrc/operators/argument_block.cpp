#include "operators/argument_block.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace torch_slang {
namespace {

template <class T>
void store_bits(char* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

// Writes a number in the component's own type; false if an integer does not fit.
template <class T>
bool store_integer(char* to, int64_t value) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (value < 0) return false;
  } else if (value < static_cast<int64_t>(std::numeric_limits<T>::min()) ||
             value > static_cast<int64_t>(std::numeric_limits<T>::max())) {
    return false;
  }
  store_bits(to, static_cast<T>(value));
  return true;
}

bool store_number(ElementType type, char* to, const c10::IValue& value) {
  const auto real = [&] { return value.isDouble() ? value.toDouble() : static_cast<double>(value.toInt()); };
  const auto integer = [&] {
    return value.isBool()     ? static_cast<int64_t>(value.toBool())
           : value.isSymInt() ? value.toSymInt().guard_int(__FILE__, __LINE__)
                              : value.toInt();
  };
  switch (type) {
    case ElementType::Float16: store_bits(to, c10::Half(static_cast<float>(real()))); return true;
    case ElementType::BFloat16: store_bits(to, c10::BFloat16(static_cast<float>(real()))); return true;
    case ElementType::Float32: store_bits(to, static_cast<float>(real())); return true;
    case ElementType::Float64: store_bits(to, real()); return true;
    case ElementType::Int8: return store_integer<int8_t>(to, integer());
    case ElementType::Int16: return store_integer<int16_t>(to, integer());
    case ElementType::Int32: return store_integer<int32_t>(to, integer());
    case ElementType::Int64: return store_integer<int64_t>(to, integer());
    case ElementType::UInt8: return store_integer<uint8_t>(to, integer());
    case ElementType::UInt16: return store_integer<uint16_t>(to, integer());
    case ElementType::UInt32: return store_integer<uint32_t>(to, integer());
    case ElementType::UInt64: return store_integer<uint64_t>(to, integer());
    case ElementType::Bool: store_bits(to, static_cast<uint8_t>(integer() != 0)); return true;
  }
  TORCH_INTERNAL_ASSERT(false, "unknown element type");
}

}  // namespace

ArgumentBlock::ArgumentBlock(const Layout& layout) : layout_(layout) {
  block_.resize(layout.size());
  std::memset(block_.data(), 0, block_.size());
}

void ArgumentBlock::write(size_t offset, const void* data, size_t size) {
  std::memcpy(block_.data() + offset, data, size);
}

void ArgumentBlock::set_view(int view, const TslView& value) { write(layout_.view_offset(view), &value, sizeof value); }

void ArgumentBlock::set_memory(int view, const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  write(layout_.view_offset(view) + offsetof(TslView, data), &data, sizeof data);
}

void ArgumentBlock::set_strides(int view, c10::IntArrayRef bytes) {
  for (size_t d = 0; d < bytes.size(); ++d) {
    const long long stride = bytes[d];
    write(layout_.view_offset(view) + offsetof(TslView, strides) + sizeof stride * d, &stride, sizeof stride);
  }
}

void ArgumentBlock::set_slot(int slot, uint64_t value) { write(layout_.slot_offset(slot), &value, sizeof value); }

bool ArgumentBlock::set_number(int slot, ElementType type, const c10::IValue& value) {
  return store_number(type, block_.data() + layout_.slot_offset(slot), value);
}

void ArgumentBlock::set_components(int slot, const at::Tensor& tensor) {
  const at::Tensor packed = tensor.contiguous();
  const auto* bytes = static_cast<const char*>(packed.const_data_ptr());
  const auto size = static_cast<size_t>(packed.element_size());
  for (int64_t i = 0; i < packed.numel(); ++i) {
    write(layout_.slot_offset(slot + static_cast<int>(i)), bytes + size * i, size);
  }
}

void ArgumentBlock::set_dim(int dim, uint32_t value) { write(layout_.dim_offset(dim), &value, sizeof value); }

uint32_t ArgumentBlock::dim(int dim) const {
  uint32_t value = 0;
  std::memcpy(&value, block_.data() + layout_.dim_offset(dim), sizeof value);
  return value;
}

void ArgumentBlock::launch(const Kernel& kernel, const LaunchShape& shape, FaultRecord& faults) {
  TslHeader header = {};
  std::copy(std::begin(shape.grid), std::end(shape.grid), header.grid);
  std::copy(std::begin(shape.block), std::end(shape.block), header.block);
  header.fault = faults.address();
  write(0, &header, sizeof header);
  if (samples_.sizes.empty()) {
    kernel.launch(shape, block_.data(), block_.size());
  } else {
    kernel.launch_samples(shape, block_.data(), block_.size(), joined(samples_));
  }
}

void ArgumentBlock::set_samples(c10::IntArrayRef sizes) {
  for (const int64_t size : sizes) samples_.sizes.push_back(static_cast<uint32_t>(size));
  samples_.offsets = &layout_.pointer_offsets();
  samples_.steps.resize(samples_.offsets->size() * samples_.sizes.size(), 0);
}

void ArgumentBlock::set_steps(size_t pointer, c10::ArrayRef<int64_t> steps) {
  std::copy(steps.begin(), steps.end(), samples_.steps.begin() + pointer * samples_.sizes.size());
}

void ArgumentBlock::set_slot_steps(int slot, c10::ArrayRef<int64_t> steps) {
  const auto& slots = layout_.pointer_slots();
  const auto at = std::find(slots.begin(), slots.end(), slot);
  TORCH_INTERNAL_ASSERT(at != slots.end(), "slot ", slot, " is said to hold a pointer");
  set_steps(layout_.view_count() + (at - slots.begin()), steps);
}

}  // namespace torch_slang
