// SPDX-License-Identifier: Apache-2.0
// Learning rates as closed formulas of the tick. They equal torch's schedulers, which multiply step
// by step.
#include <algorithm>
#include <cmath>

#include "hg/train.h"

namespace hg {
namespace {

// From `a` at 0 to `b` at 1, along half a cosine.
double along_cosine(double a, double b, double part) {
  return b + (a - b) * (1 + std::cos(3.141592653589793 * part)) / 2;
}

// Smith and Topin 2018: up to lr, then down to a final rate far below the first.
double one_cycle(const Schedule& s, double lr, double t, double total) {
  const double first = lr / s.div_factor, last = first / s.final_div_factor;
  const double top = s.rise * total - 1;  // tick of the highest rate
  if (t <= top && top > 0) return along_cosine(first, lr, t / top);
  const double end = total - 1;
  return end > top ? along_cosine(lr, last, std::min(1.0, (t - top) / (end - top))) : last;
}

}  // namespace

double learning_rate(const Schedule& s, double lr, int64_t t) {
  if (t < s.warmup) return lr * static_cast<double>(t + 1) / static_cast<double>(s.warmup + 1);
  t -= s.warmup;
  const auto at = static_cast<double>(t);
  const auto total = static_cast<double>(std::max<int64_t>(s.total - s.warmup, 1));
  switch (s.kind) {
    case Schedule::Kind::constant:
    case Schedule::Kind::plateau:
      return lr;
    case Schedule::Kind::step:
      return lr * std::pow(s.gamma, static_cast<double>(t / std::max<int64_t>(s.period, 1)));
    case Schedule::Kind::exponential:
      return lr * std::pow(s.gamma, at);
    case Schedule::Kind::linear:
      return lr * (s.start + (s.end - s.start) * std::min(at, total) / total);
    case Schedule::Kind::cosine:
      return along_cosine(lr, s.min_lr, std::min(at, total) / total);
    case Schedule::Kind::one_cycle:
      return one_cycle(s, lr, std::min(at, total - 1), total);
  }
  return lr;
}

}  // namespace hg
