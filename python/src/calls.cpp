// SPDX-License-Identifier: Apache-2.0
#include "python/src/calls.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <optional>

#include "hg/op.h"
#include "python/src/interrupt.h"
#include "python/src/known.h"
#include "python/src/options.h"
#include "python/src/structure.h"

namespace hg::python {
namespace {

constexpr double kShort = 2e7;     // operations: a few milliseconds
constexpr int64_t kCopied = 4096;  // bytes of an output below which copying is faster than lending
constexpr size_t kFew = 4;         // inputs that are read without heap memory

std::string names_of(const Graph& graph) {
  std::string out;
  for (const ValueId id : graph.inputs())
    out += str_cat(out.empty() ? "" : ", ", graph.value_info(id).name);
  return out;
}

bool has_open_size(const Shape& shape, const std::vector<std::string>& known) {
  std::vector<std::string> symbols;
  for (const Dim& dim : shape) dim.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
    return std::find(known.begin(), known.end(), symbol) == known.end();
  });
}

// Borrows the arrays of out=, one for each of `results`, and stores them there.
void borrow_outputs(nb::handle out, std::vector<Borrowed>& given,
                    std::vector<nb::object>& results) {
  std::vector<nb::object> outs;
  if (is_container(out))
    for (const nb::handle each : out) outs.push_back(nb::borrow(each));
  else
    outs.push_back(nb::borrow(out));
  if (outs.size() != results.size())
    raise(PyExc_ValueError, str_cat("out has ", int64_t(outs.size()), " arrays, the model has ",
                                    int64_t(results.size()), " outputs"));
  given.resize(outs.size());
  for (size_t i = 0; i < outs.size(); ++i) {
    if (outs[i].is_none()) continue;
    given[i] = Borrowed::from(outs[i], str_cat("out[", int64_t(i), "]"), true);
    results[i] = outs[i];
  }
}

}  // namespace

Calls::Calls(const Model& model, SessionOptions options, std::shared_ptr<LockedStates> states)
    : model_(model), options_(std::move(options)), states_(std::move(states)) {
  if (states_) options_.states = states_->shared;
  const Graph& graph = model_.graph();
  for (const ValueId id : graph.inputs())
    input_names_.push_back(
        nb::steal(PyUnicode_InternFromString(graph.value_info(id).name.c_str())));
  const std::vector<std::string> symbols = graph.symbols();
  for (const auto& [name, id] : graph.outputs())
    is_open_.push_back(has_open_size(graph.value_info(id).type.shape, symbols));
  for (const Node& node : graph.nodes()) has_control_ |= (node.op->def.traits & kControl) != 0;
}

void Calls::take_turn(std::optional<Turn::Held>& held) const {
  if (states_)
    held.emplace(states_->turn, "a session cannot run inside a run of one that shares its states");
}

void Calls::open() {
  std::optional<Turn::Held> held;
  take_turn(held);
  release(acquire({}));
}

bool Calls::takes(const Array& array) const {
  if (options_.device == Device::cpu || !array.is_on_device() || !array.is_contiguous() ||
      array.count() == 0 || states_ != nullptr)
    return false;
  const DeviceInfo& info = array.gpu().info();
  if (options_.gpu) return &options_.gpu.info() == &info;
  return options_.gpu_name.empty() || info.name.find(options_.gpu_name) != std::string::npos;
}

std::unique_ptr<Calls::Lent> Calls::acquire(std::span<const Tensor> inputs, const Gpu& gpu) {
  std::unique_ptr<Lent> lent = free_or_new(inputs, gpu);
  adapt(*lent);
  return lent;
}

// Gives a session the adapters that were set since its last call.
void Calls::adapt(Lent& lent) {
  std::shared_ptr<const std::vector<Model>> adapters;
  uint64_t set = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (lent.adapters == adapters_set_) return;
    adapters = adapters_;
    set = adapters_set_;
  }
  check(hg::set_adapters(lent.session, *adapters));
  lent.adapters = set;
}

