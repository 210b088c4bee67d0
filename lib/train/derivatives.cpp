// SPDX-License-Identifier: Apache-2.0
// Derivatives that need several gradients.
#include "hg/ops.h"
#include "hg/train.h"
#include "lib/train/filled.h"

namespace hg {

Value jacobian(const Value& y, const Value& x) {
  Graph& g = *y.graph();
  const Dim size = count(y.shape());
  if (!size.is_constant())
    return g.fail(invalid_argument("jacobian: '", y.name(), "' has ", size,
                                   " elements, a number that must be known"));
  const int64_t rows = size.constant();
  Shape shape = y.shape();
  shape.insert(shape.end(), x.shape().begin(), x.shape().end());
  const auto zeros = [&](const Shape& of) {
    return g.call("expand", {g.scalar(0.0, x.dtype())}, {{"shape", of}});
  };
  if (rows == 0) return zeros(shape);
  const Value index =
      g.call("reshape",
             {g.call("arange", {},
                     {{"start", Dim(0)}, {"end", Dim(rows)}, {"step", Dim(1)}, {"dtype", i64}})},
             {{"shape", y.shape()}});
  Shape row = x.shape();
  row.insert(row.begin(), Dim(1));
  std::vector<Value> parts;
  for (int64_t i = 0; i < rows; ++i) {
    const Value seed =
        g.call("cast", {g.call("eq", {index, g.scalar(i, i64)})}, {{"dtype", y.dtype()}});
    const std::vector<Value> d = grad(y, {x}, seed);
    if (d.empty()) return {};
    parts.push_back(g.call("reshape", {d[0]}, {{"shape", row}}));
  }
  return g.call("reshape", {g.call("concat", parts, {{"dim", 0}})}, {{"shape", std::move(shape)}});
}

// The gradients of sum_k u[k] ys[k] are linear in u. Their derivative with respect to u, along the
// directions, is the result, for any u.
std::vector<Value> jvp(std::span<const Value> ys, std::span<const Value> wrt,
                       std::span<const Value> directions) {
  if (ys.empty()) return {};
  Graph& g = *ys[0].graph();
  if (wrt.size() != directions.size()) {
    g.fail(invalid_argument("jvp: there are ", int64_t(wrt.size()), " values and ",
                            int64_t(directions.size()), " directions"));
    return {};
  }
  std::vector<Value> u;
  for (const Value& y : ys) u.push_back(filled(g, 0, y));
  const std::vector<Value> products = grad(ys, wrt, u);
  if (products.size() != wrt.size()) return {};
  if (wrt.empty()) return u;
  return grad(products, u, directions);
}

std::vector<Value> hvp(const Value& y, std::span<const Value> wrt,
                       std::span<const Value> directions) {
  Graph& g = *y.graph();
  if (y.rank() != 0 || wrt.size() != directions.size()) {
    g.fail(invalid_argument("hvp: '", y.name(), "' has the shape ", y.shape(),
                            ", which must be [], and there are ", int64_t(wrt.size()),
                            " values and ", int64_t(directions.size()), " directions"));
    return {};
  }
  const std::vector<Value> first = grad(std::span(&y, 1), wrt);
  if (first.size() != wrt.size()) return {};
  // The gradient of the gradients, weighted by the directions.
  return grad(first, wrt, directions);
}

}  // namespace hg
