// SPDX-License-Identifier: Apache-2.0
// Eager ops: the Executor, and arrays that stay on a device.
#include "hg/eager.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "hg/op.h"
#include "hg_op_texts.h"
#include "python/src/attributes.h"
#include "python/src/bind.h"
#include "python/src/interrupt.h"
#include "python/src/known.h"
#include "python/src/own_ops.h"
#include "python/src/tensors.h"

namespace hg::python {
namespace {

// An executor that threads use in turn.
class LockedExecutor {
 public:
  LockedExecutor(const std::string& backend, int threads, uint64_t seed,
                 const std::string& gpu_name, bool follows, const Gpu& gpu = {})
      : follows_(follows) {
    ExecutorOptions options;
    options.device = take(parse_device(backend));
    options.gpu = gpu;
    options.threads = is_forked() ? 1 : threads;
    options.seed = seed;
    options.gpu_name = gpu_name;
    options.registry = &registry();
    executor_.emplace(take(ExecutorBase::create(options)));
  }

  nb::object call(const std::string& op, const nb::list& inputs, const nb::dict& attrs,
                  nb::handle out);
  // The executor that all calls share on tensors of a device outside of `with`.
  static LockedExecutor& on(const Gpu& gpu);

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
  std::string device() const { return std::string(to_string(executor_->device())); }
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
  const bool follows_;  // calls run on the device of their tensors
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_;  // of the lock, while a call runs
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

// The operands of a call. Borrows from Python objects during the call.
class Operands {
 public:
  // `gpu` is the device of the executor; empty: the CPU. With `follows`, it becomes that of the
  // first tensor on a device.
  Operands(const std::string& op, const nb::list& inputs, Gpu& gpu, bool follows) : op_(op) {
    if (follows)
      for (const nb::handle input : inputs) {
        const Array* array =
            nb::isinstance<Array>(input) ? nb::inst_ptr<Array>(input) : array_of(input);
        if (array == nullptr || !array->is_on_device()) continue;
        gpu = array->gpu();
        break;
      }
    for (const nb::handle input : inputs) add(input, gpu);
    for (const size_t i : numbers_) borrow_number(inputs[i], i);
  }

  std::span<const Operand> all() const { return operands_; }
  Kind kind() const { return kind_; }  // kind of the results
  // Whether the result is a view of lent memory, whose owner may free it at any time.
  bool lent(const Array& result) const;

 private:
  void add(nb::handle input, const Gpu& gpu);
  void add(const Array& array, Kind kind);
  // Numbers outside i64, and numbers without a tensor to take a dtype from, become tensors.
  void borrow_number(const nb::object& number, size_t at);

  const std::string& op_;
  std::deque<Borrowed> borrowed_;  // operands point to elements of these
  std::deque<ConstTensor> seen_;
  std::deque<Array> shared_;
  std::vector<Operand> operands_;
  std::vector<size_t> numbers_;
  Kind kind_ = Kind::numpy;
  const DType* first_ = nullptr;  // dtype of the first tensor
};

void Operands::add(const Array& array, Kind kind) {
  if (!array) raise(PyExc_ValueError, op_ + ": a tensor was freed");
  shared_.push_back(array);
  // The owner of borrowed memory may have written to it since it was uploaded.
  if (array.is_borrowed() && array.is_on_host()) shared_.back().touch();
  operands_.emplace_back(shared_.back());
  if (first_ == nullptr) first_ = &shared_.back().tensor().dtype;
  if (kind == Kind::array || kind_ == Kind::numpy) kind_ = kind;
}

void Operands::add(nb::handle input, const Gpu& gpu) {
  if (input.is_none()) {
    operands_.emplace_back();
  } else if (nb::isinstance<Array>(input)) {
    add(*nb::inst_ptr<Array>(input), Kind::array);
  } else if (const Array* array = array_of(input)) {
    add(*array, Kind::torch);
  } else if (gpu && is_torch_tensor(input) && knows_device_tensors()) {
    const nb::object there = known().resident(input, nb::cast(PythonGpu{gpu}));
    add(*nb::inst_ptr<Array>(there), Kind::torch);
  } else if (PyFloat_Check(input.ptr()) || PyLong_Check(input.ptr())) {
    numbers_.push_back(operands_.size());
    operands_.emplace_back(number_of(input).value_or(Number()));
  } else {
    borrowed_.push_back(
        Borrowed::from(input, str_cat(op_, ": argument ", int64_t(operands_.size()))));
    operands_.emplace_back(seen_.emplace_back(borrowed_.back().tensor));
    if (first_ == nullptr) first_ = &borrowed_.back().tensor.dtype;
    if (kind_ == Kind::numpy) kind_ = borrowed_.back().kind;
  }
}

void Operands::borrow_number(const nb::object& number, size_t at) {
  if (number_of(number) && first_ != nullptr) return;
  borrowed_.push_back(
      Borrowed::from(number, str_cat(op_, ": argument ", int64_t(at)), false, first_));
  operands_[at] = Operand(seen_.emplace_back(borrowed_.back().tensor));
}

bool Operands::lent(const Array& result) const {
  if (!result.is_on_host()) return false;
  const auto* data = result.tensor().as<std::byte>();
  return std::ranges::any_of(borrowed_, [&](const Borrowed& each) {
    const ConstTensor& tensor = each.tensor;
    const auto* begin = tensor.as<std::byte>();
    int64_t low = 0, high = 0;
    for (int i = 0; i < tensor.rank(); ++i) {
      const int64_t reach = (tensor.shape[i] - 1) * tensor.strides[i] * size_of(tensor.dtype);
      (reach < 0 ? low : high) += reach;
    }
    return data != nullptr && data >= begin + low && data <= begin + high;
  });
}

// Destinations of results: the tensors of out=, one or a list.
class Places {
 public:
  Places(const std::string& op, nb::handle out) {
    if (!out.is_valid() || out.is_none()) return;
    if (PyTuple_Check(out.ptr()) || PyList_Check(out.ptr()))
      for (const nb::handle each : nb::list(nb::borrow(out))) add(op, each);
    else
      add(op, out);
    if (arrays_.empty()) raise(PyExc_ValueError, op + ": out= names no tensor");
    given_ = true;
  }

