// SPDX-License-Identifier: Apache-2.0
// The cost of an op call: ns per call on one thread and, if the build has libtorch, libtorch's time
// and the ratio. Rows with one element show pure overhead. Then lazy expressions, rebuilt in each
// call: ns per call, and per op.
#include "bench/eager_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "hg/executor.h"
#include "hg/lazy_ops.h"

namespace hg::bench {

double least_ns(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto time = [&](int64_t calls) {
    const Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < calls; ++i) call();
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
  };
  int64_t calls = 100;
  while (time(calls) < 5e6) calls *= 2;
  double least = time(calls);
  for (int i = 0; i < 20; ++i) least = std::min(least, time(calls));
  return least / static_cast<double>(calls);
}

namespace {

// A benchmark cannot continue after a failure.
template <class T>
T must(Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "eager_bench: %s\n", std::string(result.status().message()).c_str());
  std::exit(1);
}

std::vector<EagerRow> rows(Executor& ex) {
  const auto random = [&](const Sizes& shape) { return must(ex.rand(shape)); };
  const Array one = random({1}), a = random({10000}), b = random({10000}), four = random({4});
  const Array x1 = random({1, 256}), x32 = random({32, 256}), w = random({128, 256}),
              bias = random({128});
  const auto place = [](const Sizes& shape) { return must(Array::allocate(f32, shape)); };
  std::vector<EagerRow> rows;
  const auto returned = [&](std::string name, auto call) {
    rows.push_back({std::move(name), [call]() mutable { must(call()); }});
  };
  returned("relu 1", [&ex, one] { return ex.relu(one); });
  returned("relu 1, into",
           [&ex, one, out = place({1})]() mutable { return ex.into(out).relu(one); });
  returned("add 1, into",
           [&ex, one, out = place({1})]() mutable { return ex.into(out).add(one, one); });
  returned("add 10K", [&ex, a, b] { return ex.add(a, b); });
  returned("add 10K, into",
           [&ex, a, b, out = place({10000})]() mutable { return ex.into(out).add(a, b); });
  returned("relu 10K", [&ex, a] { return ex.relu(a); });
  returned("relu 10K, into",
           [&ex, a, out = place({10000})]() mutable { return ex.into(out).relu(a); });
  returned("linear 256 to 128, batch 1", [&ex, x1, w, bias] { return ex.linear(x1, w, bias); });
  returned("linear 256 to 128, batch 32", [&ex, x32, w, bias] { return ex.linear(x32, w, bias); });
  returned("chain of ten ops, 10K", [&ex, a, b] {
    Array y = a;
    for (int i = 0; i < 5; ++i) y = must(ex.relu(ex.add(y, b)));
    return Result<Array>(y);
  });
  returned("three ops, 4 elements",
           [&ex, four] { return ex.relu(ex.add(ex.mul(four, four), four)); });
  return rows;
}

struct LazyRow {
  std::string name;
  int ops;  // number of ops of a call, including gradients
  std::function<void()> call;
};

std::vector<LazyRow> lazy_rows(Executor& ex) {
  const Lazy lazy(SessionOptions{.threads = 1});
  const auto leaf = [&](const Sizes& shape) { return Var(must(ex.rand(shape)), lazy); };
  std::vector<LazyRow> rows;
  // mul, add, mse_loss; five of its gradients; two mul and two sub of the update.
  rows.push_back(
      {"lazy linear regression, 128", 12,
       [lazy, x = leaf({128}), target = leaf({128}), w = leaf({1}), bias = leaf({1})]() mutable {
         const Var loss = lazy::mse_loss(w * x + bias, target);
         const std::vector<Var> slopes = grad(loss, std::vector<Var>{w, bias});
         const std::vector<Array> next =
             must(evaluate({w - 0.1 * slopes[0], bias - 0.1 * slopes[1]}));
         must(Result<bool>(w.set(next[0]).ok() && bias.set(next[1]).ok()));
       }});
  rows.push_back(
      {"vmap of (a*b + a)*a over 64", 3 * 64, [a = leaf({64, 4}), b = leaf({64, 4})] {
         const std::vector<Var> batches = {a, b};
         const Var y = must(vmap(
             [](std::span<const Var> of) { return (of[0] * of[1] + of[0]) * of[0]; }, batches));
         must(y.value());
       }});
  return rows;
}

int run() {
  Executor ex = must(Executor::create({.threads = 1}));
  const std::vector<EagerRow> torch = torch_rows();
  std::printf("%-30s %10s %10s %8s\n", "", "ns", "libtorch", "ratio");
  for (const EagerRow& row : rows(ex)) {
    const double ns = least_ns(row.call);
    std::printf("%-30s %10.0f", row.name.c_str(), ns);
    for (const EagerRow& other : torch) {
      if (other.name != row.name) continue;
      const double theirs = least_ns(other.call);
      std::printf(" %10.0f %8.1f", theirs, theirs / ns);
    }
    std::printf("\n");
  }
  std::printf("\n%-30s %10s %10s\n", "", "ns", "per op");
  for (const LazyRow& row : lazy_rows(ex)) {
    const double ns = least_ns(row.call);
    std::printf("%-30s %10.0f %10.0f\n", row.name.c_str(), ns, ns / row.ops);
  }
  return 0;
}

}  // namespace
}  // namespace hg::bench

int main() { return hg::bench::run(); }
