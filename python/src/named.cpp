// SPDX-License-Identifier: Apache-2.0
// Programs of named models (hg/named.h).
#include "hg/named.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "python/src/bind.h"
#include "python/src/callbacks.h"
#include "python/src/options.h"
#include "python/src/own_ops.h"
#include "python/src/tensors.h"
#include "python/src/turn.h"

namespace hg::python {
namespace {

// An exception that a Python function raised while the library called it. Raised again when the
// library returns.
struct Pending {
  std::optional<nb::python_error> error;

  template <class Function>
  void run(const Function& function) {
    const nb::gil_scoped_acquire acquired;
    if (error) return;
    try {
      function();
    } catch (nb::python_error& raised) {
      error.emplace(std::move(raised));
    }
  }
  void raise_again() {
    if (!error) return;
    nb::python_error raised = std::move(*error);
    error.reset();
    throw raised;
  }
};

nb::dict to_dict(const nn::Intermediate& seen) {
  nb::dict out;
  out["name"] = std::string(seen.name);
  out["dtype"] = python_name(seen.dtype);
  out["shape"] = to_tuple(seen.shape);
  out["min"] = seen.min;
  out["max"] = seen.max;
  const Tensor value = {const_cast<void*>(seen.value.data), seen.dtype, seen.value.shape,
                        seen.value.strides};
  out["value"] = copied(value, Kind::numpy);
  return out;
}

std::function<void(const nn::Intermediate&)> watcher(nb::handle function,
                                                     const std::shared_ptr<Pending>& pending) {
  return [held = shared_object(nb::borrow(function)), pending](const nn::Intermediate& seen) {
    pending->run([&] { (*held)(to_dict(seen)); });
  };
}

NamedArrays arrays_from(const nb::dict& given, Kind& kind) {
  NamedArrays out;
  for (const auto& [name, value] : given) {
    Kind own = Kind::numpy;
    const std::string key = words(name);
    out.emplace_back(key, lent(value, own, str_cat("'", key, "'")));
    if (own == Kind::torch) kind = Kind::torch;
  }
  return out;
}

nb::dict to_dict(const NamedArrays& arrays, Kind kind) {
  nb::dict out;
  for (const auto& [name, array] : arrays) out[name.c_str()] = give(array, kind);
  return out;
}

constexpr const char* kInsideProgram = "a function that a program calls cannot use that program";

// A program that threads use in turn.
class LockedProgram {
 private:
  template <class Function>
  auto run(const Function& function) {
    std::optional<decltype(function())> made;
    {
      const Turn::Held held(turn_, kInsideProgram);
      const nb::gil_scoped_release released;
      made.emplace(function());
    }
    pending_->raise_again();
    return take(*std::move(made));
  }

 public:
  LockedProgram(nn::Program program, std::shared_ptr<Pending> pending)
      : program_(std::move(program)), pending_(std::move(pending)) {}

  nb::object evaluate(const nb::dict& parameters, const nb::dict& data, nb::handle seeds,
                      nb::handle out) {
    Kind kind = Kind::numpy;
    const NamedArrays weights = arrays_from(parameters, kind), inputs = arrays_from(data, kind);
    if (!seeds.is_none()) {
      if (!out.is_none()) raise(PyExc_TypeError, "out= goes without output_gradients=");
      const NamedArrays by = arrays_from(nb::cast<nb::dict>(seeds), kind);
      const nn::Gradients found =
          run([&] { return program_.evaluate_gradients(weights, inputs, by); });
      nb::dict gradients = to_dict(found.parameters, kind);
      for (const auto& [name, array] : found.values) gradients[name.c_str()] = give(array, kind);
      return nb::make_tuple(to_dict(found.outputs, kind), gradients);
    }
    if (out.is_none())
      return to_dict(run([&] { return program_.evaluate(weights, inputs); }), kind);
    return evaluate_into(weights, inputs, nb::cast<nb::dict>(out));
  }

