// SPDX-License-Identifier: Apache-2.0
// Convolutions, transposed convolutions and the gradient of the weight, for every dtype and any
// attributes, with plain loops over output rows.
#include <algorithm>

#include "hg/kernel.h"
#include "kernels/arithmetic.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/conv_shape.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

void read_spatial(const KernelAttrs& attrs, std::string_view name, int dims,
                  ConvShape::Spatial& to) {
  const Sizes given = attrs.integers(name);
  for (int i = 0; i < dims; ++i) to[size_t(3 - dims + i)] = given[given.rank() == 1 ? 0 : i];
}

void read_geometry(const KernelAttrs& attrs, const Tensor& x, const Tensor& y, ConvShape& s) {
  const int dims = x.rank() - 2;
  s.n = x.shape[0];
  s.c = x.shape[1];
  s.o = y.shape[1];
  s.groups = attrs.integer("groups");
  for (int i = 0; i < dims; ++i) {
    s.in[size_t(3 - dims + i)] = x.shape[2 + i];
    s.out[size_t(3 - dims + i)] = y.shape[2 + i];
  }
  read_spatial(attrs, "stride", dims, s.stride);
  read_spatial(attrs, "padding", dims, s.padding);
  read_spatial(attrs, "dilation", dims, s.dilation);
}

// Kernels walk along the last dim. If it is 1, as in 1-D convolutions written as 2-D ones, it is
// moved to the front.
void put_single_pixels_first(ConvShape& s) {
  const auto first = [](ConvShape::Spatial& of, int64_t value) { of = {value, of[0], of[1]}; };
  for (int i = 0; i < 2; ++i) {
    if (s.in[2] != 1 || s.out[2] != 1 || s.kernel[2] != 1 || s.padding[2] != 0) return;
    for (ConvShape::Spatial* of : {&s.in, &s.out, &s.kernel, &s.stride, &s.dilation}) first(*of, 1);
    first(s.padding, 0);
  }
}

// For images whose height is dim `first` of x and dim 1 of y. The channels of y are its last dim.
ConvShape image_shape(const Tensor& x, int first, const Tensor& weight, const Tensor& y,
                      const KernelAttrs& attrs) {
  ConvShape s;
  s.n = x.shape[0];
  s.c = x.shape[first == 1 ? 3 : 1];
  s.o = y.shape[3];
  for (int i = 0; i < 2; ++i) {
    s.in[size_t(1 + i)] = x.shape[first + i];
    s.out[size_t(1 + i)] = y.shape[1 + i];
    s.kernel[size_t(1 + i)] = weight.shape[2 + i];
  }
  read_spatial(attrs, "stride", 2, s.stride);
  read_spatial(attrs, "padding", 2, s.padding);
  read_spatial(attrs, "dilation", 2, s.dilation);
  s.activation = *parse_activation(attrs.string("activation"));
  return s;
}

}  // namespace

ConvShape conv_shape(const Tensor& x, const Tensor& weight, const Tensor& y,
                     const KernelAttrs& attrs) {
  ConvShape s;
  read_geometry(attrs, x, y, s);
  const int dims = x.rank() - 2;
  for (int i = 0; i < dims; ++i) s.kernel[size_t(3 - dims + i)] = weight.shape[2 + i];
  s.transposed = attrs.flag("transposed");
  s.activation = *parse_activation(attrs.string("activation"));
  put_single_pixels_first(s);
  return s;
}

ConvShape channels_last_shape(const Tensor& x, const Tensor& weight, const Tensor& y,
                              const KernelAttrs& attrs) {
  ConvShape s = dense_channels_last_shape(x, weight, y, attrs);
  s.groups = s.c;
  return s;
}

ConvShape dense_channels_last_shape(const Tensor& x, const Tensor& weight, const Tensor& y,
                                    const KernelAttrs& attrs) {
  return image_shape(x, 1, weight, y, attrs);
}

ConvShape to_channels_last_shape(const Tensor& x, const Tensor& weight, const Tensor& y,
                                 const KernelAttrs& attrs) {
  return image_shape(x, 2, weight, y, attrs);
}

ConvShape conv_weight_grad_shape(const Tensor& x, const Tensor& dy, const KernelAttrs& attrs) {
  ConvShape s;
  read_geometry(attrs, x, dy, s);
  read_spatial(attrs, "kernel", x.rank() - 2, s.kernel);
  put_single_pixels_first(s);
  return s;
}