void Calls::set_adapters(std::vector<Model> adapters) {
  std::unique_ptr<Lent> lent = acquire({});
  const Status fits = hg::set_adapters(lent->session, adapters);
  if (fits.ok()) {
    const std::scoped_lock lock(mutex_);
    adapters_ = std::make_shared<const std::vector<Model>>(std::move(adapters));
    lent->adapters = ++adapters_set_;
  }
  release(std::move(lent));
  check(fits);
}

std::unique_ptr<Calls::Lent> Calls::free_or_new(std::span<const Tensor> inputs, const Gpu& gpu) {
  const auto is_there = [&](const std::unique_ptr<Lent>& lent) {
    return (gpu ? &gpu.info() : nullptr) == (lent->gpu ? &lent->gpu.info() : nullptr);
  };
  const auto fits = [&](const std::unique_ptr<Lent>& lent) {
    if (!is_there(lent)) return false;
    if (lent->inputs.size() != inputs.size()) return false;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!(lent->inputs[i] == inputs[i].shape)) return false;
    return true;
  };
  {
    const std::scoped_lock lock(mutex_);
    auto found = std::find_if(free_.rbegin(), free_.rend(), fits);
    if (found == free_.rend()) found = std::find_if(free_.rbegin(), free_.rend(), is_there);
    if (found != free_.rend()) {
      const auto at = std::next(found).base();
      std::unique_ptr<Lent> lent = std::move(*at);
      free_.erase(at);
      return lent;
    }
  }
  SessionOptions options = options_;
  if (gpu) {
    options.device = Device::vulkan;
    options.gpu = gpu;
    options.device_outputs = true;
  }
  std::optional<Result<Session>> made;
  {
    const nb::gil_scoped_release released;
    made.emplace(Session::create(model_, std::move(options)));
  }
  return std::unique_ptr<Lent>(new Lent{take(*std::move(made)), {}, {}, {}, false, gpu});
}

void Calls::release(std::unique_ptr<Lent> lent) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(std::move(lent));
}

namespace {

bool draws_numbers(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    const AttrReader attrs(node.op, node.attrs);
    const bool is_idle = node.op->name() == "dropout" && !attrs.flag("training");
    if ((node.op->def.traits & kRandom) != 0 && !is_idle) return true;
    for (const auto& body : node.subgraphs)
      if (draws_numbers(*body)) return true;
  }
  return false;
}

}  // namespace

bool Calls::draws() const { return draws_numbers(model_.graph()); }

void Calls::seed(uint64_t seed) {
  const std::scoped_lock lock(mutex_);
  options_.seed = seed;
  for (const auto& lent : free_) lent->session.seed(seed);
}

std::vector<nb::object> Calls::run_there(std::span<const Tensor> inputs,
                                         std::span<const Array> there, Kind kind,
                                         std::optional<uint64_t> seed) {
  Gpu gpu;
  for (const Array& each : there)
    if (!gpu && each) gpu = each.gpu();
  std::unique_ptr<Lent> lent = acquire(inputs, gpu);
  Session& session = lent->session;
  if (seed) session.seed(*seed);
  lent->inputs.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto index = static_cast<int>(i);
    lent->inputs.push_back(inputs[i].shape);
    check(there[i] ? session.set_input(index, take(there[i].on_device(gpu)))
                   : session.set_input(index, ConstTensor(inputs[i])));
  }
  Status status;
  {
    const Interrupt interrupt;
    const nb::gil_scoped_release released;
    status = session.run(interrupt.token());
  }
  check(status);
  std::vector<nb::object> results;
  for (int i = 0; i < session.output_count(); ++i) {
    const Result<DeviceTensor> made = session.device_output(i);
    results.push_back(made.ok() ? give_there(take(Array::copy_of(*made, gpu)), kind)
                                : copied(take(session.output(i)), kind));
  }
  session.forget_tensors();
  release(std::move(lent));
  return results;
}