  bool given() const { return given_; }
  std::vector<Array>& arrays() { return arrays_; }

 private:
  void add(const std::string& op, nb::handle out) {
    if (nb::isinstance<Array>(out)) {
      arrays_.push_back(*nb::inst_ptr<Array>(out));
      return;
    }
    if (const Array* array = array_of(out)) {
      arrays_.push_back(*array);
      return;
    }
    borrowed_.push_back(Borrowed::from(out, op + ": out", true));
    arrays_.push_back(Array::wrap(borrowed_.back().tensor));
  }

  std::deque<Borrowed> borrowed_;
  std::vector<Array> arrays_;
  bool given_ = false;
};

nb::object LockedExecutor::call(const std::string& op, const nb::list& inputs,
                                const nb::dict& attrs, nb::handle out) {
  Gpu gpu = executor_->gpu();
  const bool was_cpu = !gpu;
  const Operands operands(op, inputs, gpu, follows_);
  LockedExecutor& executor = was_cpu && gpu ? on(gpu) : *this;
  const NamedAttrs given = attributes_from(op, attrs);
  Places places(op, out);
  std::optional<Result<std::vector<Array>>> made;
  {
    const nb::gil_scoped_release released;
    made.emplace(executor.run(op, operands.all(), given, places.arrays()));
    // Results that are views of borrowed memory, and those in out=, must be on the host.
    if (made->ok() && gpu)
      for (const Array& each : places.arrays())
        if (each.is_borrowed()) (void)each.to_host();
  }
  std::vector<Array> results = take(*std::move(made));
  if (places.given()) return nb::borrow(out);
  nb::list list;
  for (Array& result : results) {
    if (operands.lent(result)) result = take(Array::copy_of(result.tensor()));
    list.append(give_there(result, operands.kind()));
  }
  if (nb::len(list) == 1) return list[0];
  return nb::tuple(list);
}

LockedExecutor& LockedExecutor::on(const Gpu& gpu) {
  static std::mutex mutex;
  static std::deque<LockedExecutor>& known = *new std::deque<LockedExecutor>();
  const std::scoped_lock lock(mutex);
  for (LockedExecutor& each : known)
    if (&each.gpu().info() == &gpu.info()) return each;
  return known.emplace_back("vulkan", 0, 0, "", false, gpu);
}

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
      .def(nb::init<const std::string&, int, uint64_t, const std::string&, bool>(),
           nb::arg("backend"), nb::arg("threads"), nb::arg("seed"), nb::arg("gpu_name"),
           nb::arg("follows") = false)
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
  // A function instead of a method, because torch.compile loses the object of methods not defined
  // in Python.
  m.def("eager_call", &LockedExecutor::call, nb::arg("executor"), nb::arg("op"), nb::arg("inputs"),
        nb::arg("attrs"), nb::arg("out").none());
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
