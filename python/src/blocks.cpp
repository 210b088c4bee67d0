// SPDX-License-Identifier: Apache-2.0
// Blocks of named models (hg/named.h).
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "hg/block_json.h"
#include "hg/named.h"
#include "python/src/attributes.h"
#include "python/src/bind.h"
#include "python/src/errors.h"
#include "python/src/tensors.h"

namespace hg::python {
namespace {

init::Rule rule_from(nb::handle start, double a, double b, uint64_t seed) {
  if (!nb::isinstance<nb::str>(start)) return init::constant(nb::cast<double>(nb::float_(start)));
  const std::string name = words(start);
  if (name == "uniform") return init::uniform(a, b, seed);
  if (name == "normal") return init::normal(a, b, seed);
  if (name == "kaiming_uniform") return init::kaiming_uniform(seed);
  raise(PyExc_ValueError,
        "a parameter starts as a number, 'uniform', 'normal' or 'kaiming_uniform', not '" + name +
            "'");
}

std::vector<std::string> wires_of(const std::vector<nn::Wire>& wires) {
  std::vector<std::string> out;
  for (const nn::Wire& wire : wires)
    out.push_back(wire.inside.empty() ? wire.outside : wire.outside + " as " + wire.inside);
  return out;
}

// A layer's block; settings that are None have their defaults.
nn::Block layer_block(const std::string& kind, const nb::dict& settings) {
  const std::string_view text = nn::layer_signature(kind);
  const Signature signature = take(Signature::parse(text));
  nn::Settings given;
  for (const NamedAttr& each : attributes_from(kind, signature, text, settings))
    if (!std::holds_alternative<std::monostate>(each.value.value))
      given.emplace_back(each.name, each.value);
  return take(nn::make_layer(kind, given));
}

// Settings of a kind of layers: (name, whether required, default).
nb::list layer_settings(const std::string& kind) {
  const Signature signature = take(Signature::parse(nn::layer_signature(kind)));
  nb::list settings;
  for (const Signature::Attribute& each : signature.attributes)
    settings.append(nb::make_tuple(each.name, each.required, to_python(each.fallback)));
  return settings;
}

}  // namespace

void bind_blocks(nb::module_& m) {
  nb::class_<nn::Block>(m, "Block", "A named model or a part of one; hologram.named creates them.")
      .def_ro("type", &nn::Block::type)
      .def_ro("name", &nn::Block::name)
      .def_ro("blocks", &nn::Block::blocks)
      .def_prop_ro("inputs", [](const nn::Block& b) { return wires_of(b.inputs); })
      .def_prop_ro("outputs", [](const nn::Block& b) { return wires_of(b.outputs); })
      .def("input", &nn::Block::input, nb::arg("outside"), nb::arg("inside") = "",
           "The same block with one more input; `inside` renames it within a group.")
      .def("output", &nn::Block::output, nb::arg("outside"), nb::arg("inside") = "",
           "The same block with one more output name.")
      .def("named", &nn::Block::named, nb::arg("name"), "The same block with a name.")
      .def("share", &nn::Block::share, nb::arg("path"),
           "The same block with the parameters of another one.")
      .def(nb::self == nb::self)
#ifdef HG_PYTHON_JSON
      .def(
          "to_json", [](const nn::Block& b) { return take(nn::to_json(b)); },
          "The block as JSON text, which hologram.named.from_json reads.")
      .def("__reduce__",
           [](const nn::Block& b) {
             return nb::make_tuple(nb::module_::import_("hologram.named").attr("from_json"),
                                   nb::make_tuple(take(nn::to_json(b))));
           })
#endif
      .def(
          "summary", [](const nn::Block& b) { return take(nn::summary(b)); },
          "A table of blocks, shapes and parameters.")
      .def("__repr__", [](const nn::Block& b) {
        return str_cat(b.type, "(", b.name,
                       b.blocks.empty() ? "" : str_cat(" of ", int64_t(b.blocks.size()), " blocks"),
                       ")");
      });
#ifdef HG_PYTHON_JSON
  m.def("block_from_json", [](const std::string& text) { return take(nn::block_from_json(text)); });
#endif
  m.def("block_group",
        [](const std::vector<nn::Block>& blocks) -> nn::Block { return nn::Group(blocks); });
  m.def("block_input",
        [](const std::string& name, nb::handle shape, nb::handle dtype) -> nn::Block {
          return nn::Input(name, shape_of(shape), dtype_from(dtype));
        });
  m.def("block_parameter",
        [](const std::string& name, nb::handle shape, nb::handle start, double a, double b,
           uint64_t seed) -> nn::Block {
          return nn::Parameter(name, sizes_from(shape, "shape"), rule_from(start, a, b, seed));
        });
  m.def("block_constant", [](const std::string& name, nb::handle value) -> nn::Block {
    const Borrowed borrowed = Borrowed::from(value, name);
    return nn::Constant(name, take(Array::copy_of(borrowed.tensor)));
  });
  m.def("block_call", [](const std::string& op, const nb::dict& attributes) -> nn::Block {
    return nn::Call(op, attributes_from(op, attributes));
  });
  m.def("block_layer", layer_block);
  m.def("layer_settings", layer_settings);
}

}  // namespace hg::python