namespace {

constexpr int64_t kRowPart = 256;  // elements of an output row whose sums are computed together

// sums[j] += w x[...] for the elements [first, first + columns) of one output row.
template <class T>
void add_row(const ConvShape& s, SumOf<T>* sums, int64_t first, int64_t columns, const T* x_row,
             SumOf<T> w, int64_t kx) {
  const int64_t shift = kx * s.dilation[2] - s.padding[2], stride = s.stride[2];
  if (s.transposed) {  // output = input stride + shift
    const int64_t low = std::max<int64_t>(0, ceil_div(first - shift, stride));
    const int64_t high = std::min(s.in[2], ceil_div(first + columns - shift, stride));
    for (int64_t i = low; i < high; ++i) sums[i * stride + shift - first] += w * load(x_row[i]);
  } else {  // input = output stride + shift
    const int64_t low = std::max(first, ceil_div(-shift, stride));
    const int64_t high = std::min(first + columns, ceil_div(s.in[2] - shift, stride));
    if (stride == 1) {
      for (int64_t j = low; j < high; ++j) sums[j - first] += w * load(x_row[j + shift]);
    } else {
      for (int64_t j = low; j < high; ++j) sums[j - first] += w * load(x_row[j * stride + shift]);
    }
  }
}

template <class T>
void conv_loops(const RunContext& c, const ConvShape& s) {
  const T* x = c.in(0).as<T>();
  const T* weight = c.in(1).as<T>();
  const T* bias = c.has(2) ? c.in(2).as<T>() : nullptr;
  const T* residual = c.has(3) ? c.in(3).as<T>() : nullptr;
  T* y = c.out(0).as<T>();
  const int64_t rows = s.out[0] * s.out[1];  // of one channel
  const int64_t work = s.out[2] * s.kernel_size() * s.group_c();
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, work));
  c.parallel_for(s.n * s.o * rows, grain, [&](int64_t begin, int64_t end) {
    SumOf<T> sums[kRowPart];
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / (s.o * rows), o = row / rows % s.o;
      const int64_t z = row % rows / s.out[1], y_at = row % s.out[1], group = o / s.group_o();
      for (int64_t first = 0; first < s.out[2]; first += kRowPart) {
        const int64_t columns = std::min(kRowPart, s.out[2] - first);
        std::fill(sums, sums + columns, bias ? load(bias[o]) : SumOf<T>(0));
        for (int64_t i = 0; i < s.group_c(); ++i) {
          const int64_t channel = group * s.group_c() + i;
          const T* w = weight + (s.transposed ? channel * s.group_o() + o % s.group_o()
                                              : o * s.group_c() + i) *
                                    s.kernel_size();
          const T* plane = x + (image * s.c + channel) * s.in_size();
          for (int64_t kz = 0; kz < s.kernel[0]; ++kz) {
            const int64_t in_z = met(s, 0, z, kz);
            if (in_z < 0) continue;
            for (int64_t ky = 0; ky < s.kernel[1]; ++ky) {
              const int64_t in_y = met(s, 1, y_at, ky);
              if (in_y < 0) continue;
              const T* x_row = plane + (in_z * s.in[1] + in_y) * s.in[2];
              for (int64_t kx = 0; kx < s.kernel[2]; ++kx)
                add_row<T>(s, sums, first, columns, x_row,
                           load(w[(kz * s.kernel[1] + ky) * s.kernel[2] + kx]), kx);
            }
          }
        }
        for (int64_t j = 0; j < columns; ++j) {
          const int64_t at = row * s.out[2] + first + j;
          SumOf<T> sum = sums[j];
          if (residual) sum += load(residual[at]);
          if constexpr (!std::is_integral_v<T>) sum = activate(s.activation, sum);
          y[at] = store<T>(sum);
        }
      }
    }
  });
}

Status conv_prepare(PrepareContext& c) {
  c.make_state(conv_shape(c.in(0), c.in(1), c.out(0), c.attrs()));
  return {};
}

void conv_run(const RunContext& c) noexcept {
  for_number(c.out(0).dtype, [&]<class T>() { conv_loops<T>(c, c.state<ConvShape>()); });
}

// Computes one element of dw at a time. Floats are summed in double, because the sum runs over all
// images.
template <class T>
void weight_grad_loops(const RunContext& c, const ConvShape& s) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  const T* x = c.in(0).as<T>();
  const T* dy = c.in(1).as<T>();
  T* dw = c.out(0).as<T>();
  const int64_t work = s.n * s.out_size();
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, work));
  c.parallel_for(c.out(0).count(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t kx = at % s.kernel[2], ky = at / s.kernel[2] % s.kernel[1];
      const int64_t kz = at / (s.kernel[1] * s.kernel[2]) % s.kernel[0];
      const int64_t pair = at / s.kernel_size(), o = pair / s.group_c();
      const int64_t channel = o / s.group_o() * s.group_c() + pair % s.group_c();
      const int64_t shift = kx * s.dilation[2] - s.padding[2], stride = s.stride[2];
      const int64_t low = std::max<int64_t>(0, ceil_div(-shift, stride));
      const int64_t high = std::min(s.out[2], ceil_div(s.in[2] - shift, stride));
      Sum sum = 0;
      for (int64_t image = 0; image < s.n; ++image) {
        const T* x_plane = x + (image * s.c + channel) * s.in_size();
        const T* dy_plane = dy + (image * s.o + o) * s.out_size();
        for (int64_t z = 0; z < s.out[0]; ++z) {
          const int64_t in_z = met(s, 0, z, kz);
          if (in_z < 0) continue;
          for (int64_t y = 0; y < s.out[1]; ++y) {
            const int64_t in_y = met(s, 1, y, ky);
            if (in_y < 0) continue;
            const T* x_row = x_plane + (in_z * s.in[1] + in_y) * s.in[2];
            const T* dy_row = dy_plane + (z * s.out[1] + y) * s.out[2];
            SumOf<T> row_sum = 0;
            for (int64_t j = low; j < high; ++j)
              row_sum += load(dy_row[j]) * load(x_row[j * stride + shift]);
            sum += row_sum;
          }
        }
      }
      dw[at] = store<T>(static_cast<SumOf<T>>(sum));
    }
  });
}

Status weight_grad_prepare(PrepareContext& c) {
  c.make_state(conv_weight_grad_shape(c.in(0), c.in(1), c.attrs()));
  return {};
}

void weight_grad_run(const RunContext& c) noexcept {
  for_number(c.out(0).dtype, [&]<class T>() { weight_grad_loops<T>(c, c.state<ConvShape>()); });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "loops", .prepare = conv_prepare, .run = conv_run, .is_fallback = true},
    {.op = "conv_weight_grad",
     .name = "loops",
     .prepare = weight_grad_prepare,
     .run = weight_grad_run,
     .is_fallback = true},
};

}  // namespace

std::span<const KernelDef> conv() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
