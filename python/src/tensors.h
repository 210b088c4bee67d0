// SPDX-License-Identifier: Apache-2.0
// Tensors between Python and the library: Python's tensors are borrowed for a call, the library's
// are handed over with their memory. Only unaligned elements are copied.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>

#include "hg/array.h"
#include "hg/call.h"
#include "python/src/errors.h"

namespace hg::python {

// What results are given as.
enum class Kind : uint8_t { numpy, torch, array };

// Memory of a Python object, which is kept alive and locked against resizing while this lives.
// Destroyed with the GIL held.
class Borrowed {
 public:
  // A numpy array, a torch tensor, or anything with DLPack or the buffer protocol; numbers, lists
  // of them and what else numpy can make an array of become an array of `wanted`, where that is
  // given. `what` names the object in messages. With `writable`, memory that is read only is
  // refused.
  static Borrowed from(nb::handle object, const std::string& what, bool writable = false,
                       const DType* wanted = nullptr);
  Borrowed() = default;
  Borrowed(Borrowed&& other) noexcept { *this = std::move(other); }
  Borrowed& operator=(Borrowed&& other) noexcept {
    std::swap(tensor, other.tensor);
    std::swap(kind, other.kind);
    std::swap(read_only, other.read_only);
    std::swap(buffer_, other.buffer_);
    std::swap(keep_, other.keep_);
    return *this;
  }
  ~Borrowed() {
    if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  }

  Tensor tensor;
  Kind kind = Kind::numpy;
  bool read_only = false;

 private:
  bool take_array(nb::handle object, const std::string& what, bool writable);
  void take_buffer(nb::handle object, const std::string& what, bool writable);
  void take_torch(nb::handle object, const std::string& what);
  void take_capsule(nb::handle object, const std::string& what);
  Py_buffer buffer_ = {};
  nb::object keep_;
};

// Looks at the memory of a numpy array or a torch tensor that is lent as it is, as long as that
// lives; false where Borrowed::from() has more to do or to say. The GIL is held.
bool see(nb::handle object, Tensor& tensor, Kind& kind);

// An array that shares the memory of a Python object and keeps it alive; `kind` is what that is.
// `what` stands in messages.
Array lent(nb::handle object, Kind& kind, const std::string& what = "the tensor");

// A float, int or bool of Python's beside tensors; nothing of another object, nor of an int that no
// i64 is.
std::optional<Number> number_of(nb::handle object);

bool is_torch_tensor(nb::handle object);
// Whether autograd, forward mode or a transform of torch.func follows what becomes of one of these.
bool is_followed(nb::handle tensors);
// Whether from() takes it without making an array of numbers.
bool is_tensor(nb::handle object);

// The type of what numpy's arrays are based on, when the module is imported.
void make_memory_type();
// An array as numpy's, torch's or hologram's own, which shares its memory and keeps it alive.
nb::object give(const Array& array, Kind kind);
// A capsule of DLPack, which shares the array's memory; `versioned` as of DLPack 1.0.
nb::object capsule_of(const Array& array, bool versioned);
// The same of a copy with memory of its own.
nb::object copied(const Tensor& tensor, Kind kind);
// Memory that `owner` keeps alive, as a numpy array.
nb::object view_of(const Tensor& tensor, nb::handle owner, bool read_only);

// numpy's dtype of the name; bf16 is that of the package ml_dtypes, or two bytes where there is
// none.
nb::object numpy_dtype(DType dtype);
// "float32", "bfloat16".
const char* python_name(DType dtype);
// The dtype that a numpy or torch dtype, or a name of either, means; both "f32" and "float32".
DType dtype_from(nb::handle object);

nb::tuple to_tuple(const Sizes& sizes);
Sizes sizes_from(nb::handle object, const char* what);

void bind_tensors(nb::module_& m);

}  // namespace hg::python
