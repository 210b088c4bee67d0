// SPDX-License-Identifier: Apache-2.0
// Control flow that depends on data, and sizes as tensors.
#include <algorithm>

#include "hg/op.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// The outer values of a subgraph's symbols, except those that change.
Status bind_inputs(InferContext& c, const Graph& body, int first, Bindings& bindings,
                   const std::vector<std::string>& changing = {}) {
  const int given = c.input_count() - first;
  if (static_cast<int>(body.inputs().size()) != given)
    return c.fail("a subgraph takes ", static_cast<int64_t>(body.inputs().size()), " inputs, but ",
                  given, " are given");
  for (int i = 0; i < given; ++i) {
    const TensorType& inside = body.value_info(body.inputs()[i]).type;
    const TensorType& outside = c.in(first + i);
    if (inside.dtype != outside.dtype || inside.rank() != outside.rank())
      return c.fail("a subgraph's input ", i, " is ", inside, ", but ", outside, " is given");
    for (size_t d = 0; d < inside.shape.size(); ++d) {
      const Dim &dim = inside.shape[d], &size = outside.shape[d];
      if (std::find(changing.begin(), changing.end(), dim.symbol()) != changing.end()) continue;
      if (!dim.symbol().empty() && size.is_constant())
        HG_TRY(bindings.bind(dim.symbol(), size.constant()));
      else if (dim.is_constant() && size.is_constant() && !(dim == size))
        return c.fail("a subgraph's input ", i, " is ", inside, ", but ", outside, " is given");
    }
  }
  return {};
}

Status check_condition(InferContext& c, const TensorType& type) {
  if (type.dtype != boolean || type.rank() != 0)
    return c.fail("the condition is ", type, ", but must be bool[]");
  return {};
}

// The symbols of a subgraph's inputs that have the same meaning outside, or a number there.
std::vector<std::string> outer_symbols(InferContext& c, const Graph& body, int first) {
  std::vector<std::string> symbols;
  for (size_t i = 0; i < body.inputs().size(); ++i) {
    const Shape& inside = body.value_info(body.inputs()[i]).type.shape;
    const Shape& outside = c.in(first + static_cast<int>(i)).shape;
    for (size_t d = 0; d < inside.size(); ++d)
      if (inside[d] == outside[d] || outside[d].is_constant()) inside[d].collect_symbols(symbols);
  }
  return symbols;
}

// Sizes that both branches and the outer graph know stay the same outside; all others are new
// symbols. Only symbols decide this, not their numbers, so that a graph with numeric sizes has the
// same new symbols.
Shape outer_shape(InferContext& c, const Shape& a, const Shape& b,
                  const std::vector<std::string>& known, const Bindings& bindings) {
  Shape shape;
  for (size_t d = 0; d < a.size(); ++d) {
    std::vector<std::string> symbols;
    a[d].collect_symbols(symbols);
    const bool outer =
        a[d] == b[d] && std::all_of(symbols.begin(), symbols.end(), [&](const std::string& s) {
          return std::find(known.begin(), known.end(), s) != known.end();
        });
    shape.push_back(outer ? a[d].substitute(bindings) : c.fresh_dim());
  }
  return shape;
}

TensorType output_type(const Graph& body, size_t i, const Bindings& bindings) {
  TensorType type = body.value_info(body.outputs()[i].second).type;
  for (Dim& dim : type.shape) dim = dim.substitute(bindings);
  return type;
}

// Both subgraphs have inputs (xs...) and outputs (ys...).
Status infer_if(InferContext& c) {
  if (c.subgraphs().size() != 2)
    return c.fail("has ", static_cast<int64_t>(c.subgraphs().size()), " subgraphs, not 2");
  HG_TRY(check_condition(c, c.in(0)));
  const Graph &yes = *c.subgraphs()[0], &no = *c.subgraphs()[1];
  Bindings of_yes, of_no;
  HG_TRY(bind_inputs(c, yes, 1, of_yes));
  HG_TRY(bind_inputs(c, no, 1, of_no));
  const size_t count = yes.outputs().size();
  if (no.outputs().size() != count)
    return c.fail("the subgraphs give ", static_cast<int64_t>(count), " and ",
                  static_cast<int64_t>(no.outputs().size()), " values");
  c.set_output_count(static_cast<int>(count));
  const std::vector<std::string> known = outer_symbols(c, yes, 1);
  for (size_t i = 0; i < count; ++i) {
    const TensorType& a = yes.value_info(yes.outputs()[i].second).type;
    const TensorType& b = no.value_info(no.outputs()[i].second).type;
    if (a.dtype != b.dtype || a.rank() != b.rank())
      return c.fail("output ", static_cast<int64_t>(i), " is ", a, " in one subgraph and ", b,
                    " in the other");
    c.out(static_cast<int>(i)) = {a.dtype, outer_shape(c, a.shape, b.shape, known, of_yes)};
  }
  return {};
}

