// SPDX-License-Identifier: Apache-2.0
// Lazy expressions.
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>

#include <memory>
#include <optional>

#include "hg/op.h"
#include "hg/promotion.h"
#include "hg/var.h"
#include "python/src/attributes.h"
#include "python/src/bind.h"
#include "python/src/options.h"
#include "python/src/own_ops.h"
#include "python/src/tensors.h"
#include "python/src/turn.h"

namespace hg::python {
namespace {

// An expression, the kind of its results, and the memory lent to its leaves.
struct PythonVar {
  Var var;
  Kind kind = Kind::numpy;
  bool is_number = false;
};

// All expressions of the process share plans, so that a rebuilt expression finds its plan.
Lazy make_lazy() { return Lazy(SessionOptions{.registry = &registry()}, 256, uint64_t{256} << 20); }

// A forked child has its own cache: its parent's may have been in use during the fork.
const Lazy& own_lazy() {
  static Lazy* lazy = [] {
    pthread_atfork(nullptr, nullptr, [] { lazy = new Lazy(make_lazy()); });
    return new Lazy(make_lazy());
  }();
  return *lazy;
}

// Use expressions that share parts from one thread at a time. Any expressions may share parts.
Turn& lazy_turn() { return turn_of<struct Expressions>(); }

PythonVar var_of(nb::handle object) {
  PythonVar out;
  if (nb::isinstance<PythonVar>(object)) return *nb::inst_ptr<PythonVar>(object);
  if (object.is_none()) return out;
  if (const std::optional<Number> number = number_of(object)) {
    if (is_beyond_i64(*number))
      raise(PyExc_ValueError, words(object) + " does not fit an integer of 64 bits");
    out.var = Var(*number);
    out.is_number = true;
    return out;
  }
  out.var = Var(lent(object, out.kind), own_lazy());
  return out;
}

Kind joined(Kind a, Kind b) { return a == Kind::numpy ? b : a; }

PythonVar lazy_binary(const char* op, nb::handle a, nb::handle b) {
  const PythonVar x = var_of(a), y = var_of(b);
  const Turn::Held held(lazy_turn());
  PythonVar out;
  out.var = Var::one(op, std::array{x.var, y.var});
  out.kind = joined(x.kind, y.kind);
  check(out.var.type().status());
  return out;
}

nb::object lazy_call(const std::string& op, const nb::list& inputs, const nb::dict& attrs) {
  std::vector<Var> vars;
  Kind kind = Kind::numpy;
  bool has_tensor = false;
  for (const nb::handle each : inputs) {
    const PythonVar one = var_of(each);
    vars.push_back(one.var);
    kind = joined(kind, one.kind);
    has_tensor |= !each.is_none() && !one.is_number;
  }
  const NamedAttrs attributes = attributes_from(op, attrs);
  const Turn::Held held(lazy_turn());
  std::vector<Var> outputs = Var::any(op, vars, attributes);
  // Numbers only know the built-in ops.
  if (!has_tensor && Registry::built_in().find(op) == nullptr)
    raise(PyExc_ValueError, op + ": the inputs are numbers; one must be a tensor");
  nb::list out;
  for (Var& each : outputs) {
    check(each.type().status());
    out.append(nb::cast(PythonVar{std::move(each), kind}));
  }
  if (nb::len(out) == 1) return out[0];
  return nb::tuple(out);
}

std::vector<Var> vars_of(nb::handle list) {
  std::vector<Var> out;
  for (const nb::handle each : list) out.push_back(var_of(each).var);
  return out;
}

// Operands that are not tensors are stored in `operands`. Tensors are appended to `places`,
// followed by the gradients of the results `seeded`.
nb::object op_gradients(const std::string& op, const nb::list& operands, const nb::dict& attrs,
                        const nb::list& places, const nb::list& wanted, const nb::list& seeded,
                        const nb::list& tensors) {
  const auto at = [](const nb::list& list, size_t i) { return nb::cast<size_t>(list[i]); };
  std::vector<Var> inputs = vars_of(operands), given = vars_of(tensors), ys, xs;
  for (size_t i = 0; i < nb::len(places); ++i) inputs[at(places, i)] = given[i];
  const NamedAttrs attributes = attributes_from(op, attrs);
  std::optional<Result<std::vector<Array>>> made;
  {
    const Turn::Held held(lazy_turn());
    const std::vector<Var> results = Var::any(op, inputs, attributes);
    for (size_t i = 0; i < nb::len(seeded); ++i) ys.push_back(results[at(seeded, i)]);
    for (size_t i = 0; i < nb::len(wanted); ++i) xs.push_back(given[at(wanted, i)]);
    const std::vector<Var> found = vjp(ys, xs, std::span(given).subspan(nb::len(places)));
    const nb::gil_scoped_release released;
    made.emplace(evaluate(found));
  }
  nb::list out;
  for (const Array& each : take(*std::move(made))) out.append(give_there(each, Kind::torch));
  return nb::tuple(out);
}

nb::object value_of(const PythonVar& var, std::optional<Kind> kind) {
  const Turn::Held held(lazy_turn());
  std::optional<Result<Array>> made;
  {
    const nb::gil_scoped_release released;
    made.emplace(var.var.value());
  }
  // Copies the results, because the session's next run overwrites them.
  const Array array = take(*std::move(made));
  return kind ? give(array, *kind) : give_there(array, var.kind);
}

TensorType type_of(const PythonVar& v) {
  const Turn::Held held(lazy_turn());
  return take(v.var.type());
}

Sizes shape_of_var(const PythonVar& v) {
  const Turn::Held held(lazy_turn());
  check(v.var.type().status());
  return v.var.shape();
}

std::string text_of(const PythonVar& v) {
  const Turn::Held held(lazy_turn());
  return v.var.text();
}

nb::object list_of(std::vector<Var> vars, Kind kind) {
  nb::list out;
  for (Var& var : vars) {
    check(var.type().status());
    out.append(nb::cast(PythonVar{std::move(var), kind}));
  }
  return out;
}

using VarClass = nb::class_<PythonVar>;

void bind_leaves(VarClass& cls) {
  cls.def("__init__", [](PythonVar* self, nb::handle value) {
    // A number of numpy is a tensor of rank 0.
    const bool is_tensor = PyFloat_Check(value.ptr()) != 0 && PyFloat_CheckExact(value.ptr()) == 0;
    PythonVar made;
    if (is_tensor)
      made.var = Var(lent(value, made.kind), own_lazy());
    else
      made = var_of(value);
    new (self) PythonVar(std::move(made));
  });
  cls.def_static(
      "variable",
      [](const std::string& name, nb::handle shape, nb::handle dtype) {
        const DType type = dtype.is_none() ? f32 : dtype_from(dtype);
        const bool is_one = PyLong_Check(shape.ptr()) || nb::isinstance<nb::str>(shape);
        const nb::tuple one = nb::make_tuple(shape);
        return PythonVar{
            Var::variable(name, {type, shape_of(is_one ? nb::handle(one) : shape)}, own_lazy()),
            Kind::numpy};
      },
      nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = nb::none(),
      "A leaf whose array is set later with set(). Open sizes are names, such as (\"n\", 3): they "
      "take any size, and equal names have equal sizes in one evaluation.");
  cls.def_static(
      "constant",
      [](nb::handle value) {
        PythonVar out;
        Array array = lent(value, out.kind);
        out.var = Var::constant(std::move(array), own_lazy());
        return out;
      },
      "A leaf that never changes; values that depend only on constants are computed once.");
  cls.def(
      "set",
      [](PythonVar& v, nb::handle value) {
        Kind kind = v.kind;
        Array array = lent(value, kind);
        const Turn::Held held(lazy_turn());
        check(v.var.set(std::move(array)));
        v.kind = kind;
      },
      "Gives a leaf another array of the same dtype and shape, except open sizes.");
}

void bind_values(VarClass& cls) {
  cls.def_prop_ro(
      "shape", [](const PythonVar& v) { return to_python(type_of(v).shape); },
      "the shape of the value; runs nothing. Open sizes are text.");
  cls.def_prop_ro("dtype", [](const PythonVar& v) { return numpy_dtype(type_of(v).dtype); });
  cls.def_prop_ro("ndim", [](const PythonVar& v) { return type_of(v).rank(); });
  cls.def(
      "numpy", [](const PythonVar& v) { return value_of(v, Kind::numpy); },
      "The value as a numpy array.");
  cls.def(
      "torch",
      [](const PythonVar& v) {
        nb::module_::import_("torch");
        return value_of(v, Kind::torch);
      },
      "The value as a torch tensor.");
  cls.def(
      "value", [](const PythonVar& v) { return value_of(v, {}); },
      "The value, of the same type as the leaves.");
  cls.def(
      "item", [](const PythonVar& v) { return value_of(v, Kind::numpy).attr("item")(); },
      "The only element, as a Python number.");
  cls.def(
      "evaluated",
      [](const PythonVar& v) {
        const Turn::Held held(lazy_turn());
        std::optional<Result<Var>> made;
        {
          const nb::gil_scoped_release released;
          made.emplace(v.var.evaluated());
        }
        return PythonVar{take(*std::move(made)), v.kind};
      },
      "The value as a leaf, from which a loop continues.");
  cls.def("__str__", text_of);
  cls.def("__repr__", [](const PythonVar& v) { return "Var(" + text_of(v) + ")"; });
  cls.def("__array__",
          [](const PythonVar& v, nb::args, nb::kwargs) { return value_of(v, Kind::numpy); });
  // For a value of one element; others are ambiguous and raise an error.
  for (const char* name : {"__bool__", "__int__", "__float__"})
    cls.def(name, [name](const PythonVar& v) { return value_of(v, Kind::numpy).attr(name)(); });
  cls.def("__len__", [](const PythonVar& v) {
    const Sizes shape = shape_of_var(v);
    if (shape.empty()) raise(PyExc_TypeError, "a Var of rank 0, or of an open size, has no length");
    return shape[0];
  });
  cls.def("__hash__", [](nb::handle self) { return reinterpret_cast<intptr_t>(self.ptr()) >> 4; });
}

void bind_operators(VarClass& cls) {
  // Makes numpy leave operators with a Var to the Var.
  cls.attr("__array_priority__") = 1000;
  cls.attr("__array_ufunc__") = nb::none();

  const auto add = [&](const char* name, const char* reversed, const char* op) {
    cls.def(name, [op](nb::handle a, nb::handle b) { return lazy_binary(op, a, b); });
    if (reversed != nullptr)
      cls.def(reversed, [op](nb::handle a, nb::handle b) { return lazy_binary(op, b, a); });
  };
  add("__add__", "__radd__", "add");
  add("__sub__", "__rsub__", "sub");
  add("__mul__", "__rmul__", "mul");
  add("__truediv__", "__rtruediv__", "div");
  add("__pow__", "__rpow__", "pow");
  add("__matmul__", "__rmatmul__", "matmul");
  add("__lt__", nullptr, "lt");
  add("__le__", nullptr, "le");
  add("__gt__", nullptr, "gt");
  add("__ge__", nullptr, "ge");
  add("__eq__", nullptr, "eq");
  add("__ne__", nullptr, "ne");
  cls.def("__neg__", [](const PythonVar& v) { return PythonVar{-v.var, v.kind}; });
  cls.def("__abs__", [](const PythonVar& v) {
    return PythonVar{Var::one("abs", std::array{v.var}), v.kind};
  });
}

void bind_derivatives(nb::module_& m, VarClass& cls) {
  cls.def(
      "grad",
      [](const PythonVar& y, nb::handle x) -> nb::object {
        const Turn::Held held(lazy_turn());
        if (PyTuple_Check(x.ptr()) || PyList_Check(x.ptr()))
          return list_of(grad(y.var, vars_of(x)), y.kind);
        PythonVar out{grad(y.var, var_of(x).var), y.kind};
        check(out.var.type().status());
        return nb::cast(std::move(out));
      },
      nb::arg("x"), "d (sum of this) / d x as an expression, for one Var or a list of them.");
  m.def(
      "vjp",
      [](nb::handle ys, nb::handle xs, nb::handle seeds) {
        const std::vector<Var> y = vars_of(ys), x = vars_of(xs);
        const std::vector<Var> s = seeds.is_none() ? std::vector<Var>() : vars_of(seeds);
        const Turn::Held held(lazy_turn());
        if (seeds.is_none())
          for (const Var& each : y)
            if (const TensorType type = take(each.type()); type.rank() != 0)
              raise(PyExc_ValueError,
                    str_cat("vjp needs seeds: a y is ", type, ", not one number"));
        return list_of(vjp(y, x, s), Kind::numpy);
      },
      nb::arg("ys"), nb::arg("xs"), nb::arg("seeds").none() = nb::none(),
      "The sum of seeds[k] * d ys[k] / d xs[i] over k, for each i: lists of Vars. A seed has the "
      "shape and dtype of its y; without seeds, each y is one number, and its seed is 1.");
  m.def(
      "jvp",
      [](nb::handle ys, nb::handle xs, nb::handle directions) {
        const std::vector<Var> y = vars_of(ys), x = vars_of(xs), d = vars_of(directions);
        const Turn::Held held(lazy_turn());
        return list_of(jvp(y, x, d), Kind::numpy);
      },
      nb::arg("ys"), nb::arg("xs"), nb::arg("directions"),
      "The sum of d ys[k] / d xs[i] * directions[i] over i, for each k: lists of Vars. A direction "
      "has the shape and dtype of its x.");
  m.def(
      "jacobian",
      [](const PythonVar& y, const PythonVar& x) {
        const Turn::Held held(lazy_turn());
        PythonVar out{jacobian(y.var, x.var), y.kind};
        check(out.var.type().status());
        return out;
      },
      nb::arg("y"), nb::arg("x"), "d y[i] / d x[j], in the shape of y followed by that of x.");
  m.def(
      "hvp",
      [](const PythonVar& y, nb::handle xs, nb::handle directions) {
        const std::vector<Var> x = vars_of(xs), d = vars_of(directions);
        const Turn::Held held(lazy_turn());
        return list_of(hvp(y.var, x, d), y.kind);
      },
      nb::arg("y"), nb::arg("xs"), nb::arg("directions"),
      "The sum of d2 y / (d xs[i] d xs[j]) * directions[j] over j, for each i; y is one number.");
}

}  // namespace

void bind_lazy(nb::module_& m) {
  VarClass cls(
      m, "Var",
      "An expression over tensors that runs when numpy(), torch() or value() requests its value. "
      "Operators accept numbers and tensors on both sides; hologram.ops also accepts Vars.");
  bind_leaves(cls);
  bind_values(cls);
  bind_operators(cls);
  bind_derivatives(m, cls);
  m.def("lazy_call", lazy_call);
  m.def("op_gradients", op_gradients);
  m.def("is_var", [](nb::handle object) { return nb::isinstance<PythonVar>(object); });
  m.def(
      "evaluate",
      [](nb::handle list, const PythonGpu* gpu) {
        std::vector<PythonVar> python;
        for (const nb::handle each : list) python.push_back(var_of(each));
        std::vector<Var> vars;
        for (const PythonVar& each : python) vars.push_back(each.var);
        const Turn::Held held(lazy_turn());
        std::optional<Result<std::vector<Array>>> made;
        {
          const nb::gil_scoped_release released;
          made.emplace(evaluate(vars, gpu != nullptr ? gpu->gpu : Gpu()));
        }
        const std::vector<Array> arrays = take(*std::move(made));
        nb::list out;
        for (size_t i = 0; i < arrays.size(); ++i)
          out.append(give_there(arrays[i], python[i].kind));
        return out;
      },
      nb::arg("vars"), nb::arg("gpu").none() = nb::none());
  m.def("to_model", [](const nb::dict& outputs) {
    std::vector<std::pair<std::string, Var>> named;
    for (const auto& [name, var] : outputs) named.emplace_back(words(name), var_of(var).var);
    const Turn::Held held(lazy_turn());
    return take(to_model(named));
  });
}

}  // namespace hg::python
