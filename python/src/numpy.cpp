// SPDX-License-Identifier: Apache-2.0
#include "python/src/numpy.h"

#define NPY_NO_DEPRECATED_API NPY_1_23_API_VERSION
#include <numpy/arrayobject.h>

#include <array>

#include "python/src/tensors.h"

namespace hg::python {
namespace {

constexpr int kNone = -1;

int type_number(DType dtype) {
  switch (dtype) {
    case f32:
      return NPY_FLOAT;
    case f64:
      return NPY_DOUBLE;
    case f16:
      return NPY_HALF;
    case i64:
      return NPY_INT64;
    case i32:
      return NPY_INT32;
    case i16:
      return NPY_INT16;
    case i8:
      return NPY_INT8;
    case u8:
      return NPY_UINT8;
    case boolean:
      return NPY_BOOL;
    case c64:
      return NPY_CFLOAT;
    case c128:
      return NPY_CDOUBLE;
    default:
      return kNone;  // bf16 belongs to another package
  }
}

bool dtype_of_number(int number, DType& out) {
  static const std::array<int8_t, NPY_HALF + 1> known = [] {  // numpy's own; half is last
    std::array<int8_t, NPY_HALF + 1> made;
    made.fill(kNone);
    for (int i = 0; i < kDTypeCount; ++i)
      if (const int each = type_number(static_cast<DType>(i)); each != kNone)
        made[static_cast<size_t>(each)] = static_cast<int8_t>(i);
    made[NPY_LONGLONG] = static_cast<int8_t>(i64);  // beside long, which is as wide
    return made;
  }();
  if (number < 0 || number >= static_cast<int>(known.size()) || known[size_t(number)] == kNone)
    return false;
  out = static_cast<DType>(known[size_t(number)]);
  return true;
}

PyArray_Descr* descr_of(DType dtype) {
  const int number = type_number(dtype);
  if (number != kNone) return PyArray_DescrFromType(number);
  return reinterpret_cast<PyArray_Descr*>(numpy_dtype(dtype).inc_ref().ptr());
}

}  // namespace

void find_numpy() {
  if (_import_array() < 0) throw nb::python_error();
}

bool is_numpy_array(nb::handle object) { return PyArray_Check(object.ptr()); }

bool is_plain_array(nb::handle object) { return PyArray_CheckExact(object.ptr()); }

bool see_array(nb::handle object, Tensor& tensor, bool& read_only) {
  auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
  const int rank = PyArray_NDIM(array);
  if (!dtype_of_number(PyArray_TYPE(array), tensor.dtype) || !PyArray_ISBEHAVED_RO(array) ||
      rank > kMaxRank)
    return false;
  const int64_t size = size_of(tensor.dtype);
  const npy_intp* shape = PyArray_DIMS(array);
  const npy_intp* strides = PyArray_STRIDES(array);
  tensor.shape = Sizes(std::span<const int64_t>(shape, static_cast<size_t>(rank)));
  tensor.strides = Sizes();
  for (int d = 0; d < rank; ++d) {
    if (strides[d] % size != 0 && shape[d] > 1) return false;
    tensor.strides.push_back(strides[d] / size);
  }
  tensor.data = PyArray_DATA(array);
  read_only = !PyArray_ISWRITEABLE(array);
  return true;
}

nb::object new_array(DType dtype, const Sizes& shape, void*& data) {
  nb::object made = nb::steal(PyArray_NewFromDescr(&PyArray_Type, descr_of(dtype), shape.rank(),
                                                   shape.begin(), nullptr, nullptr, 0, nullptr));
  if (!made.is_valid()) throw nb::python_error();
  data = PyArray_DATA(reinterpret_cast<PyArrayObject*>(made.ptr()));
  return made;
}

nb::object array_on(const Tensor& tensor, nb::object base, bool read_only) {
  static char nothing = 0;
  Sizes bytes = tensor.strides;
  for (int64_t& stride : bytes) stride *= size_of(tensor.dtype);
  nb::object made = nb::steal(PyArray_NewFromDescr(
      &PyArray_Type, descr_of(tensor.dtype), tensor.rank(), tensor.shape.begin(), bytes.begin(),
      tensor.data == nullptr ? &nothing : tensor.data,
      NPY_ARRAY_ALIGNED | (read_only ? 0 : NPY_ARRAY_WRITEABLE), nullptr));
  if (!made.is_valid()) throw nb::python_error();
  auto* array = reinterpret_cast<PyArrayObject*>(made.ptr());
  PyArray_UpdateFlags(array, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS);
  if (PyArray_SetBaseObject(array, base.release().ptr()) < 0) throw nb::python_error();
  return made;
}

}  // namespace hg::python
