// SPDX-License-Identifier: Apache-2.0
#include "lib/train/fake_quantize.h"

#include <map>
#include <utility>
#include <vector>

#include "hg/ops.h"
#include "lib/graph/access.h"
#include "lib/quantize/weights.h"

namespace hg {
namespace {

// The nearest level times the scale, as round_to_levels() computes them.
Value rounded(const Value& weight, const Blocks& blocks, int bits) {
  const DType dtype = weight.dtype();
  const int at = blocks.split(), rank = blocks.shape.rank();
  Value w = size_of(dtype) == 2 ? cast(weight, f32) : weight;
  Shape apart;              // with the blocks of the dim `at` as a dim of their own
  std::vector<Dim> shared;  // dims whose elements share a scale
  int64_t whole = 0;        // size of the dim `at` in whole blocks
  for (int d = 0; d < rank; ++d) {
    if (d == at) apart.emplace_back(blocks.along(d));
    if (blocks.sizes[d] > 1) shared.emplace_back(static_cast<int64_t>(apart.size()));
    apart.emplace_back(d == at ? blocks.sizes[d] : blocks.shape[d]);
  }
  if (at >= 0) {
    whole = blocks.along(at) * blocks.sizes[at];
    Shape rest = to_shape(blocks.shape);
    rest[static_cast<size_t>(at)] = whole - blocks.shape[at];
    if (whole > blocks.shape[at]) w = concat({w, expand(number_like(w, 0), rest)}, at);
    w = reshape(w, apart);
  }
  const Value largest = shared.empty() ? abs(w) : amax(abs(w), shared, true);
  const Value scale = largest / (bits == 8 ? 127.0 : 7.0);
  // In f64, as round_to_levels(), so that a quotient between two levels becomes the same level.
  const Value level = floor(cast(abs(w), f64) / cast(scale, f64) + 0.5) * cast(sign(w), f64);
  w = where(gt(scale, number_like(scale, 0)), cast(level, w.dtype()), number_like(w, 0)) * scale;
  if (at >= 0) {
    Shape flat = to_shape(blocks.shape);
    flat[static_cast<size_t>(at)] = whole;
    w = reshape(w, flat);
    if (whole > blocks.shape[at]) w = slice(w, at, 0, blocks.shape[at]);
  }
  return w.dtype() == dtype ? w : cast(w, dtype);
}

}  // namespace

Status fake_quantize(Graph& graph, const QuantizeOptions& options) {
  HG_CHECK(options.rounding == Rounding::nearest && !options.max_error && !options.metric &&
               options.targets.empty(),
           "quantize: training rounds to the nearest level, with one number of bits; `rounding`, "
           "`max_error`, `metric` and `targets` do not apply");
  Graph* const graphs[] = {&graph};
  HG_TRY_ASSIGN(const std::vector<Weight> weights, find_weights(graphs, options));
  HG_CHECK(!weights.empty(),
           "quantize: the model has no weight to quantize: a float that a product, "
           "convolution, recurrent layer or embedding reads, of ",
           options.least, " elements or more");
  GraphBody& body = GraphAccess::body(graph);
  std::vector<Node> nodes = std::exchange(body.nodes, {});
  const Origin origin = std::exchange(body.origin, {});
  std::map<ValueId, ValueId> now;
  for (const Weight& weight : weights)
    for (const auto& [owner, index] : weight.states) {
      if (owner != &graph)
        return unsupported("quantize: '", weight.name,
                           "' is a weight of a branch or loop, which training does not round; "
                           "`keep` leaves it as it is");
      const Value w = graph.value(owner->states()[static_cast<size_t>(index)].value);
      // w - w is 0, and its gradient that of w.
      now[w.id()] = (detach(rounded(w, weight.blocks, options.bits)) + (w - detach(w))).id();
      HG_TRY(graph.take_status());
    }
  body.origin = origin;
  const auto replace = [&](ValueId& id) {
    if (const auto found = now.find(id); found != now.end()) id = found->second;
  };
  for (Node& node : nodes) {
    for (ValueId& id : node.inputs) replace(id);
    GraphAccess::push_node(graph, std::move(node));
  }
  for (auto& [name, id] : body.outputs) replace(id);
  return graph.verify();
}

}  // namespace hg
