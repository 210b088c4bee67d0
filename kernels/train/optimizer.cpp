// SPDX-License-Identifier: Apache-2.0
// Optimizer steps in one pass over memory. A chunk of the gradient is gathered in the cache; then
// the loops of optimizer_simd update the states in place. 16-bit floats are widened chunk by chunk.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "hg/kernel.h"
#include "kernels/element.h"
#include "kernels/train/optimizer_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kChunk = 1024;  // elements
constexpr int kMostStates = 4;    // including x

enum class Kind { sgd, adam, rmsprop };

struct StepParams {
  StepNumbers numbers;
  double decoupled_decay = 0;
  double clip_value = 0;  // 0: off
  bool maximize = false;
  int64_t group = 0, first = 0;  // index of the rate, of the first element
  int gradient = 0;              // the index of that input
};

template <Kind kKind>
Status prepare(PrepareContext& c) {
  const KernelAttrs& a = c.attrs();
  StepParams& p = c.make_state(StepParams());
  p.group = a.integer("group");
  if (c.in(0).rank() > 0)
    p.first = a.integer("first") * c.in(0).count() / std::max<int64_t>(1, c.in(0).shape[0]);
  p.maximize = a.flag("maximize");
  p.clip_value = a.has("clip_value") ? a.real("clip_value") : 0;
  StepNumbers& n = p.numbers;
  n.weight_decay = a.real("weight_decay");
  if constexpr (kKind == Kind::sgd) {
    p.gradient = 3;
    n.beta1 = a.real("momentum");
    n.beta2 = 1 - a.real("dampening");
    n.nesterov = a.flag("nesterov");
  } else if constexpr (kKind == Kind::adam) {
    p.gradient = 5;
    n.beta1 = a.real("beta1");
    n.beta2 = a.real("beta2");
    n.eps = a.real("eps");
    if (a.flag("decoupled")) std::swap(p.decoupled_decay, n.weight_decay);
  } else {
    p.gradient = 5;
    n.beta1 = a.real("alpha");
    n.beta2 = a.real("momentum");
    n.eps = a.real("eps");
  }
  return {};
}

template <class W, Kind kKind>
void update(W* const* states, const W* g, int64_t count, const StepNumbers& n) {
  const OptimizerTable<W>& table = optimizer_table(W());
  if constexpr (kKind == Kind::sgd)
    table.sgd(states[0], states[1], g, count, n);
  else if constexpr (kKind == Kind::adam)
    table.adam(states[0], states[1], states[2], states[3], g, count, n);
  else
    table.rmsprop(states[0], states[1], states[2], states[3], g, count, n);
}

double number(const Tensor& x, int64_t at) {
  double value = 0;
  for_float(x.dtype, [&]<class T>() { value = load(x.as<T>() + at); });
  return value;
}

template <Kind kKind>
void run(const RunContext& c) noexcept {
  const auto& p = c.state<StepParams>();
  const int state_count = p.gradient - 1;  // followed by the accumulated gradient
  for_float(c.in(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    T* states[kMostStates + 1] = {};
    int output = 0;
    for (int i = 0; i < p.gradient; ++i) {
      if (!c.has(i)) continue;
      states[i] = c.out(output++).as<T>();
      if (c.in(i).data != states[i]) std::memcpy(states[i], c.in(i).data, c.in(i).bytes());
      states[i] += p.first;
    }
    T* const sum = states[state_count];
    const T* const gradient = c.in(p.gradient).as<T>();
    const bool go = !c.has(p.gradient + 4) || *c.in(p.gradient + 4).as<bool>();
    const int64_t step = *c.in(p.gradient + 2).as<int64_t>();
    const double scale = c.has(p.gradient + 3) ? number(c.in(p.gradient + 3), 0) : 1;
    StepNumbers n = p.numbers;
    n.lr = number(c.in(p.gradient + 1), p.group);
    n.is_first = step <= 1;
    if constexpr (kKind == Kind::adam) {
      n.shrink = 1 - n.lr * p.decoupled_decay;
      n.correction1 = 1 - std::pow(n.beta1, static_cast<double>(step));
      n.root_correction2 = std::sqrt(1 - std::pow(n.beta2, static_cast<double>(step)));
    }
    const W factor = static_cast<W>(p.maximize ? -scale : scale);
    const W limit = static_cast<W>(p.clip_value);

    c.parallel_for(c.in(p.gradient).count(), 16 * kChunk, [&](int64_t begin, int64_t end) {
      W g[kChunk];
      W wide[kMostStates][kChunk];
      for (int64_t at = begin; at < end; at += kChunk) {
        const int64_t count = std::min(kChunk, end - at);
        for (int64_t i = 0; i < count; ++i) g[i] = load(gradient + at + i);
        if (sum != nullptr) {
          for (int64_t i = 0; i < count; ++i) g[i] += load(sum + at + i);
          for (int64_t i = 0; i < count; ++i) store(sum + at + i, go ? W(0) : g[i]);
        }
        if (!go) continue;
        if (factor != W(1))
          for (int64_t i = 0; i < count; ++i) g[i] *= factor;
        if (limit > W(0))  // NaN stays NaN
          for (int64_t i = 0; i < count; ++i)
            g[i] = g[i] > limit ? limit : g[i] < -limit ? -limit : g[i];
        W* chunk[kMostStates] = {};
        for (int s = 0; s < state_count; ++s) {
          if (states[s] == nullptr) continue;
          if constexpr (std::is_same_v<T, W>) {
            chunk[s] = states[s] + at;
          } else {
            chunk[s] = wide[s];
            for (int64_t i = 0; i < count; ++i) wide[s][i] = load(states[s] + at + i);
          }
        }
        update<W, kKind>(chunk, g, count, n);
        if constexpr (!std::is_same_v<T, W>)
          for (int s = 0; s < state_count; ++s)
            if (states[s] != nullptr)
              for (int64_t i = 0; i < count; ++i) store(states[s] + at + i, wide[s][i]);
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "sgd_step", .name = "fused", .prepare = prepare<Kind::sgd>, .run = run<Kind::sgd>},
    {.op = "adam_step", .name = "fused", .prepare = prepare<Kind::adam>, .run = run<Kind::adam>},
    {.op = "rmsprop_step",
     .name = "fused",
     .prepare = prepare<Kind::rmsprop>,
     .run = run<Kind::rmsprop>},
};

}  // namespace

std::span<const KernelDef> optimizer() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
