// SPDX-License-Identifier: Apache-2.0
#include "python/src/tensors.h"

#include <nanobind/stl/string.h>

#include <array>
#include <cstring>
#include <memory>

#include "hg/dlpack.h"
#include "hg/op.h"
#include "python/src/known.h"
#include "python/src/numpy.h"

namespace hg::python {
namespace {

// -- Element types --------------------------------------------------------------------------------

constexpr const char* kNumpyNames[kDTypeCount] = {"float32", "float64", "float16",   "bfloat16",
                                                  "int64",   "int32",   "int16",     "int8",
                                                  "uint8",   "bool",    "complex64", "complex128"};

// The dtype of a struct format; false if hg has no such dtype.
bool dtype_of_format(const char* format, Py_ssize_t size, DType& out) {
  if (format == nullptr) format = "B";
  if (*format == '<' || *format == '=' || *format == '@' || *format == '|') ++format;
  const auto is = [&](DType dtype) {
    out = dtype;
    return size == size_of(dtype);
  };
  if (std::strcmp(format, "Zf") == 0) return is(c64);
  if (std::strcmp(format, "Zd") == 0) return is(c128);
  if (format[0] == '\0' || format[1] != '\0') return false;
  switch (format[0]) {
    case 'f':
      return is(f32);
    case 'd':
      return is(f64);
    case 'e':
      return is(f16);
    case '?':
      return is(boolean);
    case 'B':
      return is(u8);
    case 'b':
      return is(i8);
    case 'h':
      return is(i16);
    case 'i':
    case 'l':
    case 'q':
      out = size == 8 ? i64 : i32;
      return size == 8 || size == 4;
    default:
      return false;
  }
}

bool dtype_of_code(const dlpack::DataType& type, DType& out) {
  constexpr int kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4, kComplex = 5, kBool = 6;
  if (type.lanes != 1) return false;
  switch (type.code * 256 + type.bits) {
    case kFloat * 256 + 32:
      return out = f32, true;
    case kFloat * 256 + 64:
      return out = f64, true;
    case kFloat * 256 + 16:
      return out = f16, true;
    case kBFloat * 256 + 16:
      return out = bf16, true;
    case kInt * 256 + 64:
      return out = i64, true;
    case kInt * 256 + 32:
      return out = i32, true;
    case kInt * 256 + 16:
      return out = i16, true;
    case kInt * 256 + 8:
      return out = i8, true;
    case kUInt * 256 + 8:
      return out = u8, true;
    case kBool * 256 + 8:
      return out = boolean, true;
    case kComplex * 256 + 64:
      return out = c64, true;
    case kComplex * 256 + 128:
      return out = c128, true;
    default:
      return false;
  }
}

std::string class_name(nb::handle object) {
  return nb::cast<std::string>(object.type().attr("__name__"));
}

// numpy knows it only from the package ml_dtypes; otherwise it is two bytes, as in .npy files.
bool is_bfloat16(nb::handle object) {
  if (!nb::hasattr(object, "dtype")) return false;
  const nb::object dtype = object.attr("dtype");
  const std::string name = words(dtype);
  return name == "bfloat16" || name == "|V2";
}

[[noreturn]] void refuse_dtype(nb::handle object, const std::string& what) {
  const nb::object own = nb::getattr(object, "dtype", nb::none());
  if (nb::hasattr(own, "isnative") && !truth(own.attr("isnative")))
    raise(PyExc_ValueError,
          what + " is big-endian (" + words(own) + "); pass x.astype(x.dtype.newbyteorder('='))");
  const std::string dtype = own.is_none() ? "of an unknown element type" : words(own);
  raise(PyExc_ValueError, what + " is " + dtype +
                              "; the element types are float32, float64, float16, bfloat16, int64, "
                              "int32, int16, int8, uint8, bool, complex64 and complex128");
}

void fill(Tensor& tensor, const dlpack::DataTensor& from, nb::handle object,
          const std::string& what) {
  if (from.device.type != 1)
    raise(PyExc_ValueError, what + " is not in the memory of the host; move it there first");
  if (!dtype_of_code(from.dtype, tensor.dtype)) refuse_dtype(object, what);
  if (from.rank > kMaxRank)
    raise(PyExc_ValueError,
          str_cat(what, " has ", from.rank, " dims; at most ", kMaxRank, " are possible"));
  tensor.shape = Sizes(std::span<const int64_t>(from.shape, static_cast<size_t>(from.rank)));
  tensor.strides =
      from.strides == nullptr
          ? contiguous_strides(tensor.shape)
          : Sizes(std::span<const int64_t>(from.strides, static_cast<size_t>(from.rank)));
  tensor.data = static_cast<std::byte*>(from.data) + from.byte_offset;
  if (from.data == nullptr && tensor.count() > 0)
    raise(PyExc_ValueError, what + " has no memory, as tensors have while a program is traced");
}

bool is_true(const nb::object& answer) {
  if (!answer.is_valid()) throw nb::python_error();
  return answer.ptr() == Py_True;
}

bool is_grad_enabled() {
  const Known& k = known();
  return k.calls.is_grad_enabled != nullptr ? k.calls.is_grad_enabled()
                                            : is_true(k.is_grad_enabled());
}

// The at::Tensor of an object of torch's own classes, or null.
void* const* tensor_in(nb::handle object) {
  const Known& k = known();
  const PyTypeObject* type = Py_TYPE(object.ptr());
  if (k.tensor_offset == 0 || (type != k.torch_tensor.load() && type != k.parameter))
    return nullptr;
  return reinterpret_cast<void* const*>(reinterpret_cast<const char*>(object.ptr()) +
                                        k.tensor_offset);
}

bool requires_grad(nb::handle object) {
  const Known& k = known();
  void* const* const tensor = tensor_in(object);
  if (tensor != nullptr && *tensor != nullptr && k.calls.requires_grad != nullptr)
    return k.calls.requires_grad(*tensor);
  return is_true(nb::steal(PyObject_GetAttr(object.ptr(), k.requires_grad.ptr())));
}

bool wants_gradient(nb::handle tensor) { return requires_grad(tensor) && is_grad_enabled(); }

// The level of forward-mode autograd that is entered; below 0: none.
long forward_level() {
  const Known& k = known();
  PyObject* level = PyDict_GetItemWithError(k.forward_ad.ptr(), k.current_level.ptr());
  if (level == nullptr) throw nb::python_error();
  return PyLong_AsLong(level);
}

bool is_traced() {
  const Known& k = known();
  return k.calls.tracing != nullptr ? *k.calls.tracing() != nullptr
                                    : !nb::object(k.tracing_state()).is_none();
}

// Whether make_fx or torch.export records what torch computes.
bool is_recorded() {
  const Known& k = known();
  if (k.calls.modes != nullptr
          ? k.calls.modes() == 0
          : !k.count_modes.is_valid() || nb::cast<int64_t>(nb::object(k.count_modes())) == 0)
    return false;
  const nb::dict modules = nb::borrow<nb::dict>(PyImport_GetModuleDict());
  const char* const name = "torch.fx.experimental.proxy_tensor";
  return modules.contains(name) && nb::hasattr(modules[name], "get_proxy_mode") &&
         !modules[name].attr("get_proxy_mode")().is_none();
}

// Whether a torch.func transform or torch.jit tracing is active, or tensors may have tangents.
bool is_transformed() {
  const Known& k = known();
  if (forward_level() >= 0 || is_traced()) return true;
  if (k.calls.layers == nullptr) return is_true(k.are_transforms_active());
  const void* const* const layers = k.calls.layers();  // begin and end
  return layers[0] != layers[1];
}

// The result of calling a method of a tensor, by name, without arguments.
bool is_so(nb::handle tensor, const nb::object& method) {
  PyObject* self = tensor.ptr();
  return is_true(nb::steal(PyObject_VectorcallMethod(method.ptr(), &self, 1, nullptr)));
}

// Whether a tensor of torch's own classes is lazily negated.
bool is_negated(nb::handle tensor) {
  const Known& k = known();
  void* const* const held = tensor_in(tensor);
  return held != nullptr && k.calls.is_neg != nullptr ? k.calls.is_neg(held)
                                                      : is_so(tensor, k.is_neg);
}

// The mechanism that tracks the tensor, so that its value alone is not sufficient; null: none.
const char* follower_of(nb::handle tensor) {
  const Known& k = known();
  if (is_traced())
    return "is traced by torch.jit.trace, which would take what is computed here for a constant";
  if (is_true(k.is_wrapped(tensor)))
    return "is followed by a transform of torch.func (grad, jvp, vmap, ...)";
  if (forward_level() >= 0 &&
      !nb::object(k.forward_ad["unpack_dual"])(tensor).attr("tangent").is_none())
    return "has a tangent (torch.autograd.forward_ad)";
  return nullptr;
}

void refuse_followed(nb::handle tensor, const std::string& what) {
  if (const char* follower = follower_of(tensor))
    raise(PyExc_ValueError,
          what + " " + follower +
              ", which does not pass through here: use hologram.ops, hologram.nn, "
              "kernels or hologram.torch.wrap");
}

void refuse_recorded(const std::string& what) {
  if (is_recorded())
    raise(PyExc_ValueError,
          what +
              " is recorded by make_fx or torch.export, which would take what is computed here for "
              "a constant; use torch's functions (hologram.nn.as_torch of layers), or a "
              "torch.library.custom_op around this call");
}

// Raises for classes of tensors with their own operations, whose memory may have any meaning.
void refuse_own_dispatch(nb::handle tensor, const std::string& what) {
  const nb::object type = nb::borrow(tensor.type());
  if (type.ptr() == reinterpret_cast<PyObject*>(known().torch_tensor.load())) return;
  if (nb::object(type.attr("__torch_dispatch__")).is(known().dispatch_of_tensors)) return;
  raise(PyExc_ValueError,
        what + " is a " + class_name(tensor) +
            ", a class of tensors with operations of its own (__torch_dispatch__), "
            "which would be passed over; give a torch.Tensor");
}

}  // namespace

// -- Borrowing ------------------------------------------------------------------------------------

bool Borrowed::take_array(nb::handle object, const std::string& what, bool writable) {
  if (!see_array(object, tensor, read_only)) return false;
  if (writable && read_only)
    raise(PyExc_ValueError, what + " is read only; it cannot be written to");
  keep_ = nb::borrow(object);
  return true;
}

void Borrowed::take_buffer(nb::handle object, const std::string& what, bool writable) {
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), &buffer_, flags) != 0) {
    buffer_ = {};
    PyErr_Clear();
    if (is_bfloat16(object)) {
      take_buffer(object.attr("view")("int16"), what, writable);
      tensor.dtype = bf16;
      return;
    }
    // The elements are either not numbers, or read-only.
    if (!writable ||
        PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
      buffer_ = {};
      PyErr_Clear();
      refuse_dtype(object, what);
    }
    raise(PyExc_ValueError, what + " is read only; it cannot be written to");
  }
  read_only = buffer_.readonly != 0;
  if (!dtype_of_format(buffer_.format, buffer_.itemsize, tensor.dtype)) {
    if (!is_bfloat16(object)) refuse_dtype(object, what);
    tensor.dtype = bf16;
  }
  if (buffer_.ndim > kMaxRank)
    raise(PyExc_ValueError,
          str_cat(what, " has ", buffer_.ndim, " dims; at most ", kMaxRank, " are possible"));
  const int64_t size = buffer_.itemsize;
  bool is_aligned = true;
  for (int i = 0; i < buffer_.ndim; ++i) tensor.shape.push_back(buffer_.shape[i]);
  if (buffer_.strides == nullptr) tensor.strides = contiguous_strides(tensor.shape);  // as ctypes
  for (int i = 0; i < buffer_.ndim && buffer_.strides != nullptr; ++i) {
    tensor.strides.push_back(buffer_.strides[i] / size);
    is_aligned &= buffer_.strides[i] % size == 0 || buffer_.shape[i] <= 1;
  }
  tensor.data = buffer_.buf;
  const int64_t step = is_complex(tensor.dtype) ? size / 2 : size;
  is_aligned &= reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(step) == 0;
  if (is_aligned || tensor.count() == 0) return;
  // numpy allows elements at any address; kernels do not.
  if (writable) raise(PyExc_ValueError, what + " has elements that are not aligned; copy it first");
  PyBuffer_Release(&buffer_);
  buffer_ = {};
  tensor = {};
  take_buffer(nb::module_::import_("numpy").attr("array")(object), what, false);
}