  nb::dict initial_parameters(uint64_t seed, const std::string& to) const {
    return to_dict(take(program_.initial_parameters(seed)), kind_named(to));
  }
  nb::dict states() const {
    const Turn::Held held(turn_);
    return to_dict(program_.states(), Kind::numpy);
  }
  void set_state(const std::string& name, nb::handle value) {
    const Borrowed borrowed = Borrowed::from(value, name);
    const Turn::Held held(turn_, kInsideProgram);
    check(program_.set_state(name, borrowed.tensor));
  }
  void plan(const nb::dict& dims, bool gradients) {
    const auto sizes = dims_from(dims);
    const Turn::Held held(turn_, kInsideProgram);
    Status status;
    {
      const nb::gil_scoped_release released;
      status = gradients ? program_.plan_gradients(sizes) : program_.plan(sizes);
    }
    check(status);
  }
  int add_hook(const std::string& path, nb::handle function) {
    const Turn::Held held(turn_, kInsideProgram);
    return take(program_.add_hook(path, watcher(function, pending_)));
  }
  void remove_hook(int hook) {
    const Turn::Held held(turn_, kInsideProgram);
    program_.remove_hook(hook);
  }
  Model model(const nb::dict& parameters) const;
  nb::list steps(const nb::dict& parameters, const nb::dict& data);
  nb::dict memory() const {
    const Turn::Held held(turn_);
    const nn::MemoryStats stats = program_.memory_stats();
    nb::dict out;
    out["planned"] = nb::cast(stats.planned);
    out["arena_bytes"] = stats.arena_bytes;
    out["peak_arena_bytes"] = stats.peak_arena_bytes;
    out["allocations"] = stats.allocations;
    out["frees"] = stats.frees;
    return out;
  }
  void release_memory() {
    const Turn::Held held(turn_, kInsideProgram);
    program_.release_memory();
    pending_->raise_again();
  }
  nb::bytes tuning() const {
    const Turn::Held held(turn_);
    std::vector<std::byte> bytes;
    {
      const nb::gil_scoped_release released;
      bytes = program_.session().tuning();
    }
    return nb::bytes(bytes.data(), bytes.size());
  }
  // The result of `function` for the program.
  template <class Function>
  auto look(const Function& function) const {
    const Turn::Held held(turn_);
    return function(program_);
  }
  const nn::Program& program() const { return program_; }  // for parts that never change

 private:
  static Kind kind_named(const std::string& name) {
    if (name == "numpy") return Kind::numpy;
    if (name != "torch")
      raise(PyExc_ValueError, "arrays are 'numpy' or 'torch', not '" + name + "'");
    nb::module_::import_("torch");
    return Kind::torch;
  }

  nb::object evaluate_into(const NamedArrays& weights, const NamedArrays& inputs,
                           const nb::dict& out) {
    Kind kind = Kind::numpy;
    for (const auto& [name, value] : out)
      (void)Borrowed::from(value, str_cat("out['", words(name), "']"), true);
    const NamedArrays given = arrays_from(out, kind);
    NamedArrays written = given;
    Status status;
    {
      const Turn::Held held(turn_, kInsideProgram);
      const nb::gil_scoped_release released;
      status = program_.evaluate_into(weights, inputs, written);
    }
    pending_->raise_again();
    check(status);
    for (const auto& [name, array] : given)
      if (!written[name].shares_memory_with(array))
        raise(PyExc_ValueError,
              str_cat("out['", name, "'] is ", array.dtype(), array.shape(), "; the output is ",
                      written[name].dtype(), written[name].shape(), ", and contiguous"));
    return nb::borrow(out);
  }

