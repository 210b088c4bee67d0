// SPDX-License-Identifier: Apache-2.0
#include "converter/aten/packed.h"

#include "converter/rows/view.h"
#include "hg/ops/compare.h"

namespace hg::convert::rows {
namespace {

// Returns the positions of the steps among all padded sequences: i64[steps].
Value places(Graph& g, const Packed& packed) {
  const Value going = reshaped(going_on(g, packed), {packed.time * packed.batch});
  const Value found = g.call("nonzero", {going});
  return reshaped(found, {found.dim(0)});
}

// [time, batch, ...] -> [time * batch, ...]
Value all_steps(const Value& padded) {
  Shape shape(padded.shape().begin() + 1, padded.shape().end());
  shape[0] = shape[0] * padded.dim(0);
  return reshaped(padded, shape);
}

Value swap_batch_and_time(const Value& x) {
  Dims order = {1, 0};
  for (int d = 2; d < x.rank(); ++d) order.emplace_back(d);
  return permute(x, order);
}

// (input, lengths) returns (data, batch sizes).
void pack_padded(Call& call) {
  Graph& g = call.graph();
  Value x = call.tensor("input");
  if (call.is_complex(call.ref("input"))) call.refuse("input", "is complex");
  if (x.rank() < 2) call.refuse("input", "must have the dims time and batch");
  if (call.flag("batch_first")) x = swap_batch_and_time(x);
  const Value lengths = convert::cast(call.tensor("lengths"), i64);
  if (lengths.rank() != 1) call.refuse("lengths", "must have one dim");
  const Packed packed{call.keep(lengths), x.dim(0), x.dim(1), {}};
  const TensorRef data = pack(call, x, packed);
  const Value longest = g.call("amax", {lengths}, {{"dim", Dims{0}}});
  const Value sizes = g.call("sum", {convert::cast(going_on(g, packed), i64)}, {{"dim", Dims{1}}});
  const TensorRef counts = call.make_tensor(slice(sizes, 0, 0, call.size_of(longest)));
  call.set_packed(counts, packed);
  call.returns(std::vector<Item>{Item(data), Item(counts)});
}

// (data, batch sizes) returns (padded, lengths).
void pad_packed(Call& call) {
  Graph& g = call.graph();
  const TensorRef sizes = call.ref("batch_sizes");
  const auto packed = call.packed(sizes);
  if (!packed) call.refuse("batch_sizes", "comes of no pack_padded_sequence");
  Value x = padded_of(call, call.ref("data"), sizes);
  Shape mask(x.rank(), Dim(1));
  mask[0] = packed->time;
  mask[1] = packed->batch;
  const Value fill = call.tensor_or_number("padding_value", x.dtype());
  x = g.call("where", {reshaped(going_on(g, *packed), mask), x, fill});
  const Dim total = call.size("total_length", packed->time);
  if (!(total == packed->time)) {
    Shape more = x.shape();
    more[0] = max(total - packed->time, Dim(0));
    if (!(more[0] == Dim(0)) && more[0].is_constant())
      x = g.call("concat", {x, expanded(fill, more)}, {{"dim", 0}});
    x = slice(x, 0, 0, total);
  }
  if (call.flag("batch_first")) x = swap_batch_and_time(x);
  call.returns({x, packed->lengths()});
}

constexpr Row kRows[] = {
    {.op = "aten::_pack_padded_sequence",
     .run = pack_padded,
     .numbers = {{{"lengths", DrawnNumbers::lengths}}}},
    {"aten::_pad_packed_sequence", pad_packed},
};

}  // namespace

Value going_on(Graph& g, const Packed& packed) {
  const Value time = g.call("arange", {}, {{"end", packed.time}});
  return lt(reshaped(time, {packed.time, 1}), reshaped(packed.lengths(), {1, packed.batch}));
}

Value padded_of(Call& call, const TensorRef& data, const TensorRef& sizes) {
  if (const auto packed = call.packed(data); packed && packed->padded) return packed->padded();
  const auto packed = call.packed(sizes);
  if (!packed) call.refuse("batch_sizes", "comes of no pack_padded_sequence");
  Graph& g = call.graph();
  const Value steps = call.read(data);
  Shape shape = steps.shape();
  shape[0] = packed->time * packed->batch;
  const Value none = zeros(g, steps.dtype(), shape);
  const Value all = g.call("index_put", {none, steps, places(g, *packed)});
  shape[0] = packed->batch;
  shape.insert(shape.begin(), packed->time);
  return reshaped(all, shape);
}

TensorRef pack(Call& call, Value padded, Packed packed) {
  Graph& g = call.graph();
  packed.padded = call.keep(padded);
  const TensorRef data = call.make_tensor(
      g.call("index_select", {all_steps(padded), places(g, packed)}, {{"dim", 0}}));
  call.set_packed(data, std::move(packed));
  return data;
}

std::span<const Row> packed() { return kRows; }

}  // namespace hg::convert::rows
