// SPDX-License-Identifier: Apache-2.0
// Data-dependent numbers as terms of sizes. A symbol is a size and thus never negative. A number
// that may be negative is the difference of two symbols, unless it is used as a size.
#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "converter/core/value_numbering.h"
#include "converter/memory/alias.h"
#include "hg/op.h"
#include "lib/graph/element.h"

namespace hg::convert {
namespace {

// When the results of an op are nonnegative.
enum class Sign : uint8_t {
  never_negative,
  as_inputs,  // if all inputs are nonnegative
  as_any,     // if any input is nonnegative
  as_first,   // if the first input is nonnegative
  as_last,
  values,  // as_first for the first result; the others are indices and counts
};

std::optional<Sign> sign_of(std::string_view op) {
  struct Row {
    std::string_view op;
    Sign sign;
  };
  static constexpr Row kRows[] = {
      {"abs", Sign::never_negative},
      {"add", Sign::as_inputs},
      {"amax", Sign::as_first},
      {"amin", Sign::as_first},
      {"argmax", Sign::never_negative},
      {"argmin", Sign::never_negative},
      {"bincount", Sign::never_negative},
      {"bitwise_and", Sign::as_any},
      {"bitwise_or", Sign::as_inputs},
      {"bitwise_right_shift", Sign::as_first},
      {"bitwise_xor", Sign::as_inputs},
      {"cast", Sign::as_first},
      {"ceil", Sign::as_first},
      {"concat", Sign::as_inputs},
      {"contiguous", Sign::as_first},
      {"cummax", Sign::values},
      {"cummin", Sign::values},
      {"cumprod", Sign::as_first},
      {"cumsum", Sign::as_first},
      {"diagonal", Sign::as_first},
      {"div", Sign::as_inputs},
      {"exp", Sign::never_negative},
      {"exp2", Sign::never_negative},
      {"expand", Sign::as_first},
      {"flip", Sign::as_first},
      {"floor", Sign::as_first},
      {"floor_divide", Sign::as_inputs},
      {"fmax", Sign::as_any},
      {"fmod", Sign::as_first},
      {"gather", Sign::as_first},
      {"gcd", Sign::never_negative},
      {"histc", Sign::never_negative},
      {"index", Sign::as_first},
      {"index_select", Sign::as_first},
      {"kthvalue", Sign::values},
      {"lcm", Sign::never_negative},
      {"max", Sign::values},
      {"maximum", Sign::as_any},
      {"mean", Sign::as_first},
      {"median", Sign::values},
      {"min", Sign::values},
      {"minimum", Sign::as_inputs},
      {"mode", Sign::values},
      {"mul", Sign::as_inputs},
      {"nonzero", Sign::never_negative},
      {"norm", Sign::never_negative},
      {"one_hot", Sign::never_negative},
      {"permute", Sign::as_first},
      {"pow", Sign::as_first},
      {"prod", Sign::as_first},
      {"relu", Sign::never_negative},
      {"remainder", Sign::as_last},
      {"repeat_interleave", Sign::never_negative},
      {"reshape", Sign::as_first},
      {"round", Sign::as_first},
      {"searchsorted", Sign::never_negative},
      {"sigmoid", Sign::never_negative},
      {"slice", Sign::as_first},
      {"softmax", Sign::never_negative},
      {"sort", Sign::values},
      {"sqrt", Sign::never_negative},
      {"square", Sign::never_negative},
      {"sum", Sign::as_first},
      {"to_integer", Sign::as_first},
      {"topk", Sign::values},
      {"trunc", Sign::as_first},
      {"trunc_divide", Sign::as_inputs},
      {"unique", Sign::values},
      {"var", Sign::never_negative},
  };
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [op](const Row& each) { return each.op == op; });
  return row != std::end(kRows) ? std::optional(row->sign) : std::nullopt;
}

bool has_no_negative(const Tensor& tensor) {
  constexpr int64_t kMost = 1 << 16;  // of elements that are checked
  if (tensor.count() > kMost || is_complex(tensor.dtype)) return false;
  for (int64_t i = 0; i < tensor.count(); ++i)
    if (!(element(tensor, i) >= 0)) return false;
  return true;
}

constexpr int kMostSteps = 100;  // from a number back to the values that determine its sign

class Signs {
 public:
  using Outside = std::function<std::optional<Value>(const Graph&, ValueId)>;
  // `is_given` returns whether a value is known to be nonnegative. `outside` returns the value in
  // the graph around that an input of a body stands for.
  Signs(std::function<bool(const Graph&, ValueId)> is_given, Outside outside)
      : is_given_(std::move(is_given)), outside_(std::move(outside)) {}

