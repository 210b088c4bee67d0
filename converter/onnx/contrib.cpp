// SPDX-License-Identifier: Apache-2.0
// Ops that ONNX Runtime's optimizer writes: fused products, activations and norms.
#include "converter/onnx/contrib.h"

#include <cmath>

namespace hg::convert::onnx {

Value activated(Node& n, const Value& x, const std::string& name,
                const std::vector<double>& given) {
  const auto parameter = [&](size_t i, double fallback) {
    return i < given.size() ? given[i] : fallback;
  };
  if (name.empty()) return x;
  if (name == "Relu") return relu(x);
  if (name == "Tanh") return hg::tanh(x);
  if (name == "Sigmoid") return sigmoid(x);
  if (name == "LeakyRelu") return leaky_relu(x, parameter(0, double{0.01f}));
  if (name == "Elu") return elu(x, parameter(0, 1));
  if (name == "Softplus") return softplus(x);
  if (name == "Softsign") return x / (hg::abs(x) + 1.0);
  if (name == "HardSwish") return hardswish(x);
  if (name == "Clip") return hardtanh(x, parameter(0, -INFINITY), parameter(1, INFINITY));
  if (name == "HardSigmoid")
    return hardtanh(x * parameter(0, double{0.2f}) + parameter(1, 0.5), 0, 1);
  if (name == "ThresholdedRelu")
    return where(gt(x, constant_like(x, parameter(0, 1))), x, constant_like(x, 0));
  n.refuse(str_cat("the activation '", name, "' is not supported"));
}

Value swish(const Value& x, double alpha) { return alpha == 1 ? silu(x) : x * sigmoid(x * alpha); }

Value looked_up(const Value& table, const Value& index) {
  const Value flat = reshape(index, {count(index.shape())});
  Shape shape = index.shape();
  for (int d = 1; d < table.rank(); ++d) shape.push_back(table.dim(d));
  return reshape(index_select(table, flat, 0), std::move(shape));
}

namespace {

// ---- Products ----

// If requested, moves the first dim after the batch dims, and swaps the last two dims.
Value turned(const Value& x, bool batch_behind, bool swapped) {
  if (x.rank() < 2) return x;
  Dims dims = range(x.rank());
  if (batch_behind) {
    dims.erase(dims.begin());
    dims.insert(dims.end() - 1, Dim(0));
  }
  if (swapped) std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return dims == range(x.rank()) ? x : permute(x, dims);
}

void fused_mat_mul(Node& n) {
  const Value a = turned(n.in(0), n.flag("transBatchA"), n.flag("transA")),
              b = turned(n.in(1), n.flag("transBatchB"), n.flag("transB"));
  const double alpha = n.real("alpha", 1.0);
  const Value y = matmul(a, b);
  n.give(alpha == 1 ? y : y * alpha);
}

void fused_gemm(Node& n) {
  std::vector<double> parameters;
  for (const char* name : {"activation_alpha", "activation_beta"})
    if (n.has(name)) parameters.push_back(n.real(name));
  const std::string name = n.string("activation", "");
  if (name == "Selu")
    return n.give(elu(gemm_of(n), n.real("activation_alpha", double{1.67326319217681884765625f}),
                      n.real("activation_gamma", double{1.05070102214813232421875f})));
  n.give(activated(n, gemm_of(n), name, parameters));
}

// Z is added before the activation.
void fused_conv(Node& n) {
  Value y = convolution_of(n, n.in(0), n.in(1), n.in_or_none(2));
  if (n.has(3)) y = y + n.in(3);
  n.give(activated(n, y, n.string("activation", ""), n.reals("activation_params")));
}

// Sums have 32 bits and wrap around.
void mat_mul_integer_16(Node& n) {
  n.give(cast(cast(matmul(cast(n.in(0), f64), cast(n.in(1), f64)), i64), i32));
}

// ---- Activations ----

void gelu_exact(Node& n) { n.give(gelu(n.in(0))); }
void bias_gelu(Node& n) { n.give(gelu(n.in(0) + n.in(1))); }
void fast_gelu(Node& n) {
  const Value x = n.in(0);
  n.give(gelu(n.has(1) ? x + n.in(1) : x, GeluApproximation::tanh));
}
void quick_gelu(Node& n) { n.give(swish(n.in(0), n.real("alpha", double{1.702f}))); }
void bias_split_gelu(Node& n) {
  const Value x = n.in(0) + n.in(1);
  const Dim half = floordiv(x.dim(-1), 2);
  const int last = x.rank() - 1;
  n.give(slice(x, last, 0, half) * gelu(slice(x, last, half, x.dim(-1))));
}
void bias_add(Node& n) { n.give(n.in(0) + n.in(1) + n.in(2)); }
// ---- Norms ----

struct Statistics {
  Value mean, inverse_deviation;
};
Statistics statistics_of(const Value& x, double epsilon, bool centred) {
  const Value wide = x.dtype() == f64 ? x : cast(x, f32);
  const Dims last = {Dim(x.rank() - 1)};
  const Value m = mean(wide, last, true), c = centred ? wide - m : wide;
  return {m, reciprocal(hg::sqrt(mean(c * c, last, true) + epsilon))};
}

void skip_layer_norm(Node& n) {
  Value x = n.in(0) + n.in(1);
  const Value scale = n.in(2), shift = n.in_or_none(3);
  if (n.has(4)) x = x + n.in(4);
  const double epsilon = n.real("epsilon", double{1e-12f});
  const Value y = layer_norm(x, {x.dim(-1)}, scale, shift, epsilon);
  if (n.output_count() == 1) return n.give(y);
  const Statistics s = statistics_of(x, epsilon, true);
  n.give({y, s.mean, s.inverse_deviation, x});
}

void skip_simplified_norm(Node& n) {
  Value x = n.in(0) + n.in(1);
  if (n.has(3)) x = x + n.in(3);
  const double epsilon = n.real("epsilon", double{1e-12f});
  const Value y = rms_norm(x, {x.dim(-1)}, n.in(2), epsilon);
  if (n.output_count() == 1) return n.give(y);
  const Statistics s = statistics_of(x, epsilon, false);
  n.give({y, s.mean, s.inverse_deviation, x});
}

void simplified_norm(Node& n) {
  const Value x = n.in(0), scale = n.in(1);
  const int axis = n.axis(n.integer("axis", -1), x.rank());
  const double epsilon = n.real("epsilon", double{1e-5f});
  const Dims shape(x.shape().begin() + axis, x.shape().end());
  const bool plain = scale.shape() == shape && scale.dtype() == x.dtype();
  const Value y = plain ? rms_norm(x, shape, scale, epsilon)
                        : cast(rms_norm(x, shape, {}, epsilon), scale.dtype()) * scale;
  if (n.output_count() == 1) return n.give(y);
  Dims axes;
  for (int d = axis; d < x.rank(); ++d) axes.emplace_back(d);
  const Value wide = x.dtype() == f64 ? x : cast(x, f32);
  n.give({y, reciprocal(hg::sqrt(mean(wide * wide, axes, true) + epsilon))});
}

void embed_layer_norm(Node& n) {
  const Value ids = n.in(0), words = n.in(2), positions = n.in(3);
  Graph& g = n.graph();
  Value x = looked_up(words, cast(ids, i64));
  if (n.has(8)) {
    x = x + looked_up(positions, cast(n.in(8), i64));
  } else {
    x = x + reshape(slice(positions, 0, 0, ids.dim(1)), {1, ids.dim(1), positions.dim(1)});
  }
  if (n.has(1) && n.has(4)) x = x + looked_up(n.in(4), cast(n.in(1), i64));
  const Value y =
      layer_norm(x, {x.dim(-1)}, n.in(5), n.in_or_none(6), n.real("epsilon", double{1e-12f}));
  // Number of visible positions in each row of the mask.
  Value shown = expand(g.scalar(int64_t{0}, i32), {ids.dim(0)});
  if (n.has(7)) {
    const Value mask = n.in(7);
    shown = cast(sum(cast(eq(mask, constant_like(mask, 1)), i64), {Dim(1)}), i32);
  }
  n.give({y, shown, x});
}

// Images with channels last.
void group_norm_nhwc(Node& n) {
  Value x = n.in(0);
  if (n.integer("channels_last", 1) == 0) n.refuse("attribute 'channels_last' is 0");
  if (x.rank() != 4) n.refuse(str_cat("its input is ", x.shape()));
  const std::string name(n.name());
  Value added;
  if (name == "SkipGroupNorm") {
    Value skip = n.in(3);
    if (skip.rank() == 2) skip = reshape(skip, {skip.dim(0), 1, 1, skip.dim(1)});
    x = x + skip;
    if (n.has(4)) x = x + n.in(4);
    added = x;
  }
  const Value images = permute(x, {0, 3, 1, 2});
  Value y = group_norm(images, n.integer("groups"), cast(n.in(1), x.dtype()),
                       cast(n.in(2), x.dtype()), n.real("epsilon", double{1e-5f}));
  if (n.integer("activation") != 0) y = silu(y);
  y = permute(y, {0, 2, 3, 1});
  if (added) return n.give({y, added});
  n.give(y);
}

// ---- Others ----

void expand_dims(Node& n) {
  const Value x = n.in(0);
  const int64_t at = n.integer(1);
  const int64_t axis = at < 0 ? at + x.rank() + 1 : at;
  if (axis < 0 || axis > x.rank()) n.refuse(str_cat("axis ", at, " is out of range"));
  Shape shape = x.shape();
  shape.insert(shape.begin() + axis, Dim(1));
  n.give(reshape(x, std::move(shape)));
}

void unfold_tensor(Node& n) {
  const Value x = n.in(0);
  const int dim = n.axis(n.integer("dim", -1), x.rank());
  n.give(unfold(x, dim, n.integer("size"), n.integer("step", 1)));
}

void pairwise_distance(Node& n) {
  const std::string metric = n.string("metric", "sqeuclidean");
  const Value y = cdist(n.in(0), n.in(1));
  if (metric == "euclidean") return n.give(y);
  if (metric != "sqeuclidean") n.refuse(str_cat("attribute 'metric' is '", metric, "'"));
  n.give(y * y);
}

void inverted(Node& n) { n.give(n.aten_value("aten::linalg_inv", {{"A", n.item_of(n.in(0))}})); }

void all_finite(Node& n) {
  const bool nan_only = n.flag("isnan_only"), inf_only = n.flag("isinf_only");
  Value bad;
  for (int i = 0; i < n.input_count(); ++i) {
    const Value x = n.in(i);
    const Value here = any(nan_only   ? isnan(x)
                           : inf_only ? isinf(x)
                                      : logical_or(isnan(x), isinf(x)));
    bad = bad ? logical_or(bad, here) : here;
  }
  n.give(logical_not(bad));
}

constexpr Builtin kRows[] = {
    {"com.microsoft::FusedMatMul", row<fused_mat_mul>},
    {"com.microsoft::TransposeMatMul", row<fused_mat_mul>},
    {"com.microsoft::FusedGemm", row<fused_gemm>},
    {"com.microsoft::FusedConv", row<fused_conv>},
    {"com.microsoft::MatMulInteger16", row<mat_mul_integer_16>},
    {"com.microsoft::Gelu", row<gelu_exact>},
    {"com.microsoft::BiasGelu", row<bias_gelu>},
    {"com.microsoft::FastGelu", row<fast_gelu>},
    {"com.microsoft::QuickGelu", row<quick_gelu>},
    {"com.microsoft::BiasSplitGelu", row<bias_split_gelu>},
    {"com.microsoft::BiasAdd", row<bias_add>},
    {"com.microsoft::SkipLayerNormalization", row<skip_layer_norm>},
    {"com.microsoft::SkipSimplifiedLayerNormalization", row<skip_simplified_norm>},
    {"com.microsoft::SimplifiedLayerNormalization", row<simplified_norm>},
    {"onnx::SimplifiedLayerNormalization", row<simplified_norm>},
    {"com.microsoft::EmbedLayerNormalization", row<embed_layer_norm>},
    {"com.microsoft::GroupNorm", row<group_norm_nhwc>},
    {"com.microsoft::SkipGroupNorm", row<group_norm_nhwc>},
    {"com.microsoft::ExpandDims", row<expand_dims>},
    {"com.microsoft::UnfoldTensor", row<unfold_tensor>},
    {"com.microsoft::CDist", row<pairwise_distance>},
    {"com.microsoft::Inverse", row<inverted>},
    {"com.microsoft::IsAllFinite", row<all_finite>},
};

}  // namespace

Rows contrib_rows() { return kRows; }

}  // namespace hg::convert::onnx