std::vector<nb::object> Calls::run(std::span<const Tensor> inputs, nb::handle out, Kind kind,
                                   std::optional<uint64_t> seed, std::span<const Array> there) {
  if (!there.empty() && (!out.is_valid() || out.is_none()))
    return run_there(inputs, there, kind, seed);
  const size_t count = is_open_.size();
  std::vector<Borrowed> given;
  std::vector<nb::object> results(count);
  if (out.is_valid() && !out.is_none()) borrow_outputs(out, given, results);
  std::optional<Turn::Held> held;
  take_turn(held);
  std::unique_ptr<Lent> lent = acquire(inputs);
  // A session that failed is dropped, which ends whatever it has borrowed.
  Session& session = lent->session;
  if (seed) session.seed(*seed);
  bool is_known = lent->inputs.size() == inputs.size() && lent->outputs.size() == count;
  lent->inputs.resize(inputs.size());
  lent->is_bound.resize(count);
  for (size_t i = 0; i < inputs.size(); ++i) {
    is_known = is_known && lent->inputs[i] == inputs[i].shape;
    lent->inputs[i] = inputs[i].shape;
    check(session.set_input(static_cast<int>(i), ConstTensor(inputs[i])));
  }
  std::vector<Array> owned(count);
  for (size_t i = 0; i < count; ++i) {
    const auto index = static_cast<int>(i);
    const bool is_given = results[i].is_valid();
    if (!is_given && is_known && !is_open_[i]) {
      const DType dtype = session.output_type(index).dtype;
      if (lent->outputs[i].count() * size_of(dtype) > kCopied)
        owned[i] = take(Array::allocate(dtype, lent->outputs[i]));
    }
    if (is_given || owned[i])
      check(session.set_output(index, is_given ? given[i].tensor : owned[i].tensor()));
    else if (lent->is_bound[i])
      check(session.set_output(index, Tensor()));
    lent->is_bound[i] = is_given || owned[i];
  }
  Status status;
  if (is_known && lent->is_short) {
    const nb::gil_scoped_release released;
    status = session.run();
  } else {
    const Interrupt interrupt;
    const nb::gil_scoped_release released;
    status = session.run(interrupt.token());
  }
  check(status);
  if (!is_known) {
    lent->outputs.resize(count);
    lent->is_short = !has_control_ && session.flops() < kShort;
  }
  for (size_t i = 0; i < count; ++i) {
    if (owned[i]) {
      results[i] = give(owned[i], kind);
      continue;
    }
    if (results[i].is_valid() && !is_open_[i]) {
      if (!is_known) lent->outputs[i] = given[i].tensor.shape;
      continue;
    }
    const Tensor tensor = take(session.output(static_cast<int>(i)));
    if (!results[i].is_valid())
      results[i] = copied(tensor, kind);
    else if (!(tensor.shape == given[i].tensor.shape))
      raise(PyExc_ValueError, str_cat("out[", int64_t(i), "] is ", given[i].tensor.shape,
                                      ", the output is ", tensor.shape));
    if (!is_known) lent->outputs[i] = tensor.shape;
  }
  release(std::move(lent));
  return results;
}

