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

// One number for both dims, or a pair.
nn::Pair pair_from(nb::handle object) {
  const Sizes sizes = sizes_from(object, "a pair");
  if (sizes.rank() == 1) return sizes[0];
  if (sizes.rank() != 2)
    raise(PyExc_ValueError, str_cat("a pair has two numbers, not ", sizes.rank()));
  return {sizes[0], sizes[1]};
}

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

void bind_layers(nb::module_& m) {
  m.def("block_linear", [](int64_t in, std::optional<int64_t> out, bool bias) -> nn::Block {
    if (out) return nn::Linear(in, *out, bias);
    if (!bias) raise(PyExc_ValueError, "Linear without bias needs in_features and out_features");
    return nn::Linear(in);
  });
  m.def(
      "block_conv2d",
      [](std::optional<int64_t> in, int64_t out, nb::handle kernel, nb::handle stride,
         nb::handle padding, nb::handle dilation, int64_t groups, bool bias) -> nn::Block {
        const nn::Conv2dOptions options = {.stride = pair_from(stride),
                                           .padding = pair_from(padding),
                                           .dilation = pair_from(dilation),
                                           .groups = groups,
                                           .bias = bias};
        if (in) return nn::Conv2d(*in, out, pair_from(kernel), options);
        return nn::Conv2d(out, pair_from(kernel), options);
      },
      nb::arg("channels").none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
      nb::arg());
  m.def(
      "block_batch_norm2d",
      [](std::optional<int64_t> features, double eps, double momentum, bool affine) -> nn::Block {
        if (features) return nn::BatchNorm2d(*features, eps, momentum, affine);
        return nn::BatchNorm2d();
      },
      nb::arg("features").none(), nb::arg(), nb::arg(), nb::arg());
  m.def("block_layer_norm", [](nb::handle shape, double eps, bool affine, bool bias) -> nn::Block {
    return nn::LayerNorm(sizes_from(shape, "normalized_shape"), eps, affine, bias);
  });
  m.def(
      "block_embedding",
      [](int64_t count, int64_t dim, std::optional<int64_t> padding) -> nn::Block {
        return nn::Embedding(count, dim, padding);
      },
      nb::arg(), nb::arg(), nb::arg("padding_idx").none());
  m.def("block_dropout", [](double p) -> nn::Block { return nn::Dropout(p); });
  m.def("block_relu", []() -> nn::Block { return nn::ReLU(); });
  m.def("block_sigmoid", []() -> nn::Block { return nn::Sigmoid(); });
  m.def("block_tanh", []() -> nn::Block { return nn::Tanh(); });
  m.def("block_gelu", [](const std::string& approximate) -> nn::Block {
    return nn::GELU(take(parse_gelu_approximation(approximate)));
  });
  m.def("block_softmax", [](int64_t dim) -> nn::Block { return nn::Softmax(dim); });
  m.def("block_mse_loss", [](const std::string& reduction) -> nn::Block {
    return nn::MSELoss(take(parse_reduction(reduction)));
  });
}

}  // namespace

void bind_blocks(nb::module_& m) {
  nb::class_<nn::Block>(m, "Block",
                        "A named model or a part of one; hologram.named creates them.")
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
  bind_layers(m);
}

}  // namespace hg::python
