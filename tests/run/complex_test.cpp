// SPDX-License-Identifier: Apache-2.0
// Complex tensors as graph inputs and outputs, through views of pairs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/train.h"
#include "tests/support/must.h"

namespace hg {
namespace {

// (a + bi)(c + di) of pairs of reals.
Value product(const Value& x, const Value& y) {
  const auto part = [](const Value& pairs, int k) {  // [..., 1]
    return slice(pairs, pairs.rank() - 1, k, k + 1);
  };
  const Value a = part(x, 0), b = part(x, 1), c = part(y, 0), d = part(y, 1);
  const std::vector<Value> parts = {a * c - b * d, a * d + b * c};
  return x.graph()->call("concat", parts, {{"dim", -1}});
}

Model products(DType dtype) {
  Graph g;
  const Value x = g.input("x", dtype, {"n", 3}), y = g.input("y", dtype, {"n", 3});
  g.output("z", view_as_complex(product(view_as_real(x), view_as_real(y))));
  g.output("same", x);
  return must(Model::from_graph(std::move(g)));
}

template <class T>
void multiplies(DType dtype) {
  Session session = *Session::create(products(dtype));
  // x is read from columns 0, 2, 4 of a wider matrix, turned around.
  std::vector<T> wide(2 * 6 * 2), y(2 * 3 * 2);
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<T>(i) * T(0.25) - 2;
  for (size_t i = 0; i < y.size(); ++i) y[i] = 3 - static_cast<T>(i) * T(0.5);
  ConstTensor x = view(static_cast<const void*>(wide.data()), dtype, {2, 3});
  x.strides = {6, 2};
  ASSERT_TRUE(session.set_input("x", x).ok());
  ASSERT_TRUE(session.set_input("y", view(static_cast<const void*>(y.data()), dtype, {2, 3})).ok());
  must(session.run());
  const TensorData z = *TensorData::copy_of(*session.output("z"));
  const TensorData same = *TensorData::copy_of(*session.output("same"));
  EXPECT_EQ(z.tensor.dtype, dtype);
  EXPECT_EQ(z.tensor.shape, (Sizes{2, 3}));
  for (int64_t i = 0; i < 6; ++i) {
    const T* at = wide.data() + 2 * (i / 3 * 6 + i % 3 * 2);
    const T a = at[0], b = at[1], c = y[size_t(2 * i)], d = y[size_t(2 * i + 1)];
    EXPECT_EQ(z.tensor.as<T>()[2 * i], a * c - b * d);
    EXPECT_EQ(z.tensor.as<T>()[2 * i + 1], a * d + b * c);
    EXPECT_EQ(same.tensor.as<T>()[2 * i], a);
    EXPECT_EQ(same.tensor.as<T>()[2 * i + 1], b);
  }
}

TEST(Complex, GoesInAndComesOut) {
  multiplies<float>(c64);
  multiplies<double>(c128);
}

TEST(Complex, IsKeptInAFile) {
  const Model model = products(c128);
  Model back = must(Model::read(*model.serialize()));
  EXPECT_EQ(back.graph().text(), model.graph().text());
  EXPECT_NE(back.graph().text().find("c128[n, 3]"), std::string::npos) << back.graph().text();
}

// Pairs that are not contiguous are copied before they are viewed as complex numbers.
TEST(Complex, IsMadeOfPairsOfAnyStrides) {
  Graph g;
  const Value x = g.input("x", f32, {2, 3});
  g.output("z", view_as_complex(permute(x, {1, 0})));
  Session session = *Session::create(*Model::from_graph(std::move(g)));
  const std::vector<float> data = {1, 2, 3, 10, 20, 30};
  ASSERT_TRUE(session.set_input("x", view(data, {2, 3})).ok());
  ASSERT_TRUE(session.run().ok());
  const TensorData z = *TensorData::copy_of(*session.output("z"));
  const auto* parts = z.tensor.as<const float>();
  EXPECT_EQ(std::vector<float>(parts, parts + 6), (std::vector<float>{1, 10, 2, 20, 3, 30}));
}

TEST(Complex, OtherOpsRefuseIt) {
  for (const char* op : {"add", "neg", "matmul", "reshape", "permute", "concat", "cast", "sum"}) {
    Graph g;
    const Value x = g.input("x", c64, {2, 2});
    std::vector<Value> inputs = {x};
    if (std::string(op) == "add" || std::string(op) == "matmul") inputs.push_back(x);
    NamedAttrs attrs;
    if (std::string(op) == "reshape") attrs = {{"shape", std::vector<Dim>{4}}};
    if (std::string(op) == "permute") attrs = {{"dims", std::vector<Dim>{1, 0}}};
    if (std::string(op) == "cast") attrs = {{"dtype", f32}};
    g.call(op, inputs, attrs);
    EXPECT_NE(g.status().message().find(op), std::string_view::npos) << g.status().message();
    EXPECT_NE(g.status().message().find("c64"), std::string_view::npos) << g.status().message();
  }
  Graph g;
  g.call("cast", {g.input("x", f32, {2})}, {{"dtype", c64}});
  EXPECT_NE(g.status().message().find("c64"), std::string_view::npos) << g.status().message();
  Graph pairs;
  view_as_complex(pairs.input("x", f32, {2, 3}));
  EXPECT_NE(pairs.status().message().find("pairs"), std::string_view::npos);
  Graph reals;
  view_as_real(reals.input("x", f32, {2}));
  EXPECT_FALSE(reals.status().ok());
}

// z = x y with the seed s: PyTorch's gradient of x is s conj(y).
TEST(Complex, HasPyTorchsGradients) {
  Graph g;
  const Value x = g.input("x", c128, {2}), y = g.input("y", c128, {2}), s = g.input("s", c128, {2});
  const Value z = view_as_complex(product(view_as_real(x), view_as_real(y)));
  const Value twice = view_as_complex(view_as_real(x) * 3.0);  // a second reader of x
  const std::vector<Value> seeds = {s, s};
  for (const Value& dx : grad(std::vector<Value>{z, twice}, std::vector<Value>{x, y}, seeds))
    g.output("", dx);
  Session session = *Session::create(must(Model::from_graph(std::move(g))));
  const std::vector<double> xs = {1, 2, -3, 0.5}, ys = {4, -1, 2, 2}, ss = {1, 1, 0, -2};
  ASSERT_TRUE(session.set_input("x", view(xs.data(), c128, {2})).ok());
  ASSERT_TRUE(session.set_input("y", view(ys.data(), c128, {2})).ok());
  ASSERT_TRUE(session.set_input("s", view(ss.data(), c128, {2})).ok());
  ASSERT_TRUE(session.run().ok());
  const TensorData dx = *TensorData::copy_of(*session.output(0));
  const TensorData dy = *TensorData::copy_of(*session.output(1));
  for (size_t i = 0; i < 4; i += 2) {
    const auto k = static_cast<int64_t>(i);
    EXPECT_EQ(dx.tensor.as<double>()[k], ss[i] * ys[i] + ss[i + 1] * ys[i + 1] + 3 * ss[i]);
    EXPECT_EQ(dx.tensor.as<double>()[k + 1], ss[i + 1] * ys[i] - ss[i] * ys[i + 1] + 3 * ss[i + 1]);
    EXPECT_EQ(dy.tensor.as<double>()[k], ss[i] * xs[i] + ss[i + 1] * xs[i + 1]);
    EXPECT_EQ(dy.tensor.as<double>()[k + 1], ss[i + 1] * xs[i] - ss[i] * xs[i + 1]);
  }
}

TEST(Complex, AnOutputNeedsASeed) {
  Graph g;
  const Value x = g.input("x", c64, {2});
  grad(std::vector<Value>{view_as_complex(view_as_real(x) * 2.0)}, std::vector<Value>{x}, {});
  EXPECT_NE(g.status().message().find("needs a seed"), std::string_view::npos)
      << g.status().message();
}

}  // namespace
}  // namespace hg