// The symbols of carried sizes that an iteration changes. Each must be the only symbol of one size
// of one input of the body.
Result<std::vector<std::string>> changing_sizes(InferContext& c, const Graph& body) {
  std::vector<std::string> changing;
  const auto type_of = [&](ValueId id) -> const TensorType& { return body.value_info(id).type; };
  for (size_t i = 1; i < body.outputs().size(); ++i) {
    const TensorType& before = type_of(body.inputs()[i - 1]);
    const TensorType& after = type_of(body.outputs()[i].second);
    bool fits = before.dtype == after.dtype && before.rank() == after.rank();
    for (size_t d = 0; fits && d < before.shape.size(); ++d) {
      const Dim& dim = before.shape[d];
      if (dim == after.shape[d]) continue;
      int uses = 0;
      for (const ValueId id : body.inputs())
        for (const Dim& other : type_of(id).shape) {
          std::vector<std::string> symbols;
          other.collect_symbols(symbols);
          uses += std::find(symbols.begin(), symbols.end(), dim.symbol()) != symbols.end();
        }
      fits = !dim.symbol().empty() && uses == 1;
      changing.emplace_back(dim.symbol());
    }
    if (!fits)
      return c.fail("the body changes value ", static_cast<int64_t>(i) - 1, " from ", before,
                    " to ", after);
  }
  return changing;
}

// The body has inputs (values..., captures...) and outputs (cond, values...). Types are equal,
// except for sizes that change. The node's inputs are (cond, values..., captures...).
Status infer_while(InferContext& c) {
  if (c.subgraphs().size() != 1)
    return c.fail("has ", static_cast<int64_t>(c.subgraphs().size()), " subgraphs, not 1");
  HG_TRY(check_condition(c, c.in(0)));
  const Graph& body = *c.subgraphs()[0];
  if (body.outputs().empty() || body.outputs().size() > body.inputs().size() + 1)
    return c.fail("the body gives ", static_cast<int64_t>(body.outputs().size()),
                  " values and takes ", static_cast<int64_t>(body.inputs().size()));
  HG_TRY_ASSIGN(const std::vector<std::string> changing, changing_sizes(c, body));
  Bindings bindings;
  HG_TRY(bind_inputs(c, body, 1, bindings, changing));
  HG_TRY(check_condition(c, output_type(body, 0, bindings)));
  const int carried = static_cast<int>(body.outputs().size()) - 1;
  c.set_output_count(carried);
  for (int i = 0; i < carried; ++i) {
    c.out(i) = c.in(i + 1);
    const Shape& before = body.value_info(body.inputs()[i]).type.shape;
    for (size_t d = 0; d < before.size(); ++d)
      if (std::find(changing.begin(), changing.end(), before[d].symbol()) != changing.end())
        c.out(i).shape[d] = c.fresh_dim();
  }
  return {};
}

// Sizes, or numbers computed from sizes, as a vector.
Status infer_dims(InferContext& c) {
  const auto values = c.attrs().integers("values");
  if (values.size() > kMaxRank)
    return c.fail("has ", static_cast<int64_t>(values.size()), " values; the limit is ", kMaxRank);
  c.out(0) = {i64, {static_cast<int64_t>(values.size())}};
  return {};
}

// Turns a number that depends on data into a size: the size of an empty tensor.
Status infer_extent(InferContext& c) {
  if (!(c.in(0) == TensorType{i64, {}})) return c.fail("n is ", c.in(0), ", but must be i64[]");
  c.out(0) = {boolean, {c.fresh_dim(), 0}};
  return {};
}

Status infer_assert(InferContext& c) {
  HG_TRY(check_condition(c, c.in(0)));
  c.out(0) = {boolean, {}};
  return {};
}

constexpr OpDef kOps[] = {
    {.signature = "if(cond, xs...) -> ys...", .infer = infer_if, .traits = kControl},
    {.signature = "while(cond, xs...) -> ys...", .infer = infer_while, .traits = kControl | kLoop},
    // The values, such as sizes of other values, as i64[number of values].
    {.signature = "dims(values: int[]) -> y", .infer = infer_dims, .traits = kNoGradient},
    // Turns n (i64, rank 0) into a size that depends on data: bool[n, 0]. The run fails if n is
    // negative.
    {.signature = "extent(n) -> y", .infer = infer_extent, .traits = kNoGradient | kDataDependent},
    // Returns condition (bool, rank 0). The run fails with `message` if it is false.
    {.signature = "assert_true(condition, message: str) -> y",
     .infer = infer_assert,
     .traits = kNoGradient | kAssertion},
};

}  // namespace

std::span<const OpDef> control() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
