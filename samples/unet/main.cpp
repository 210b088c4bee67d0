// SPDX-License-Identifier: Apache-2.0
// A diffusion U-Net written with the op builders turns noise into images in a few steps of DDIM;
// model.py is the same network in PyTorch.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/npy.h"

namespace {

using hg::Graph, hg::Value, hg::f32;

constexpr int kChannels = 3, kWidth = 8, kEmbed = 16, kGroups = 4, kHeads = 2, kSteps = 4;

// Layers whose parameters are sliced one after another from one long tensor.
class Layers {
 public:
  Layers(Graph& graph, const hg::Tensor& all) : graph_(graph), all_(all) {}
  Value linear(const Value& x, int from, int to) {
    const Value weight = next({to, from});
    return hg::linear(x, weight, next({to}));
  }
  Value conv(const Value& x, int from, int to, int kernel, int stride = 1) {
    const Value weight = next({to, from, kernel, kernel});
    return hg::conv(x, weight, next({to}), {.stride = {stride}, .padding = {kernel / 2}});
  }
  Value group_norm(const Value& x, int channels) {
    const Value weight = next({channels});
    return hg::group_norm(x, kGroups, weight, next({channels}));
  }

 private:
  Value next(const hg::Sizes& shape) {
    if (at_ + shape.count() > all_.count())
      return graph_.fail(hg::invalid_argument("there are only ", all_.count(), " weights"));
    const auto data = hg::TensorData::copy_of(hg::view(all_.as<float>() + at_, f32, shape));
    at_ += shape.count();
    return data.ok() ? graph_.parameter(hg::str_cat("w", at_), *data) : graph_.fail(data.status());
  }
  Graph& graph_;
  hg::Tensor all_;
  int64_t at_ = 0;
};

// Two convolutions with a skip connection; the time embedding is added between them.
Value residual(const Value& x, const Value& time, Layers& layers, int from, int to) {
  Value y = layers.conv(hg::silu(layers.group_norm(x, from)), from, to, 3);
  const Value shift = layers.linear(hg::silu(time), kEmbed, to);
  y = hg::silu(layers.group_norm(y + hg::unsqueeze(hg::unsqueeze(shift, 2), 3), to));
  y = layers.conv(y, to, to, 3);
  return (from == to ? x : layers.conv(x, from, to, 1)) + y;
}

// Every pixel attends to all others.
Value attention(const Value& x, Layers& layers, int channels) {
  const Value qkv = layers.conv(layers.group_norm(x, channels), channels, 3 * channels, 1);
  const hg::Dim pixels = x.dim(2) * x.dim(3);
  const Value heads =
      hg::transpose(hg::reshape(qkv, {x.dim(0), 3, kHeads, channels / kHeads, pixels}), 3, 4);
  const Value y =
      hg::attention(hg::select(heads, 1, 0), hg::select(heads, 1, 1), hg::select(heads, 1, 2));
  return x + layers.conv(hg::reshape(hg::transpose(y, 2, 3), x.shape()), channels, channels, 1);
}

// Sines and cosines of the time at falling frequencies, through two layers.
Value embed(const Value& time, Layers& layers) {
  Graph& g = *time.graph();
  const Value power =
      hg::exp(hg::arange(g, 0, kWidth / 2, 1, f32) * (-std::log(10000.0) / (kWidth / 2)));
  const Value angle = hg::unsqueeze(time, 1) * power;
  const Value waves = hg::concat({hg::sin(angle), hg::cos(angle)}, 1);
  return layers.linear(hg::silu(layers.linear(waves, kWidth, kEmbed)), kEmbed, kEmbed);
}

// The noise in x [n, channels, h, w] at `time` [n]; h and w are even.
Graph unet(const hg::Tensor& weights) {
  Graph g;
  Layers layers(g, weights);
  const Value x = g.input("x", f32, {"n", kChannels, "h", "w"});
  const Value time = embed(g.input("time", f32, {"n"}), layers);
  const Value enter = layers.conv(x, kChannels, kWidth, 3);
  const Value high = residual(enter, time, layers, kWidth, kWidth);
  Value low = layers.conv(high, kWidth, kWidth, 3, 2);
  low = residual(low, time, layers, kWidth, 2 * kWidth);
  low = attention(low, layers, 2 * kWidth);
  low = residual(low, time, layers, 2 * kWidth, 2 * kWidth);
  const Value larger = hg::interpolate(low, {high.dim(2), high.dim(3)});
  const Value up = layers.conv(larger, 2 * kWidth, kWidth, 3);
  const Value y = residual(hg::concat({up, high}, 1), time, layers, 2 * kWidth, kWidth);
  g.output("noise", layers.conv(hg::silu(layers.group_norm(y, kWidth)), kWidth, kChannels, 3));
  return g;
}

// The fraction of the image, rather than noise, after so many steps back.
double kept(int step) { return std::pow(std::cos(std::numbers::pi / 2 * step / (kSteps + 1)), 2); }

// The largest difference between the images and PyTorch's, or an error.
hg::Result<double> sample(const std::string& folder) {
  HG_TRY_ASSIGN(const auto weights, hg::read_npy(folder + "/weights.npy"));
  HG_TRY_ASSIGN(const auto x, hg::read_npy(folder + "/noise.npy"));
  HG_TRY_ASSIGN(const auto image, hg::read_npy(folder + "/image.npy"));
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(unet(weights.tensor())));
  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model));
  float* const pixels = x.tensor().as<float>();  // first noise, finally the image
  std::vector<float> time(x.tensor().shape[0]);
  HG_TRY(session.set_input("x", x.tensor()));
  HG_TRY(session.set_input("time", hg::view(time, {x.tensor().shape[0]})));
  for (int step = kSteps; step > 0; --step) {
    std::fill(time.begin(), time.end(), 1000.0f * static_cast<float>(step) / kSteps);
    HG_TRY(session.run());
    HG_TRY_ASSIGN(const hg::Tensor noise, session.output("noise"));
    for (int64_t i = 0; i < x.tensor().count(); ++i) {
      const double e = noise.as<float>()[i];
      const double clean = (pixels[i] - std::sqrt(1 - kept(step)) * e) / std::sqrt(kept(step));
      pixels[i] =
          static_cast<float>(std::sqrt(kept(step - 1)) * clean + std::sqrt(1 - kept(step - 1)) * e);
    }
  }
  double worst = 0;
  for (int64_t i = 0; i < x.tensor().count(); ++i)
    worst = std::max<double>(worst, std::abs(pixels[i] - image.tensor().as<float>()[i]));
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  const hg::Result<double> worst = sample(argc > 1 ? argv[1] : ".");
  if (worst.ok())
    std::printf("equal to PyTorch's within %.1e\n", *worst);
  else
    std::fprintf(stderr, "unet: %s\n", std::string(worst.status().message()).c_str());
  return worst.ok() && *worst < 1e-4 ? 0 : 1;
}
