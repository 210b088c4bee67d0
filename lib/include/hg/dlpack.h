// SPDX-License-Identifier: Apache-2.0
// Exchanges tensors with other libraries through DLPack, without copying
// (https://dmlc.github.io/dlpack/latest). The structs have the layout of DLPack's C header:
// pointers to DLManagedTensor can be cast to ManagedTensor and back.
#pragma once

#include <cstdint>

#include "hg/array.h"

namespace hg::dlpack {

struct DataDevice {
  int32_t type;  // 1: the CPU
  int32_t id;
};

struct DataType {
  uint8_t code;  // 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool
  uint8_t bits;
  uint16_t lanes;
};

struct DataTensor {
  void* data;
  DataDevice device;
  int32_t rank;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: contiguous
  uint64_t byte_offset;
};

// The layout of DLManagedTensor.
struct ManagedTensor {
  DataTensor tensor;
  void* context;
  void (*deleter)(ManagedTensor* self);  // frees the tensor and this struct; may be null
};

// The layout of DLManagedTensorVersioned.
struct ManagedTensorVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedTensorVersioned* self);
  uint64_t flags;  // bit 0: read-only
  DataTensor tensor;
};

// Export an array. Its memory stays alive until the consumer calls the deleter. Elements on a
// device are copied to the host first. Fail if the array is empty or freed. to_dlpack() also fails
// if it is read-only, which only the versioned struct can express.
Result<ManagedTensor*> to_dlpack(const Array& array);
Result<ManagedTensorVersioned*> to_dlpack_versioned(const Array& array);

// Import a tensor and take ownership of it: the deleter is called when the last array that shares
// the memory is destroyed. On failure the caller keeps ownership. Fail with unsupported for devices
// other than the CPU and for dtypes that hg does not have.
Result<Array> from_dlpack(ManagedTensor* managed);
Result<Array> from_dlpack(ManagedTensorVersioned* managed);

}  // namespace hg::dlpack
