// SPDX-License-Identifier: Apache-2.0
// A transformer decoder written with the op builders: rotary positions, grouped heads, a gated
// feed-forward layer and a key/value cache. It continues a text token by token; model.py is the
// same network in PyTorch.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/npy.h"

namespace {

using hg::Dim, hg::Graph, hg::Value, hg::f32, hg::i64;
using Values = std::vector<Value>;

constexpr int kWords = 48, kWidth = 32, kLayers = 2, kHeads = 4, kKvHeads = 2, kHidden = 64;
constexpr int kHead = kWidth / kHeads, kSteps = 8;

// Parameters, sliced one after another from one long tensor.
class Weights {
 public:
  Weights(Graph& graph, const hg::Tensor& all) : graph_(graph), all_(all) {}
  Value next(const hg::Sizes& shape) {
    if (at_ + shape.count() > all_.count())
      return graph_.fail(hg::invalid_argument("there are only ", all_.count(), " weights"));
    const auto data = hg::TensorData::copy_of(hg::view(all_.as<float>() + at_, f32, shape));
    at_ += shape.count();
    return data.ok() ? graph_.parameter(hg::str_cat("w", at_), *data) : graph_.fail(data.status());
  }

 private:
  Graph& graph_;
  hg::Tensor all_;
  int64_t at_ = 0;
};

Value norm(const Value& x, Weights& w) { return hg::rms_norm(x, {kWidth}, w.next({kWidth})); }
Value project(const Value& x, Weights& w, int from, int to) {
  return hg::linear(x, w.next({to, from}));
}
// [batch, time, heads * kHead] -> [batch, heads, time, kHead]
Value heads(const Value& x, int count) {
  return hg::transpose(hg::reshape(x, {x.dim(0), x.dim(1), count, kHead}), 1, 2);
}

struct Positions {
  Value cos, sin, mask;  // [time, kHead], twice, and [time, past + time]
};
// Of the tokens from `past` on, which see themselves and all earlier ones.
Positions positions(Graph& g, const Dim& past, const Dim& time) {
  const Value place = hg::arange(g, past, past + time, 1, f32);
  const Value power = hg::arange(g, 0, kHead, 2, f32) * (-std::log(10000.0) / kHead);
  const Value half = hg::unsqueeze(place, 1) * hg::exp(power);
  const Value angle = hg::concat({half, half}, 1);
  const Value seen = hg::le(hg::arange(g, 0, past + time, 1, f32), hg::unsqueeze(place, 1));
  return {hg::cos(angle), hg::sin(angle), seen};
}

// Adds a layer; `past` and `now` are its keys and values before and after.
Value layer(const Value& x, const Positions& at, Weights& w, const Values& past, Values& now) {
  const Value y = norm(x, w);
  const Value q = hg::rope(heads(project(y, w, kWidth, kWidth), kHeads), at.cos, at.sin);
  const Value k = heads(project(y, w, kWidth, kKvHeads * kHead), kKvHeads);
  const Value v = heads(project(y, w, kWidth, kKvHeads * kHead), kKvHeads);
  now = {hg::concat({past[0], hg::rope(k, at.cos, at.sin)}, 2), hg::concat({past[1], v}, 2)};
  const Value seen = hg::transpose(hg::attention(q, now[0], now[1], at.mask), 1, 2);
  const Value a = x + project(hg::flatten(seen, 2), w, kWidth, kWidth);
  const Value b = norm(a, w);
  const Value gate = hg::silu(project(b, w, kWidth, kHidden));
  return a + project(gate * project(b, w, kWidth, kHidden), w, kHidden, kWidth);
}

// Inputs: tokens, then keys and values of each layer; outputs: logits, then the new ones.
Graph decoder(const hg::Tensor& weights) {
  Graph g;
  Weights w(g, weights);
  const Value tokens = g.input("tokens", i64, {"n", "t"});
  const Positions at = positions(g, "past", "t");
  const Value words = w.next({kWords, kWidth});
  Value x = hg::embedding(words, tokens);
  std::vector<Values> caches(kLayers);
  for (Values& cache : caches) {
    const hg::Shape shape = {"n", kKvHeads, "past", kHead};
    const Values past = {g.input("", f32, shape), g.input("", f32, shape)};
    x = layer(x, at, w, past, cache);
  }
  g.output("logits", hg::linear(norm(x, w), words));
  for (const Values& cache : caches)
    for (const Value& state : cache) g.output("", state);
  return g;
}

// The largest difference between the logits of the runs and PyTorch's, or an error.
hg::Result<double> generate(const std::string& folder) {
  HG_TRY_ASSIGN(const auto weights, hg::read_npy(folder + "/weights.npy"));
  HG_TRY_ASSIGN(const auto prompt, hg::read_npy(folder + "/prompt.npy"));
  HG_TRY_ASSIGN(const auto tokens, hg::read_npy(folder + "/tokens.npy"));
  HG_TRY_ASSIGN(const auto logits, hg::read_npy(folder + "/logits.npy"));
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(decoder(weights.tensor())));
  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model));
  const int64_t n = prompt.tensor().shape[0], length = logits.tensor().shape[1];
  std::vector<std::vector<float>> cache(2 * kLayers);
  hg::ConstTensor given = prompt.tensor();  // first the prompt, then each chosen token
  std::vector<int64_t> chosen(n);
  double worst = 0;
  for (int64_t step = 0, past = 0; step < kSteps; past += given.shape[1], ++step) {
    if (step > 0) given = hg::view(chosen, {n, 1});
    HG_TRY(session.set_input(0, given));
    for (int i = 0; i < 2 * kLayers; ++i)
      HG_TRY(session.set_input(1 + i, hg::view(cache[i], {n, kKvHeads, past, kHead})));
    HG_TRY(session.run());
    HG_TRY_ASSIGN(const hg::Tensor out, session.output("logits"));
    for (int64_t row = 0; row < n; ++row) {
      const float* last = nullptr;
      for (int64_t t = 0; t < given.shape[1]; ++t) {
        last = out.as<float>() + (row * given.shape[1] + t) * kWords;
        const float* torch = logits.tensor().as<float>() + (row * length + past + t) * kWords;
        for (int k = 0; k < kWords; ++k)
          worst = std::max<double>(worst, std::abs(last[k] - torch[k]));
      }
      chosen[row] = std::max_element(last, last + kWords) - last;
      std::printf("%lld%s", static_cast<long long>(chosen[row]), row + 1 < n ? " | " : "\n");
      HG_CHECK(chosen[row] == tokens.tensor().as<int64_t>()[row * kSteps + step],
               "PyTorch chose word ", tokens.tensor().as<int64_t>()[row * kSteps + step]);
    }
    for (int i = 0; i < 2 * kLayers; ++i) {
      HG_TRY_ASSIGN(const hg::Tensor state, session.output(1 + i));
      cache[i].resize(state.count());
      hg::copy_elements(state, hg::view(cache[i], state.shape));
    }
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  const hg::Result<double> worst = generate(argc > 1 ? argv[1] : ".");
  if (worst.ok())
    std::printf("equal to PyTorch's within %.1e\n", *worst);
  else
    std::fprintf(stderr, "transformer: %s\n", std::string(worst.status().message()).c_str());
  return worst.ok() && *worst < 1e-4 ? 0 : 1;
}
