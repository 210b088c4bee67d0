// SPDX-License-Identifier: Apache-2.0
// Convolutions, and the windows that they share with pooling.
#include <algorithm>

#include "converter/onnx/contrib.h"
#include "converter/onnx/windows.h"

namespace hg::convert::onnx {

Dim Windows::reach(int d) const {
  const auto i = static_cast<size_t>(d);
  return (kernel[i] - Dim(1)) * dilations[i] + Dim(1);
}

bool Windows::is_dilated() const {
  return std::any_of(dilations.begin(), dilations.end(), [](const Dim& d) { return d != Dim(1); });
}

Dims Windows::pads() const {
  Dims all = {0, 0, 0, 0};
  for (size_t d = 0; d < begin.size(); ++d) {
    all.push_back(begin[d]);
    all.push_back(end[d]);
  }
  return all;
}

Windows windows_of(Node& n, const Shape& x, Dims kernel) {
  Windows w;
  w.kernel = std::move(kernel);
  const auto count = w.kernel.size();
  if (x.size() != count + 2)
    n.refuse(str_cat("its input ", x, " has not one spatial dim for each of the kernel's ",
                     static_cast<int64_t>(count)));
  const auto list = [&](std::string_view name, size_t size, int64_t fallback) {
    Dims given = dims_of(n.integers(name));
    if (given.empty()) given = one_each(static_cast<int>(size), fallback);
    if (given.size() != size)
      n.refuse(str_cat("attribute '", name, "' has not one number per axis"));
    return given;
  };
  w.strides = list("strides", count, 1);
  w.dilations = list("dilations", count, 1);
  const Dims pads = list("pads", 2 * count, 0);
  const std::string automatic = n.string("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (!same && automatic != "NOTSET" && automatic != "VALID")
    n.refuse(str_cat("attribute 'auto_pad' is '", automatic, "'"));
  const bool up = n.flag("ceil_mode");
  // If strides exceed the kernel, SAME pads nothing, as in TensorFlow: ONNX has no negative pads.
  for (size_t d = 0; d < count; ++d) {
    const Dim in = x[d + 2], reach = w.reach(static_cast<int>(d)), stride = w.strides[d];
    if (same) {
      const Dim out = ceildiv(in, stride);
      const Dim total = max(Dim(0), (out - Dim(1)) * stride + reach - in),
                less = floordiv(total, 2);
      w.begin.push_back(automatic == "SAME_UPPER" ? less : total - less);
      w.end.push_back(automatic == "SAME_UPPER" ? total - less : less);
      w.out.push_back(out);
      continue;
    }
    w.begin.push_back(automatic == "VALID" ? Dim(0) : pads[d]);
    w.end.push_back(automatic == "VALID" ? Dim(0) : pads[count + d]);
    const Dim free = in + w.begin[d] + w.end[d] - reach;
    Dim out = (up ? ceildiv(free, stride) : floordiv(free, stride)) + Dim(1);
    // No window starts in the padding after the input.
    if (up) out = min(out, floordiv(in + w.begin[d] - Dim(1), stride) + Dim(1));
    w.out.push_back(out);
  }
  return w;
}

namespace {

Dims kernel_of(Node& n, const Value& weight) {
  Dims kernel = n.sizes_from(weight, 2);
  if (n.has("kernel_shape") && dims_of(n.integers("kernel_shape")) != kernel)
    n.refuse("attribute 'kernel_shape' is not the shape of the weights");
  return kernel;
}

}  // namespace

Value convolution_of(Node& n, Value x, const Value& weight, const Value& bias) {
  const Windows w = windows_of(n, x.shape(), kernel_of(n, weight));
  const bool inside = w.is_symmetric();
  if (!inside) x = pad(x, w.pads());
  ConvOptions options;
  options.stride = w.strides;
  options.padding = inside ? w.begin : one_each(w.count(), 0);
  options.dilation = w.dilations;
  options.groups = n.integer("group", 1);
  return conv(x, weight, bias, options);
}

namespace {

void convolution(Node& n) { n.give(convolution_of(n, n.in(0), n.in(1), n.in_or_none(2))); }

void transposed_convolution(Node& n) {
  const Value x = n.in(0), weight = n.in(1), bias = n.in_or_none(2);
  const Dims kernel = kernel_of(n, weight);
  const auto count = kernel.size();
  const auto list = [&](std::string_view name, size_t size, int64_t fallback) {
    const Dims given = dims_of(n.integers(name));
    if (!given.empty() && given.size() != size)
      n.refuse(str_cat("attribute '", name, "' has not one number per axis"));
    return given.empty() ? one_each(static_cast<int>(size), fallback) : given;
  };
  const Dims strides = list("strides", count, 1), dilations = list("dilations", count, 1),
             more = list("output_padding", count, 0), pads = list("pads", 2 * count, 0);
  Dims wanted = dims_of(n.integers("output_shape"));
  if (!wanted.empty() && wanted.size() < count)
    n.refuse("attribute 'output_shape' has not one number per axis");
  if (wanted.size() > count) wanted.erase(wanted.begin(), wanted.end() - static_cast<long>(count));
  const std::string automatic = n.string("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  Dims begin, end;
  bool plain = true;
  for (size_t d = 0; d < count; ++d) {
    const Dim reach = (kernel[d] - Dim(1)) * dilations[d] + Dim(1);
    const Dim full = strides[d] * (x.dim(static_cast<int>(d) + 2) - Dim(1)) + more[d] + reach;
    if (wanted.empty() && !same) {
      begin.push_back(automatic == "VALID" ? Dim(0) : pads[d]);
      end.push_back(automatic == "VALID" ? Dim(0) : pads[count + d]);
    } else {
      const Dim out = wanted.empty() ? x.dim(static_cast<int>(d) + 2) * strides[d] : wanted[d];
      const Dim total = max(Dim(0), full - out), half = floordiv(total, 2);
      begin.push_back(automatic == "SAME_UPPER" ? half : total - half);
      end.push_back(full - out - begin[d]);
    }
    plain = plain && begin[d] == end[d] && begin[d].is_constant() && begin[d].constant() >= 0 &&
            more[d].constant() < std::max(strides[d].constant(), dilations[d].constant());
  }
  ConvOptions options;
  options.stride = strides;
  options.dilation = dilations;
  options.groups = n.integer("group", 1);
  options.padding = plain ? begin : one_each(static_cast<int>(count), 0);
  options.output_padding = plain ? more : one_each(static_cast<int>(count), 0);
  Value y = conv_transposed(x, weight, plain ? bias : Value(), options);
  if (plain) return n.give(y);
  // Uneven padding crops the result. A longer output ends in zeros.
  Dims cut = {0, 0, 0, 0};
  for (size_t d = 0; d < count; ++d) {
    cut.push_back(-begin[d]);
    cut.push_back(more[d] - end[d]);
  }
  y = pad(y, std::move(cut));
  if (bias) {
    Shape shape = {1, bias.dim(0)};
    shape.resize(count + 2, Dim(1));
    y = y + reshape(bias, std::move(shape));
  }
  n.give(y);
}

void deformable_convolution(Node& n) {
  Value x = n.in(0);
  const Value weight = n.in(1), offset = n.in(2), bias = n.in_or_none(3), mask = n.in_or_none(4);
  const Windows w = windows_of(n, x.shape(), kernel_of(n, weight));
  if (w.count() != 2) n.refuse("only two spatial dims are supported");
  const bool inside = w.is_symmetric();
  if (!inside) x = pad(x, w.pads());
  n.give(n.op("deform_conv2d", {x, weight, offset, bias, mask},
              {{"stride", w.strides},
               {"padding", inside ? w.begin : one_each(2, 0)},
               {"dilation", w.dilations},
               {"groups", n.integer("group", 1)}}));
}

// A depthwise convolution over [state, x] that keeps the length. Also returns the next state.
void causal_convolution(Node& n) {
  const Value x = n.in(0), weight = n.in(1), bias = n.in_or_none(2);
  if (x.rank() != 3) n.refuse(str_cat("its input is ", x.shape(), ", not [batch, channels, time]"));
  const Dim before = weight.dim(2) - Dim(1);
  const Value past = n.has(3) ? n.in(3) : expand(constant_like(x, 0), {x.dim(0), x.dim(1), before});
  const Value all = concat({past, x}, 2);
  ConvOptions options;
  options.groups = x.dim(1);
  Value y = conv(all, weight, bias, options);
  const std::string activation = n.string("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = silu(y);
  else if (activation != "none")
    n.refuse(str_cat("attribute 'activation' is '", activation, "'"));
  n.give({y, slice(all, 2, all.dim(2) - before, all.dim(2))});
}

constexpr Builtin kRows[] = {
    {"onnx::Conv", row<convolution>},
    {"onnx::ConvTranspose", row<transposed_convolution>},
    {"onnx::DeformConv", row<deformable_convolution>},
    {"onnx::CausalConvWithState", row<causal_convolution>},
};

}  // namespace

Rows conv_rows() { return kRows; }

}  // namespace hg::convert::onnx