std::vector<Borrowed> Calls::arrange(const nb::tuple& arguments, const nb::dict& named,
                                     bool stays) {
  const Graph& graph = model_.graph();
  const size_t count = input_names_.size();
  std::vector<nb::object> objects(count);
  for (const auto& [key, value] : named) {
    const auto found =
        std::find_if(input_names_.begin(), input_names_.end(), [&](const nb::object& name) {
          return name.ptr() == key.ptr() || PyUnicode_Compare(name.ptr(), key.ptr()) == 0;
        });
    if (found == input_names_.end())
      raise(PyExc_TypeError,
            str_cat("there is no input '", words(key), "'; the inputs are ", names_of(graph)));
    objects[found - input_names_.begin()] = nb::borrow(value);
  }
  std::vector<nb::object> given;
  for (const nb::handle each : arguments) given.push_back(nb::borrow(each));
  if (given.size() + named.size() > count ||
      std::any_of(given.begin(), given.end(), is_container)) {
    const bool has_order = order_.is_valid() && !order_.is_none();
    const nb::object ordered = has_order ? order_(arguments) : nb::none();
    given = ordered.is_none() ? in_order(arguments, input_names_) : in_order(ordered, {});
  }
  for (size_t i = 0; i < std::min(count, given.size()); ++i) {
    if (!given[i].is_valid()) continue;
    if (objects[i].is_valid())
      raise(PyExc_TypeError, str_cat("the input '", words(input_names_[i]), "' is given twice"));
    objects[i] = given[i];
  }
  const auto is_given = [](const nb::object& each) { return each.is_valid(); };
  const int64_t total = std::count_if(given.begin(), given.end(), is_given) + int64_t(named.size());
  const auto missing = std::count_if(objects.begin(), objects.end(),
                                     [](const nb::object& each) { return !each.is_valid(); });
  if (total > int64_t(count) || missing > 0)
    raise(PyExc_TypeError, str_cat("the model takes ", int64_t(count), " inputs (", names_of(graph),
                                   "), ", total, " are given"));
  std::vector<Borrowed> inputs;
  for (size_t i = 0; i < count; ++i) {
    const ValueInfo& info = graph.value_info(graph.inputs()[i]);
    const bool is_tensor = nb::isinstance<Array>(objects[i]);
    const Array* array = is_tensor ? nb::inst_ptr<Array>(objects[i]) : array_of(objects[i]);
    if (array != nullptr && stays && takes(*array) && !is_followed(nb::make_tuple(objects[i]))) {
      inputs.push_back(Borrowed::on_device(*array, is_tensor ? Kind::array : Kind::torch));
      continue;
    }
    inputs.push_back(Borrowed::from(objects[i], info.name, false, &info.type.dtype));
  }
  return inputs;
}

// The fast path: a few arrays and tensors that are lent unchanged, in order or by name.
bool Calls::see_all(nb::handle arguments, nb::handle named, std::span<Tensor> seen, Kind& kind,
                    nb::object& out) const {
  const auto given = static_cast<size_t>(PyTuple_Size(arguments.ptr()));
  size_t left = seen.size();
  TorchState torch;
  if (given > left) return false;
  for (size_t i = 0; i < given; ++i, --left)
    if (!see(PyTuple_GetItem(arguments.ptr(), static_cast<Py_ssize_t>(i)), seen[i], kind, torch))
      return false;
  if (!named.is_valid()) return left == 0;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(named.ptr(), &at, &key, &value) != 0;) {
    if (key == known().out.ptr()) {
      out = nb::borrow(value);
      continue;
    }
    size_t i = given;
    while (i < seen.size() && input_names_[i].ptr() != key) ++i;
    if (i == seen.size() || !see(value, seen[i], kind, torch)) return false;
    --left;
  }
  return left == 0;
}

nb::object Calls::call(nb::handle arguments, nb::handle named) {
  std::array<Tensor, kFew> few;
  std::span<Tensor> seen(few.data(), std::min(input_names_.size(), kFew));
  std::vector<Tensor> many;
  std::vector<Borrowed> inputs;
  std::vector<Array> there;
  nb::object out;
  Kind kind = Kind::numpy;
  if (input_names_.size() > kFew || !see_all(arguments, named, seen, kind, out)) {
    kind = Kind::numpy;
    nb::dict rest;
    const nb::dict all = named.is_valid() ? nb::borrow<nb::dict>(named) : nb::dict();
    for (const auto& [key, value] : all) {
      if (PyUnicode_CompareWithASCIIString(key.ptr(), "out") == 0)
        out = nb::borrow(value);
      else
        rest[key] = value;
    }
    inputs = arrange(nb::borrow<nb::tuple>(arguments), rest, !out.is_valid() || out.is_none());
    for (const Borrowed& input : inputs) {
      many.push_back(input.tensor);
      if (input.kind == Kind::torch && kind == Kind::numpy) kind = Kind::torch;
      if (!input.array) continue;
      kind = input.kind;
      there.resize(inputs.size());
      there[static_cast<size_t>(&input - inputs.data())] = input.array;
    }
    seen = many;
  }
  std::vector<nb::object> results = run(seen, out, kind, {}, there);
  if (out.is_valid() && !out.is_none()) return out;
  if (rebuild_.is_valid() && !rebuild_.is_none()) return rebuild_(results);
  if (results.size() == 1) return results[0];
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(results.size())));
  for (size_t i = 0; i < results.size(); ++i)
    PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), results[i].release().ptr());
  return tuple;
}