void Borrowed::take_torch(nb::handle object, const std::string& what) {
  const Exchange* exchange = known().exchange;
  kind = Kind::torch;
  refuse_recorded(what);
  if (wants_gradient(object))
    raise(PyExc_ValueError,
          what +
              " requires a gradient, which does not pass through here: detach() it, "
              "use torch.no_grad(), or hologram.torch.wrap");
  if (is_transformed()) refuse_followed(object, what);
  if (const Array* array = array_of(object)) {
    check(array->to_host());
    keep_ = nb::cast(*array);
    tensor = array->tensor();
    return;
  }
  if (exchange == nullptr || exchange->borrow == nullptr) {
    refuse_own_dispatch(object, what);
    take_capsule(nb::object(object.attr("detach")()), what);
    kind = Kind::torch;
    return;
  }
  dlpack::DataTensor seen = {};
  // The memory of lazily negated or conjugated tensors lacks these operations.
  keep_ = nb::borrow(object);
  if (is_so(object, known().is_neg)) keep_ = keep_.attr("resolve_neg")();
  if (exchange->borrow(keep_.ptr(), &seen) != 0) {
    const nb::python_error error;
    const std::string reason = error.what();
    raise(PyExc_ValueError, what + " cannot be read: " + reason.substr(0, reason.find('\n')));
  }
  if (seen.dtype.code == 5 && is_so(object, known().is_conj)) {
    keep_ = keep_.attr("resolve_conj")();
    if (exchange->borrow(keep_.ptr(), &seen) != 0) throw nb::python_error();
  }
  fill(tensor, seen, object, what);
  refuse_own_dispatch(object, what);
}

