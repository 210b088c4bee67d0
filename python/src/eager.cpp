// SPDX-License-Identifier: Apache-2.0
// Eager ops: the Executor, and arrays that stay on a device.
#include "hg/eager.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "hg/op.h"
#include "hg/promotion.h"
#include "hg_op_texts.h"
#include "python/src/attributes.h"
#include "python/src/bind.h"
#include "python/src/executor.h"
#include "python/src/known.h"
#include "python/src/own_ops.h"
#include "python/src/tensors.h"

namespace hg::python {
namespace {

nb::object to_vulkan(const Gpu& gpu, nb::handle object) {
  if (!gpu) raise(PyExc_ValueError, "the executor runs on the CPU");
  const auto one = [](nb::handle each) {
    const Borrowed borrowed = Borrowed::from(each, "the tensor");
    return take(Array::copy_of(borrowed.tensor));
  };
  std::vector<Array> arrays;
  const bool is_list = PyTuple_Check(object.ptr()) || PyList_Check(object.ptr());
  if (is_list)
    for (const nb::handle each : object) arrays.push_back(one(each));
  else
    arrays.push_back(one(object));
  check(Array::to_device(arrays, gpu));
  if (!is_list) return nb::cast(arrays[0]);
  nb::list out;
  for (const Array& array : arrays) out.append(nb::cast(array));
  if (PyTuple_Check(object.ptr())) return nb::tuple(out);
  return out;
}

// (name, signature, inputs, attributes, outputs, whether equal calls may return different results)
nb::tuple row_of(const Op& op) {
  nb::list inputs, attributes, outputs;
  for (const Signature::Input& each : op.signature.inputs)
    inputs.append(nb::make_tuple(each.name, each.optional, each.variadic));
  for (const Signature::Attribute& each : op.signature.attributes)
    attributes.append(nb::make_tuple(each.name, attribute_kind(each.type), each.optional,
                                     each.required, to_python(each.fallback)));
  for (const std::string& each : op.signature.outputs) outputs.append(each);
  return nb::make_tuple(std::string(op.name()), std::string(op.def.signature), inputs, attributes,
                        outputs, (op.def.traits & kRandom) != 0);
}

void bind_vulkan_tensor(nb::module_& m) {
  nb::class_<Array>(
      m, "Tensor",
      "A tensor that stays on its device: ops on it run there and return such tensors. numpy() and "
      "torch() copy its elements to the host. backward() computes gradients if torch's autograd "
      "tracks it.",
      nb::dynamic_attr())
      .def(
          "numpy", [](const Array& array) { return give(array, Kind::numpy); },
          "The elements as a numpy array.")
      .def(
          "cpu",
          [](const Array& array) {
            check(array.to_host());
            return array;
          },
          "The same tensor with its elements on the host.")
      .def(
          "torch",
          [](const Array& array) {
            nb::module_::import_("torch");
            return give(array, Kind::torch);
          },
          "The elements as a torch tensor.")
      .def("_share", [](const Array& array) { return array; })
      .def("_gpu", [](const Array& array) { return PythonGpu{array.gpu()}; })
      .def("_touch", [](Array& array) { array.touch(); })
      .def(
          "_host",
          [](const Array& array) {
            check(array.to_host());
            return lent_to_torch(array);
          },
          "The memory on the host as a torch tensor; call _touch() after writing to it.")
      .def("_strided",
           [](const Array& array, nb::handle shape, nb::handle strides, int64_t offset) {
             return take(array.as_strided(sizes_from(shape, "shape"),
                                          sizes_from(strides, "strides"), offset));
           })
      .def_prop_ro("_strides", [](const Array& array) { return to_tuple(array.strides()); })
      .def(
          "_equals",
          [](const Array& array, nb::handle object, const PythonGpu& gpu) {
            if (!array || &array.gpu().info() != &gpu.gpu.info()) return false;
            const Borrowed other = Borrowed::from(object, "the tensor");
            const Tensor &a = array.tensor(), &b = other.tensor;
            return array.is_on_host() && a.dtype == b.dtype && a.shape == b.shape &&
                   b.is_contiguous() && a.is_contiguous() &&
                   (a.bytes() == 0 ||
                    std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0);
          },
          "Whether a tensor on the host has the same bytes, and this one is on the device.")
      .def_prop_ro("shape", [](const Array& array) { return to_tuple(array.shape()); })
      .def_prop_ro("dtype", [](const Array& array) { return numpy_dtype(array.dtype()); })
      .def_prop_ro("ndim", &Array::rank)
      .def_prop_ro("size", &Array::count)
      .def_prop_ro("nbytes", &Array::bytes)
      .def_prop_ro("is_on_device", &Array::is_on_device)
      .def_prop_ro("is_on_host", &Array::is_on_host)
      .def("free", &Array::free, "Frees the memory now; any later use is an error.")
      .def("__array__",
           [](const Array& array, nb::args arguments, nb::kwargs named) {
             const nb::object made = give(array, Kind::numpy);
             if (arguments.size() > 0 && !arguments[0].is_none())
               return made.attr("astype")(arguments[0]);
             if (named.contains("dtype") && !nb::object(named["dtype"]).is_none())
               return made.attr("astype")(named["dtype"]);
             return made;
           })
      .def(
          "__dlpack__",
          [](const Array& array, nb::handle stream, nb::handle max_version, nb::handle dl_device,
             nb::handle copy) {
            if (!stream.is_none())
              raise(PyExc_BufferError, "a tensor of the CPU has no stream to wait for");
            if (!dl_device.is_none() && !dl_device.equal(nb::make_tuple(1, 0)))
              raise(PyExc_BufferError, "the tensor is given on the CPU alone, which is (1, 0)");
            const bool versioned =
                !max_version.is_none() && nb::cast<int>(nb::handle(max_version)[0]) >= 1;
            // Its consumer could write to it, which the device would not see.
            const bool shares = copy.ptr() == Py_False || !array.is_on_device();
            if (copy.ptr() != Py_True && shares) return capsule_of(array, versioned);
            check(array.to_host());
            return capsule_of(take(Array::copy_of(array.tensor())), versioned);
          },
          nb::kw_only(), nb::arg("stream").none() = nb::none(),
          nb::arg("max_version").none() = nb::none(), nb::arg("dl_device").none() = nb::none(),
          nb::arg("copy").none() = nb::none(),
          "The memory for torch.from_dlpack, numpy.from_dlpack and others; elements on a device "
          "are downloaded first.")
      .def("__dlpack_device__", [](const Array&) { return nb::make_tuple(1, 0); })
      .def("__repr__", [](const Array& array) {
        if (array.is_freed()) return std::string("Tensor(freed)");
        if (!array.is_on_host())
          return str_cat("Tensor(", array.dtype(), array.shape(), " on a device)");
        return to_text(array);
      });
}

// Kinds of tensors, and their data.
void bind_conversions(nb::module_& m) {
  // The same memory as another kind of tensor; "array" is Hologram's own.
  m.def("share", [](nb::handle object, const std::string& to) {
    Kind kind;
    const Array array = lent(object, kind);
    if (to == "torch") nb::module_::import_("torch");
    return give(array, to == "torch" ? Kind::torch : to == "array" ? Kind::array : Kind::numpy);
  });
  m.def("copy", [](nb::handle object, const std::string& to) {
    const Borrowed borrowed = Borrowed::from(object, "the tensor");
    if (to == "torch") nb::module_::import_("torch");
    return give(take(Array::copy_of(borrowed.tensor)), to == "torch"   ? Kind::torch
                                                       : to == "array" ? Kind::array
                                                                       : Kind::numpy);
  });
  m.def("is_tensor", is_tensor);
  m.def("on_device", [](nb::handle object) {
    const Array* array =
        nb::isinstance<Array>(object) ? nb::inst_ptr<Array>(object) : array_of(object);
    return array != nullptr && array->is_on_device();
  });
  // The common dtype of tensors of these ranks; rank -1 is a number.
  m.def("common_dtype", [](const std::vector<std::string>& dtypes, const std::vector<int>& ranks) {
    Promotion common;
    for (size_t i = 0; i < dtypes.size(); ++i) {
      const DType dtype = dtype_from(nb::str(dtypes[i].c_str()));
      if (ranks[i] < 0)
        common.add_number(dtype);
      else
        common.add_tensor(dtype, ranks[i]);
    }
    return python_name(common.result());
  });
  m.def("dtype_name", [](nb::handle dtype) { return python_name(dtype_from(dtype)); });
  m.def("set_device_tensor", [](nb::object type, nb::object resident) {
    known().device_tensor = reinterpret_cast<PyTypeObject*>(type.release().ptr());
    known().resident = std::move(resident);
  });
  m.def("is_followed", is_followed);
  // (dtype, shape, strides in elements, address)
  m.def("describe", [](nb::handle object) {
    const Borrowed borrowed = Borrowed::from(object, "the tensor");
    return nb::make_tuple(python_name(borrowed.tensor.dtype), to_tuple(borrowed.tensor.shape),
                          to_tuple(borrowed.tensor.strides),
                          reinterpret_cast<uintptr_t>(borrowed.tensor.data));
  });
  m.def("numpy_dtype", [](nb::handle name) { return numpy_dtype(dtype_from(name)); });
}

}  // namespace

void bind_tensors(nb::module_& m) {
  bind_vulkan_tensor(m);
  bind_conversions(m);
}

void bind_eager(nb::module_& m) {
  nb::class_<LockedExecutor>(m, "ExecutorBase")
      .def("__init__",
           [](LockedExecutor* self, const std::string& backend, int threads, uint64_t seed,
              const std::string& gpu_name) {
             new (self) LockedExecutor(backend, threads, seed, gpu_name, false);
           })
      .def("close_", &LockedExecutor::close)
      .def("seed_", &LockedExecutor::seed)
      .def("device_", &LockedExecutor::device)
      .def("notes_", &LockedExecutor::notes)
      .def("counters_", &LockedExecutor::counters)
      .def("gpu_name_",
           [](const LockedExecutor& e) { return e.gpu() ? e.gpu().info().name : std::string(); })
      .def("gpu_", [](const LockedExecutor& e) { return PythonGpu{e.gpu()}; });
  nb::class_<PythonGpu>(m, "Gpu", "An open device.");
  m.def("to_vulkan",
        [](const PythonGpu& gpu, nb::handle each) { return to_vulkan(gpu.gpu, each); });
  m.def(
      "executor_on", [](const PythonGpu& gpu) { return &LockedExecutor::on(gpu.gpu); },
      nb::rv_policy::reference);
  m.attr("chosen") = known().chosen;
  m.def("enter_kernel", &LockedExecutor::enter_kernel);
  m.def("leave_kernel", &LockedExecutor::leave_kernel);
  // A function instead of a method, because torch.compile loses the object of methods not defined
  // in Python. Without an executor, the current one.
  m.def(
      "eager_call",
      [](LockedExecutor* given, const std::string& op, const nb::list& inputs,
         const nb::dict& attrs, nb::handle out) {
        if (given != nullptr) return given->call(op, inputs, attrs, out);
        const nb::object executor = LockedExecutor::current();
        return nb::inst_ptr<LockedExecutor>(executor)->call(op, inputs, attrs, out);
      },
      nb::arg("executor").none(), nb::arg("op"), nb::arg("inputs"), nb::arg("attrs"),
      nb::arg("out").none());
  m.def("op_table", [] {
    nb::list rows;
    for (const Op* op : registry().ops())
      if ((op->def.traits & kControl) == 0) rows.append(row_of(*op));
    return rows;
  });
  m.def("op_text", [](const std::string& name) {
    for (const OpText& row : kOpTexts) {
      if (row.op != name || name.empty()) continue;
      for (const OpText& family : kOpTexts)
        if (family.family == row.family && family.op.empty())
          return str_cat(row.text, row.text.empty() || family.text.empty() ? "" : "\n\n",
                         family.text);
    }
    return std::string();
  });
  m.def("op_row", [](const std::string& name) {
    const Op* op = registry().find(name);
    if (op == nullptr) raise(PyExc_ValueError, "there is no op '" + name + "'");
    return row_of(*op);
  });
}

}  // namespace hg::python