  nn::Program program_;
  std::shared_ptr<Pending> pending_;
  mutable Turn turn_;
};

Model LockedProgram::model(const nb::dict& parameters) const {
  Kind kind = Kind::numpy;
  const NamedArrays weights = arrays_from(parameters, kind);
  const Turn::Held held(turn_, kInsideProgram);
  return take(program_.model(weights));
}

nb::list LockedProgram::steps(const nb::dict& parameters, const nb::dict& data) {
  Kind kind = Kind::numpy;
  const NamedArrays weights = arrays_from(parameters, kind), inputs = arrays_from(data, kind);
  const Turn::Held held(turn_, kInsideProgram);
  check(program_.begin(weights, inputs));
  nb::list out;
  while (const std::optional<StepRow> row = take(program_.step())) {
    nb::dict step, values;
    for (const auto& [name, tensor] : row->outputs)
      values[name.c_str()] = copied(tensor, Kind::numpy);
    step["node"] = row->node;
    step["op"] = row->op;
    step["kernel"] = row->kernel;
    step["ms"] = row->ms;
    step["outputs"] = values;
    out.append(step);
  }
  (void)take(program_.finish());
  pending_->raise_again();
  return out;
}

nn::CompileOptions::Optimize optimize_from(const std::string& name) {
  if (name == "none") return nn::CompileOptions::Optimize::none;
  if (name == "full") return nn::CompileOptions::Optimize::full;
  raise(PyExc_ValueError, "optimize is 'none' or 'full', not '" + name + "'");
}

void compile_named(LockedProgram* self, const nn::Block& model, const nb::dict& given) {
  nb::dict rest;
  for (const auto& [name, value] : given) rest[name] = value;
  const auto pop = [&](const char* name) {
    nb::object value = rest.contains(name) ? nb::object(rest[name]) : nb::none();
    if (rest.contains(name)) PyDict_DelItemString(rest.ptr(), name);
    return value;
  };
  const auto is_true = [&](const char* name) {
    return truth(pop(name));  // absent: false
  };
  const auto patterns = [&](const char* name) {
    std::vector<std::string> out;
    const nb::object value = pop(name);
    if (nb::isinstance<nb::str>(value)) return std::vector<std::string>{words(value)};
    if (!value.is_none())
      for (const nb::handle each : value) out.push_back(words(each));
    return out;
  };
  const auto pending = std::make_shared<Pending>();
  nn::CompileOptions options;
  if (const nb::object dtype = pop("dtype"); !dtype.is_none()) options.dtype = dtype_from(dtype);
  if (const nb::object dtype = pop("compute"); !dtype.is_none())
    options.compute = dtype_from(dtype);
  if (const nb::object word = pop("optimize"); !word.is_none())
    options.optimize = optimize_from(words(word));
  options.deterministic = is_true("deterministic");
  options.training = is_true("training");
  options.frozen = patterns("frozen");
  options.trainable = patterns("trainable");
  options.gradients_of = patterns("gradients_of");
  Kind kind = Kind::numpy;
  if (const nb::object arrays = pop("constants"); !arrays.is_none())
    options.constants = arrays_from(nb::cast<nb::dict>(arrays), kind);
  if (const nb::object function = pop("debug"); !function.is_none())
    options.debug = watcher(function, pending);
  if (const nb::object function = pop("on_arena"); !function.is_none())
    options.on_arena = [held = shared_object(nb::borrow(function)),
                        pending](const nn::ArenaEvent& event) {
      pending->run([&] { (*held)(event.is_free, event.bytes); });
    };
  if (const nb::object cache = pop("cache"); !cache.is_none())
    options.cache = nb::cast<nn::PlanCache>(cache);
  options.session = session_options(rest);
  options.session.registry = &registry();
  std::optional<Result<nn::Program>> made;
  {
    const nb::gil_scoped_release released;
    made.emplace(nn::compile(model, std::move(options)));
  }
  pending->raise_again();
  new (self) LockedProgram(take(*std::move(made)), pending);
}

}  // namespace

void bind_named(nb::module_& m) {
  nb::class_<nn::PlanCache>(m, "PlanCache",
                            "A cache of compiled programs, for models with equal options.")
      .def(nb::init<>())
      .def(
          "counters",
          [](const nn::PlanCache& cache) {
            nb::dict out;
            out["hits"] = cache.counters().hits;
            out["misses"] = cache.counters().misses;
            return out;
          },
          "How many programs were cached (hits) or had to be compiled (misses).");
  nb::class_<LockedProgram>(m, "ProgramBase")
      .def("__init__", compile_named)
      .def("model_", &LockedProgram::model)
      .def("evaluate_", &LockedProgram::evaluate, nb::arg("parameters"), nb::arg("data"),
           nb::arg("output_gradients").none() = nb::none(), nb::arg("out").none() = nb::none())
      .def("initial_parameters", &LockedProgram::initial_parameters, nb::arg("seed") = 0,
           nb::arg("to") = "numpy",
           "New arrays by name with the layers' initial values, for an optimizer to update.")
      .def_prop_ro("inputs", [](const LockedProgram& p) { return p.program().inputs(); })
      .def_prop_ro("outputs", [](const LockedProgram& p) { return p.program().outputs(); })
      .def_prop_ro(
          "parameters",
          [](const LockedProgram& p) {
            nb::list out;
            for (const nn::ParameterInfo& each : p.program().parameters())
              out.append(nb::make_tuple(each.name, python_name(each.dtype), to_tuple(each.shape),
                                        each.is_trainable));
            return out;
          },
          "(name, dtype, shape, is_trainable) of each")
      .def_prop_ro("states", &LockedProgram::states,
                   "Running statistics by name, as arrays in the program's memory.")
      .def("set_state", &LockedProgram::set_state, nb::arg("name"), nb::arg("value"),
           "Sets a running statistic; the value is copied.")
      .def(
          "plan",
          [](LockedProgram& p, bool gradients, const nb::kwargs& dims) {
            p.plan(nb::dict(dims), gradients);
          },
          nb::arg("gradients") = false, nb::arg("dims"), "Plans for sizes, without running.")
      .def("add_hook", &LockedProgram::add_hook, nb::arg("path"), nb::arg("function"),
           "Calls the function with a dict (name, dtype, shape, min, max, value) after each call "
           "that computes this value. Returns the hook's number.")
      .def("remove_hook", &LockedProgram::remove_hook, nb::arg("hook"),
           "Removes the hook with this number.")
      .def("steps", &LockedProgram::steps, nb::arg("parameters"), nb::arg("data"),
           "Runs a call step by step: a dict per step with node, op, kernel, ms and outputs.")
      .def(
          "profile",
          [](const LockedProgram& p) {
            return p.look([](const nn::Program& program) { return program.profile(); });
          },
          "Rows of the last call, slowest first; requires profile=True.")
      .def(
          "summary",
          [](const LockedProgram& p) {
            return p.look([](const nn::Program& program) { return program.summary(); });
          },
          "A table of all blocks with their outputs, shapes and parameters.")
      .def(
          "report",
          [](const LockedProgram& p) {
            return p.look([](const nn::Program& program) { return program.session().report(); });
          },
          "Devices, kernels and passes, as text.")
      .def("tuning", &LockedProgram::tuning, "Measurements of autotune=True, for option tuning=.")
      .def("memory", &LockedProgram::memory, "Current and peak bytes of the arenas.")
      .def("release_memory", &LockedProgram::release_memory,
           "Frees all arenas; the next call allocates again.");
}

}  // namespace hg::python