void Borrowed::take_capsule(nb::handle object, const std::string& what) {
  // A capsule that nobody consumes frees its tensor.
  keep_ = object.attr("__dlpack__")();
  kind = Kind::numpy;
  if (PyCapsule_IsValid(keep_.ptr(), "dltensor_versioned") != 0) {
    auto* managed = static_cast<dlpack::ManagedTensorVersioned*>(
        PyCapsule_GetPointer(keep_.ptr(), "dltensor_versioned"));
    if (managed->major != 1)
      raise(PyExc_ValueError,
            str_cat(what, " is of DLPack ", int64_t{managed->major}, ", which is not known; 1 is"));
    read_only = (managed->flags & 1) != 0;
    return fill(tensor, managed->tensor, object, what);
  }
  auto* managed =
      static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(keep_.ptr(), "dltensor"));
  if (managed == nullptr) {
    PyErr_Clear();
    raise(PyExc_TypeError, what + " is a " + class_name(object) +
                               ", whose __dlpack__() returns a " + class_name(keep_) +
                               ", not a tensor's capsule");
  }
  fill(tensor, managed->tensor, object, what);
}

std::optional<Number> number_of(nb::handle object) {
  if (PyBool_Check(object.ptr())) return object.ptr() == Py_True;
  if (PyFloat_Check(object.ptr())) return PyFloat_AsDouble(object.ptr());
  if (!PyLong_Check(object.ptr())) return {};
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
  if (overflow == 0) return static_cast<int64_t>(value);
  if (overflow < 0) return {};
  const unsigned long long bits = PyLong_AsUnsignedLongLong(object.ptr());
  if (PyErr_Occurred() != nullptr) return PyErr_Clear(), std::nullopt;
  Number number(static_cast<int64_t>(bits));  // wraps, as in torch
  number.real = static_cast<double>(bits);
  return number;
}

