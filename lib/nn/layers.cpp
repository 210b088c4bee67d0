// SPDX-License-Identifier: Apache-2.0
// The layers: the op, parameters, initialization and printed form of each, as in PyTorch.
#include <cmath>

#include "lib/graph/access.h"
#include "lib/nn/layer.h"

namespace hg::nn {
namespace {

using Body = Layer::Body;

std::shared_ptr<Body> layer_of(std::string arguments, std::string op,
                               std::vector<int> inputs = {Body::kX}, NamedAttrs attrs = {}) {
  auto body = std::make_shared<Body>();
  body->arguments = std::move(arguments);
  body->op = std::move(op);
  body->inputs = std::move(inputs);
  body->attrs = std::move(attrs);
  return body;
}

// Formats values as Python does.
std::string_view word(bool flag) { return flag ? "True" : "False"; }
std::string tuple(const Sizes& sizes) {
  std::string out = "(";
  for (int i = 0; i < sizes.rank(); ++i) out += str_cat(i > 0 ? ", " : "", sizes[i]);
  return out + (sizes.rank() == 1 ? ",)" : ")");
}
std::string real(double value) {  // 1e-05, 0.1, 2.0
  std::string out = str_cat(value);
  const size_t exponent = out.find("e-");
  if (exponent != std::string::npos && exponent + 3 == out.size()) out.insert(exponent + 2, "0");
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

std::vector<Dim> dims_of(const Pair& pair) { return {pair.height, pair.width}; }
// A setting of `dims` numbers: one number for all, or one for each.
Sizes window(const AttrReader& s, std::string_view name, int dims) {
  if (dims == 1) return {s.integer(name).constant()};
  const std::span<const Dim> given = s.integers(name);
  return {given.front().constant(), given.back().constant()};
}
std::vector<Dim> dims_of(const Sizes& sizes) { return {sizes.begin(), sizes.end()}; }

// A setting that is taken from dim `dim` of the first x if it is negative.
void learn(Body& body, std::string setting, int64_t size, int dim) {
  if (size >= 0) return;
  body.open = std::move(setting);
  body.open_dim = dim;
}
std::string number_or_open(int64_t size) { return size < 0 ? "?" : str_cat(size); }

// Kaiming's uniform rule with a = sqrt(5): U(-1/sqrt(fan in), 1/sqrt(fan in)). Biases use the same
// bounds.
init::Rule by_fan_in(int64_t fan_in) {
  const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  return init::uniform(-bound, bound, 0);
}

// Adds a state and returns its slot.
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

std::shared_ptr<Body> linear(const AttrReader& s) {
  const int64_t given = s.integer("in_features").constant(), from = std::max<int64_t>(given, 0),
                to = s.integer("out_features").constant();
  const bool bias = s.flag("bias");
  auto body = layer_of(
      str_cat("in_features=", number_or_open(given), ", out_features=", to, ", bias=", word(bias)),
      "linear");
  body->inputs.push_back(add(*body, "weight", {to, from}, by_fan_in(from)));
  if (bias) body->inputs.push_back(add(*body, "bias", {to}, by_fan_in(from)));
  learn(*body, "in_features", given, -1);
  return body;
}

std::shared_ptr<Body> conv(const AttrReader& s, int dims) {
  const int64_t given = s.integer("in_channels").constant(), from = std::max<int64_t>(given, 0),
                to = s.integer("out_channels").constant(), groups = s.integer("groups").constant();
  const Sizes kernel = window(s, "kernel_size", dims), stride = window(s, "stride", dims),
              padding = window(s, "padding", dims), dilation = window(s, "dilation", dims);
  const bool bias = s.flag("bias");
  std::string arguments = str_cat(number_or_open(given), ", ", to, ", kernel_size=", tuple(kernel),
                                  ", stride=", tuple(stride));
  if (!(padding == Sizes(dims, 0))) arguments += ", padding=" + tuple(padding);
  if (!(dilation == Sizes(dims, 1))) arguments += ", dilation=" + tuple(dilation);
  if (groups != 1) arguments += str_cat(", groups=", groups);
  if (!bias) arguments += ", bias=False";
  auto body = layer_of(std::move(arguments), "conv", {Body::kX},
                       {{"stride", dims_of(stride)},
                        {"padding", dims_of(padding)},
                        {"dilation", dims_of(dilation)},
                        {"groups", groups}});
  Sizes weight = {to, groups > 0 ? from / groups : 0};
  for (const int64_t size : kernel) weight.push_back(size);
  const init::Rule rule = by_fan_in(weight[1] * kernel.count());
  body->inputs.push_back(add(*body, "weight", weight, rule));
  if (bias) body->inputs.push_back(add(*body, "bias", {to}, rule));
  learn(*body, "in_channels", given, 1);
  return body;
}
std::shared_ptr<Body> conv1d(const AttrReader& s) { return conv(s, 1); }
std::shared_ptr<Body> conv2d(const AttrReader& s) { return conv(s, 2); }

// As PyTorch prints a window: 2, or (2, 3).
std::string number_or_tuple(const Sizes& sizes) {
  return sizes == Sizes(sizes.rank(), sizes[0]) ? str_cat(sizes[0]) : tuple(sizes);
}

std::shared_ptr<Body> pool(const AttrReader& s, int dims, bool is_max) {
  const Sizes kernel = window(s, "kernel_size", dims), padding = window(s, "padding", dims);
  const bool has_stride = dims == 1 ? s.has("stride") : !s.integers("stride").empty();
  const Sizes stride = has_stride ? window(s, "stride", dims) : kernel;
  const bool ceil = s.flag("ceil_mode");
  const auto text = [&](const Sizes& sizes) {  // PyTorch keeps a number, except in AvgPool1d
    return is_max || dims == 2 ? number_or_tuple(sizes) : tuple(sizes);
  };
  std::string arguments =
      str_cat("kernel_size=", text(kernel), ", stride=", text(stride), ", padding=", text(padding));
  NamedAttrs attrs = {{"kernel_size", dims_of(kernel)},
                      {"stride", dims_of(stride)},
                      {"padding", dims_of(padding)},
                      {"ceil_mode", ceil}};
  if (is_max) {
    const Sizes dilation = window(s, "dilation", dims);
    attrs.push_back({"dilation", dims_of(dilation)});
    arguments += str_cat(", dilation=", text(dilation), ", ceil_mode=", word(ceil));
  } else {
    attrs.push_back({"count_include_pad", s.flag("count_include_pad")});
  }
  return layer_of(std::move(arguments), is_max ? "max_pool" : "avg_pool", {Body::kX},
                  std::move(attrs));
}
std::shared_ptr<Body> max_pool1d(const AttrReader& s) { return pool(s, 1, true); }
std::shared_ptr<Body> max_pool2d(const AttrReader& s) { return pool(s, 2, true); }
std::shared_ptr<Body> avg_pool1d(const AttrReader& s) { return pool(s, 1, false); }
std::shared_ptr<Body> avg_pool2d(const AttrReader& s) { return pool(s, 2, false); }

std::shared_ptr<Body> flatten(const AttrReader& s) {
  const int64_t first = s.integer("start_dim").constant(), last = s.integer("end_dim").constant();
  auto body = layer_of(str_cat("start_dim=", first, ", end_dim=", last), "reshape");
  body->flattened = {first, last};
  return body;
}

std::shared_ptr<Body> group_norm(const AttrReader& s) {
  const int64_t groups = s.integer("num_groups").constant(),
                given = s.integer("num_channels").constant(),
                channels = std::max<int64_t>(given, 0);
  const double eps = s.real("eps");
  const bool affine = s.flag("affine");
  auto body = layer_of(
      str_cat(groups, ", ", number_or_open(given), ", eps=", real(eps), ", affine=", word(affine)),
      "group_norm", {Body::kX, Body::kAbsent, Body::kAbsent}, {{"groups", groups}, {"eps", eps}});
  if (affine) {
    body->inputs[1] = add(*body, "weight", {channels}, init::ones());
    body->inputs[2] = add(*body, "bias", {channels}, init::zeros());
  }
  learn(*body, "num_channels", given, 1);
  return body;
}

std::shared_ptr<Body> batch_norm(const AttrReader& s) {
  const int64_t given = s.integer("num_features").constant(),
                features = std::max<int64_t>(given, 0);
  const double eps = s.real("eps"), momentum = s.real("momentum");
  const bool affine = s.flag("affine");
  auto body = layer_of(
      str_cat(number_or_open(given), ", eps=", real(eps), ", momentum=", real(momentum),
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
  learn(*body, "num_features", given, 1);
  return body;
}

std::shared_ptr<Body> layer_norm(const AttrReader& s) {
  Sizes shape;
  for (const Dim& dim : s.integers("normalized_shape")) shape.push_back(dim.constant());
  const double eps = s.real("eps");
  const bool affine = s.flag("elementwise_affine"), bias = s.flag("bias") && affine;
  auto body =
      layer_of(str_cat(tuple(shape), ", eps=", real(eps), ", elementwise_affine=", word(affine),
                       ", bias=", word(bias)),
               "layer_norm", {Body::kX, Body::kAbsent, Body::kAbsent},
               {{"normalized_shape", std::vector<Dim>(shape.begin(), shape.end())}, {"eps", eps}});
  if (affine) body->inputs[1] = add(*body, "weight", shape, init::ones());
  if (bias) body->inputs[2] = add(*body, "bias", shape, init::zeros());
  return body;
}

std::shared_ptr<Body> embedding(const AttrReader& s) {
  const int64_t count = s.integer("num_embeddings").constant(),
                dim = s.integer("embedding_dim").constant();
  std::optional<int64_t> padding;
  if (s.has("padding_idx")) padding = s.integer("padding_idx").constant();
  if (padding && *padding < 0) padding = *padding + count;
  auto body =
      layer_of(str_cat(count, ", ", dim, padding ? str_cat(", padding_idx=", *padding) : ""),
               "embedding", {}, {{"padding_idx", padding.value_or(-1)}});
  body->inputs = {add(*body, "weight", {count, dim}, init::normal(0, 1, 0)), Body::kX};
  if (padding && *padding >= 0 && *padding < count) body->zero_row = *padding;
  return body;
}

// RNN, LSTM and GRU.
std::shared_ptr<Body> recurrent(const AttrReader& s) {
  const std::string_view kind = s.op().name();
  const int64_t given = s.integer("input_size").constant(), features = std::max<int64_t>(given, 0),
                hidden = s.integer("hidden_size").constant(),
                projected = kind == "LSTM" ? s.integer("proj_size").constant() : 0,
                out = projected > 0 ? projected : hidden,
                gates = kind == "LSTM"  ? 4
                        : kind == "GRU" ? 3
                                        : 1;
  Body::Recurrent r;
  r.layers = s.integer("num_layers").constant();
  r.directions = s.flag("bidirectional") ? 2 : 1;
  r.sizes = kind == "LSTM" ? Sizes({out, hidden}) : Sizes({out});
  r.is_batch_first = s.flag("batch_first");
  r.has_bias = s.flag("bias");
  r.is_projected = projected > 0;
  std::string arguments = str_cat(number_or_open(given), ", ", hidden);
  if (r.is_projected) arguments += str_cat(", proj_size=", projected);
  if (r.layers != 1) arguments += str_cat(", num_layers=", r.layers);
  if (!r.has_bias) arguments += ", bias=False";
  if (r.is_batch_first) arguments += ", batch_first=True";
  if (r.directions == 2) arguments += ", bidirectional=True";
  auto body = layer_of(std::move(arguments), kind == "LSTM"  ? "lstm_scan"
                                             : kind == "GRU" ? "gru_scan"
                                                             : "rnn_scan");
  if (kind == "RNN") body->attrs = {{"nonlinearity", s.string("nonlinearity")}};
  const init::Rule rule = by_fan_in(hidden);
  for (int64_t layer = 0; layer < r.layers; ++layer)
    for (int64_t direction = 0; direction < r.directions; ++direction) {
      const auto name = [&](std::string_view begin) {
        return str_cat(begin, "_l", layer, direction == 1 ? "_reverse" : "");
      };
      add(*body, name("weight_ih"), {gates * hidden, layer == 0 ? features : out * r.directions},
          rule);
      add(*body, name("weight_hh"), {gates * hidden, out}, rule);
      if (r.has_bias)
        for (const std::string_view begin : {"bias_ih", "bias_hh"})
          add(*body, name(begin), {gates * hidden}, rule);
      if (r.is_projected) add(*body, name("weight_hr"), {out, hidden}, rule);
    }
  body->recurrent = r;
  learn(*body, "input_size", given, -1);
  return body;
}

std::shared_ptr<Body> dropout(const AttrReader& s) {
  const double p = s.real("p");
  auto body =
      layer_of(str_cat("p=", real(p), ", inplace=False"), "dropout", {Body::kX}, {{"p", p}});
  body->has_mode = true;
  return body;
}

std::shared_ptr<Body> gelu(const AttrReader& s) {
  const std::string& approximate = s.string("approximate");
  return layer_of(str_cat("approximate='", approximate, "'"), "gelu", {Body::kX},
                  {{"approximate", approximate}});
}

// A call of a built-in op whose attributes are the settings.
std::shared_ptr<Body> plain(const AttrReader& s, std::string_view op) {
  const Signature& signature = s.op().signature;
  const Op* const called = Registry::built_in().find(op);  // null in a library without it
  std::string arguments;
  NamedAttrs attrs;
  for (size_t i = 0; i < signature.attributes.size(); ++i) {
    const Attr& value = s.all()[i];
    const int place =
        called != nullptr ? called->signature.find_attribute(signature.attributes[i].name) : -1;
    if (place >= 0) attrs.push_back({called->signature.attributes[place].name, value});
    const auto* number = std::get_if<double>(&value.value);
    arguments += str_cat(arguments.empty() ? "" : ", ", signature.attributes[i].name, "=");
    arguments += number != nullptr ? real(*number) : str_cat(value);
  }
  auto body = layer_of(std::move(arguments), std::string(op), {Body::kX}, std::move(attrs));
  body->takes_target = signature.inputs.size() == 2;
  if (!body->takes_target) return body;
  body->inputs.push_back(Body::kTarget);
  body->arguments.clear();  // PyTorch prints none
  return body;
}

struct Kind {
  std::string_view name;
  std::string_view signature;  // of its settings, in the syntax of ops
  std::shared_ptr<Body> (*make)(const AttrReader& settings);  // null: plain(settings, op)
  std::string_view op = {};
};
constexpr Kind kKinds[] = {
    {"Linear", "Linear(x, in_features: int = -1, out_features: int, bias: bool = true) -> y",
     linear},
    {"Conv2d",
     "Conv2d(x, in_channels: int = -1, out_channels: int, kernel_size: int[], "
     "stride: int[] = [1, 1], padding: int[] = [0, 0], dilation: int[] = [1, 1], "
     "groups: int = 1, bias: bool = true) -> y",
     conv2d},
    {"BatchNorm2d",
     "BatchNorm2d(x, num_features: int = -1, eps: float = 1e-5, momentum: float = 0.1, "
     "affine: bool = true) -> y",
     batch_norm},
    {"LayerNorm",
     "LayerNorm(x, normalized_shape: int[], eps: float = 1e-5, "
     "elementwise_affine: bool = true, bias: bool = true) -> y",
     layer_norm},
    {"Embedding",
     "Embedding(x, num_embeddings: int, embedding_dim: int, padding_idx: int? = none) -> y",
     embedding},
    {"Dropout", "Dropout(x, p: float = 0.5) -> y", dropout},
    {"ReLU", "ReLU(x) -> y", nullptr, "relu"},
    {"Sigmoid", "Sigmoid(x) -> y", nullptr, "sigmoid"},
    {"Tanh", "Tanh(x) -> y", nullptr, "tanh"},
    {"GELU", "GELU(x, approximate: str = \"none\") -> y", gelu},
    {"Softmax", "Softmax(x, dim: int) -> y", nullptr, "softmax"},
    {"MSELoss", "MSELoss(x, target, reduction: str = \"mean\") -> y", nullptr, "mse_loss"},
    {"Conv1d",
     "Conv1d(x, in_channels: int = -1, out_channels: int, kernel_size: int, stride: int = 1, "
     "padding: int = 0, dilation: int = 1, groups: int = 1, bias: bool = true) -> y",
     conv1d},
    {"MaxPool1d",
     "MaxPool1d(x, kernel_size: int, stride: int? = none, padding: int = 0, dilation: int = 1, "
     "ceil_mode: bool = false) -> y",
     max_pool1d},
    {"MaxPool2d",
     "MaxPool2d(x, kernel_size: int[], stride: int[] = [], padding: int[] = [0, 0], "
     "dilation: int[] = [1, 1], ceil_mode: bool = false) -> y",
     max_pool2d},
    {"AvgPool1d",
     "AvgPool1d(x, kernel_size: int, stride: int? = none, padding: int = 0, "
     "ceil_mode: bool = false, count_include_pad: bool = true) -> y",
     avg_pool1d},
    {"AvgPool2d",
     "AvgPool2d(x, kernel_size: int[], stride: int[] = [], padding: int[] = [0, 0], "
     "ceil_mode: bool = false, count_include_pad: bool = true) -> y",
     avg_pool2d},
    {"Flatten", "Flatten(x, start_dim: int = 1, end_dim: int = -1) -> y", flatten},
    {"GroupNorm",
     "GroupNorm(x, num_groups: int, num_channels: int = -1, eps: float = 1e-5, "
     "affine: bool = true) -> y",
     group_norm},
    {"RNN",
     "RNN(x, input_size: int = -1, hidden_size: int, num_layers: int = 1, "
     "nonlinearity: str = \"tanh\", bias: bool = true, batch_first: bool = false, "
     "bidirectional: bool = false) -> y, h",
     recurrent},
    {"LSTM",
     "LSTM(x, input_size: int = -1, hidden_size: int, num_layers: int = 1, bias: bool = true, "
     "batch_first: bool = false, bidirectional: bool = false, proj_size: int = 0) -> y, h, c",
     recurrent},
    {"GRU",
     "GRU(x, input_size: int = -1, hidden_size: int, num_layers: int = 1, bias: bool = true, "
     "batch_first: bool = false, bidirectional: bool = false) -> y, h",
     recurrent},
    {"LeakyReLU", "LeakyReLU(x, negative_slope: float = 0.01) -> y", nullptr, "leaky_relu"},
    {"ELU", "ELU(x, alpha: float = 1.0) -> y", nullptr, "elu"},
    {"SiLU", "SiLU(x) -> y", nullptr, "silu"},
    {"Softplus", "Softplus(x, beta: float = 1.0, threshold: float = 20.0) -> y", nullptr,
     "softplus"},
    {"LogSoftmax", "LogSoftmax(x, dim: int) -> y", nullptr, "log_softmax"},
    {"L1Loss", "L1Loss(x, target, reduction: str = \"mean\") -> y", nullptr, "l1_loss"},
    {"HuberLoss", "HuberLoss(x, target, reduction: str = \"mean\", delta: float = 1.0) -> y",
     nullptr, "huber_loss"},
    {"CrossEntropyLoss",
     "CrossEntropyLoss(x, target, ignore_index: int = -100, reduction: str = \"mean\", "
     "label_smoothing: float = 0.0) -> y",
     nullptr, "cross_entropy"},
    {"BCELoss", "BCELoss(x, target, reduction: str = \"mean\") -> y", nullptr,
     "binary_cross_entropy"},
    {"BCEWithLogitsLoss", "BCEWithLogitsLoss(x, target, reduction: str = \"mean\") -> y", nullptr,
     "binary_cross_entropy_with_logits"},
};

const Kind* find_kind(std::string_view name) {
  for (const Kind& kind : kKinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

Status check_settings(const AttrReader& settings) {
  const auto& attributes = settings.op().signature.attributes;
  for (size_t i = 0; i < attributes.size(); ++i) {
    const Attr& value = settings.all()[i];
    const auto* word = std::get_if<std::string>(&value.value);
    if (word != nullptr && attributes[i].name == "reduction")
      HG_TRY(parse_reduction(*word).status());
    if (word != nullptr && attributes[i].name == "approximate")
      HG_TRY(parse_gelu_approximation(*word).status());
    std::span<const Dim> dims;
    if (const auto* one = std::get_if<Dim>(&value.value)) dims = std::span(one, 1);
    if (const auto* list = std::get_if<std::vector<Dim>>(&value.value)) {
      dims = *list;
      const bool is_pair = attributes[i].name != "normalized_shape";
      const bool is_default = dims.empty() && attributes[i].name == "stride";
      HG_CHECK(!is_pair || is_default || dims.size() == 1 || dims.size() == 2, settings.op().name(),
               "'s ", attributes[i].name, " has ", static_cast<int64_t>(dims.size()),
               " numbers, not 1 or 2");
    }
    for (const Dim& dim : dims)
      HG_CHECK(dim.is_constant(), settings.op().name(), "'s ", attributes[i].name, " is ", dim,
               ", not a number");
    if (attributes[i].name == "num_layers" || attributes[i].name == "hidden_size")
      HG_CHECK(dims[0].constant() >= 1, settings.op().name(), "'s ", attributes[i].name, " is ",
               dims[0], ", expected at least 1");
    if (attributes[i].name == "proj_size") {
      const Dim& hidden = settings.integer("hidden_size");
      HG_CHECK(dims[0].constant() >= 0 && dims[0].constant() < hidden.constant(),
               settings.op().name(), "'s proj_size is ", dims[0],
               ", expected 0 to hidden_size - 1, ", hidden - 1);
    }
    if (word != nullptr && attributes[i].name == "nonlinearity")
      HG_CHECK(*word == "tanh" || *word == "relu", settings.op().name(), "'s nonlinearity is '",
               *word, "', expected tanh or relu");
  }
  return {};
}

Result<std::shared_ptr<Body>> make_body(std::string_view name, const Settings& settings) {
  const Kind* const kind = find_kind(name);
  if (kind == nullptr) {
    std::string known;
    for (const Kind& other : kKinds) known += str_cat(known.empty() ? "" : ", ", other.name);
    return not_found("there is no layer '", name, "'; the layers are ", known);
  }
  Op op;  // holds the settings as attributes
  op.def.name = kind->name;
  op.def.signature = kind->signature;
  HG_TRY_ASSIGN(op.signature, Signature::parse(kind->signature));
  NamedAttrs given;
  for (const auto& [key, value] : settings) given.push_back({key, value});
  HG_TRY_ASSIGN(const std::vector<Attr> attrs, GraphAccess::normalize_attrs(op, given));
  const AttrReader reader(&op, attrs);
  HG_TRY(check_settings(reader));
  std::shared_ptr<Body> body = kind->make != nullptr ? kind->make(reader) : plain(reader, kind->op);
  body->kind = name;
  for (size_t i = 0; i < attrs.size(); ++i)
    body->settings.emplace_back(op.signature.attributes[i].name, attrs[i]);
  return body;
}

// For constructors, whose settings always have the right types.
std::shared_ptr<Body> known_body(std::string_view name, const Settings& settings) {
  return *make_body(name, settings);
}

Settings conv_settings(int64_t from, int64_t to, const Pair& kernel, const Conv2dOptions& o) {
  return {{"in_channels", from},
          {"out_channels", to},
          {"kernel_size", dims_of(kernel)},
          {"stride", dims_of(o.stride)},
          {"padding", dims_of(o.padding)},
          {"dilation", dims_of(o.dilation)},
          {"groups", o.groups},
          {"bias", o.bias}};
}

std::shared_ptr<Body> sequential(std::span<const Layer> layers) {
  auto body = layer_of("", "", {});
  body->kind = "Sequential";
  body->layers.assign(layers.begin(), layers.end());
  return body;
}

}  // namespace

Result<Layer> make_layer(std::string_view kind, const Settings& settings) {
  HG_TRY_ASSIGN(std::shared_ptr<Body> body, make_body(kind, settings));
  return LayerAccess::make(std::move(body));
}

std::string_view layer_signature(std::string_view kind) {
  const Kind* const found = find_kind(kind);
  return found != nullptr ? found->signature : std::string_view();
}

Linear::Linear(int64_t out_features)
    : Layer(known_body("Linear", {{"out_features", out_features}})) {}
Linear::Linear(int64_t in_features, int64_t out_features, bool bias)
    : Layer(known_body(
          "Linear",
          {{"in_features", in_features}, {"out_features", out_features}, {"bias", bias}})) {}
Conv2d::Conv2d(int64_t out_channels, Pair kernel_size, const Conv2dOptions& options)
    : Layer(known_body("Conv2d", conv_settings(-1, out_channels, kernel_size, options))) {}
Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Pair kernel_size,
               const Conv2dOptions& options)
    : Layer(known_body("Conv2d", conv_settings(in_channels, out_channels, kernel_size, options))) {}
BatchNorm2d::BatchNorm2d() : Layer(known_body("BatchNorm2d", {})) {}
BatchNorm2d::BatchNorm2d(int64_t features, double eps, double momentum, bool affine)
    : Layer(known_body(
          "BatchNorm2d",
          {{"num_features", features}, {"eps", eps}, {"momentum", momentum}, {"affine", affine}})) {
}
LayerNorm::LayerNorm(const Sizes& normalized_shape, double eps, bool elementwise_affine, bool bias)
    : Layer(known_body("LayerNorm", {{"normalized_shape", std::vector<Dim>(normalized_shape.begin(),
                                                                           normalized_shape.end())},
                                     {"eps", eps},
                                     {"elementwise_affine", elementwise_affine},
                                     {"bias", bias}})) {}
Embedding::Embedding(int64_t embeddings, int64_t dim, std::optional<int64_t> padding_idx)
    : Layer(known_body("Embedding", {{"num_embeddings", embeddings},
                                     {"embedding_dim", dim},
                                     {"padding_idx", padding_idx ? Attr(*padding_idx) : Attr()}})) {
}
Dropout::Dropout(double p) : Layer(known_body("Dropout", {{"p", p}})) {}
ReLU::ReLU() : Layer(known_body("ReLU", {})) {}
Sigmoid::Sigmoid() : Layer(known_body("Sigmoid", {})) {}
Tanh::Tanh() : Layer(known_body("Tanh", {})) {}
GELU::GELU(GeluApproximation approximate)
    : Layer(known_body("GELU", {{"approximate", approximate}})) {}
Softmax::Softmax(int64_t dim) : Layer(known_body("Softmax", {{"dim", dim}})) {}
MSELoss::MSELoss(Reduction reduction) : Layer(known_body("MSELoss", {{"reduction", reduction}})) {}
Sequential::Sequential(std::initializer_list<Layer> layers)
    : Sequential(std::span(layers.begin(), layers.size())) {}
Sequential::Sequential(std::span<const Layer> layers) : Layer(sequential(layers)) {}

}  // namespace hg::nn
