// SPDX-License-Identifier: Apache-2.0
// Optimizer steps element by element, as in torch.optim's documentation.
#include <algorithm>
#include <cmath>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// One element: its states, and the gradient after the steps that all optimizers share.
struct Element {
  double x, g;
  double state[4];  // inputs 1, 2, 3
  double lr, step;
};

// rule(element) changes x and the states; `states` counts the inputs before `accumulated`.
template <class F>
void for_elements(const Call& c, size_t states, const F& rule) {
  const size_t g = states + 1, go = g + 4;
  const bool has_sum = c.in[states].given;
  const bool updates = go >= c.in.size() || !c.in[go].given || c.in[go].at(0) != 0;
  const int64_t count = c.in[g].count(), rows = c.in[0].shape.rank() > 0 ? c.in[0].shape[0] : 1;
  const int64_t first = c.attrs.integer("first") * (c.in[0].count() / std::max<int64_t>(1, rows));
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    if (i < first || i >= first + count) {
      size_t out = 0;
      for (size_t s = 0; s <= states; ++s)
        if (c.in[s].given) c.out[out++].at(i) = c.in[s].at(i);
      continue;
    }
    Element e = {};
    e.x = c.in[0].at(i);
    for (size_t s = 1; s < states; ++s) e.state[s] = c.in[s].given ? c.in[s].at(i) : 0;
    e.lr = c.in[g + 1].at(c.attrs.integer("group"));
    e.step = c.in[g + 2].at(0);
    e.g = c.in[g].at(i - first) + (has_sum ? c.in[states].at(i) : 0);
    const double sum = e.g;
    if (g + 3 < c.in.size() && c.in[g + 3].given) e.g *= c.in[g + 3].at(0);
    if (c.attrs.has("clip_value")) {
      const double limit = c.attrs.real("clip_value");
      e.g = std::min(std::max(e.g, -limit), limit);
    }
    if (c.attrs.flag("maximize")) e.g = -e.g;
    Element next = e;
    rule(next);
    if (!updates) next = e;
    size_t out = 0;
    c.out[out++].at(i) = next.x;
    for (size_t s = 1; s < states; ++s)
      if (c.in[s].given) c.out[out++].at(i) = next.state[s];
    if (has_sum) c.out[out].at(i) = updates ? 0 : sum;
  }
}

void sgd_run(const Call& c) {
  const KernelAttrs& a = c.attrs;
  const bool has_buffer = c.in[1].given;
  for_elements(c, 2, [&](Element& e) {
    double g = e.g + a.real("weight_decay") * e.x;
    if (has_buffer) {
      const double momentum = a.real("momentum");
      double& buffer = e.state[1];
      buffer = e.step <= 1 ? g : momentum * buffer + (1 - a.real("dampening")) * g;
      g = a.flag("nesterov") ? e.g + a.real("weight_decay") * e.x + momentum * buffer : buffer;
    }
    e.x -= e.lr * g;
  });
}

void adam_run(const Call& c) {
  const KernelAttrs& a = c.attrs;
  const bool has_largest = c.in[3].given;
  for_elements(c, 4, [&](Element& e) {
    const double beta1 = a.real("beta1"), beta2 = a.real("beta2"), decay = a.real("weight_decay");
    if (a.flag("decoupled"))
      e.x *= 1 - e.lr * decay;
    else
      e.g += decay * e.x;
    e.state[1] = beta1 * e.state[1] + (1 - beta1) * e.g;
    e.state[2] = beta2 * e.state[2] + (1 - beta2) * e.g * e.g;
    e.state[3] = std::max(e.state[3], e.state[2]);
    const double mean = e.state[1] / (1 - std::pow(beta1, e.step));
    const double square = e.state[has_largest ? 3 : 2] / (1 - std::pow(beta2, e.step));
    e.x -= e.lr * mean / (std::sqrt(square) + a.real("eps"));
  });
}

void rmsprop_run(const Call& c) {
  const KernelAttrs& a = c.attrs;
  const bool is_centered = c.in[2].given, has_buffer = c.in[3].given;
  for_elements(c, 4, [&](Element& e) {
    const double alpha = a.real("alpha"), g = e.g + a.real("weight_decay") * e.x;
    e.state[1] = alpha * e.state[1] + (1 - alpha) * g * g;
    e.state[2] = alpha * e.state[2] + (1 - alpha) * g;
    const double var = e.state[1] - (is_centered ? e.state[2] * e.state[2] : 0);
    const double d = g / (std::sqrt(var) + a.real("eps"));
    e.state[3] = a.real("momentum") * e.state[3] + d;
    e.x -= e.lr * (has_buffer ? e.state[3] : d);
  });
}

constexpr Row kRows[] = {
    {"sgd_step", sgd_run}, {"adam_step", adam_run}, {"rmsprop_step", rmsprop_run}};

}  // namespace

std::span<const Row> optimizer() { return kRows; }

}  // namespace hg::reference::rows
