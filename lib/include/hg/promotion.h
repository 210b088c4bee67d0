// SPDX-License-Identifier: Apache-2.0
// Type promotion as in torch (c10's result_type). Within a category (bool < integer < float),
// tensors with dims take precedence over tensors of rank 0, which take precedence over numbers.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "hg/call.h"
#include "hg/graph.h"
#include "hg/op.h"

namespace hg {

struct Promotion {
  std::optional<DType> dims, zero, number;

  static void add(std::optional<DType>& slot, DType dtype) {
    slot = slot ? promote(*slot, dtype) : dtype;
  }
  void add_tensor(DType dtype, int rank) { add(rank > 0 ? dims : zero, dtype); }
  // Pass i64 for an integer and any float dtype for a number with a fraction.
  void add_number(DType dtype) { add(number, is_float(dtype) ? f32 : dtype); }

  static std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
    if (!higher) return lower;
    if (!lower || is_float(*higher)) return higher;
    if (*higher == boolean || is_float(*lower)) return promote(*higher, *lower);
    return higher;
  }
  DType result() const { return combine(dims, combine(zero, number)).value_or(f32); }
};

// Returns the dtype that the numbers among the inputs of a call get. For elementwise ops and
// concatenations it is the common dtype of all inputs. For other ops, and with complex tensors, it
// is the dtype of the first tensor. `numbers` holds, per input, the kind of a number: bool, i64 or
// f64. A number that scales 16-bit floats (mul, div) is f32, since torch only rounds the result,
// and so is a number beside integers if the op computes floats (div).
DType dtype_of_numbers(const Op& op, std::span<const Value> inputs,
                       std::span<const std::optional<DType>> numbers);

// Whether a number is an integer from 2^63 to 2^64 - 1, whose `whole` is 2^64 less.
inline bool is_beyond_i64(const Number& number) {
  return number.kind != f64 && number.whole < 0 && number.real > 0;
}

// The numbers that an input accepts, as in torch.
enum class NumberRange : uint8_t {
  any,           // integers wrap: they are taken modulo 2^bits
  dtype,         // what the dtype holds without becoming infinite; u8 holds numbers from -255
  not_negative,  // of these, numbers from 0: exponents of integers
};
NumberRange number_range(const Op& op, size_t input, DType dtype);

// Writes a number to the single element of a tensor. Returns false if the range excludes it, or if
// an integer dtype would lose its fraction.
bool write_number(const Number& number, const Tensor& to, NumberRange range);

// True for rounding ops, which accept only floats here but return integers unchanged in torch.
bool keeps_integers(std::string_view op);

// Like Graph::calls(), with torch's promotion. If an elementwise op or a concatenation rejects the
// dtypes of its inputs, they are cast to their common dtype. Integers are cast to f32 if the op
// needs floats, unless it keeps integers.
//
// A condition is not cast. `all` and `any` of u8 return u8. A 16-bit product or quotient with a
// number or a tensor of rank 0 is computed in f32 and rounded. `numbers` is as above.
std::vector<Value> promoted_calls(Graph& graph, const Op& op, std::span<const Value> inputs,
                                  const NamedAttrs& attrs = {},
                                  std::span<const std::optional<DType>> numbers = {});

}  // namespace hg
