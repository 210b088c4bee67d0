// SPDX-License-Identifier: Apache-2.0
// Ops that run at once: the Executor, and arrays that stay on a device.
#include "hg/eager.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "hg/op.h"
#include "python/src/attributes.h"
#include "python/src/bind.h"
#include "python/src/interrupt.h"
#include "python/src/own_ops.h"
#include "python/src/tensors.h"

namespace hg::python {
namespace {

// An executor that any thread may use, one at a time.
class LockedExecutor {
 public:
  LockedExecutor(const std::string& backend, int threads, uint64_t seed,
                 const std::string& gpu_name) {
    ExecutorOptions options;
    options.device = take(device_named(backend));
    options.threads = is_forked() ? 1 : threads;
    options.seed = seed;
    options.gpu_name = gpu_name;
    options.registry = &registry();
    executor_.emplace(take(ExecutorBase::create(options)));
  }

  nb::object call(const std::string& op, const nb::list& inputs, const nb::dict& attrs,
                  nb::handle out);

  void close() {
    const nb::gil_scoped_release released;
    const std::scoped_lock lock(mutex_);
    executor_->close();
  }
  void seed(uint64_t seed) {
    const nb::gil_scoped_release released;
    const std::scoped_lock lock(mutex_);
    executor_->seed(seed);
  }
  std::string device() const { return std::string(name_of(executor_->device())); }
  std::vector<std::string> notes() const { return executor_->notes(); }
  nb::dict counters() const {
    const ExecutorCounters c = executor_->counters();
    nb::dict out;
    out["plans"] = c.plans;
    out["hits"] = c.hits;
    out["evicted"] = c.evicted;
    if (!executor_->gpu()) return out;
    const GpuCounters g = executor_->gpu().counters();
    out["uploads"] = g.uploads;
    out["upload_bytes"] = g.upload_bytes;
    out["downloads"] = g.downloads;
    out["download_bytes"] = g.download_bytes;
    out["dispatches"] = g.dispatches;
    out["submits"] = g.submits;
    return out;
  }
  const Gpu& gpu() const { return executor_->gpu(); }