bool see(nb::handle object, Tensor& tensor, Kind& kind, TorchState& torch) {
  bool read_only = false;
  if (is_plain_array(object)) return see_array(object, tensor, read_only);
  PyTypeObject* known_type = torch_tensor();
  const Known& k = known();
  PyObject* self = object.ptr();
  if (known_type == nullptr || (Py_TYPE(self) != known_type && Py_TYPE(self) != k.parameter))
    return false;
  if (!torch.is_known) torch = {true, is_grad_enabled(), is_transformed() || is_recorded()};
  if (k.exchange == nullptr || k.exchange->borrow == nullptr || torch.is_transformed) return false;
  if (torch.records && requires_grad(object)) return false;
  if (is_negated(object)) return false;
  dlpack::DataTensor seen = {};
  if (k.exchange->borrow(self, &seen) != 0) {
    PyErr_Clear();
    return false;
  }
  if (seen.device.type != 1 || seen.dtype.code == 5 || seen.rank > kMaxRank ||
      !dtype_of_code(seen.dtype, tensor.dtype) || seen.data == nullptr)
    return false;
  fill(tensor, seen, object, {});
  kind = Kind::torch;
  return true;
}

const Array* array_of(nb::handle object) {
  const Known& k = known();
  if (k.device_tensor == nullptr || Py_TYPE(object.ptr()) != k.device_tensor) return nullptr;
  const nb::object array = nb::steal(PyObject_GetAttr(object.ptr(), k.array.ptr()));
  if (!array.is_valid()) throw nb::python_error();
  return nb::inst_ptr<Array>(array);  // owned by the object
}

