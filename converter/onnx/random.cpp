// SPDX-License-Identifier: Apache-2.0
// Random ops: the distribution matches other runtimes, the numbers do not.
#include "converter/onnx/node.h"

namespace hg::convert::onnx {
namespace {

DType dtype_given(Node& n, DType fallback) {
  const DType dtype = n.dtype("dtype", fallback);
  if (!is_float(dtype)) n.refuse(str_cat("attribute 'dtype' is ", dtype, "; floats are supported"));
  return dtype;
}

void drawn(Node& n, bool normal, const Shape& shape, DType dtype) {
  n.call().note("random numbers are drawn anew in each run; a seed in the file is not used");
  const Value x = n.op(normal ? "randn" : "rand", {}, {{"shape", shape}, {"dtype", f32}});
  const double scale = normal ? n.real("scale", 1.0) : n.real("high", 1.0) - n.real("low", 0.0);
  const double shift = normal ? n.real("mean", 0.0) : n.real("low", 0.0);
  n.give(cast(x * scale + shift, dtype));
}

void uniform(Node& n) { drawn(n, false, dims_of(n.integers("shape")), dtype_given(n, f32)); }
void normal(Node& n) { drawn(n, true, dims_of(n.integers("shape")), dtype_given(n, f32)); }
void uniform_like(Node& n) { drawn(n, false, n.type(0).shape, dtype_given(n, n.type(0).dtype)); }
void normal_like(Node& n) { drawn(n, true, n.type(0).shape, dtype_given(n, n.type(0).dtype)); }

void bernoulli(Node& n) {
  const Value p = n.in(0), wide = p.dtype() == f64 ? p : cast(p, f32);  // no p < 1 rounds to 1
  n.call().note("random numbers are drawn anew in each run; a seed in the file is not used");
  const Value x = n.op("rand", {}, {{"shape", p.shape()}, {"dtype", f32}});
  n.give(cast(lt(cast(x, wide.dtype()), wide), n.dtype("dtype", p.dtype())));
}

constexpr Builtin kRows[] = {
    {"onnx::RandomUniform", row<uniform>},
    {"onnx::RandomNormal", row<normal>},
    {"onnx::RandomUniformLike", row<uniform_like>},
    {"onnx::RandomNormalLike", row<normal_like>},
    {"onnx::Bernoulli", row<bernoulli>},
};

}  // namespace

Rows random_rows() { return kRows; }

}  // namespace hg::convert::onnx
