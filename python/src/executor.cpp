// SPDX-License-Identifier: Apache-2.0
#include "python/src/executor.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <deque>

#include "hg/promotion.h"
#include "python/src/attributes.h"
#include "python/src/known.h"
#include "python/src/own_ops.h"

namespace hg::python {
namespace {

thread_local size_t kernel_depth = 0;  // custom kernels that run on this thread

}  // namespace

LockedExecutor::LockedExecutor(const std::string& backend, int threads, uint64_t seed,
                               const std::string& gpu_name, bool follows, const Gpu& gpu)
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

void LockedExecutor::close() {
  const nb::gil_scoped_release released;
  const std::scoped_lock lock(mutex_);
  executor_->close();
}

void LockedExecutor::seed(uint64_t seed) {
  const nb::gil_scoped_release released;
  const std::scoped_lock lock(mutex_);
  executor_->seed(seed);
}

nb::dict LockedExecutor::counters() const {
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

Result<std::vector<Argument>> arguments_of(const Op& op, const NamedAttrs& given,
                                           std::deque<std::vector<int64_t>>& lists) {
  std::vector<Argument> arguments;
  for (const Signature::Attribute& attribute : op.signature.attributes) {
    const Attr* value = &attribute.fallback;
    for (const NamedAttr& each : given)
      if (each.name == attribute.name) value = &each.value;
    HG_TRY_ASSIGN(Argument argument, Argument::of(attribute.name, *value, lists.emplace_back()));
    arguments.push_back(argument);
  }
  return arguments;
}

std::optional<Result<Array>> LockedExecutor::call_at_once(std::string_view op,
                                                          std::span<const Operand> inputs,
                                                          std::span<const Argument> attrs,
                                                          bool is_short) {
  if (executor_->device() != Device::cpu || owner_ == std::this_thread::get_id()) return {};
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return {};
  owner_ = std::this_thread::get_id();
  std::optional<Result<Array>> made;
  if (is_short) {
    made.emplace(executor_->one(op, inputs, attrs));
  } else {
    const nb::gil_scoped_release released;
    made.emplace(executor_->one(op, inputs, attrs));
  }
  owner_ = std::thread::id();
  return made;
}

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
  const Op* known = registry().find(op);
  if (known == nullptr) return not_found("there is no op '", op, "'");
  std::deque<std::vector<int64_t>> lists;
  HG_TRY_ASSIGN(const std::vector<Argument> arguments, arguments_of(*known, attrs, lists));
  return into.any(op, inputs, arguments);
}

namespace {

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
  // Numbers without a tensor to take a dtype from become tensors.
  void borrow_number(const nb::object& number, size_t at);

  const std::string& op_;
  std::deque<Borrowed> borrowed_;  // operands point to elements of these
  std::deque<ConstTensor> seen_;
  std::deque<Array> shared_;
  std::vector<Operand> operands_;
  std::vector<size_t> numbers_;
  Kind kind_ = Kind::numpy;
  const DType* first_ = nullptr;   // dtype of the first tensor
  bool has_number_dtype_ = false;  // a tensor is not bool
};

void Operands::add(const Array& array, Kind kind) {
  if (!array) raise(PyExc_ValueError, op_ + ": a tensor was freed");
  shared_.push_back(array);
  // The owner of borrowed memory may have written to it since it was uploaded.
  if (array.is_borrowed() && array.is_on_host()) shared_.back().touch();
  operands_.emplace_back(shared_.back());
  if (first_ == nullptr) first_ = &shared_.back().tensor().dtype;
  has_number_dtype_ = has_number_dtype_ || shared_.back().dtype() != boolean;
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
    has_number_dtype_ = has_number_dtype_ || borrowed_.back().tensor.dtype != boolean;
    if (kind_ == Kind::numpy) kind_ = borrowed_.back().kind;
  }
}

void Operands::borrow_number(const nb::object& number, size_t at) {
  const std::optional<Number> value = number_of(number);
  if (!value || (is_beyond_i64(*value) && !has_number_dtype_))
    raise(PyExc_ValueError, str_cat(op_, ": argument ", int64_t(at), " is ", words(number),
                                    ", which does not fit an integer of 64 bits"));
  if (first_ != nullptr) return;
  borrowed_.push_back(Borrowed::from(number, str_cat(op_, ": argument ", int64_t(at))));
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

}  // namespace

nb::object LockedExecutor::call(const std::string& op, const nb::list& inputs,
                                const nb::dict& attrs, nb::handle out) {
  if (!out.is_valid() || out.is_none())
    if (nb::object made = compute_at_once(*this, op, inputs, attrs); made.is_valid()) return made;
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

nb::object LockedExecutor::current() {
  const Known& k = known();
  PyObject* found = nullptr;
  if (PyContextVar_Get(k.chosen.ptr(), nullptr, &found) != 0) throw nb::python_error();
  const nb::object chosen = nb::steal(found);
  if (!chosen.is_none()) {
    nb::object base = nb::steal(PyObject_GenericGetAttr(chosen.ptr(), k.base.ptr()));
    if (!base.is_valid()) throw nb::python_error();
    if (base.is_none()) raise(PyExc_RuntimeError, "the executor was freed");
    return base;
  }
  // Python frees the dict with the thread.
  PyObject* dict = PyThreadState_GetDict();
  PyObject* list = PyDict_GetItemWithError(dict, k.executors.ptr());
  if (list == nullptr) {
    const nb::list made;
    if (PyDict_SetItem(dict, k.executors.ptr(), made.ptr()) != 0) throw nb::python_error();
    list = made.ptr();
  }
  while (static_cast<size_t>(PyList_Size(list)) <= kernel_depth)
    nb::borrow<nb::list>(list).append(
        nb::cast(new LockedExecutor("cpu", 0, 0, "", true), nb::rv_policy::take_ownership));
  return nb::borrow(PyList_GetItem(list, static_cast<Py_ssize_t>(kernel_depth)));
}

void LockedExecutor::enter_kernel() { ++kernel_depth; }
void LockedExecutor::leave_kernel() { --kernel_depth; }

}  // namespace hg::python
