// SPDX-License-Identifier: Apache-2.0
// Library memory as numpy and torch tensors.
#include <memory>
#include <type_traits>

#include "hg/dlpack.h"
#include "python/src/known.h"
#include "python/src/numpy.h"
#include "python/src/tensors.h"

namespace hg::python {

namespace {

// Memory with the buffer protocol, which is the base of numpy arrays.
struct SharedMemory {
  PyObject_HEAD Array* array;  // or null
  PyObject* owner;             // or null
  void* begin;
  Py_ssize_t bytes;
  bool read_only;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto* memory = reinterpret_cast<SharedMemory*>(self);
  return PyBuffer_FillInfo(view, self, memory->begin, memory->bytes, memory->read_only ? 1 : 0,
                           flags);
}

void free_memory(PyObject* self) {
  auto* memory = reinterpret_cast<SharedMemory*>(self);
  delete memory->array;
  Py_XDECREF(memory->owner);
  PyTypeObject* type = Py_TYPE(self);
  auto* release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(self);
  Py_DECREF(type);
}

PyTypeObject* memory_type = nullptr;

nb::object as_numpy(const Tensor& tensor, std::unique_ptr<Array> array, PyObject* owner,
                    bool read_only) {
  auto* allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(memory_type, Py_tp_alloc));
  const nb::object base = nb::steal(allocate(memory_type, 0));
  if (!base.is_valid()) throw nb::python_error();
  const int64_t size = size_of(tensor.dtype);
  int64_t low = 0, high = size;
  for (int i = 0; i < tensor.rank(); ++i) {
    const int64_t reach = (tensor.shape[i] - 1) * tensor.strides[i] * size;
    (reach < 0 ? low : high) += reach;
  }
  if (tensor.count() == 0) low = high = 0;
  auto* memory = reinterpret_cast<SharedMemory*>(base.ptr());
  static char nothing = 0;
  memory->array = array.release();
  memory->owner = owner;
  Py_XINCREF(owner);
  memory->begin = tensor.data == nullptr ? &nothing : tensor.as<char>() + low;
  memory->bytes = high - low;
  memory->read_only = read_only;
  return array_on(tensor, base, read_only);
}

nb::object as_torch(const Array& array) {
  dlpack::ManagedTensorVersioned* managed = take(dlpack::to_dlpack_versioned(array));
  torch_tensor();
  if (const Exchange* exchange = known().exchange) {
    void* out = nullptr;
    if (exchange->to_object(managed, &out) != 0) throw nb::python_error();
    return nb::steal(static_cast<PyObject*>(out));
  }
  managed->deleter(managed);
  return known().torch_from_dlpack(capsule_of(array, false));
}

constexpr const char* kPlain = "dltensor";
constexpr const char* kVersioned = "dltensor_versioned";

// The consumer of a capsule renames it.
template <class Managed>
nb::object in_capsule(Managed* managed, const char* name) {
  const nb::object capsule = nb::steal(PyCapsule_New(managed, name, [](PyObject* self) {
    const char* own = std::is_same_v<Managed, dlpack::ManagedTensor> ? kPlain : kVersioned;
    if (PyCapsule_IsValid(self, own) == 0) return;
    auto* left = static_cast<Managed*>(PyCapsule_GetPointer(self, own));
    left->deleter(left);
  }));
  if (!capsule.is_valid()) {
    managed->deleter(managed);
    throw nb::python_error();
  }
  return capsule;
}

}  // namespace

void make_memory_type() {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(free_memory)},
      {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
      {Py_tp_doc, const_cast<char*>("Library memory shared by arrays.")},
      {0, nullptr},
  };
  static PyType_Spec spec = {"hologram._core.Memory", sizeof(SharedMemory), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  memory_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (memory_type == nullptr) throw nb::python_error();
}

nb::object capsule_of(const Array& array, bool versioned) {
  if (versioned) return in_capsule(take(dlpack::to_dlpack_versioned(array)), kVersioned);
  return in_capsule(take(dlpack::to_dlpack(array)), kPlain);
}

nb::object lent_to_torch(const Array& array) { return as_torch(array); }

nb::object give(const Array& array, Kind kind) {
  if (kind == Kind::array) return nb::cast(array);
  check(array.to_host());
  // Python could write to memory that a device has a copy of without being seen.
  if (array.is_on_device()) return copied(array.tensor(), kind);
  if (kind == Kind::torch) return as_torch(array);
  return as_numpy(array.tensor(), std::make_unique<Array>(array), nullptr, array.is_read_only());
}

nb::object give_there(const Array& array, Kind kind) {
  if (kind != Kind::torch || !array.is_on_device() || !knows_device_tensors())
    return give(array, kind);
  return nb::handle(reinterpret_cast<PyObject*>(known().device_tensor))(nb::cast(array));
}

nb::object copied(const Tensor& tensor, Kind kind) {
  if (kind != Kind::numpy) return give(take(Array::copy_of(tensor)), kind);
  Tensor to = {nullptr, tensor.dtype, tensor.shape, contiguous_strides(tensor.shape)};
  nb::object out = new_array(tensor.dtype, tensor.shape, to.data);
  copy_elements(tensor, to);
  return out;
}

nb::object view_of(const Tensor& tensor, nb::handle owner, bool read_only) {
  return as_numpy(tensor, nullptr, owner.ptr(), read_only);
}

}  // namespace hg::python
