// SPDX-License-Identifier: Apache-2.0
// torch's type promotion (c10's result_type): tensors with dims count before tensors without, those
// before numbers, within the kinds bool < integer < float.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "hg/graph.h"
#include "hg/op.h"

namespace hg {

struct Promotion {
  std::optional<DType> dims, zero, number;

  static void add(std::optional<DType>& slot, DType dtype) {
    slot = slot ? promote(*slot, dtype) : dtype;
  }
  void add_tensor(DType dtype, int rank) { add(rank > 0 ? dims : zero, dtype); }
  // Of an integer i64, of a number with a fraction any float.
  void add_number(DType dtype) { add(number, is_float(dtype) ? f32 : dtype); }

  static std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
    if (!higher) return lower;
    if (!lower || is_float(*higher)) return higher;
    if (*higher == boolean || is_float(*lower)) return promote(*higher, *lower);
    return higher;
  }
  DType result() const { return combine(dims, combine(zero, number)).value_or(f32); }
};

// The dtype that the numbers among the inputs of a call take: of an elementwise op and of a
// concatenation that which all inputs have in common, of other ops, and beside complex tensors,
// that of the first tensor. `numbers` says by input what a number is: bool, i64 or f64. What
// multiplies or divides 16 bits is f32: torch rounds the result alone.
DType dtype_of_numbers(const Op& op, std::span<const Value> inputs,
                       std::span<const std::optional<DType>> numbers);

// Whether the op takes floats alone and leaves integers as they are, as roundings do.
bool keeps_integers(std::string_view op);

// Graph::calls(), but where an elementwise op or a concatenation refuses the dtypes of its inputs,
// they are cast to the one that they have in common; integers to f32, where it takes floats alone
// and does not keep them. A condition stays as it is. What `all` and `any` of u8 give is u8. A
// product or quotient of 16 bits by a tensor without dims, or a number, is computed in f32 and rounded.
// `numbers`, as above, tells numbers from tensors without dims.
std::vector<Value> promoted_calls(Graph& graph, const Op& op, std::span<const Value> inputs,
                                  const NamedAttrs& attrs = {},
                                  std::span<const std::optional<DType>> numbers = {});

}  // namespace hg
