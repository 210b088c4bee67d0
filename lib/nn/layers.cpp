// SPDX-License-Identifier: Apache-2.0
// The layers: what each calls, with which parameters, started as PyTorch starts them, and how each
// is printed.
#include <cmath>

#include "lib/nn/layer.h"

namespace hg::nn {
namespace {

using Body = Layer::Body;

std::shared_ptr<Body> layer_of(std::string kind, std::string arguments, std::string op,
                               std::vector<int> inputs = {Body::kX}, NamedAttrs attrs = {}) {
  auto body = std::make_shared<Body>();
  body->kind = std::move(kind);
  body->arguments = std::move(arguments);
  body->op = std::move(op);
  body->inputs = std::move(inputs);
  body->attrs = std::move(attrs);
  return body;
}

// As Python writes them.
std::string_view word(bool flag) { return flag ? "True" : "False"; }
std::string tuple(const Sizes& sizes) {
  std::string out = "(";
  for (int i = 0; i < sizes.rank(); ++i) out += str_cat(i > 0 ? ", " : "", sizes[i]);
  return out + (sizes.rank() == 1 ? ",)" : ")");
}
std::string tuple(const Pair& pair) { return tuple(Sizes{pair.height, pair.width}); }
std::string real(double value) {  // 1e-05, 0.1, 2.0
  std::string out = str_cat(value);
  const size_t exponent = out.find("e-");
  if (exponent != std::string::npos && exponent + 3 == out.size()) out.insert(exponent + 2, "0");
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

std::vector<Dim> dims_of(const Pair& pair) { return {pair.height, pair.width}; }

// Kaiming's uniform rule with a = sqrt(5): U(-1/sqrt(fan in), 1/sqrt(fan in)), as biases start,
// too.
init::Rule by_fan_in(int64_t fan_in) {
  const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  return init::uniform(-bound, bound, 0);
}

// Adds a state and gives its slot.
int add(Body& body, std::string name, const Sizes& shape, const init::Rule& rule,
        bool is_parameter = true) {
  Body::State state;
  state.name = std::move(name);
  state.shape = shape;
  state.rule = rule;
  state.is_parameter = is_parameter;
  body.states.push_back(std::move(state));
  return static_cast<int>(body.states.size()) - 1;
}

std::shared_ptr<Body> linear(int64_t from, int64_t to, bool bias) {
  auto body = layer_of("Linear",
                       str_cat("in_features=", from, ", out_features=", to, ", bias=", word(bias)),
                       "linear");
  body->inputs.push_back(add(*body, "weight", {to, from}, by_fan_in(from)));
  if (bias) body->inputs.push_back(add(*body, "bias", {to}, by_fan_in(from)));
  return body;
}

std::shared_ptr<Body> conv2d(int64_t from, int64_t to, const Pair& kernel, const Conv2dOptions& o) {
  const auto differs = [](const Pair& pair, int64_t usual) {
    return pair.height != usual || pair.width != usual;
  };
  std::string arguments =
      str_cat(from, ", ", to, ", kernel_size=", tuple(kernel), ", stride=", tuple(o.stride));
  if (differs(o.padding, 0)) arguments += ", padding=" + tuple(o.padding);
  if (differs(o.dilation, 1)) arguments += ", dilation=" + tuple(o.dilation);
  if (o.groups != 1) arguments += str_cat(", groups=", o.groups);
  if (!o.bias) arguments += ", bias=False";
  auto body = layer_of("Conv2d", std::move(arguments), "conv", {Body::kX},
                       {{"stride", dims_of(o.stride)},
                        {"padding", dims_of(o.padding)},
                        {"dilation", dims_of(o.dilation)},
                        {"groups", o.groups}});
  const int64_t channels = o.groups > 0 ? from / o.groups : 0;
  const init::Rule rule = by_fan_in(channels * kernel.height * kernel.width);
  body->inputs.push_back(add(*body, "weight", {to, channels, kernel.height, kernel.width}, rule));
  if (o.bias) body->inputs.push_back(add(*body, "bias", {to}, rule));
  return body;
}

std::shared_ptr<Body> batch_norm(int64_t features, double eps, double momentum, bool affine) {
  auto body = layer_of(
      "BatchNorm2d",
      str_cat(features, ", eps=", real(eps), ", momentum=", real(momentum),
              ", affine=", word(affine), ", bias=", word(affine), ", track_running_stats=True"),
      "batch_norm", {Body::kX, Body::kAbsent, Body::kAbsent},
      {{"momentum", momentum}, {"eps", eps}});
  if (affine) {
    body->inputs[1] = add(*body, "weight", {features}, init::ones());
    body->inputs[2] = add(*body, "bias", {features}, init::zeros());
  }
  body->moved = {add(*body, "running_mean", {features}, init::zeros(), false),
                 add(*body, "running_var", {features}, init::ones(), false)};
  body->inputs.insert(body->inputs.end(), body->moved.begin(), body->moved.end());
  Body::State& count = body->states[add(*body, "num_batches_tracked", {}, init::zeros(), false)];
  count.dtype = i64;
  count.is_read = false;
  body->has_mode = true;
  return body;
}

std::shared_ptr<Body> layer_norm(const Sizes& shape, double eps, bool affine, bool bias) {
  bias = bias && affine;
  auto body =
      layer_of("LayerNorm",
               str_cat(tuple(shape), ", eps=", real(eps), ", elementwise_affine=", word(affine),
                       ", bias=", word(bias)),
               "layer_norm", {Body::kX, Body::kAbsent, Body::kAbsent},
               {{"normalized_shape", std::vector<Dim>(shape.begin(), shape.end())}, {"eps", eps}});
  if (affine) body->inputs[1] = add(*body, "weight", shape, init::ones());
  if (bias) body->inputs[2] = add(*body, "bias", shape, init::zeros());
  return body;
}

std::shared_ptr<Body> embedding(int64_t count, int64_t dim, std::optional<int64_t> padding) {
  if (padding && *padding < 0) padding = *padding + count;
  auto body = layer_of(
      "Embedding", str_cat(count, ", ", dim, padding ? str_cat(", padding_idx=", *padding) : ""),
      "embedding", {}, {{"padding_idx", padding.value_or(-1)}});
  body->inputs = {add(*body, "weight", {count, dim}, init::normal(0, 1, 0)), Body::kX};
  if (padding && *padding >= 0 && *padding < count) body->zero_row = *padding;
  return body;
}

std::shared_ptr<Body> dropout(double p) {
  auto body = layer_of("Dropout", str_cat("p=", real(p), ", inplace=False"), "dropout", {Body::kX},
                       {{"p", p}});
  body->has_mode = true;
  return body;
}

std::shared_ptr<Body> mse_loss(Reduction reduction) {
  auto body =
      layer_of("MSELoss", "", "mse_loss", {Body::kX, Body::kTarget}, {{"reduction", reduction}});
  body->takes_target = true;
  return body;
}

std::shared_ptr<Body> sequential(std::span<const Layer> layers) {
  auto body = layer_of("Sequential", "", "", {});
  body->layers.assign(layers.begin(), layers.end());
  return body;
}

}  // namespace

Linear::Linear(int64_t in_features, int64_t out_features, bool bias)
    : Layer(linear(in_features, out_features, bias)) {}
Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Pair kernel_size,
               const Conv2dOptions& options)
    : Layer(conv2d(in_channels, out_channels, kernel_size, options)) {}
BatchNorm2d::BatchNorm2d(int64_t features, double eps, double momentum, bool affine)
    : Layer(batch_norm(features, eps, momentum, affine)) {}
LayerNorm::LayerNorm(const Sizes& normalized_shape, double eps, bool elementwise_affine, bool bias)
    : Layer(layer_norm(normalized_shape, eps, elementwise_affine, bias)) {}
Embedding::Embedding(int64_t embeddings, int64_t dim, std::optional<int64_t> padding_idx)
    : Layer(embedding(embeddings, dim, padding_idx)) {}
Dropout::Dropout(double p) : Layer(dropout(p)) {}
ReLU::ReLU() : Layer(layer_of("ReLU", "", "relu")) {}
Sigmoid::Sigmoid() : Layer(layer_of("Sigmoid", "", "sigmoid")) {}
Tanh::Tanh() : Layer(layer_of("Tanh", "", "tanh")) {}
GELU::GELU(GeluApproximation approximate)
    : Layer(layer_of("GELU", str_cat("approximate='", name_of(approximate), "'"), "gelu",
                     {Body::kX}, {{"approximate", approximate}})) {}
Softmax::Softmax(int64_t dim)
    : Layer(layer_of("Softmax", str_cat("dim=", dim), "softmax", {Body::kX}, {{"dim", dim}})) {}
MSELoss::MSELoss(Reduction reduction) : Layer(mse_loss(reduction)) {}
Sequential::Sequential(std::initializer_list<Layer> layers)
    : Sequential(std::span(layers.begin(), layers.size())) {}
Sequential::Sequential(std::span<const Layer> layers) : Layer(sequential(layers)) {}

}  // namespace hg::nn
