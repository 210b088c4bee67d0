// SPDX-License-Identifier: Apache-2.0
// hologram._core.Function: a Python function that computes an op, with a way around the interpreter
// for the usual call: a few tensors by position, then attributes by position.
#include <nanobind/stl/string.h>
#include <structmember.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>

#include "hg/promotion.h"
#include "python/src/attributes.h"
#include "python/src/bind.h"
#include "python/src/calls.h"
#include "python/src/executor.h"
#include "python/src/own_ops.h"

namespace hg::python {
namespace {

constexpr size_t kMostInputs = 4;        // inputs of a call that goes this way
constexpr int64_t kShortCall = 1 << 15;  // elements that an elementwise op computes in microseconds

// The op that the usual call computes.
struct Direct {
  std::string op;
  size_t least = 0, most = 0;  // inputs by position
  nb::dict constants;          // attributes that differ from the defaults of the op
  nb::tuple names;             // of attributes by position after all inputs
  std::atomic<bool> is_ready = false;
  size_t inputs = 0;  // of the op; 0: not computed this way
  bool is_elementwise = false;
  std::deque<std::vector<int64_t>> lists;
  NamedAttrs attributes;
  std::vector<Argument> arguments;
  nb::ft_mutex mutex;

  void prepare();
  // The result, or nothing if the call is not a usual one.
  nb::object call(PyObject* const* given, size_t count);
  // The same with `most` inputs and attributes after them.
  nb::object call_with_attributes(PyObject* const* given, size_t count);
};

struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* dict;
  PyObject* weak;  // references to it
  PyObject* function;
  Direct* direct;
};

FunctionObject* self_of(PyObject* self) { return reinterpret_cast<FunctionObject*>(self); }

void Direct::prepare() {
  const nb::ft_lock_guard lock(mutex);
  if (is_ready) return;
  const Op* known = registry().find(op);
  if (known != nullptr && known->signature.outputs.size() == 1 &&
      !known->signature.variadic_outputs && known->signature.inputs.size() <= kMostInputs) {
    attributes = attributes_from(op, constants);
    if (Result<std::vector<Argument>> made = arguments_of(*known, attributes, lists); made.ok()) {
      arguments = *std::move(made);
      inputs = known->signature.inputs.size();
      is_elementwise = (known->def.traits & kElementwise) != 0;
    }
  }
  is_ready = true;
}

// Computes an op of one output of the first `count` inputs. `tensors` and `operands` have room for
// all inputs. Returns nothing if the call is not a usual one.
nb::object compute(LockedExecutor* given_executor, const std::string& op, PyObject* const* given,
                   size_t count, std::span<Tensor> tensors, std::span<Operand> operands,
                   std::span<const Argument> arguments, bool is_elementwise) {
  Kind kind = Kind::numpy;
  const Tensor* first = nullptr;
  bool is_short = is_elementwise;
  TorchState torch;
  for (size_t i = 0; i < count; ++i) {
    const nb::handle each = given[i];
    if (see(each, tensors[i], kind, torch)) {
      operands[i] = Operand(tensors[i]);
      if (first == nullptr) first = &tensors[i];
      is_short = is_short && (tensors[i].shape == first->shape || tensors[i].shape.empty());
    } else if (const std::optional<Number> number = number_of(each);
               number && !is_beyond_i64(*number)) {
      operands[i] = Operand(*number);
    } else if (!each.is_none()) {
      return {};
    }
  }
  if (first == nullptr) return {};  // numbers alone have no dtype to follow
  nb::object current;
  if (given_executor == nullptr) {
    current = LockedExecutor::current();
    given_executor = nb::inst_ptr<LockedExecutor>(current);
  }
  std::optional<Result<Array>> made = given_executor->call_at_once(
      op, operands, arguments, is_short && first->count() < kShortCall);
  if (!made) return {};
  Array result = take(*std::move(made));
  // A view of memory whose owner may free it at any time.
  if (result.is_borrowed()) result = take(Array::copy_of(result.tensor()));
  return give(result, kind);
}

nb::object Direct::call(PyObject* const* given, size_t count) {
  if (!is_ready) prepare();
  if (inputs == 0) return {};
  std::array<Tensor, kMostInputs> tensors;
  std::array<Operand, kMostInputs> operands;
  return compute(nullptr, op, given, count, tensors, std::span(operands.data(), inputs), arguments,
                 is_elementwise);
}

// Computes an op of one output with these attributes.
nb::object compute_with(LockedExecutor* executor, const std::string& op, PyObject* const* given,
                        size_t count, const nb::dict& attrs) {
  const Op* known = registry().find(op);
  if (known == nullptr || known->signature.outputs.size() != 1 || known->signature.variadic_outputs)
    return {};
  std::deque<std::vector<int64_t>> lists;
  const NamedAttrs attributes = attributes_from(op, attrs);
  Result<std::vector<Argument>> arguments = arguments_of(*known, attributes, lists);
  if (!arguments.ok()) return {};
  std::vector<Tensor> tensors(count);
  std::vector<Operand> operands(count);
  return compute(executor, op, given, count, tensors, operands, *arguments,
                 (known->def.traits & kElementwise) != 0);
}

nb::object Direct::call_with_attributes(PyObject* const* given, size_t count) {
  nb::dict attrs;
  for (size_t i = most; i < count; ++i)
    if (PyDict_SetItem(attrs.ptr(), nb::object(names[i - most]).ptr(), given[i]) != 0)
      throw nb::python_error();
  return compute_with(nullptr, op, given, most, attrs);
}

PyObject* call_function(PyObject* self, PyObject* const* given, size_t flags, PyObject* names) {
  const FunctionObject& f = *self_of(self);
  const auto count = static_cast<size_t>(PyVectorcall_NARGS(flags));
  if (f.direct != nullptr && names == nullptr && count >= f.direct->least &&
      count <= f.direct->most + nb::len(f.direct->names)) {
    bool is_usual = false;
    PyObject* made = guarded([&] {
      nb::object result = count <= f.direct->most ? f.direct->call(given, count)
                                                  : f.direct->call_with_attributes(given, count);
      is_usual = result.is_valid();
      return result;
    });
    if (is_usual || PyErr_Occurred() != nullptr) return made;
  }
  return PyObject_Vectorcall(f.function, given, flags, names);
}

PyObject* new_function(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  PyObject *function = nullptr, *constants = nullptr, *attributes = nullptr;
  const char* op = nullptr;
  Py_ssize_t least = 0, most = 0;
  static const char* const kNames[] = {"function",  "op",    "least", "most",
                                       "constants", "names", nullptr};
  if (PyArg_ParseTupleAndKeywords(arguments, named, "O|znnO!O!", const_cast<char**>(kNames),
                                  &function, &op, &least, &most, &PyDict_Type, &constants,
                                  &PyTuple_Type, &attributes) == 0)
    return nullptr;
  auto* allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* self = allocate(type, 0);
  if (self == nullptr) return nullptr;
  FunctionObject& f = *self_of(self);
  f.vectorcall = call_function;
  f.dict = PyDict_New();
  f.weak = nullptr;
  Py_INCREF(function);
  f.function = function;
  f.direct = nullptr;
  if (op != nullptr) {
    f.direct = new Direct;
    f.direct->op = op;
    f.direct->least = static_cast<size_t>(least);
    f.direct->most = static_cast<size_t>(most);
    f.direct->constants = constants != nullptr ? nb::borrow<nb::dict>(constants) : nb::dict();
    if (attributes != nullptr) f.direct->names = nb::borrow<nb::tuple>(attributes);
  }
  return self;
}

int traverse_function(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self_of(self)->dict);
  Py_VISIT(self_of(self)->function);
  return 0;
}

