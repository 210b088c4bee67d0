// SPDX-License-Identifier: Apache-2.0
// Pooling. A tensor without a batch dim temporarily gets one.

#include "converter/rows/view.h"

namespace hg::convert::rows {
namespace {

using Values = std::vector<Value>;

struct Images {
  Value x;  // [n, c, spatial...]
  bool batched = true;
  int dims;  // spatial
};

Images images(Call& call, int dims, std::string_view argument = "self") {
  Images i{call.tensor(argument), true, dims};
  if (i.x.rank() != dims + 1 && i.x.rank() != dims + 2)
    call.refuse(argument, "must have one batch dim or none, channels and " + std::to_string(dims) +
                              " spatial dims");
  if (i.x.rank() == dims + 1) {
    i.batched = false;
    Shape shape = i.x.shape();
    shape.insert(shape.begin(), Dim(1));
    i.x = i.x.graph()->call("reshape", {i.x}, {{"shape", shape}});
  }
  return i;
}

Value without_batch(const Images& i, const Value& y) {
  if (i.batched || !y) return y;
  return y.graph()->call("reshape", {y},
                         {{"shape", Shape(y.shape().begin() + 1, y.shape().end())}});
}

void give(Call& call, const Images& i, const Values& values) {
  Values out;
  for (const Value& value : values) out.push_back(without_batch(i, value));
  call.returns(out);
}

NamedAttrs window(Call& call, int dims, bool dilated) {
  NamedAttrs attrs = {{"kernel_size", call.sizes("kernel_size", dims)},
                      {"stride", call.sizes("stride", dims)},
                      {"padding", call.sizes("padding", dims)},
                      {"ceil_mode", call.flag("ceil_mode", false)}};
  if (std::get<Dims>(attrs[2].value.value).empty()) attrs[2].value = Dims{0};
  if (dilated) {
    Dims dilation = call.sizes("dilation", dims);
    if (dilation.empty()) dilation = {1};
    attrs.push_back({"dilation", dilation});
  }
  return attrs;
}

template <int kDims>
void max_pool(Call& call) {
  const Images i = images(call, kDims);
  give(call, i, {call.graph().call("max_pool", {i.x}, window(call, kDims, true))});
}

template <int kDims>
void max_pool_with_indices(Call& call) {
  const Images i = images(call, kDims);
  give(call, i, call.graph().calls("max_pool_with_indices", {i.x}, window(call, kDims, true)));
}

template <int kDims>
void avg_pool(Call& call) {
  const Images i = images(call, kDims);
  NamedAttrs attrs = window(call, kDims, false);
  attrs.push_back({"count_include_pad", call.flag("count_include_pad", true)});
  if (call.has("divisor_override"))
    attrs.push_back({"divisor_override", call.integer("divisor_override")});
  give(call, i, {call.graph().call("avg_pool", {i.x}, attrs)});
}

template <int kDims>
void adaptive_avg_pool(Call& call) {
  const Images i = images(call, kDims);
  give(call, i,
       {call.graph().call("adaptive_avg_pool", {i.x},
                          {{"output_size", call.sizes("output_size", kDims)}})});
}

template <int kDims>
void adaptive_max_pool(Call& call) {
  const Images i = images(call, kDims);
  give(call, i,
       call.graph().calls("adaptive_max_pool", {i.x},
                          {{"output_size", call.sizes("output_size", kDims)}}));
}

// y = zeros with y[n, c, indices] = x; indices are positions in one channel of y.
template <int kDims>
void max_unpool(Call& call) {
  Graph& g = call.graph();
  const Images i = images(call, kDims);
  const Images at = images(call, kDims, "indices");
  const Dims size = call.sizes("output_size", kDims);
  const Shape lead = {i.x.dim(0), i.x.dim(1)};
  Dim positions = 1, given = 1;
  Shape shape = lead;
  for (int d = 0; d < kDims; ++d) {
    positions = positions * size[d];
    given = given * i.x.dim(d + 2);
    shape.push_back(size[d]);
  }
  auto flat = [&](const Value& v) {
    return g.call("reshape", {v}, {{"shape", Shape{lead[0], lead[1], given}}});
  };
  const Value none = zeros(g, i.x.dtype(), Shape{lead[0], lead[1], positions});
  const Value y =
      g.call("scatter", {none, flat(at.x), flat(i.x)}, {{"dim", 2}, {"reduce", "none"}});
  give(call, i, {g.call("reshape", {y}, {{"shape", shape}})});
}

// Sums the gradients of a max pool at the positions in `indices`.
void max_pool2d_backward(Call& call) {
  Graph& g = call.graph();
  const Images x = images(call, 2), dy = images(call, 2, "grad_output"),
               at = images(call, 2, "indices");
  const auto flat = [&](const Value& v) {
    return g.call("reshape", {v}, {{"shape", Shape{v.dim(0), v.dim(1), v.dim(2) * v.dim(3)}}});
  };
  const Value none = flat(zeros(g, x.x.dtype(), x.x.shape()));
  const Value dx =
      g.call("scatter", {none, flat(at.x), flat(dy.x)}, {{"dim", 2}, {"reduce", "add"}});
  give(call, x, {g.call("reshape", {dx}, {{"shape", x.x.shape()}})});
}

// Returns where the windows of one dim begin (Graham 2014): floor((i + u) a) - floor(u a) with a =
// (in - kernel) / (out - 1); the last window ends at the end. u: [n, c]
Value fractional_starts(const Value& u, const Dim& in, const Dim& kernel, const Dim& out) {
  Graph& g = *u.graph();
  const auto number = [&](const Dim& d) {
    const Value v = g.call("dims", {}, {{"values", Shape{d}}});
    return convert::cast(g.call("reshape", {v}, {{"shape", Shape{}}}), u.dtype());
  };
  const Shape column = {u.dim(0), u.dim(1), 1}, all = {u.dim(0), u.dim(1), out};
  const Value sample = g.call("reshape", {u}, {{"shape", column}});
  const Value place = g.call("arange", {}, {{"start", 0}, {"end", out}});
  const Value step = g.call("div", {number(in - kernel), number(out - 1)});
  const auto whole = [&](const Value& v) { return convert::cast(g.call("mul", {v, step}), i64); };
  const Value start = g.call(
      "sub", {whole(g.call("add", {sample, convert::cast(place, u.dtype())})), whole(sample)});
  const Value end = g.call("expand", {convert::cast(number(in - kernel), i64)}, {{"shape", all}});
  const Value is_last = g.call("eq", {place, convert::cast(number(out - 1), i64)});
  return g.call("where", {is_last, end, g.call("expand", {start}, {{"shape", all}})});
}

// The last dim of random_samples[n, c, dims] is in reversed order of dims in 2-d, and in order in
// 3-d.
template <int kDims>
void fractional_max_pool(Call& call) {
  Graph& g = call.graph();
  const Images i = images(call, kDims);
  const Dims kernel = call.sizes("kernel_size", kDims), out = call.sizes("output_size", kDims);
  const Value samples = call.tensor("random_samples");
  if (!is_float(i.x.dtype()) || samples.dtype() != i.x.dtype() || samples.rank() != 3)
    call.refuse("random_samples", "must have three dims and the float dtype of the input");
  const Shape lead = {i.x.dim(0), i.x.dim(1)};
  // places[n, c, out..., kernel...] in the flat input
  Value places;
  Dim pixels = 1, window = 1;
  Shape shape = lead;
  for (int d = kDims - 1; d >= 0; --d) {
    const auto k = static_cast<size_t>(d);
    const int column = kDims == 2 ? 1 - d : d;
    Value u = g.call("slice", {samples}, {{"dim", 2}, {"start", column}, {"end", column + 1}});
    u = g.call("reshape", {u}, {{"shape", Shape{samples.dim(0), samples.dim(1)}}});
    u = g.call("expand", {u}, {{"shape", lead}});
    Shape starts_shape = lead, steps_shape(2 + 2 * kDims, 1);
    for (int e = 0; e < 2 * kDims; ++e) starts_shape.push_back(e == d ? out[k] : Dim(1));
    steps_shape[2 + kDims + k] = kernel[k];
    const Value starts =
        g.call("reshape", {fractional_starts(u, i.x.dim(d + 2), kernel[k], out[k])},
               {{"shape", starts_shape}});
    const Value steps =
        g.call("reshape", {g.call("arange", {}, {{"start", 0}, {"end", kernel[k]}})},
               {{"shape", steps_shape}});
    Value at = g.call("add", {starts, steps});
    if (places) {
      Value stride = g.call("dims", {}, {{"values", Shape{pixels}}});
      stride = g.call("reshape", {stride}, {{"shape", Shape{}}});
      at = g.call("add", {g.call("mul", {at, stride}), places});
    }
    places = at;
    pixels = pixels * i.x.dim(d + 2);
    window = window * kernel[k];
  }
  shape.insert(shape.end(), out.begin(), out.end());
  Shape windows = shape;
  windows.push_back(window);
  const Shape flat = {lead[0], lead[1], count(out) * window};
  places = g.call("reshape", {places}, {{"shape", flat}});
  const Value x = g.call("reshape", {i.x}, {{"shape", Shape{lead[0], lead[1], pixels}}});
  const Values largest = g.calls(
      "max",
      {g.call("reshape", {g.call("gather", {x, places}, {{"dim", 2}})}, {{"shape", windows}})},
      {{"dim", -1}, {"keepdim", true}});
  const Value chosen = g.call(
      "gather", {g.call("reshape", {places}, {{"shape", windows}}), largest[1]}, {{"dim", -1}});
  give(call, i,
       {g.call("reshape", {largest[0]}, {{"shape", shape}}),
        g.call("reshape", {chosen}, {{"shape", shape}})});
}

constexpr SharedTraits kShared = {.layout = ResultLayout::kept};
constexpr Row kRows[] = {
    {"aten::max_pool1d", max_pool<1>},
    {"aten::max_pool2d", max_pool<2>},
    {"aten::max_pool3d", max_pool<3>},
    {"aten::mkldnn_max_pool2d", max_pool<2>},
    {"aten::max_pool1d_with_indices", max_pool_with_indices<1>},
    {"aten::max_pool2d_with_indices", max_pool_with_indices<2>},
    {"aten::max_pool3d_with_indices", max_pool_with_indices<3>},
    {"aten::max_pool2d_with_indices_backward", max_pool2d_backward},
    {"aten::avg_pool1d", avg_pool<1>},
    {"aten::avg_pool2d", avg_pool<2>},
    {"aten::avg_pool3d", avg_pool<3>},
    {"aten::adaptive_avg_pool1d", adaptive_avg_pool<1>},
    {"aten::adaptive_avg_pool2d", adaptive_avg_pool<2>},
    {"aten::_adaptive_avg_pool2d", adaptive_avg_pool<2>},
    {"aten::adaptive_avg_pool3d", adaptive_avg_pool<3>},
    {"aten::_adaptive_avg_pool3d", adaptive_avg_pool<3>},
    {"aten::adaptive_max_pool1d", adaptive_max_pool<1>},
    {"aten::adaptive_max_pool2d", adaptive_max_pool<2>},
    {"aten::adaptive_max_pool3d", adaptive_max_pool<3>},
    {"aten::fractional_max_pool2d", fractional_max_pool<2>},
    {"aten::fractional_max_pool3d", fractional_max_pool<3>},
    {.op = "aten::max_unpool2d",
     .run = max_unpool<2>,
     .numbers = {{{"indices", DrawnNumbers::distinct}}}},
    {.op = "aten::max_unpool3d",
     .run = max_unpool<3>,
     .numbers = {{{"indices", DrawnNumbers::distinct}}}},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> pool() { return kTable; }

}  // namespace hg::convert::rows