bool is_torch_tensor(nb::handle object) {
  PyTypeObject* torch = torch_tensor();
  return torch != nullptr && PyObject_TypeCheck(object.ptr(), torch);
}

bool is_followed(nb::handle tensors) {
  if (torch_tensor() == nullptr) return false;
  const bool transformed = is_transformed();
  for (const nb::handle each : tensors) {
    nb::object tensor = nb::borrow(each);
    if (nb::isinstance<Array>(each))
      tensor = nb::steal(PyObject_GetAttr(each.ptr(), known().followed.ptr()));
    if (is_torch_tensor(tensor) &&
        (wants_gradient(tensor) || (transformed && follower_of(tensor) != nullptr)))
      return true;
  }
  return false;
}

bool is_tensor(nb::handle object) {
  return is_numpy_array(object) || is_torch_tensor(object) || nb::isinstance<Array>(object) ||
         nb::hasattr(object, "__dlpack__") || PyObject_CheckBuffer(object.ptr()) != 0;
}

namespace {

// Tells autograd that the tensor's memory is about to change.
void announce_write(nb::handle tensor, const std::string& what) {
  if (is_negated(tensor) || is_so(tensor, known().is_conj))
    raise(PyExc_ValueError, what +
                                " is lazily negated or conjugated, so that its memory holds other "
                                "numbers; pass its resolve_neg() or resolve_conj()");
  if (!known().increment_version.is_valid()) return;
  if (is_true(nb::steal(PyObject_CallMethod(tensor.ptr(), "is_inference", nullptr)))) return;
  known().increment_version(tensor);
}

}  // namespace

Borrowed Borrowed::from(nb::handle object, const std::string& what, bool writable,
                        const DType* wanted) {
  Borrowed out;
  if (is_numpy_array(object)) {
    if (!is_plain_array(object) && nb::hasattr(object, "mask"))
      raise(PyExc_TypeError, what + " is a " + class_name(object) +
                                 ", whose mask would be lost; give what its filled() makes");
    if (!out.take_array(object, what, writable)) out.take_buffer(object, what, writable);
    return out;
  }
  if (is_torch_tensor(object)) {
    if (writable) announce_write(object, what);
    out.take_torch(object, what);
  } else if (nb::isinstance<Array>(object)) {
    const Array& array = *nb::inst_ptr<Array>(object);
    if (!array) raise(PyExc_ValueError, what + " was freed");
    check(array.to_host());
    out.keep_ = nb::borrow(object);
    out.tensor = array.tensor();
    out.read_only = array.is_read_only();
    out.kind = Kind::array;
  } else if (nb::hasattr(object, "__dlpack__")) {
    out.take_capsule(object, what);
  } else if (PyObject_CheckBuffer(object.ptr()) != 0) {
    out.take_buffer(object, what, writable);
    return out;
  } else {
    if (writable) raise(PyExc_TypeError, what + " is a " + class_name(object) + ", not a tensor");
    nb::object made = known().asarray(object);
    const std::string letter = words(nb::object(made.attr("dtype").attr("kind")));
    if (letter == "O")
      raise(PyExc_TypeError, what + " is a " + class_name(object) + ", not a tensor");
    if (wanted != nullptr) {
      const bool is_whole = is_integer(*wanted) && (letter == "i" || letter == "u");
      const nb::object given = made;
      made = given.attr("astype")(numpy_dtype(*wanted), nb::arg("copy") = false,
                                  nb::arg("casting") = is_whole ? "unsafe" : "same_kind");
      const nb::object equal =
          is_whole ? given.attr("__eq__")(made).attr("all")() : nb::bool_(true);
      if (!truth(equal))
        raise(PyExc_ValueError, what + " is " + words(nb::repr(object)) + ", which " +
                                    python_name(*wanted) + " does not hold");
    }
    return from(made, what);
  }
  if (writable && out.read_only)
    raise(PyExc_ValueError, what + " is read only; it cannot be written to");
  return out;
}

