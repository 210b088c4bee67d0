// SPDX-License-Identifier: Apache-2.0
// Tensors between Python and the library. Python's tensors are borrowed for a call; the library's
// are passed on with their memory. Only unaligned elements are copied.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>

#include "hg/array.h"
#include "hg/call.h"
#include "python/src/errors.h"

namespace hg::python {

struct PythonGpu {
  Gpu gpu;
};

// The kind of the results.
enum class Kind : uint8_t { numpy, torch, array };

// Memory of a Python object. Keeps it alive, and locks it against resizing, during the lifetime of
// this object.
// Destroyed with the GIL held.
class Borrowed {
 public:
  // Accepts a numpy array, a torch tensor, or anything with DLPack or the buffer protocol. If
  // `wanted` is given, numbers, lists of them, and other objects that numpy can convert become
  // arrays of that dtype. `what` names the object in messages. With `writable`, read-only memory is
  // rejected.
  static Borrowed from(nb::handle object, const std::string& what, bool writable = false,
                       const DType* wanted = nullptr);
  Borrowed() = default;
  Borrowed(Borrowed&& other) noexcept { *this = std::move(other); }
  Borrowed& operator=(Borrowed&& other) noexcept {
    std::swap(tensor, other.tensor);
    std::swap(kind, other.kind);
    std::swap(read_only, other.read_only);
    std::swap(array, other.array);
    std::swap(buffer_, other.buffer_);
    std::swap(keep_, other.keep_);
    return *this;
  }
  ~Borrowed() {
    if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  }

  // An array that stays on its device: `tensor` has no elements.
  static Borrowed on_device(const Array& array, Kind kind);

  Tensor tensor;
  Kind kind = Kind::numpy;
  bool read_only = false;
  Array array;  // of on_device()

 private:
  bool take_array(nb::handle object, const std::string& what, bool writable);
  void take_buffer(nb::handle object, const std::string& what, bool writable);
  void take_torch(nb::handle object, const std::string& what);
  void take_capsule(nb::handle object, const std::string& what);
  Py_buffer buffer_ = {};
  nb::object keep_;
};

// What torch does with tensors during one call; looked up for the first tensor.
struct TorchState {
  bool is_known = false;
  bool records = false;         // autograd is on
  bool is_transformed = false;  // by torch.func, forward mode or tracing
};

// Views the memory of a numpy array or a torch tensor that can be lent unchanged, as long as it
// lives. Returns false if Borrowed::from() must convert it or report an error. The GIL must be
// held.
bool see(nb::handle object, Tensor& tensor, Kind& kind, TorchState& torch);

// An array that shares the memory of a Python object and keeps it alive; `kind` is the kind of the
// object. `what` names it in messages.
Array lent(nb::handle object, Kind& kind, const std::string& what = "the tensor");

// The hologram tensor of a torch tensor on a device; null for other objects.
const Array* array_of(nb::handle object);

// A Python float, int or bool among tensors; nothing for other objects, and for an int of more than
// 64 bits. See is_beyond_i64() of hg/promotion.h.
std::optional<Number> number_of(nb::handle object);

bool is_torch_tensor(nb::handle object);
// Whether autograd, forward mode or a torch.func transform tracks one of these.
bool is_followed(nb::handle tensors);
// Whether from() accepts it without creating an array from numbers.
bool is_tensor(nb::handle object);

// The type of the base of numpy arrays, created when the module is imported.
void make_memory_type();
// An array as a numpy array, a torch tensor or Hologram's own, which shares its memory and keeps it
// alive.
nb::object give(const Array& array, Kind kind);
// A torch tensor on the array's memory on the host.
nb::object lent_to_torch(const Array& array);
// give(), but torch tensors stay on the device where the array is.
nb::object give_there(const Array& array, Kind kind);
// A DLPack capsule that shares the array's memory; `versioned` for DLPack 1.0.
nb::object capsule_of(const Array& array, bool versioned);
// The same with a copy of the memory.
nb::object copied(const Tensor& tensor, Kind kind);
// Memory that `owner` keeps alive, as a numpy array.
nb::object view_of(const Tensor& tensor, nb::handle owner, bool read_only);

// numpy's dtype with this name. bf16 is that of the package ml_dtypes, or two bytes without the
// package.
nb::object numpy_dtype(DType dtype);
// "float32", "bfloat16".
const char* python_name(DType dtype);
// The dtype for a numpy or torch dtype, or a name of either; both "f32" and "float32".
DType dtype_from(nb::handle object);

nb::tuple to_tuple(const Sizes& sizes);
Sizes sizes_from(nb::handle object, const char* what);

void bind_tensors(nb::module_& m);

}  // namespace hg::python