int clear_function(PyObject* self) {
  Py_CLEAR(self_of(self)->dict);
  Py_CLEAR(self_of(self)->function);
  return 0;
}

void free_function(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (self_of(self)->weak != nullptr) PyObject_ClearWeakRefs(self);
  clear_function(self);
  delete self_of(self)->direct;
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// As a method of an object, it takes the object as first argument, as every function.
PyObject* bind_function(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || object == Py_None) return nb::borrow(self).release().ptr();
  return guarded([&] {
    return nb::module_::import_("types").attr("MethodType")(nb::handle(self), nb::handle(object));
  });
}

PyObject* reduce_function(PyObject* self, PyObject*) {
  return PyObject_GetAttrString(self, "__qualname__");
}

PyObject* text_of_function(PyObject* self) {
  return guarded(
      [&] { return nb::str("<function {}>").format(nb::handle(self).attr("__qualname__")); });
}

}  // namespace

nb::object compute_at_once(LockedExecutor& executor, const std::string& op, const nb::list& inputs,
                           const nb::dict& attrs) {
  std::vector<PyObject*> given;
  for (const nb::handle input : inputs) given.push_back(input.ptr());
  return compute_with(&executor, op, given.data(), given.size(), attrs);
}

void bind_functions(nb::module_& m) {
  static PyMethodDef methods[] = {{"__reduce__", reduce_function, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, dict), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(FunctionObject, weak), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyGetSetDef properties[] = {
      {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(new_function)},
      {Py_tp_dealloc, reinterpret_cast<void*>(free_function)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse_function)},
      {Py_tp_clear, reinterpret_cast<void*>(clear_function)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_descr_get, reinterpret_cast<void*>(bind_function)},
      {Py_tp_repr, reinterpret_cast<void*>(text_of_function)},
      {Py_tp_methods, methods},
      {Py_tp_members, members},
      {Py_tp_getset, properties},
      {Py_tp_doc, const_cast<char*>("A function that computes an op. Calls with tensors by "
                                    "position run without the interpreter.")},
      {0, nullptr},
  };
  static PyType_Spec spec = {"hologram._core.Function", sizeof(FunctionObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                             slots};
  const nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) throw nb::python_error();
  m.attr("Function") = type;
}

}  // namespace hg::python
