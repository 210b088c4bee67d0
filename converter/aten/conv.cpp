// SPDX-License-Identifier: Apache-2.0
// Convolutions and transposed convolutions.
#include "converter/rows/rows.h"

namespace hg::convert::rows {
namespace {

struct Arguments {
  Value x, weight, bias;
  std::vector<Dim> stride, padding, dilation, output_padding;
  bool transposed = false;
  Dim groups = 1;
  const char* activation = "none";
};

void convolve(Call& call, Arguments a) {
  Graph& g = call.graph();
  const int dims = a.weight.rank() - 2;
  const bool unbatched = a.x.rank() == dims + 1;
  if (unbatched) {
    Shape shape = a.x.shape();
    shape.insert(shape.begin(), Dim(1));
    a.x = g.call("reshape", {a.x}, {{"shape", shape}});
  }
  Value y = g.call("conv", {a.x, a.weight, a.bias},
                   {{"stride", a.stride},
                    {"padding", a.padding},
                    {"dilation", a.dilation},
                    {"transposed", a.transposed},
                    {"output_padding", a.output_padding},
                    {"groups", a.groups},
                    {"activation", a.activation}});
  if (unbatched && y)
    y = g.call("reshape", {y}, {{"shape", Shape(y.shape().begin() + 1, y.shape().end())}});
  call.returns(y);
}

// Returns a list argument with one number per spatial dim.
std::vector<Dim> spatial(Call& call, std::string_view name, int dims, int fallback) {
  std::vector<Dim> given = call.sizes(name, dims);
  if (given.size() == 1) given.resize(dims, Dim(given[0]));
  return given.empty() ? std::vector<Dim>(dims, Dim(fallback)) : given;
}

// padding='same' keeps the size by adding dilation * (kernel - 1) zeros. If their number is odd, a
// separate pad adds the extra one at the end.
void pad_same(Call& call, Arguments& a, int dims) {
  std::vector<Dim> pads(2 * a.x.rank(), Dim(0));
  bool uneven = false;
  const size_t lead = static_cast<size_t>(a.x.rank() - dims);
  for (size_t i = 0; i < static_cast<size_t>(dims); ++i) {
    if (a.stride[i] != Dim(1)) call.refuse("padding", "is 'same' with a stride that is not 1");
    const Dim total = a.dilation[i] * (a.weight.shape()[i + 2] - 1);
    a.padding.push_back(floordiv(total, 2));
    const Dim odd = mod(total, 2);
    pads[2 * (lead + i) + 1] = odd;
    if (!(odd == Dim(0))) uneven = true;
  }
  if (uneven)
    a.x = call.graph().call("pad", {a.x}, {{"pads", pads}, {"mode", "constant"}, {"value", 0.0}});
}

Arguments read(Call& call, std::string_view x, std::string_view bias) {
  Arguments a;
  a.x = call.tensor(x);
  a.weight = call.tensor("weight");
  if (!bias.empty()) a.bias = call.tensor_or_none(bias);
  const int dims = a.weight.rank() - 2;
  if (dims < 1 || dims > 3) call.refuse("weight", "must have one to three spatial dims");
  a.stride = spatial(call, "stride", dims, 1);
  a.dilation = spatial(call, "dilation", dims, 1);
  a.output_padding = spatial(call, "output_padding", dims, 0);
  a.groups = call.size("groups", 1);
  const Item* padding = call.find("padding");
  if (padding != nullptr && padding->is_string()) {
    const std::string mode = call.string("padding");
    if (mode == "same")
      pad_same(call, a, dims);
    else if (mode == "valid")
      a.padding.assign(dims, Dim(0));
    else
      call.refuse("padding", "must be 'same', 'valid' or numbers");
  } else {
    a.padding = spatial(call, "padding", dims, 0);
  }
  return a;
}

void conv(Call& call) { convolve(call, read(call, "input", "bias")); }

void conv_transpose(Call& call) {
  Arguments a = read(call, "input", "bias");
  a.transposed = true;
  convolve(call, std::move(a));
}

void convolution(Call& call) {  // an argument selects transposed or not
  Arguments a = read(call, "input", "bias");
  a.transposed = call.flag("transposed", false);
  convolve(call, std::move(a));
}

void backend_conv(Call& call) { convolve(call, read(call, "self", "bias")); }

void backend_conv_transpose(Call& call) {
  Arguments a = read(call, "self", "bias");
  a.transposed = true;
  convolve(call, std::move(a));
}

void conv_relu(Call& call) {
  Arguments a = read(call, "self", "bias");
  a.activation = "relu";
  convolve(call, std::move(a));
}

void depthwise(Call& call) {  // one group per channel
  Arguments a = read(call, "self", "bias");
  a.groups = a.x.dim(a.x.rank() == a.weight.rank() ? 1 : 0);
  convolve(call, std::move(a));
}

// input: [time, batch, c], weight: [kernel, c, out] -> [time', batch, out]
void conv_tbc(Call& call) {
  Graph& g = call.graph();
  const Value x = g.call("permute", {call.tensor("self")}, {{"dims", Attr({1, 2, 0})}});
  const Value weight = g.call("permute", {call.tensor("weight")}, {{"dims", Attr({2, 1, 0})}});
  const Value y = g.call("conv", {x, weight, call.tensor("bias")},
                         {{"padding", std::vector<Dim>{call.size("pad", 0)}}});
  call.returns(g.call("permute", {y}, {{"dims", Attr({2, 0, 1})}}));
}

constexpr SharedTraits kShared = {.layout = ResultLayout::kept};
constexpr Row kRows[] = {
    {"aten::conv1d", conv},
    {"aten::conv2d", conv},
    {"aten::conv3d", conv},
    {"aten::_convolution_mode", conv},
    {"aten::conv_transpose1d", conv_transpose},
    {"aten::conv_transpose2d", conv_transpose},
    {"aten::conv_transpose3d", conv_transpose},
    {"aten::convolution", convolution},
    {"aten::_convolution", convolution},
    {"aten::convolution_overrideable", convolution},
    {"aten::cudnn_convolution", backend_conv},
    {"aten::cudnn_convolution_relu", conv_relu},
    {"aten::cudnn_convolution_transpose", backend_conv_transpose},
    {"aten::mkldnn_convolution", backend_conv},
    {"aten::thnn_conv2d", backend_conv},
    {"aten::_slow_conv2d_forward", backend_conv},
    {"aten::slow_conv3d", backend_conv},
    {"aten::slow_conv3d_forward", backend_conv},
    {"aten::slow_conv_dilated2d", backend_conv},
    {"aten::slow_conv_dilated3d", backend_conv},
    {"aten::slow_conv_transpose2d", backend_conv_transpose},
    {"aten::slow_conv_transpose3d", backend_conv_transpose},
    {"aten::_conv_depthwise2d", depthwise},
    {"aten::conv_depthwise3d", depthwise},
    {"aten::conv_tbc", conv_tbc},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> conv() { return kTable; }

}  // namespace hg::convert::rows
