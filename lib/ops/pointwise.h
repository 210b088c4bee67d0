// SPDX-License-Identifier: Apache-2.0
// Shape rules shared by elementwise ops.
#pragma once

#include "hg/op.h"
#include "hg/ops/operators.h"

namespace hg::ops {

Status infer_number_unary(InferContext& c);    // any dtype but bool, preserved
Status infer_float_unary(InferContext& c);     // floats, preserved
Status infer_bit_unary(InferContext& c);       // integers and bool, preserved
Status infer_test_unary(InferContext& c);      // any dtype -> bool
Status infer_any_binary(InferContext& c);      // two tensors of one dtype, preserved
Status infer_number_binary(InferContext& c);   // not bool
Status infer_float_binary(InferContext& c);    // floats
Status infer_bit_binary(InferContext& c);      // integers and bool
Status infer_integer_binary(InferContext& c);  // integers
Status infer_test_binary(InferContext& c);     // one dtype -> bool

inline Value zeros(const Value& like) { return number_like(like, 0); }

// Sets output 0 to this dtype and the broadcast shape of the inputs that are given.
Status infer_broadcast(InferContext& c, DType dtype);

}  // namespace hg::ops
