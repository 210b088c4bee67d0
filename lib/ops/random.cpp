// SPDX-License-Identifier: Apache-2.0
// Random numbers. They depend only on the session's seed, the number of the run (in a loop, of the
// iteration), the node's `stream` and the element's index, not on threads or device. A node without
// a stream (-1) gets one that is unique in its graph.
#include "hg/op.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

Status infer_random(InferContext& c) {
  const DType dtype = c.attrs().dtype("dtype");
  if (!is_float(dtype)) return c.fail("dtype is ", dtype, ", not a float");
  const auto shape = c.attrs().integers("shape");
  c.out(0) = {dtype, Shape(shape.begin(), shape.end())};
  return {};
}

// y = x outside training; otherwise y = x * mask / (1 - p), where mask is 1 with probability 1 - p.
Status infer_dropout(InferContext& c) {
  const double p = c.attrs().real("p");
  if (!(p >= 0 && p <= 1)) return c.fail("p is ", p, ", not in [0, 1]");
  if (!is_float(c.in(0).dtype)) return c.fail("x is ", c.in(0).dtype, ", not a float");
  c.out(0) = c.in(0);
  return {};
}

Status expand_dropout(ExpandContext& c) {
  const Value x = c.in(0);
  const double p = c.attrs().real("p");
  if (!c.attrs().flag("training") || p == 0) {
    c.set_out(0, x);
    return {};
  }
  Graph& g = c.graph();
  if (p == 1) {
    c.set_out(0, g.call("mul", {x, g.scalar(0.0, x.dtype())}));
    return {};
  }
  // One draw per element, or per channel of each sample.
  Shape drawn = x.shape();
  if (c.attrs().flag("channels"))
    for (size_t i = 2; i < drawn.size(); ++i) drawn[i] = 1;
  const Value noise =
      g.call("rand", {}, {{"shape", drawn}, {"stream", c.attrs().integer("stream")}});
  const Value kept = g.call("cast", {g.call("ge", {noise, g.scalar(p)})}, {{"dtype", x.dtype()}});
  const Value scale = g.call("mul", {kept, g.scalar(1 / (1 - p), x.dtype())});
  c.set_out(0, g.call("mul", {x, scale}));
  return {};
}

// The numbers depend only on the session's seed, the number of the run (in a loop, of the
// iteration), `stream`, and the index of the element. -1: a stream unique in the graph. Nodes with
// equal streams draw equal numbers.
constexpr OpDef kOps[] = {
    // Uniform in [0, 1). Floats only.
    {.signature = "rand(shape: int[], dtype: dtype = f32, stream: int = -1) -> y",
     .infer = infer_random,
     .traits = kRandom | kNoGradient},
    // Normal, mean 0, standard deviation 1. Floats only.
    {.signature = "randn(shape: int[], dtype: dtype = f32, stream: int = -1) -> y",
     .infer = infer_random,
     .traits = kRandom | kNoGradient},
    // Returns x; if training, 0 with probability p and otherwise x / (1 - p). channels: one draw
    // per [n, c]. A Trainer turns training on.
    {.signature = "dropout(x, p: float = 0.5, training: bool = false, channels: bool = false, "
                  "stream: int = -1) -> y",
     .infer = infer_dropout,
     .expand = expand_dropout,
     .traits = kRandom},
};

}  // namespace

std::span<const OpDef> random() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
