// SPDX-License-Identifier: Apache-2.0
// Lazy expressions: a value, derivatives to any order, and a line fitted to points.
#include <cstdio>
#include <string>
#include <vector>

#include "hg/lazy_ops.h"

namespace {

hg::Result<hg::Array> array(std::vector<float> values) {
  return hg::Array::copy_of(hg::view(values, {static_cast<int64_t>(values.size())}));
}

hg::Status print(const char* what, const hg::Var& var) {
  HG_TRY_ASSIGN(const hg::Array now, var.value());
  std::printf("%s", what);
  for (int64_t i = 0; i < now.count(); ++i) std::printf(" %.4g", now.as<float>()[i]);
  std::printf("\n");
  return {};
}

hg::Status derivatives() {
  HG_TRY_ASSIGN(hg::Var a, array({3}));
  HG_TRY_ASSIGN(hg::Var b, array({5}));
  HG_TRY(a.set_name("a"));
  HG_TRY(b.set_name("b"));
  const hg::Var t = a * b;
  const hg::Var y = t + (t * a) * a;  // runs nothing
  std::printf("%s\n", y.text().c_str());
  HG_TRY(print("y", y));
  HG_TRY(print("dy/da", grad(y, a)));
  HG_TRY(print("dy/db", grad(y, b)));
  return print("d2y/da2", grad(grad(y, a), a));
}

hg::Status fit() {
  const hg::Lazy lazy(hg::SessionOptions{.threads = 1});
  std::vector<float> points, wanted;
  for (int i = 0; i < 128; ++i) {
    points.push_back(static_cast<float>(i) / 128 - 0.5f);
    wanted.push_back(3 * points.back() - 2);
  }
  HG_TRY_ASSIGN(const hg::Array xs, array(points));
  HG_TRY_ASSIGN(const hg::Array ts, array(wanted));
  HG_TRY_ASSIGN(const hg::Array zero, array({0}));
  const hg::Var x(xs, lazy), target(ts, lazy);
  hg::Var w(zero, lazy), bias(zero, lazy);
  for (int step = 0; step < 20000; ++step) {
    const hg::Var loss = hg::lazy::mse_loss(w * x + bias, target);
    const std::vector<hg::Var> slopes = grad(loss, std::vector<hg::Var>{w, bias});
    HG_TRY_ASSIGN(const auto next, hg::evaluate({w - 0.1 * slopes[0], bias - 0.1 * slopes[1]}));
    HG_TRY(w.set(next[0]));
    HG_TRY(bias.set(next[1]));
  }
  HG_TRY(print("w", w));
  HG_TRY(print("bias", bias));
  std::printf("%lld plans\n", static_cast<long long>(lazy.counters().plans));
  return {};
}

}  // namespace

int main() {
  hg::Status status = derivatives();
  if (status.ok()) status = fit();
  if (!status.ok()) std::fprintf(stderr, "lazy: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
