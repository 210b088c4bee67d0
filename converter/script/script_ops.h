// SPDX-License-Identifier: Apache-2.0
// The `script` and `grown_list` functions of rows: ops on script values that are not tensors. Each
// returns false if the arguments are of another kind. Also the rows of ops that know no tensors at
// all.
#pragma once

#include <span>

#include "converter/interpret/interpreter.h"

namespace hg::convert {

namespace numbers {               // numbers.cpp
bool arithmetic(NodeCall& call);  // add sub mul div remainder fmod
bool floor_divide(NodeCall& call);
bool pow(NodeCall& call);
bool min(NodeCall& call);
bool max(NodeCall& call);
bool sign(NodeCall& call);   // neg, abs
bool round(NodeCall& call);  // floor ceil round trunc: an int where the script says so
bool shift(NodeCall& call);
bool gcd(NodeCall& call);
bool log(NodeCall& call);  // with a base or without
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
}  // namespace comparisons

namespace lists {           // lists.cpp
bool find(NodeCall& call);  // index, count
bool join(NodeCall& call);
bool repeat(NodeCall& call);
bool sort(NodeCall& call);  // also sorted()
bool sum(NodeCall& call);
bool extreme(NodeCall& call);  // min, max
}  // namespace lists

namespace containers {  // containers.cpp: lists, tuples, dicts and text
bool slice(NodeCall& call);
bool copy(NodeCall& call);
}  // namespace containers

namespace dicts {  // dicts.cpp
bool empty(NodeCall& call);
}  // namespace dicts

namespace texts {               // texts.cpp, text_methods.cpp
bool join_two(NodeCall& call);  // a + b
bool split(NodeCall& call);
bool find(NodeCall& call);  // find rfind index rindex
bool count(NodeCall& call);
}  // namespace texts

namespace nested {  // nested.cpp
bool encoder_layer(NodeCall& call);
}  // namespace nested

namespace pieces {  // pieces.cpp: a list of parts whose number sizes decide
bool length(NodeCall& call);
bool get_item(NodeCall& call);
}  // namespace pieces

namespace grown {  // grown_lists.cpp
bool append(NodeCall& call);
bool insert(NodeCall& call);
bool extend(NodeCall& call);
bool join(NodeCall& call);
bool repeat(NodeCall& call);
bool length(NodeCall& call);
bool get_item(NodeCall& call);
bool set_item(NodeCall& call);
bool pop(NodeCall& call);
bool remove(NodeCall& call);  // also del list[i]
bool clear(NodeCall& call);
bool find(NodeCall& call);  // index, count, x in list
bool sort(NodeCall& call);  // also sorted()
bool reverse(NodeCall& call);
bool total(NodeCall& call);  // sum, min, max
bool equals(NodeCall& call);
bool is_none(NodeCall& call);
bool stack(NodeCall& call);
bool cat(NodeCall& call);
bool to_tensor(NodeCall& call);
bool copy(NodeCall& call);
bool slice(NodeCall& call);
bool unpack(NodeCall& call);
// An op on a list of known length, where data decides which of its elements is meant.
bool by_data(NodeCall& call);
// unbind() along a symbolic size, which gives such a list; false when the size is known.
bool unbind(NodeCall& call);
}  // namespace grown

// Ops without tensors, by the files of their names.
std::span<const Row> number_rows();
std::span<const Row> comparison_rows();
std::span<const Row> conversion_rows();
std::span<const Row> container_rows();
std::span<const Row> list_rows();
std::span<const Row> dict_rows();
std::span<const Row> text_rows();
std::span<const Row> text_method_rows();
std::span<const Row> query_rows();
std::span<const Row> object_rows();
std::span<const Row> nested_rows();

}  // namespace hg::convert
