// SPDX-License-Identifier: Apache-2.0
// Nested tensors that nn.TransformerEncoder makes from a padding mask. Here they stay padded, with
// a mask of the valid part. Only the ops of the encoder are supported.
#include <algorithm>

#include "converter/rows/view.h"
#include "converter/script/script_ops.h"
#include "hg/ops/compare.h"
#include "hg/ops/reduce.h"

namespace hg::convert {
namespace {

const TensorRef& tensor_at(NodeCall& call, int index) {
  const auto* tensor = std::get_if<TensorRef>(&call.at(index).value);
  if (tensor == nullptr) call.refuse(str_cat(index), "is not a tensor");
  return *tensor;
}

// The script uses nested tensors if the mask is left-aligned, and otherwise the plain mask, as data
// decides. The two differ only in the final values of the padding, so one form represents both.
bool is_left_aligned(NodeCall& call) {
  call.environment().ask_alignment();
  call.give(Item(true));
  return true;
}

bool from_mask(NodeCall& call) {
  Graph& g = call.graph();
  const Value x = call.read(tensor_at(call, 0)), mask = call.read(tensor_at(call, 1));
  if (x.rank() != 3 || mask.rank() != 2 || mask.dtype() != boolean)
    throw Refusal{str_cat("a nested tensor is made of ", TensorType{x.dtype(), x.shape()},
                          " and a mask ", TensorType{mask.dtype(), mask.shape()}),
                  ""};
  const Value lengths =
      g.call("sum", {cast(mask, i64)}, {{"dim", std::vector<Dim>{1}}, {"keepdim", true}});
  const Value aligned = g.call("lt", {g.call("arange", {}, {{"end", x.dim(1)}}), lengths});
  const TensorRef nested = call.make_tensor(x);
  if (call.environment().asked_alignment()) {
    const Value same = g.call("all", {g.call("eq", {mask, aligned})});
    call.memory().set_nested(
        nested,
        {call.keep(mask), call.keep(g.call("logical_or", {mask, g.call("logical_not", {same})}))});
  } else {  // a trace depends only on the number of elements
    call.memory().set_nested(nested, {call.keep(aligned), call.keep(aligned)});
  }
  call.give(Item(nested));
  return true;
}

bool to_padded(NodeCall& call) {
  const TensorRef x = tensor_at(call, 0);
  const auto nested = x->nested();
  if (!nested) throw Refusal{"the tensor is not nested", ""};
  const Value padded = call.read(x);
  if (call.has("output_size")) {
    const std::vector<Dim> size = call.sizes("output_size");
    if (Shape(size.begin(), size.end()) != padded.shape())
      call.refuse("output_size", str_cat("is not the size ", padded.shape(), " from before"));
  } else if (call.find("output_size") != nullptr || call.argument_count() < 3) {
    throw Refusal{"a nested tensor is padded to its own longest part",
                  "give to_padded_tensor the size that it had"};
  }
  const Value keeps = rows::reshaped(nested->keeps(), {padded.dim(0), padded.dim(1), Dim(1)});
  const Value fill = call.graph().scalar(call.real("padding"), padded.dtype());
  call.give(Item(call.make_tensor(call.graph().call("where", {keeps, padded, fill}))));
  return true;
}

bool is_nested(NodeCall& call) {
  call.give(Item(tensor_at(call, 0)->nested().has_value()));
  return true;
}

}  // namespace

namespace nested {

bool encoder_layer(NodeCall& call) {
  const TensorRef src = tensor_at(call, 0);
  const auto nested = src->nested();
  if (!nested) return false;
  if (call.has("mask")) call.refuse("mask", "is not supported for nested tensors");
  NodeCall::Part part;
  for (int i = 0; i < call.argument_count(); ++i) part.arguments.push_back(call.at(i));
  const auto& names = call.node().argument_names;
  for (size_t i = 0; i < part.arguments.size(); ++i) {
    if (names[i] == "src")
      part.arguments[i] = Item(call.make_tensor(call.read(src)));
    else if (names[i] == "mask")
      part.arguments[i] =
          Item(call.make_tensor(call.graph().call("logical_not", {nested->counts()})));
    else if (names[i] == "mask_type")
      part.arguments[i] = Item(1);  // [batch, keys]
  }
  call.set_part(&part);
  call.row()->run(call);
  call.set_part(nullptr);
  call.memory().set_nested(std::get<TensorRef>(call.results().at(0).value), *nested);
  return true;
}

}  // namespace nested

namespace {

constexpr Row kRows[] = {
    {.op = "aten::_nested_tensor_from_mask_left_aligned",
     .script = {is_left_aligned},
     .takes_nested = true},
    {.op = "aten::_nested_tensor_from_mask", .script = {from_mask}, .takes_nested = true},
    {.op = "aten::to_padded_tensor", .script = {to_padded}, .takes_nested = true},
    {.op = "aten::nested_to_padded_tensor", .script = {to_padded}, .takes_nested = true},
    {.op = "prim::is_nested", .script = {is_nested}},
};

}  // namespace

std::span<const Row> nested_rows() { return kRows; }

}  // namespace hg::convert
