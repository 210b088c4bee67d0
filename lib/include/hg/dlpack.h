// SPDX-License-Identifier: Apache-2.0
// Tensors handed to and from other libraries without copying, by DLPack
// (https://dmlc.github.io/dlpack/latest). The structs have the layout of DLPack's C header, so that
// a pointer to its DLManagedTensor is cast to ManagedTensor and back.
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

// DLManagedTensor.
struct ManagedTensor {
  DataTensor tensor;
  void* context;
  void (*deleter)(ManagedTensor* self);  // frees the tensor and this struct; may be null
};

// DLManagedTensorVersioned.
struct ManagedTensorVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedTensorVersioned* self);
  uint64_t flags;  // bit 0: read only
  DataTensor tensor;
};

// Keeps the array's memory alive until whoever takes it calls the deleter. Fails on an array that
// is empty or freed; to_dlpack also on one that is read only, which it cannot say. Elements that
// are on a device are brought to the host.
Result<ManagedTensor*> to_dlpack(const Array& array);
Result<ManagedTensorVersioned*> to_dlpack_versioned(const Array& array);

// Takes the tensor over: its deleter is called with the last array that shares the memory. On
// failure it stays the caller's. Refuses devices but the CPU, and dtypes that hg lacks.
Result<Array> from_dlpack(ManagedTensor* managed);
Result<Array> from_dlpack(ManagedTensorVersioned* managed);

}  // namespace hg::dlpack