 private:
  Result<std::vector<Array>> run(std::string_view op, std::span<const Operand> inputs,
                                 const NamedAttrs& attrs, std::vector<Array>& outs);
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_;  // of the lock, while it runs
  std::optional<ExecutorBase> executor_;
};

Result<std::vector<Array>> LockedExecutor::run(std::string_view op, std::span<const Operand> inputs,
                                               const NamedAttrs& attrs, std::vector<Array>& outs) {
  if (owner_ == std::this_thread::get_id())
    return internal_error(op, ": a kernel cannot use the executor that it runs on");
  const std::scoped_lock lock(mutex_);
  owner_ = std::this_thread::get_id();
  struct AtEnd {
    std::atomic<std::thread::id>& owner;
    ~AtEnd() { owner = std::thread::id(); }
  } const at_end{owner_};
  if (outs.empty()) return executor_->calls(op, inputs, attrs);
  IntoBase into(*executor_, outs);
  if (outs.size() == 1) {
    HG_TRY_ASSIGN(Array result, into.call(op, inputs, attrs));
    return std::vector<Array>{std::move(result)};
  }
  // All attributes, in the order of the signature.
  const Op* known = registry().find(op);
  if (known == nullptr) return not_found("there is no op '", op, "'");
  std::vector<Argument> arguments;
  std::deque<std::vector<int64_t>> lists;
  for (const Signature::Attribute& attribute : known->signature.attributes) {
    const Attr* value = &attribute.fallback;
    for (const NamedAttr& given : attrs)
      if (given.name == attribute.name) value = &given.value;
    HG_TRY_ASSIGN(Argument argument, Argument::of(attribute.name, *value, lists.emplace_back()));
    arguments.push_back(argument);
  }
  return into.any(op, inputs, arguments);
}

nb::object LockedExecutor::call(const std::string& op, const nb::list& inputs,
                                const nb::dict& attrs, nb::handle out) {
  // What operands borrow stays where it is.
  std::deque<Borrowed> borrowed;
  std::deque<ConstTensor> seen;
  std::deque<Array> shared;
  std::vector<Operand> operands;
  Kind kind = Kind::numpy;
  const DType* first = nullptr;
  const bool is_cpu = !executor_->gpu();
  std::vector<size_t> numbers;
  size_t at = 0;
  for (const nb::handle input : inputs) {
    if (input.is_none()) {
      operands.emplace_back();
    } else if (nb::isinstance<Array>(input)) {
      const Array& array = *nb::inst_ptr<Array>(input);
      if (!array) raise(PyExc_ValueError, op + ": a tensor was freed");
      shared.push_back(array);
      operands.emplace_back(shared.back());
      if (first == nullptr) first = &array.tensor().dtype;
      kind = Kind::array;
    } else if (PyFloat_Check(input.ptr()) || PyLong_Check(input.ptr())) {
      numbers.push_back(at);
      operands.emplace_back(number_of(input).value_or(Number()));
    } else {
      borrowed.push_back(Borrowed::from(input, str_cat(op, ": argument ", int64_t(at))));
      operands.emplace_back(seen.emplace_back(borrowed.back().tensor));
      if (first == nullptr) first = &borrowed.back().tensor.dtype;
      if (kind == Kind::numpy) kind = borrowed.back().kind;
    }
    ++at;
  }
  for (const size_t i : numbers) {
    const nb::object number = inputs[i];
    if (number_of(number) && first != nullptr) continue;
    // Beyond what i64 holds, or with nothing to take its dtype from.
    borrowed.push_back(
        Borrowed::from(number, str_cat(op, ": argument ", int64_t(i)), false, first));
    operands[i] = Operand(seen.emplace_back(borrowed.back().tensor));
  }
  const NamedAttrs given = attributes_from(op, attrs);
  std::vector<Array> outs;
  std::deque<Borrowed> places;
  const bool has_out = out.is_valid() && !out.is_none();
  if (has_out) {
    const bool is_list = PyTuple_Check(out.ptr()) || PyList_Check(out.ptr());
    const nb::list list = is_list ? nb::list(nb::borrow(out)) : nb::list();
    const auto add = [&](nb::handle each) {
      if (nb::isinstance<Array>(each)) {
        outs.push_back(*nb::inst_ptr<Array>(each));
        return;
      }
      places.push_back(Borrowed::from(each, op + ": out", true));
      outs.push_back(Array::wrap(places.back().tensor));
    };
    if (is_list)
      for (const nb::handle each : list) add(each);
    else
      add(out);
  }
  std::optional<Result<std::vector<Array>>> made;
  {
    const nb::gil_scoped_release released;
    made.emplace(run(op, operands, given, outs));
    // Results that only look at borrowed memory, and those in out=, are on the host for it.
    if (made->ok() && has_out && !is_cpu)
      for (const Array& each : outs) (void)each.to_host();
  }
  std::vector<Array> results = take(*std::move(made));
  if (has_out) return nb::borrow(out);
  nb::list list;
  for (Array& result : results) {
    bool is_borrowed = false;
    for (const Borrowed& each : borrowed) {
      const auto* begin = each.tensor.as<std::byte>();
      const auto* data = result.is_on_host() ? result.tensor().as<std::byte>() : nullptr;
      int64_t low = 0, high = 0;
      for (int i = 0; i < each.tensor.rank(); ++i) {
        const int64_t reach =
            (each.tensor.shape[i] - 1) * each.tensor.strides[i] * size_of(each.tensor.dtype);
        (reach < 0 ? low : high) += reach;
      }
      is_borrowed |= data != nullptr && data >= begin + low && data <= begin + high;
    }
    // A view of what the caller lent: his memory ends when he likes, so the result has its own.
    if (is_borrowed) result = take(Array::copy_of(result.tensor()));
    list.append(give(result, kind));
  }
  if (nb::len(list) == 1) return list[0];
  return nb::tuple(list);
}

nb::object to_vulkan(LockedExecutor& executor, nb::handle object) {
  if (!executor.gpu()) raise(PyExc_ValueError, "the executor runs on the CPU");
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
  check(Array::to_device(arrays, executor.gpu()));
  if (!is_list) return nb::cast(arrays[0]);
  nb::list out;
  for (const Array& array : arrays) out.append(nb::cast(array));
  if (PyTuple_Check(object.ptr())) return nb::tuple(out);
  return out;
}

// (name, signature, inputs, attributes, outputs)
nb::tuple row_of(const Op& op) {
  nb::list inputs, attributes, outputs;
  for (const Signature::Input& each : op.signature.inputs)
    inputs.append(nb::make_tuple(each.name, each.optional, each.variadic));
  for (const Signature::Attribute& each : op.signature.attributes)
    attributes.append(nb::make_tuple(each.name, attribute_kind(each.type), each.optional,
                                     each.required, to_python(each.fallback)));
  for (const std::string& each : op.signature.outputs) outputs.append(each);
  return nb::make_tuple(std::string(op.name()), std::string(op.def.signature), inputs, attributes,
                        outputs);
}

}  // namespace

void bind_tensors(nb::module_& m) {
  nb::class_<Array>(
      m, "VulkanTensor",
      "A tensor that an Executor made and that stays on its device until numpy() or cpu() "
      "asks for its elements.")
      .def(
          "numpy", [](const Array& array) { return give(array, Kind::numpy); },
          "The elements as a numpy array.")
      .def(
          "cpu",
          [](const Array& array) {
            check(array.to_host());
            return array;
          },
          "The same tensor, with its elements on the host.")
      .def(
          "torch",
          [](const Array& array) {
            nb::module_::import_("torch");
            return give(array, Kind::torch);
          },
          "The elements as a torch tensor.")
      .def_prop_ro("shape", [](const Array& array) { return to_tuple(array.shape()); })
      .def_prop_ro("dtype", [](const Array& array) { return numpy_dtype(array.dtype()); })
      .def_prop_ro("ndim", &Array::rank)
      .def_prop_ro("size", &Array::count)
      .def_prop_ro("nbytes", &Array::bytes)
      .def_prop_ro("is_on_device", &Array::is_on_device)
      .def_prop_ro("is_on_host", &Array::is_on_host)
      .def("free", &Array::free,
           "Releases the memory now; using the tensor is an error from then on.")
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
            if (copy.ptr() != Py_True) return capsule_of(array, versioned);
            check(array.to_host());
            return capsule_of(take(Array::copy_of(array.tensor())), versioned);
          },
          nb::kw_only(), nb::arg("stream").none() = nb::none(),
          nb::arg("max_version").none() = nb::none(), nb::arg("dl_device").none() = nb::none(),
          nb::arg("copy").none() = nb::none(),
          "The memory for torch.from_dlpack, numpy.from_dlpack and others; what is on a device "
          "comes to the host first.")
      .def("__dlpack_device__", [](const Array&) { return nb::make_tuple(1, 0); })
      .def("__repr__", [](const Array& array) {
        if (array.is_freed()) return std::string("VulkanTensor(freed)");
        if (!array.is_on_host())
          return str_cat("VulkanTensor(", array.dtype(), array.shape(), " on a device)");
        return to_text(array);
      });
  // The same memory as another kind of tensor; "array" is hologram's own.
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
  // (dtype, shape, strides in elements, address)
  m.def("describe", [](nb::handle object) {
    const Borrowed borrowed = Borrowed::from(object, "the tensor");
    return nb::make_tuple(python_name(borrowed.tensor.dtype), to_tuple(borrowed.tensor.shape),
                          to_tuple(borrowed.tensor.strides),
                          reinterpret_cast<uintptr_t>(borrowed.tensor.data));
  });
  m.def("numpy_dtype", [](nb::handle name) { return numpy_dtype(dtype_from(name)); });
}

void bind_eager(nb::module_& m) {
  nb::class_<LockedExecutor>(m, "ExecutorBase")
      .def(nb::init<const std::string&, int, uint64_t, const std::string&>())
      .def("close_", &LockedExecutor::close)
      .def("seed_", &LockedExecutor::seed)
      .def("device_", &LockedExecutor::device)
      .def("notes_", &LockedExecutor::notes)
      .def("counters_", &LockedExecutor::counters)
      .def("gpu_name_",
           [](const LockedExecutor& e) { return e.gpu() ? e.gpu().info().name : std::string(); })
      .def("to_vulkan_", to_vulkan);
  // A function, not a method: torch.compile loses the object of methods that are not Python's.
  m.def("eager_call", &LockedExecutor::call, nb::arg("executor"), nb::arg("op"), nb::arg("inputs"),
        nb::arg("attrs"), nb::arg("out").none());
  m.def("op_table", [] {
    nb::list rows;
    for (const Op* op : registry().ops())
      if ((op->def.traits & kControl) == 0) rows.append(row_of(*op));
    return rows;
  });
  m.def("op_row", [](const std::string& name) { return row_of(*registry().find(name)); });
}

}  // namespace hg::python