  bool is_nonnegative(const Graph& graph, ValueId id, int steps = kMostSteps) {
    if (id == kNoValue || steps == 0) return false;
    const auto [found, is_new] = known_.try_emplace({&graph, id}, false);
    if (!is_new) return found->second;
    const bool answer = compute(graph, id, steps - 1);
    return known_[{&graph, id}] = answer;
  }

 private:
  bool compute(const Graph& graph, ValueId id, int steps) {
    const ValueInfo& info = graph.value_info(id);
    if (info.type.dtype == boolean || info.type.dtype == u8 || is_given_(graph, id)) return true;
    if (const TensorData* constant = graph.constant_of(id))
      return has_no_negative(constant->tensor);
    if (info.node < 0) {
      const auto outer = outside_(graph, id);
      return outer && is_nonnegative(*outer->graph(), outer->id(), steps);
    }
    const Node& node = graph.nodes()[info.node];
    const auto input = [&](size_t i) {
      return i < node.inputs.size() && is_nonnegative(graph, node.inputs[i], steps);
    };
    const auto attribute = [&](std::string_view name) -> const Attr& {
      return node.attrs.at(node.op->signature.find_attribute(name));
    };
    const std::string_view op = node.op->name();
    const auto output = static_cast<size_t>(
        std::find(node.outputs.begin(), node.outputs.end(), id) - node.outputs.begin());
    if (op == "where") return input(1) && input(2);
    if (op == "clamp") return node.inputs.size() > 1 && input(1) && node.inputs[1] != kNoValue;
    if (op == "full") return std::get<double>(attribute("value").value) >= 0;
    if (op == "arange")
      return std::get<Dim>(attribute("start").value).lower_bound() >= 0 &&
             std::get<Dim>(attribute("step").value).lower_bound() > 0;
    if (op == "dims") {
      const auto& values = std::get<std::vector<Dim>>(attribute("values").value);
      return std::all_of(values.begin(), values.end(),
                         [](const Dim& value) { return value.lower_bound() >= 0; });
    }
    if (op == "if")
      return std::all_of(node.subgraphs.begin(), node.subgraphs.end(), [&](const auto& side) {
        return is_nonnegative(*side, side->outputs().at(output).second, steps);
      });
    const auto sign = sign_of(op);
    if (!sign) return false;
    switch (*sign) {
      case Sign::never_negative:
        return true;
      case Sign::as_inputs:
        for (size_t i = 0; i < node.inputs.size(); ++i)
          if (!input(i)) return false;
        return true;
      case Sign::as_any:
        for (size_t i = 0; i < node.inputs.size(); ++i)
          if (input(i)) return true;
        return false;
      case Sign::as_first:
        return input(0);
      case Sign::as_last:
        return input(node.inputs.size() - 1);
      case Sign::values:
        return output > 0 || input(0);
    }
    return false;
  }

  std::function<bool(const Graph&, ValueId)> is_given_;
  Outside outside_;
  std::map<std::pair<const Graph*, ValueId>, bool> known_;
};

}  // namespace

void Memory::set_nonnegative(const Value& value) {
  nonnegative_.emplace(value.graph(), value.id());
}

bool Memory::is_nonnegative(const Value& value) {
  Signs signs(
      [&](const Graph& graph, ValueId id) {
        return nonnegative_.contains({&graph, id}) || extents_.contains({&graph, id});
      },
      [&](const Graph& graph, ValueId id) -> std::optional<Value> {
        for (size_t level = 1; level < regions_.size(); ++level)
          if (regions_[level].graph == &graph)
            for (const auto& [outer, inner] : regions_[level].inside)
              if (inner.id() == id) return regions_[level - 1].graph->value(outer);
        return std::nullopt;
      });
  return signs.is_nonnegative(*value.graph(), value.id());
}