Borrowed Borrowed::on_device(const Array& array, Kind kind) {
  Borrowed out;
  out.array = array;
  out.tensor = array.tensor();
  out.kind = kind;
  return out;
}

Array lent(nb::handle object, Kind& kind, const std::string& what) {
  if (nb::isinstance<Array>(object)) {
    kind = Kind::array;
    return *nb::inst_ptr<Array>(object);
  }
  if (const Array* array = array_of(object)) {
    kind = Kind::torch;
    return *array;
  }
  auto borrowed = std::make_unique<Borrowed>(Borrowed::from(object, what));
  kind = borrowed->kind;
  const Tensor tensor = borrowed->tensor;
  const bool read_only = borrowed->read_only;
  const std::shared_ptr<void> owner(borrowed.release(), [](Borrowed* last) {
    if (Py_IsInitialized() == 0) return;
    const nb::gil_scoped_acquire acquired;
    delete last;
  });
  if (read_only) return Array::wrap(ConstTensor(tensor), owner);
  return Array::wrap(tensor, owner);
}

// -- Words ----------------------------------------------------------------------------------------

const char* python_name(DType dtype) { return kNumpyNames[static_cast<int>(dtype)]; }

nb::object numpy_dtype(DType dtype) {
  nb::object& found = known().dtypes[static_cast<size_t>(dtype)];
  if (dtype != bf16) return found;
  const nb::ft_lock_guard lock(known().mutex);
  if (found.is_valid()) return found;
  const nb::object make = nb::module_::import_("numpy").attr("dtype");
  try {
    found = make(nb::module_::import_("ml_dtypes").attr("bfloat16"));
  } catch (const nb::python_error&) {
    found = make("V2");
  }
  return found;
}

DType dtype_from(nb::handle object) {
  std::string name;
  if (nb::isinstance<nb::str>(object))
    name = words(object);
  else if (nb::hasattr(object, "__name__"))  // numpy.float32, the type
    name = nb::cast<std::string>(object.attr("__name__"));
  else
    name = words(object);
  if (name.starts_with("torch.")) name = name.substr(6);
  if (name == "bool_") name = "bool";
  for (int i = 0; i < kDTypeCount; ++i)
    if (name == kNumpyNames[i] || name == to_string(static_cast<DType>(i)))
      return static_cast<DType>(i);
  raise(PyExc_ValueError, "there is no dtype '" + name + "'");
}

nb::tuple to_tuple(const Sizes& sizes) {
  nb::object out = nb::steal(PyTuple_New(sizes.rank()));
  for (int i = 0; i < sizes.rank(); ++i)
    PyTuple_SetItem(out.ptr(), i, PyLong_FromLongLong(sizes[i]));
  return nb::borrow<nb::tuple>(out);
}

Sizes sizes_from(nb::handle object, const char* what) {
  Sizes out;
  if (PyLong_Check(object.ptr())) {
    out.push_back(whole(object));
    return out;
  }
  for (const nb::handle each : object) out.push_back(whole(each));
  if (out.overflowed())
    raise(PyExc_ValueError, str_cat(what, " has more than ", kMaxRank, " dims"));
  return out;
}

}  // namespace hg::python
