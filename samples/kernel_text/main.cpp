// SPDX-License-Identifier: Apache-2.0
// Text kernels: a polynomial and its gradient, an outer product, a particle's energy from structs
// and small vectors, and a step function with a custom gradient.
#include <cstdio>
#include <string>
#include <vector>

#include "hg/expression.h"
#include "hg/hg.h"

namespace {

void print(const char* what, const hg::TensorData& data) {
  std::printf("%s", what);
  for (int64_t i = 0; i < data.tensor.count(); ++i) std::printf(" %g", data.tensor.as<float>()[i]);
  std::printf("\n");
}

hg::Status run() {
  const std::vector<float> four = {1, 2, 3, 4};
  const hg::ConstTensor x = hg::view(four, {4});

  HG_TRY_ASSIGN(const hg::TextKernel polynomial, hg::kernel("polynomial", "a*x*x + b*x + c"));
  HG_TRY_ASSIGN(const auto y, polynomial.call({{"a", 2.0}, {"b", 8.0}, {"c", -1.0}, {"x", x}}));
  HG_TRY_ASSIGN(const auto dx, polynomial.grad({2.0, x, 8.0, -1.0}, {"x"}));
  print("y", y[0]);
  print("dy/dx", dx[0]);

  HG_TRY_ASSIGN(const hg::TextKernel product, hg::kernel("product", "a * b"));
  HG_TRY_ASSIGN(const auto outer, product.call({{"a", x, {0}}, {"b", x, {1}}}));
  print("outer", outer[0]);

  HG_TRY_ASSIGN(const hg::TextKernel energy, hg::kernel("energy",
                                                        "(p.mass: f32, p.speed: f32[2]) -> "
                                                        "0.5 * p.mass * dot(p.speed, p.speed)"));
  const hg::ConstTensor mass = hg::view(four.data(), hg::f32, {2});
  const hg::ConstTensor speed = hg::view(four, {2, 2});
  HG_TRY_ASSIGN(const auto e, energy.call({{"p", {{"mass", mass}, {"speed", speed}}}}));
  print("energy", e[0]);

  HG_TRY_ASSIGN(const hg::TextKernel step,
                hg::kernel("step", "y = x > 2.5 ? 1.0 : 0.0", {.backward = "dx = dy"}));
  HG_TRY_ASSIGN(const auto straight, step.grad({x}, {"x"}));
  print("straight through", straight[0]);
  return {};
}

}  // namespace

int main() {
  const hg::Status status = run();
  if (!status.ok())
    std::fprintf(stderr, "kernel_text: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
