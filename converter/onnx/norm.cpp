// SPDX-License-Identifier: Apache-2.0
// Normalizations, and Dropout.
#include <algorithm>

#include "converter/onnx/node.h"

namespace hg::convert::onnx {
namespace {

// Reshapes [c] to broadcast to [n, c, spatial...].
Value per_channel(const Value& v, const Value& x) {
  Shape shape(x.rank(), Dim(1));
  shape[x.rank() > 1 ? 1 : 0] = v.dim(0);
  return reshape(v, std::move(shape));
}

void batch_normalization(Node& n) {
  const Value x = n.in(0);
  const double epsilon = n.real("epsilon", double{1e-5f});
  if (n.opset() < 9 && !n.flag("spatial", true)) n.refuse("attribute 'spatial' is 0");
  if (n.opset() < 7 && !n.flag("is_test"))
    n.refuse("it runs in training mode, which before opset 14 is not supported");
  if (n.opset() >= 7 && n.opset() < 14 && n.output_count() > 1)
    n.refuse("it runs in training mode, which before opset 14 is not supported");
  Value scale = n.in(1), bias = n.in(2), running_mean = n.in(3), running_var = n.in(4);
  if (n.opset() >= 14 && n.flag("training_mode")) {
    const double momentum = n.real("momentum", double{0.9f});
    if (x.rank() < 2) n.refuse(str_cat("its input is ", x.shape()));
    Dims axes = range(x.rank());
    axes.erase(axes.begin() + 1);
    const Value wide = x.dtype() == f64 ? x : cast(x, f32);
    const Value m = mean(wide, axes, true), centred = wide - m;
    const Value v = mean(centred * centred, axes, true);
    const Value y =
        cast(centred / hg::sqrt(v + epsilon), x.dtype()) * cast(per_channel(scale, x), x.dtype()) +
        cast(per_channel(bias, x), x.dtype());
    const auto moved = [&](const Value& before, const Value& now) {
      const Value flat = cast(reshape(now, before.shape()), before.dtype());
      return before * momentum + flat * (1 - momentum);
    };
    return n.give({y, moved(running_mean, m), moved(running_var, v)});
  }
  const auto as_x = [&](const Value& v) { return cast(v, x.dtype()); };
  const Values all =
      n.ops("batch_norm", {x, as_x(scale), as_x(bias), as_x(running_mean), as_x(running_var)},
            {{"training", false}, {"eps", epsilon}});
  n.give(all[0]);
}

void layer_normalization(Node& n) {
  const Value x = n.in(0), scale = n.in(1), bias = n.in_or_none(2);
  const int axis = n.axis(n.integer("axis", -1), x.rank());
  const double epsilon = n.real("epsilon", double{1e-5f});
  const Dims shape(x.shape().begin() + axis, x.shape().end());
  Value y;
  if (scale.shape() == shape && (!bias || bias.shape() == shape)) {
    y = layer_norm(x, shape, scale, bias, epsilon);
  } else {
    y = layer_norm(x, shape, {}, {}, epsilon) * scale;
    if (bias) y = y + bias;
  }
  if (n.output_count() == 1) return n.give(y);
  Dims axes;
  for (int d = axis; d < x.rank(); ++d) axes.emplace_back(d);
  const Value wide = x.dtype() == f64 ? x : cast(x, f32);
  const Value m = mean(wide, axes, true), centred = wide - m;
  const Value deviation = hg::sqrt(mean(centred * centred, axes, true) + epsilon);
  n.give({y, m, reciprocal(deviation)});
}

void rms_normalization(Node& n) {
  const Value x = n.in(0), scale = n.in(1);
  const int axis = n.axis(n.integer("axis", -1), x.rank());
  const double epsilon = n.real("epsilon", double{1e-5f});
  const Dims shape(x.shape().begin() + axis, x.shape().end());
  if (scale.shape() == shape) return n.give(rms_norm(x, shape, scale, epsilon));
  n.give(rms_norm(x, shape, {}, epsilon) * scale);
}

void group_normalization(Node& n) {
  const Value x = n.in(0);
  Value scale = n.in(1), bias = n.in(2);
  const Dim groups = n.integer("num_groups");
  if (n.opset() < 21) {  // one number per group
    const Dim each = floordiv(x.dim(1), groups);
    const auto channels = [&](const Value& v) {
      return reshape(expand(reshape(v, {groups, 1}), {groups, each}), {x.dim(1)});
    };
    scale = channels(scale);
    bias = channels(bias);
  }
  n.give(group_norm(x, groups, cast(scale, x.dtype()), cast(bias, x.dtype()),
                    n.real("epsilon", double{1e-5f})));
}

void instance_normalization(Node& n) {
  const Value x = n.in(0);
  n.give(group_norm(x, x.dim(1), n.in(1), n.in(2), n.real("epsilon", double{1e-5f})));
}

void local_response(Node& n) {
  const Value x = n.in(0);
  const int64_t size = n.integer("size");
  const double alpha = n.real("alpha", double{0.0001f}), beta = n.real("beta", 0.75),
               bias = n.real("bias", 1.0);
  // Mean of squares over neighboring channels: [n, 1, c, rest]
  const Dim rest = count(n.sizes_from(x, 2));
  const Value square = reshape(x * x, {x.dim(0), 1, x.dim(1), rest});
  const Value padded = pad(square, {0, 0, 0, 0, (size - 1) / 2, size / 2, 0, 0});
  AvgPoolOptions options;
  options.stride = {1, 1};
  const Value means = reshape(avg_pool(padded, {size, 1}, options), x.shape());
  n.give(x / pow(means * alpha + bias, constant_like(x, beta)));
}

void lp_normalization(Node& n) {
  const Value x = n.in(0);
  const int axis = n.axis(n.integer("axis", -1), x.rank());
  const int64_t p = n.integer("p", 2);
  if (p != 1 && p != 2) n.refuse(str_cat("attribute 'p' is ", p));
  const Value length = norm(x, static_cast<double>(p), {Dim(axis)}, true);
  const Value zero = constant_like(x, 0);
  n.give(where(eq(length, zero), zero, x / length));
}

void mean_variance(Node& n) {
  const Value x = n.in(0);
  Dims axes = dims_of(n.integers("axes"));
  if (!n.has("axes")) axes = {0, 2, 3};
  const Value m = mean(x, axes, true);
  const Value variance = mean(x * x, axes, true) - m * m;
  n.give((x - m) / (hg::sqrt(variance) + 1e-9));
}

void dropout_of(Node& n) {
  const Value x = n.in(0);
  Graph& g = n.graph();
  const Value all = expand(g.scalar(int64_t{1}, boolean), x.shape());
  const bool asks = n.opset() >= 12 && n.has(2);
  const bool decided = !asks || n.is_constant(2);
  const bool training = n.opset() < 7 ? !n.flag("is_test") : asks && decided && n.real(2) != 0;
  if (decided && !training) return n.output_count() > 1 ? n.give({x, all}) : n.give(x);
  Value ratio = g.scalar(n.real("ratio", 0.5), f32);
  if (n.opset() >= 12 && n.has(1)) ratio = cast(reshape(n.in(1), {}), f32);
  n.call().note("dropout draws its mask anew in each run; a seed in the file is not used");
  Value kept = ge(g.call("rand", {}, {{"shape", x.shape()}, {"dtype", f32}}), ratio);
  if (!decided) kept = logical_or(kept, logical_not(reshape(n.in(2), {})));
  Value scale = 1.0 / (1.0 - ratio);
  if (!decided) scale = where(reshape(n.in(2), {}), scale, constant_like(scale, 1));
  n.give({where(kept, x * cast(scale, x.dtype()), constant_like(x, 0)), kept});
}

constexpr Builtin kRows[] = {
    {"onnx::BatchNormalization", row<batch_normalization>},
    {"onnx::LayerNormalization", row<layer_normalization>},
    {"onnx::RMSNormalization", row<rms_normalization>},
    {"onnx::GroupNormalization", row<group_normalization>},
    {"onnx::InstanceNormalization", row<instance_normalization>},
    {"onnx::LRN", row<local_response>},
    {"onnx::LpNormalization", row<lp_normalization>},
    {"onnx::MeanVarianceNormalization", row<mean_variance>},
    {"onnx::Dropout", row<dropout_of>},
};

}  // namespace

Rows norm_rows() { return kRows; }

}  // namespace hg::convert::onnx