std::unique_ptr<Calls::Lent> Calls::planned(const nb::dict& dims) {
  std::optional<Turn::Held> held;
  take_turn(held);
  std::unique_ptr<Lent> lent = acquire({});
  const auto sizes = dims_from(dims);
  Status status;
  if (!sizes.empty() || lent->inputs.empty()) {
    lent->inputs.clear();
    lent->outputs.clear();
    lent->session.forget_tensors();
    const nb::gil_scoped_release released;
    status = lent->session.plan(sizes);
  }
  if (!status.ok()) raise(status);
  return lent;
}

Memory Calls::memory(const nb::dict& dims) {
  std::unique_ptr<Lent> lent = planned(dims);
  const Memory memory = take(lent->session.memory());
  release(std::move(lent));
  return memory;
}

double Calls::flops(const nb::dict& dims) {
  std::unique_ptr<Lent> lent = planned(dims);
  const double flops = lent->session.flops();
  release(std::move(lent));
  return flops;
}

std::string Calls::report(const nb::dict& dims) {
  std::unique_ptr<Lent> lent = planned(dims);
  const std::string report = lent->session.report();
  release(std::move(lent));
  return report;
}

std::vector<ArenaBlock> Calls::arena_blocks(const nb::dict& dims) {
  std::unique_ptr<Lent> lent = planned(dims);
  const std::vector<ArenaBlock> blocks = lent->session.arena_blocks();
  release(std::move(lent));
  return blocks;
}

Graph Calls::compiled_graph(const nb::dict& dims) {
  std::unique_ptr<Lent> lent = planned(dims);
  Graph graph = lent->session.compiled_graph();
  release(std::move(lent));
  return graph;
}

std::vector<ProfileRow> Calls::profile() {
  if (!options_.profile)
    raise(PyExc_ValueError, "only a session that was made with profile=True has a profile");
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) raise(PyExc_ValueError, "nothing ran yet");
  return free_.back()->session.profile();
}

// Another thread that plans holds what this one waits for, and may need the GIL.
template <class Use>
void Calls::use_one(const Use& use) {
  std::unique_lock lock(mutex_);
  if (free_.empty()) raise(PyExc_ValueError, "nothing ran yet");
  std::unique_ptr<Lent> lent = std::move(free_.back());
  free_.pop_back();
  lock.unlock();
  {
    const nb::gil_scoped_release released;
    use(lent->session);
  }
  release(std::move(lent));
}

nb::bytes Calls::tuning() {
  std::vector<std::byte> bytes;
  use_one([&](const Session& session) { bytes = session.tuning(); });
  return nb::bytes(bytes.data(), bytes.size());
}

void Calls::save_packed() {
  Status saved;
  use_one([&](const Session& session) { saved = session.save_packed(); });
  if (!saved.ok()) raise(saved);
}

namespace {

PyObject* call_session(PyObject* self, PyObject* arguments, PyObject* named) {
  return guarded([&] { return nb::inst_ptr<Calls>(self)->call(arguments, named); });
}

}  // namespace

