// SPDX-License-Identifier: Apache-2.0
// A host with its own BLAS, like libtorch: kernels and OpenBLAS do not call it.
#include <gtest/gtest.h>

#include <atomic>

#include "hg/hg.h"
#include "hg/op.h"
#include "kernels/gemm/openblas.h"
#include "tests/support/must.h"

namespace {
std::atomic<int> calls{0};
}  // namespace

extern "C" {
__attribute__((visibility("default"))) void dgemm_(const char*, const char*, const int*, const int*,
                                                   const int*, const double*, const double*,
                                                   const int*, const double*, const int*,
                                                   const double*, double*, const int*, size_t,
                                                   size_t) {
  ++calls;
}
__attribute__((visibility("default"))) void dgetrf_(const int*, const int*, double*, const int*,
                                                    int*, int*) {
  ++calls;
}
}

namespace hg {
namespace {

// x = u diag(s) vh, whose product is made by OpenBLAS as well.
TEST(OpenBlas, IsNotTheHosts) {
  if (kernels::openblas() == nullptr) GTEST_SKIP() << "OpenBLAS is not used here";
  constexpr int64_t kSize = 256;
  Graph g;
  const Value x = g.input("x", f64, {kSize, kSize});
  const std::vector<Value> parts = g.calls("svd", {x});
  const Value s = g.call("reshape", {parts[1]}, {{"shape", std::vector<Dim>{1, kSize}}});
  g.output("y", g.call("matmul", {parts[0] * s, parts[2]}));
  g.output("one", g.call("solve", {x, x}));
  SessionOptions options;
  options.kernels = {"svd=lapack", "matmul=openblas", "solve=lapack"};
  Session session = *Session::create(*Model::from_graph(std::move(g)), options);
  std::vector<double> values(kSize * kSize);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(i * 7919 % 1009) / 1009 + (i % (kSize + 1) == 0 ? 20 : 0);
  ASSERT_TRUE(session.set_input(0, view(values, {kSize, kSize})).ok());
  must(session.run());
  const double* const y = session.output(0)->as<double>();
  const double* const one = session.output(1)->as<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(y[i], values[i], 1e-10) << i;
    ASSERT_NEAR(one[i], i % (kSize + 1) == 0 ? 1 : 0, 1e-10) << i;
  }
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace hg
