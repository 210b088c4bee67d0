// SPDX-License-Identifier: Apache-2.0
#include "hg/dlpack.h"

#include <memory>

#include "lib/graph/border.h"

namespace hg::dlpack {
namespace {

enum Code : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4, kComplex = 5, kBool = 6 };
constexpr int32_t kCpu = 1;
constexpr uint64_t kReadOnly = 1;

DataType type_of(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * size_of(dtype));
  if (dtype == bf16) return {kBFloat, bits, 1};
  if (dtype == boolean) return {kBool, bits, 1};
  if (dtype == u8) return {kUInt, bits, 1};
  if (is_complex(dtype)) return {kComplex, bits, 1};
  return {is_float(dtype) ? kFloat : kInt, bits, 1};
}

Result<DType> dtype_of(const DataType& type) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const DataType own = type_of(dtype);
    if (own.code == type.code && own.bits == type.bits && type.lanes == 1) return dtype;
  }
  return unsupported("a DLPack tensor of code ", int{type.code}, " with ", int{type.bits},
                     " bits and ", int{type.lanes}, " lanes has no dtype here");
}

// An exported array: the struct that the consumer gets, and the array that keeps the memory alive.
template <class Managed>
struct Lent {
  Managed managed{};
  Array array;
  Sizes shape, strides;
};

template <class Managed>
Result<Managed*> lend(const Array& array) {
  HG_CHECK(array, "an array that is empty or freed has no elements to lend");
  HG_TRY(array.to_host());
  auto lent = std::make_unique<Lent<Managed>>();
  lent->array = array;
  lent->shape = array.shape();
  lent->strides = array.strides();
  DataTensor& tensor = lent->managed.tensor;
  tensor.data = array.tensor().data;
  tensor.device = {kCpu, 0};
  tensor.rank = array.rank();
  tensor.dtype = type_of(array.dtype());
  tensor.shape = lent->shape.begin();
  tensor.strides = lent->strides.begin();
  lent->managed.context = lent.get();
  lent->managed.deleter = [](Managed* self) { delete static_cast<Lent<Managed>*>(self->context); };
  return &lent.release()->managed;
}

template <class Managed>
Result<Array> take(Managed* managed, bool read_only) {
  HG_CHECK(managed != nullptr, "the DLPack tensor is null");
  const DataTensor& from = managed->tensor;
  if (from.device.type != kCpu)
    return unsupported("a DLPack tensor on a device of type ", from.device.type,
                       " is not on the CPU, which is type ", kCpu);
  if (from.rank < 0 || from.rank > kMaxRank)
    return unsupported("a DLPack tensor has ", from.rank, " dims, not up to ", kMaxRank);
  HG_TRY_ASSIGN(const DType dtype, dtype_of(from.dtype));
  Tensor tensor{nullptr, dtype, {}, {}};
  for (int d = 0; d < from.rank; ++d) {
    HG_CHECK(from.shape[d] >= 0, "a DLPack tensor has the size ", from.shape[d]);
    tensor.shape.push_back(from.shape[d]);
    if (from.strides != nullptr) tensor.strides.push_back(from.strides[d]);
  }
  if (from.strides == nullptr) tensor.strides = contiguous_strides(tensor.shape);
  HG_CHECK(from.data != nullptr || tensor.count() == 0, "a DLPack tensor of shape ", tensor.shape,
           " has null data");
  if (from.data != nullptr) tensor.data = static_cast<std::byte*>(from.data) + from.byte_offset;
  std::shared_ptr<void> owner(managed, [](void* held) {
    auto* const taken = static_cast<Managed*>(held);
    if (taken->deleter != nullptr) taken->deleter(taken);
  });
  return read_only ? Array::wrap(ConstTensor(tensor), std::move(owner))
                   : Array::wrap(tensor, std::move(owner));
}

}  // namespace

Result<ManagedTensor*> to_dlpack(const Array& array) {
  return or_no_memory([&]() -> Result<ManagedTensor*> {
    HG_CHECK(!array.is_read_only(), "a read-only array needs to_dlpack_versioned(), which says so");
    return lend<ManagedTensor>(array);
  });
}

Result<ManagedTensorVersioned*> to_dlpack_versioned(const Array& array) {
  return or_no_memory([&]() -> Result<ManagedTensorVersioned*> {
    HG_TRY_ASSIGN(ManagedTensorVersioned* const managed, lend<ManagedTensorVersioned>(array));
    managed->major = 1;
    managed->minor = 0;
    managed->flags = array.is_read_only() ? kReadOnly : 0;
    return managed;
  });
}

Result<Array> from_dlpack(ManagedTensor* managed) {
  return or_no_memory([&]() -> Result<Array> { return take(managed, false); });
}

Result<Array> from_dlpack(ManagedTensorVersioned* managed) {
  return or_no_memory([&]() -> Result<Array> {
    HG_CHECK(managed != nullptr, "the DLPack tensor is null");
    if (managed->major != 1)
      return unsupported("DLPack ", int64_t{managed->major}, ".", int64_t{managed->minor},
                         " is not version 1");
    return take(managed, (managed->flags & kReadOnly) != 0);
  });
}

}  // namespace hg::dlpack
