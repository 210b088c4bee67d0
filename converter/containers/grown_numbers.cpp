// SPDX-License-Identifier: Apache-2.0
// Ops on lists of numbers whose length depends on data or sizes: searches, order, sums and ==.
#include <limits>

#include "converter/containers/container_ops.h"
#include "converter/containers/grown_call.h"
#include "converter/memory/item_tree.h"

namespace hg::convert {
namespace {

// Whether it is a list of numbers, or of tensors of equal size.
bool is_plain(const List& list) {
  return list.grown->element.is_tensor() && list.grown->columns[0].open.empty();
}
bool is_of_numbers(const List& list) {
  return is_plain(list) && cell_of(list.grown->element)->is_number();
}

[[noreturn]] void refuse_elements(NodeCall& call, std::string_view what) {
  throw Refusal{
      str_cat(call.kind().substr(6), "() of a list whose length data or sizes decide and ", what),
      "keep the numbers to compare in a list of their own"};
}

// Returns which elements equal the argument: bool[length].
Value matches(NodeCall& call, const List& list) {
  if (!is_of_numbers(list)) refuse_elements(call, "whose elements are not numbers");
  Graph& g = call.graph();
  const Value all = all_of(call, list);
  const Value wanted = number_value(call.memory(), call.at(1));
  const DType dtype = is_float(all.dtype()) || is_float(wanted.dtype()) ? f64 : i64;
  return g.call("eq", {cast(all, dtype), cast(wanted, dtype)});
}

}  // namespace

Value first_match(NodeCall& call, const List& list) {
  Graph& g = call.graph();
  const Value same = matches(call, list);
  require(call, g.call("any", {same}), "the value is not in the list");
  const Value behind = number(call, same.dim(0));
  const Value at = g.call("where", {same, positions(call, same.dim(0)), behind});
  return g.call("amin", {g.call("concat", {at, reshape(behind, {Dim(1)})}, {{"dim", 0}})});
}

namespace grown {

bool find(NodeCall& call) {  // index and count of a number, x in list
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  Graph& g = call.graph();
  if (call.kind() == "aten::index")
    give_number(call, first_match(call, *list));
  else if (call.kind() == "aten::count")
    give_number(call, g.call("sum", {cast(matches(call, *list), i64)}));
  else
    give_number(call, g.call("any", {matches(call, *list)}));
  return true;
}

bool sort(NodeCall& call) {  // list.sort(reverse) and sorted(list)
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  if (!is_of_numbers(*list)) refuse_elements(call, "whose elements are not numbers");
  const bool descending =
      call.argument_count() > 1 && call.at(1).is_bool() && std::get<bool>(call.at(1).value);
  const Value all = all_of(call, *list);
  const bool is_boolean = all.dtype() == boolean;
  const Value sorted = cast(call.graph().calls("sort", {is_boolean ? cast(all, i64) : all},
                                               {{"dim", 0}, {"descending", descending}})[0],
                            all.dtype());
  if (call.kind() == "aten::sorted") {
    call.give(Item(list_like(call.memory(), *list->grown, {sorted})));
    return true;
  }
  set_elements(call, list, {sorted});
  give_nothing(call);
  return true;
}

bool total(NodeCall& call) {  // sum, min and max of numbers
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list || call.argument_count() != 1) return false;
  if (!is_of_numbers(*list)) refuse_elements(call, "whose elements are not numbers");
  Graph& g = call.graph();
  const Value all = all_of(call, *list);
  const Value numbers = all.dtype() == boolean ? cast(all, i64) : all;
  if (call.kind() == "aten::sum") {
    give_number(call, g.call("sum", {numbers}));
    return true;
  }
  require(call, g.call("lt", {g.scalar(int64_t{0}, i64), number(call, numbers.dim(0))}),
          "min or max of an empty list");
  const bool least = call.kind() == "prim::min";
  const char* const op = least ? "amin" : "amax";
  if (!is_float(numbers.dtype())) {
    give_number(call, g.call(op, {numbers}));
    return true;
  }
  // Python's comparison: a NaN is the result only if it comes first.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Value is_nan = g.call("ne", {numbers, numbers});
  const Value last = g.scalar(least ? kInfinity : -kInfinity, numbers.dtype());
  const Value best = g.call(op, {g.call("where", {is_nan, last, numbers})});
  const Value is_first = g.call("eq", {positions(call, numbers.dim(0)), g.scalar(int64_t{0}, i64)});
  const Value starts = g.call("any", {g.call("logical_and", {is_nan, is_first})});
  const Value nan = g.scalar(std::numeric_limits<double>::quiet_NaN(), numbers.dtype());
  give_number(call, g.call("where", {starts, nan, best}));
  return true;
}

bool to_tensor(NodeCall& call) {  // torch.tensor(numbers)
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list || !is_of_numbers(*list)) return false;
  const Value all = all_of(call, *list);
  const DType usual = all.dtype() == f64 ? f32 : all.dtype();
  call.give(Item(call.make_tensor(cast(all, call.dtype("dtype", usual)))));
  return true;
}

bool equals(NodeCall& call) {  // of lists of numbers: ==, !=
  const std::shared_ptr<List> lists[] = {list_item(call, 0), list_item(call, 1)};
  if (!lists[0] || !lists[1]) return false;
  Memory& memory = call.memory();
  const auto both = joined(pattern_of(memory, call.at(0)), pattern_of(memory, call.at(1)), false);
  if (!both || both->kind != Pattern::Kind::grown) return false;
  Graph& g = call.graph();
  Value parts[2];
  for (int i = 0; i < 2; ++i) {
    const Item fit = fitted(memory, call.at(i), *both);
    const List& list = *std::get<std::shared_ptr<List>>(fit.value);
    if (!is_of_numbers(list)) return false;
    parts[i] = all_of(call, list);
  }
  const Dim a = parts[0].dim(0), b = parts[1].dim(0);
  Value same = g.call("eq", {number(call, a), number(call, b)});
  for (Value& part : parts)
    part = g.call("slice", {part}, {{"dim", 0}, {"start", 0}, {"end", min(a, b)}});
  same = g.call("logical_and", {same, g.call("all", {g.call("eq", {parts[0], parts[1]})})});
  give_number(call, op_of(call) == "eq" ? same : g.call("logical_not", {same}));
  return true;
}

}  // namespace grown

}  // namespace hg::convert
