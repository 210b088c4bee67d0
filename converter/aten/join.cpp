// SPDX-License-Identifier: Apache-2.0
// Concatenation along an existing or a new dim.
#include "converter/containers/container_ops.h"
#include "converter/rows/view.h"
#include "converter/script/fold.h"
#include "hg/promotion.h"

namespace hg::convert::rows {
namespace {
using Values = std::vector<Value>;

// Returns the tensors in the dtype of torch's promotion.
Values same_dtype(Call& call, std::string_view argument = "tensors") {
  Values values = call.tensors(argument);
  if (values.empty()) call.refuse(argument, "is empty");
  Promotion of;
  for (const Value& value : values) of.add_tensor(value.dtype(), value.rank());
  const DType dtype = of.result();
  for (Value& value : values) value = convert::cast(value, dtype);
  return values;
}

// Ignores empty tensors with one dim, as torch does for compatibility with old code.
void cat(Call& call) {
  Values values = same_dtype(call);
  Values kept;
  for (const Value& value : values)
    if (!(value.shape() == Shape{0})) kept.push_back(value);
  if (kept.empty()) return call.returns(values[0]);
  call.returns(joined(kept, axis_of(call, "dim", kept[0].rank(), 0)));
}

// Pads each tensor with zeros along dim and splits it into `num_chunks` equal parts. Then
// concatenates the flattened k-th parts of all tensors.
void chunk_cat(Call& call) {
  Values values = same_dtype(call);
  const int dim = axis_of(call, "dim", values[0].rank(), 0);
  const Dim chunks = call.size("num_chunks");
  for (Value& value : values) {
    const Dim size = value.dim(dim), part = floordiv(size + chunks - 1, chunks);
    const Shape& shape = value.shape();
    Dims pads(2 * shape.size(), Dim(0));
    pads[2 * static_cast<size_t>(dim) + 1] = part * chunks - size;
    Shape split(shape.begin(), shape.begin() + dim);
    split.push_back(chunks);
    split.push_back(part * count(Shape(shape.begin() + dim + 1, shape.end())));
    value = reshaped(call.graph().call("pad", {value}, {{"pads", pads}}), split);
  }
  call.returns(joined(values, dim + 1));
}

Value with_dim(const Value& x, int dim) {
  Shape shape = x.shape();
  shape.insert(shape.begin() + dim, Dim(1));
  return reshaped(x, shape);
}

Value stack_values(Values values, int dim) {
  for (Value& value : values) value = with_dim(value, dim);
  return joined(values, dim);
}

void stack(Call& call) {
  Values values = same_dtype(call);
  call.returns(stack_values(values, axis_of(call, "dim", values[0].rank() + 1, 0)));
}

template <int kRank>
void join_at_least(Call& call) {  // hstack 1, vstack 2, dstack 3
  Values values = same_dtype(call);
  for (Value& value : values) value = reshaped(value, at_least(value.shape(), kRank));
  const int dim = kRank == 1 ? (values[0].rank() == 1 ? 0 : 1) : kRank == 2 ? 0 : 2;
  call.returns(joined(values, dim));
}

void column_stack(Call& call) {
  Values values = same_dtype(call);
  for (Value& value : values)
    if (value.rank() <= 1) value = reshaped(value, {count(value.shape()), 1});
  call.returns(joined(values, 1));
}

// Pads each tensor with zeros on the left and right, and stacks them vertically.
void block_diag(Call& call) {
  Values values = same_dtype(call);
  Dim width = 0;
  for (Value& value : values) {
    if (value.rank() > 2) call.refuse("tensors", "holds a tensor of more than two dims");
    value = reshaped(value, at_least(value.shape(), 2));
    width = width + value.dim(1);
  }
  Dim left = 0;
  for (Value& value : values) {
    const Dim end = left + value.dim(1);
    value = call.graph().call("pad", {value}, {{"pads", Dims{0, 0, left, width - end}}});
    left = end;
  }
  call.returns(joined(values, 0));
}

void cartesian_prod(Call& call) {
  Values values = same_dtype(call);
  if (values.size() == 1) return call.returns(values[0]);
  Shape shape;
  for (const Value& value : values) {
    if (value.rank() != 1) call.refuse("tensors", "holds a tensor that has not one dim");
    shape.push_back(value.dim(0));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    Shape one(shape.size(), Dim(1));
    one[i] = shape[i];
    values[i] = reshaped(expanded(reshaped(values[i], one), shape), {count(shape)});
  }
  call.returns(stack_values(values, 1));
}

// Stacks tensors [length, ...], padded to the longest, in the dtype and other sizes of the first.
void pad_sequence(Call& call) {
  Values values = call.tensors("sequences");
  if (values.empty() || values[0].rank() == 0)
    call.refuse("sequences", values.empty() ? "is empty" : "holds a tensor of rank 0");
  Shape shape = values[0].shape();
  for (const Value& value : values) {
    if (value.rank() == 0) call.refuse("sequences", "holds a tensor of rank 0");
    shape[0] = max(shape[0], value.dim(0));
  }
  const Dim longest = shape[0];
  const DType dtype = values[0].dtype();
  const bool left = call.string("padding_side", "right") == "left";
  const Value padding = call.has("padding_value") ? call.tensor_or_number("padding_value", dtype)
                                                  : call.graph().scalar(int64_t{0}, dtype);
  for (Value& value : values) {
    shape[0] = value.dim(0);
    value = expanded(convert::cast(value, dtype), shape);
    shape[0] = longest - shape[0];
    if (shape[0] == Dim(0)) continue;
    const Value rest = expanded(padding, shape);
    value = left ? joined({rest, value}, 0) : joined({value, rest}, 0);
  }
  call.returns(stack_values(values, call.flag("batch_first", false) ? 0 : 1));
}

constexpr SharedTraits kShared = {.complex = OnComplex::parts, .layout = ResultLayout::joined};
constexpr Row kRows[] = {
    {.op = "aten::cat", .run = cat, .fold = {fold::join}, .grown_list = grown::cat},
    {.op = "aten::concat", .run = cat, .grown_list = grown::cat},
    {.op = "aten::concatenate", .run = cat, .grown_list = grown::cat},
    {"aten::_cat", cat},
    {"aten::_chunk_cat", chunk_cat},
    {.op = "aten::stack", .run = stack, .fold = {fold::join}, .grown_list = grown::stack},
    {"aten::_stack", stack},
    {"aten::hstack", join_at_least<1>},
    {"aten::vstack", join_at_least<2>},
    {"aten::row_stack", join_at_least<2>},
    {"aten::dstack", join_at_least<3>},
    {"aten::column_stack", column_stack},
    {"aten::block_diag", block_diag},
    {"aten::cartesian_prod", cartesian_prod},
    {.op = "aten::pad_sequence",
     .run = pad_sequence,
     .complex = OnComplex::refused,
     .layout = ResultLayout::row_major,
     .grown_list = grown::pad_sequence},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> join() { return kTable; }

}  // namespace hg::convert::rows