void bind_calls(nb::module_& m) {
  nb::class_<Memory>(m, "Memory", "Bytes that a session needs; exact before the first run.")
      .def_ro("peak_bytes", &Memory::peak_bytes, "everything the session holds during a run")
      .def_ro("arena_bytes", &Memory::arena_bytes, "activations and workspaces")
      .def_ro("arena_lower_bound", &Memory::arena_lower_bound,
              "largest sum of live bytes at one step")
      .def_ro("weights_bytes", &Memory::weights_bytes, "as loaded")
      .def_ro("packed_bytes", &Memory::packed_bytes, "copies of weights made for kernels")
      .def_ro("mapped_bytes", &Memory::mapped_bytes, "the part of them from the file of packed=")
      .def_ro("extra_flops", &Memory::extra_flops, "of a run, for values recomputed to save memory")
      .def_ro("device_bytes", &Memory::device_bytes, "on the device");
  nb::class_<ProfileRow>(m, "ProfileRow", "Time and work of one node in the last run.")
      .def_ro("node", &ProfileRow::node)
      .def_ro("op", &ProfileRow::op)
      .def_ro("kernel", &ProfileRow::kernel)
      .def_ro("module", &ProfileRow::module)
      .def_ro("ms", &ProfileRow::ms)
      .def_ro("flops", &ProfileRow::flops)
      .def_ro("bytes", &ProfileRow::bytes, "read and written");
  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_session)}, {0, nullptr}};
  nb::class_<Calls>(
      m, "Session",
      "Runs a model with its own options. Any thread may call it: each call takes a free session "
      "of the library, which caches the plans of the sizes it has seen. Inputs are borrowed, not "
      "copied; outputs are numpy arrays, or torch tensors if an input is one. "
      "out= gives arrays to write to.",
      nb::type_slots(slots))
      .def(
          "memory",
          [](Calls& calls, const nb::kwargs& dims) { return calls.memory(nb::dict(dims)); },
          "Memory at these sizes, such as n=4, or at those of the last call.")
      .def(
          "flops", [](Calls& calls, const nb::kwargs& dims) { return calls.flops(nb::dict(dims)); },
          "Multiplications and additions of one run.")
      .def(
          "report",
          [](Calls& calls, const nb::kwargs& dims) { return calls.report(nb::dict(dims)); },
          "Devices, kernels and passes, as text.")
      .def(
          "_run_list",
          [](Calls& calls, const nb::list& tensors, std::optional<uint64_t> seed) {
            std::vector<Borrowed> inputs;
            std::vector<Tensor> seen;
            for (const nb::handle each : tensors) {
              inputs.push_back(Borrowed::from(each, str_cat("input ", int64_t(inputs.size()))));
              seen.push_back(inputs.back().tensor);
            }
            nb::list out;
            for (nb::object& each : calls.run(seen, nb::handle(), Kind::torch, seed))
              out.append(each);
            return out;
          },
          nb::arg("tensors"), nb::arg("seed").none() = nb::none(),
          "Takes torch tensors in the order of the inputs; returns a list of the outputs.")
      .def("seed", &Calls::seed, nb::arg("seed"),
           "From the next call on, random ops draw like those of a new session with this seed.")
      .def(
          "set_adapters",
          [](Calls& calls, const nb::object& adapters) {
            std::vector<Model> all;
            if (nb::isinstance<Model>(adapters))
              all.push_back(nb::cast<const Model&>(adapters));
            else
              for (const nb::handle each : adapters) all.push_back(nb::cast<const Model&>(each));
            calls.set_adapters(std::move(all));
          },
          nb::arg("adapters"),
          "From the next call on, the model has these adapters and no others: an adapter or a "
          "list. The model needs room for them, from apply_adapters(). Nothing is compiled or "
          "planned.")
      .def_prop_ro("_draws", &Calls::draws)
      .def("_rows", &Calls::profile)
      .def("tuning", &Calls::tuning, "Measurements of autotune=True, for the option tuning=.")
      .def("save_packed", &Calls::save_packed,
           "Writes packed weights to the file of the option packed=, from which later sessions map "
           "them.")
      .def("_set_rebuild", &Calls::set_rebuild, nb::arg("rebuild").none())
      .def("_set_order", &Calls::set_order, nb::arg("order").none());
  // The tensors of a structure in the order of names; None for names that a dict lacks.
  m.def("in_order", [](nb::handle structure, const nb::list& names) {
    std::vector<nb::object> known;
    for (const nb::handle name : names) known.push_back(nb::borrow(name));
    nb::list out;
    for (nb::object& each : in_order(structure, known))
      out.append(each.is_valid() ? std::move(each) : nb::none());
    return out;
  });
}

}  // namespace hg::python
