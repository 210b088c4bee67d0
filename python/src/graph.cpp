// SPDX-License-Identifier: Apache-2.0
// Graphs built from Python.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <map>
#include <optional>

#include "hg/model.h"
#include "hg/promotion.h"
#include "python/src/attributes.h"
#include "python/src/bind.h"
#include "python/src/own_ops.h"
#include "python/src/tensors.h"
#include "python/src/turn.h"
#include "tools/draw/draw_graph.h"

namespace hg::python {
namespace {

// A value, and the Python object of its graph, which it keeps alive.
struct PythonValue {
  Value value;
  nb::object graph;
};

// Use a graph from one thread at a time.
Turn& turn() { return turn_of<struct Graphs>(); }

// The graph in its current state.
Graph now(const Graph& graph) {
  const Turn::Held held(turn());
  return graph;
}

// After an error, building can continue: the graph is unchanged.
PythonValue checked(nb::handle graph, Value value) {
  check(nb::inst_ptr<Graph>(graph)->take_status());
  return {value, nb::borrow(graph)};
}

TensorData data_of(nb::handle array) {
  const Borrowed borrowed = Borrowed::from(array, "the value");
  return take(TensorData::copy_of(borrowed.tensor));
}

bool is_number(nb::handle object) {
  return PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr());
}

Value operand(Graph& graph, nb::handle object) {
  if (nb::isinstance<PythonValue>(object)) return nb::inst_ptr<PythonValue>(object)->value;
  if (object.is_none() || is_number(object)) return {};
  return graph.constant(data_of(object));
}

Value constant_number(Graph& graph, nb::handle object, DType dtype, NumberRange range) {
  const std::optional<Number> number = number_of(object);
  alignas(16) std::array<std::byte, 16> bytes = {};
  const Tensor element = view(bytes.data(), dtype, {});
  if (!number || !write_number(*number, element, range))
    raise(PyExc_ValueError,
          str_cat("the number ", words(object), " does not fit a tensor of ", dtype));
  return graph.constant(take(TensorData::copy_of(element)));
}

nb::object call(const std::string& op, const nb::list& inputs, const nb::dict& attrs) {
  Graph* graph = nullptr;
  nb::object keeper;
  for (const nb::handle each : inputs)
    if (graph == nullptr && nb::isinstance<PythonValue>(each)) {
      const PythonValue& first = *nb::inst_ptr<PythonValue>(each);
      graph = first.value.graph();
      keeper = first.graph;
    }
  if (graph == nullptr) raise(PyExc_TypeError, op + ": no input is a value of a graph");
  const Turn::Held held(turn());
  std::vector<Value> values;
  std::vector<std::optional<DType>> numbers;
  for (const nb::handle each : inputs) {
    values.push_back(operand(*graph, each));
    const std::optional<Number> number = is_number(each) ? number_of(each) : std::nullopt;
    numbers.push_back(number ? std::optional(number->kind) : std::nullopt);
  }
  const NamedAttrs attributes = attributes_from(op, attrs);
  const Op* known = graph->registry().find(op);
  if (known == nullptr)
    raise(PyExc_ValueError, str_cat("the model was loaded before the op '", op, "' was there"));
  const DType dtype = dtype_of_numbers(*known, values, numbers);
  for (size_t i = 0; i < values.size(); ++i)
    if (is_number(inputs[i]))
      values[i] = constant_number(*graph, inputs[i], dtype, number_range(*known, i, dtype));
  const std::vector<Value> made = promoted_calls(*graph, *known, values, attributes, numbers);
  check(graph->take_status());
  nb::list out;
  for (const Value& each : made) out.append(nb::cast(PythonValue{each, keeper}));
  if (nb::len(out) == 1) return out[0];
  return nb::tuple(out);
}

nb::object binary(const char* op, nb::handle a, nb::handle b) {
  nb::list inputs;
  inputs.append(a);
  inputs.append(b);
  return call(op, inputs, nb::dict());
}

void bind_value(nb::module_& m) {
  auto value = nb::class_<PythonValue>(
      m, "Value", "A tensor of a Graph; hologram.ops and operators add nodes.");
  value.def_prop_ro("shape", [](const PythonValue& v) {
    const Turn::Held held(turn());
    return to_python(v.value.shape());
  });
  value.def_prop_ro("dtype", [](const PythonValue& v) {
    const Turn::Held held(turn());
    return python_name(v.value.dtype());
  });
  value.def_prop_ro("name", [](const PythonValue& v) {
    const Turn::Held held(turn());
    return v.value.name();
  });
  value.def("__repr__", [](const PythonValue& v) {
    const Turn::Held held(turn());
    return str_cat("Value(", v.value.name(), ": ", TensorType{v.value.dtype(), v.value.shape()},
                   ")");
  });
  const auto add = [&](const char* name, const char* reversed, const char* op) {
    value.def(name, [op](nb::handle a, nb::handle b) { return binary(op, a, b); });
    value.def(reversed, [op](nb::handle a, nb::handle b) { return binary(op, b, a); });
  };
  add("__add__", "__radd__", "add");
  add("__sub__", "__rsub__", "sub");
  add("__mul__", "__rmul__", "mul");
  add("__truediv__", "__rtruediv__", "div");
  add("__pow__", "__rpow__", "pow");
  add("__matmul__", "__rmatmul__", "matmul");
  value.def("__neg__", [](nb::handle v) {
    nb::list inputs;
    inputs.append(v);
    return call("neg", inputs, nb::dict());
  });
  value.attr("__array_ufunc__") = nb::none();
}

void bind_graph_class(nb::module_& m) {
  nb::class_<Graph>(
      m, "Graph",
      "The ops of a model, in order. str() prints it and notebooks draw it. Build one with "
      "input(), parameter(), hologram.ops and output(); model() makes it a Model.")
      .def("__init__", [](Graph* self) { new (self) Graph(registry()); })
      .def(
          "input",
          [](nb::handle self, const std::string& name, nb::handle shape, nb::handle dtype) {
            const Turn::Held held(turn());
            Graph& g = *nb::inst_ptr<Graph>(self);
            return checked(self, g.input(name, dtype_from(dtype), shape_of(shape)));
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "float32",
          "Adds an input; sizes given as names, such as \"n\", are open.")
      .def(
          "parameter",
          [](nb::handle self, const std::string& name, nb::handle array) {
            const Turn::Held held(turn());
            Graph& g = *nb::inst_ptr<Graph>(self);
            return checked(self, g.parameter(name, data_of(array)));
          },
          nb::arg("name"), nb::arg("value"), "Adds a trainable weight; the value is copied.")
      .def(
          "buffer",
          [](nb::handle self, const std::string& name, nb::handle array) {
            const Turn::Held held(turn());
            Graph& g = *nb::inst_ptr<Graph>(self);
            return checked(self, g.buffer(name, data_of(array)));
          },
          nb::arg("name"), nb::arg("value"),
          "Adds a tensor that is not trained, such as a running statistic; assign() updates it.")
      .def(
          "constant",
          [](nb::handle self, nb::handle array) {
            const Turn::Held held(turn());
            Graph& g = *nb::inst_ptr<Graph>(self);
            return checked(self, g.constant(data_of(array)));
          },
          nb::arg("value"), "Adds a constant; the value is copied.")
      .def(
          "assign",
          [](Graph& g, const PythonValue& state, const PythonValue& to) {
            const Turn::Held held(turn());
            g.assign(state.value, to.value);
            check(g.take_status());
          },
          nb::arg("state"), nb::arg("value"),
          "Sets the buffer to the value at the end of each run.")
      .def(
          "output",
          [](Graph& g, const std::string& name, const PythonValue& of) {
            const Turn::Held held(turn());
            g.output(name, of.value);
            check(g.take_status());
          },
          nb::arg("name"), nb::arg("value"), "Adds an output with this name.")
      .def("model_", [](const Graph& g) { return take(Model::from_graph(now(g))); })
      .def("__str__", [](const Graph& g) { return now(g).text(); })
      .def("__repr__", [](const Graph& g) { return now(g).text(); })
      .def("__len__", [](const Graph& g) { return now(g).nodes().size(); })
      .def_prop_ro(
          "ops",
          [](const Graph& g) {
            std::vector<std::string> ops;
            const Graph graph = now(g);
            for (const Node& node : graph.nodes()) ops.emplace_back(node.op->name());
            return ops;
          },
          "names of the nodes' ops, in order")
      .def_prop_ro(
          "symbols", [](const Graph& g) { return now(g).symbols(); }, "names of the open sizes")
      .def(
          "svg", [](const Graph& g) { return tools::draw_graph(now(g), ""); },
          "A drawing of the graph, as the text of an SVG file.")
      .def("_repr_svg_", [](const Graph& g) { return tools::draw_graph(now(g), ""); });
}

}  // namespace

void bind_graph(nb::module_& m) {
  bind_value(m);
  bind_graph_class(m);
  m.def("graph_call", call);
  m.def("size_of", [](nb::handle size, const std::map<std::string, int64_t>& symbols) {
    Bindings bindings;
    for (const auto& [name, value] : symbols) check(bindings.bind(name, value));
    return take(dim_of(size).evaluate(bindings));
  });
}

}  // namespace hg::python
