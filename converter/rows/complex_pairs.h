// SPDX-License-Identifier: Apache-2.0
// Complex numbers. The graph has none: a complex tensor is a real value with one more dim at the
// end, of size 2, for the real and the imaginary part. The `complex` field of an op's row says how
// the op treats complex arguments.
#pragma once

#include "converter/rows/node_call.h"

namespace hg::convert {

// A complex value as its parts; if `im` is empty, the value is real.
struct Complex {
  Value re, im;
};

Complex parts_of(const Value& pairs);      // [..., 2]
Value pairs_of(const Complex& x);          // [..., 2]
Value part_of(const Value& pairs, int k);  // 0 real, 1 imaginary
Value with_part(const Value& pairs, int k, const Value& part);
Value imaginary(const Complex& x);  // zeros for a real value
// Returns the constant that prim::Constant holds as an Object of type kComplexNumber.
Item complex_number(NodeCall& call, const Object& number);
// Convert between torch's complex dtypes (9 and 10) and the dtypes of their parts (f32 and f64); 0
// for other dtypes.
int64_t torch_of_complex(DType part);
int64_t part_of_torch(int64_t scalar_type);

// Returns arguments of functions on complex tensors. Their parts have the dtype that torch's
// promotion gives. Numbers and real tensors are returned as real values.
std::vector<Complex> complex_operands(Call& call, std::vector<std::string_view> arguments);
void return_complex(Call& call, const Complex& x);

}  // namespace hg::convert
