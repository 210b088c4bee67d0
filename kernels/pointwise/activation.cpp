// SPDX-License-Identifier: Apache-2.0
// Activation functions.
#include "kernels/pointwise/activation.h"

#include <cmath>

#include "kernels/pointwise/activation_rows.h"
#include "kernels/pointwise/pointwise_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {

void leaky_relu_params(const PrepareContext& c, PointwiseParams& p) {
  p.a = c.attrs().real("negative_slope");
}
void elu_params(const PrepareContext& c, PointwiseParams& p) {
  p.a = c.attrs().real("alpha");
  p.b = c.attrs().real("scale");
  p.c = c.attrs().real("input_scale");
}
void softplus_params(const PrepareContext& c, PointwiseParams& p) {
  p.a = c.attrs().real("beta");
  p.b = c.attrs().real("threshold");
}
void hardtanh_params(const PrepareContext& c, PointwiseParams& p) {
  p.a = c.attrs().real("min_val");
  p.b = c.attrs().real("max_val");
}
void logit_params(const PrepareContext& c, PointwiseParams& p) {
  p.n = c.attrs().has("eps") ? 1 : 0;
  if (p.n != 0) p.a = c.attrs().real("eps");
}

namespace {

struct LeakyRelu {
  template <class T>
  T operator()(T x, const PointwiseParams& p) const {
    return x > 0 ? x : x * static_cast<T>(p.a);
  }
};

// scale * (x > 0 ? x : alpha * (exp(input_scale * x) - 1))
struct Elu {
  template <class T>
  T operator()(T x, const PointwiseParams& p) const {
    return x > 0 ? x * static_cast<T>(p.b)
                 : std::expm1(x * static_cast<T>(p.c)) * static_cast<T>(p.a * p.b);
  }
};

Status prepare_gelu(PrepareContext& c) {
  return prepare_pointwise(c, c.attrs().string("approximate") == "tanh"
                                  ? float_unary<Activated<Activation::gelu_tanh>>
                                  : float_unary<Activated<Activation::gelu>>);
}
struct Mish {
  template <class T>
  T operator()(T x) const {
    return x * std::tanh(std::log1p(std::exp(x)));
  }
};
// log(1 + exp(beta x)) / beta; x beyond the threshold
struct Softplus {
  template <class T>
  T operator()(T x, const PointwiseParams& p) const {
    const T scaled = x * static_cast<T>(p.a);
    return scaled > static_cast<T>(p.b) ? x : std::log1p(std::exp(scaled)) / static_cast<T>(p.a);
  }
};
struct LogSigmoid {
  template <class T>
  T operator()(T x) const {
    return (x < T(0) ? x : x != x ? x : T(0)) - std::log1p(std::exp(-std::abs(x)));
  }
};
struct Hardtanh {
  template <class T>
  T operator()(T x, const PointwiseParams& p) const {
    const T low = static_cast<T>(p.a), high = static_cast<T>(p.b);
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
};
struct Hardshrink {
  template <class T>
  T operator()(T x, const PointwiseParams& p) const {
    const T limit = static_cast<T>(p.a);
    return x >= -limit && x <= limit ? T(0) : x;
  }
};
struct Softshrink {
  template <class T>
  T operator()(T x, const PointwiseParams& p) const {
    const T limit = static_cast<T>(p.a);
    // Between the limits 0 with the sign of x; vectors compute this without branches.
    const T low = -limit > x ? -limit : x, near = limit < low ? limit : low;
    return std::copysign(x - near, x);
  }
};
void shrink_params(const PrepareContext& c, PointwiseParams& p) { p.a = c.attrs().real("lambd"); }

struct Threshold {
  template <class T>
  T operator()(T x, const PointwiseParams& p) const {
    const T limit = static_cast<T>(p.a), value = static_cast<T>(p.b);
    return x <= limit ? value : x;
  }
};
void threshold_params(const PrepareContext& c, PointwiseParams& p) {
  p.a = c.attrs().real("threshold");
  p.b = c.attrs().real("value");
}
// log(x / (1 - x)); x is clamped to [eps, 1 - eps] if eps is given
struct Logit {
  template <class T>
  T operator()(T x, const PointwiseParams& p) const {
    if (p.n != 0) {
      const T low = static_cast<T>(p.a), high = T(1) - low;
      x = x < low ? low : x > high ? high : x;
    }
    return std::log(x / (T(1) - x));
  }
};

// Clamps accept integers.
template <Activation activation>
constexpr BlockTable kActivated = [] {
  if constexpr (is_clamp(activation))
    return number_unary<Activated<activation>>;
  else
    return float_unary<Activated<activation>>;
}();

constexpr KernelDef kOthers[] = {
    pointwise_kernel<float_unary<LeakyRelu, leaky_relu_params>>("leaky_relu"),
    pointwise_kernel<float_unary<Elu, elu_params>>("elu"),
    {.op = "gelu",
     .name = "pointwise",
     .prepare = &prepare_gelu,
     .run = &run_pointwise,
     .strided = kAllStrided,
     .in_programs = true},
    pointwise_kernel<float_unary<Mish>>("mish"),
    pointwise_kernel<float_unary<Softplus, softplus_params>>("softplus"),
    pointwise_kernel<float_unary<LogSigmoid>>("log_sigmoid"),
    pointwise_kernel<number_unary<Hardtanh, hardtanh_params>>("hardtanh"),
    pointwise_kernel<float_unary<Hardshrink, shrink_params>>("hardshrink"),
    pointwise_kernel<float_unary<Softshrink, shrink_params>>("softshrink"),
    pointwise_kernel<number_unary<Threshold, threshold_params>>("threshold"),
    pointwise_kernel<float_unary<Logit, logit_params>>("logit"),
};
constexpr auto kKernels = with_activations(kOthers, []<Activation activation> {
  return pointwise_kernel<kActivated<activation>>(to_string(activation));
});

}  // namespace

std::span<const KernelDef> activation() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
