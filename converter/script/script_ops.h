// SPDX-License-Identifier: Apache-2.0
// The `script` functions of rows: ops on numbers and queries about tensors. Each returns false if
// the arguments are of another kind. Also declares the tables of rows without tensor code.
#pragma once

#include <span>

#include "converter/rows/node_call.h"

namespace hg::convert {

namespace numbers {               // numbers.cpp
bool arithmetic(NodeCall& call);  // add sub mul div remainder fmod
bool floor_divide(NodeCall& call);
bool pow(NodeCall& call);
bool min(NodeCall& call);
bool max(NodeCall& call);
bool sign(NodeCall& call);   // neg, abs
bool round(NodeCall& call);  // floor ceil round trunc: an int if the script declares it
bool shift(NodeCall& call);
bool gcd(NodeCall& call);
bool log(NodeCall& call);  // with or without a base
bool function(NodeCall& call, double (*f)(double));
bool function_of_two(NodeCall& call, double (*f)(double, double));
template <double (*F)(double)>
bool math(NodeCall& call) {
  return function(call, F);
}
template <double (*F)(double, double)>
bool math_of_two(NodeCall& call) {
  return function_of_two(call, F);
}
double scaled(double x, double power);  // ldexp
}  // namespace numbers

namespace comparisons {           // comparisons.cpp
bool compare(NodeCall& call);     // eq ne lt le gt ge
bool logic(NodeCall& call);       // __and__ __or__ __xor__
bool is_special(NodeCall& call);  // isnan isinf isfinite
bool all_or_any(NodeCall& call);  // of a list
bool identity(NodeCall& call);    // __is__ and __isnot__
}  // namespace comparisons

namespace nested {  // nested.cpp
bool encoder_layer(NodeCall& call);
}  // namespace nested

// Rows of ops without tensors, one table per file.
std::span<const Row> number_rows();
std::span<const Row> comparison_rows();
std::span<const Row> conversion_rows();
std::span<const Row> query_rows();
std::span<const Row> object_rows();
std::span<const Row> nested_rows();

}  // namespace hg::convert