void Memory::learn_signs(const Value& condition, bool wanted) {
  const Graph& g = *condition.graph();
  const int32_t index = g.value_info(condition.id()).node;
  if (index < 0) return;
  const Node& node = g.nodes()[index];
  const std::string_view op = node.op->name();
  const auto input = [&](size_t i) { return condition.graph()->value(node.inputs.at(i)); };
  if (op == "cast" || op == "reshape") return learn_signs(input(0), wanted);
  if (op == "logical_not") return learn_signs(input(0), !wanted);
  if (op == (wanted ? "logical_and" : "logical_or")) {
    learn_signs(input(0), wanted);
    return learn_signs(input(1), wanted);
  }
  // larger >= smaller
  const bool ge = op == (wanted ? "ge" : "lt"), gt = op == (wanted ? "gt" : "le");
  const bool le = op == (wanted ? "le" : "gt"), lt = op == (wanted ? "lt" : "ge");
  if (op == (wanted ? "eq" : "ne")) {
    if (is_nonnegative(input(1))) set_nonnegative(input(0));
  } else if (ge || gt || le || lt) {
    const size_t larger = ge || gt ? 0 : 1;
    const TensorData* limit = g.constant_of(node.inputs.at(1 - larger));
    const bool is_strict = gt || lt;
    const bool is_above = limit != nullptr ? limit->tensor.count() == 1 &&
                                                 element(limit->tensor, 0) >= (is_strict ? -1 : 0)
                                           : is_nonnegative(input(1 - larger));
    if (is_above) set_nonnegative(input(larger));
  }
}

Dim Memory::extent_of(const Value& number) {
  const auto key = std::pair(&graph(), number.id());
  if (const auto found = extents_.find(key); found != extents_.end()) return found->second;
  Value extent = computed_before("extent", number);
  if (!extent) extent = graph().call("extent", {number});
  extents_.emplace(key, extent.dim(0));
  return extent.dim(0);
}

std::optional<Value> Memory::integer_value(const TensorRef& number) {
  const Value value = read(number);
  return value.dtype() == i64 && value.rank() == 0 ? std::optional(value) : std::nullopt;
}

std::optional<Dim> Memory::term_of(const TensorRef& number) {
  if (const auto& known = number->known()) {
    if (known->elements.size() != 1 || !known->elements[0].is_integral()) return std::nullopt;
    return known->elements[0].top;
  }
  if (number->term_)
    if (const auto term = number->term_(&Memory::term_of)) return term;
  const auto value = integer_value(number);
  return value && is_nonnegative(*value) ? std::optional(extent_of(*value)) : std::nullopt;
}

std::optional<Dim> Memory::size_of(const TensorRef& number) {
  if (const auto term = term_of(number)) return term;
  // Negative parts may cancel out: (i + 4) - i.
  if (!number->known() && number->term_)
    if (const auto term = number->term_(&Memory::integer_of); term && term->lower_bound() >= 0)
      return term;
  const auto value = integer_value(number);
  return value ? std::optional(extent_of(*value)) : std::nullopt;
}

std::optional<Dim> Memory::integer_of(const TensorRef& number) {
  if (const auto term = term_of(number)) return term;
  if (!number->known() && number->term_)
    if (const auto term = number->term_(&Memory::integer_of)) return term;
  const auto value = integer_value(number);
  if (!value) return std::nullopt;
  Graph& g = graph();
  const Value zero = g.scalar(int64_t{0}, i64);
  // Not max(-value, 0): the negation of the smallest integer would overflow, and the clamp would
  // hide it.
  return extent_of(g.call("maximum", {*value, zero})) -
         extent_of(g.call("neg", {g.call("minimum", {*value, zero})}));
}

void Memory::set_term(const TensorRef& number, Term term) { number->term_ = std::move(term); }

}  // namespace hg::convert
