// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of real and complex tensors over one or several dims, and short-time
// transforms.
#include <algorithm>
#include <numbers>

#include "converter/rows/complex_pairs.h"
#include "converter/rows/scalar.h"
#include "converter/rows/view.h"
#include "hg/ops/operators.h"
#include "hg/ops/unary.h"

namespace hg::convert::rows {
namespace {

// Returns the argument as pairs, [..., 2], even if it is real.
Value pairs_argument(Call& call) {
  const Complex x = complex_operands(call, {"self"})[0];
  if (x.re.dtype() != f32 && x.re.dtype() != f64)
    call.refuse("self", str_cat("is ", x.re.dtype(), ", not f32 or f64"));
  return pairs_of(x);
}
bool is_complex_argument(Call& call) { return call.is_complex(call.ref("self")); }

void need_real(Call& call) {
  if (is_complex_argument(call)) call.refuse("self", "must be real");
}

// Returns x with `size` elements along the dim: cropped, or followed by zeros.
Value resized(const Value& x, int dim, const Dim& size) {
  if (x.dim(dim) == size) return x;
  Shape more = x.shape();
  more[dim] = max(size - x.dim(dim), Dim(0));
  Value y = x;
  if (!(more[dim] == Dim(0)))
    y = x.graph()->call("concat", {x, zeros(*x.graph(), x.dtype(), more)}, {{"dim", dim}});
  return slice(y, dim, 0, size);
}

// Converts torch's norm to the factor of the transform in this direction.
std::string factor(Call& call, bool inverse) {
  const std::string norm = call.string("norm", "backward");
  if (norm == "ortho") return "sqrt";
  if (norm != "backward" && norm != "forward")
    call.refuse("norm", str_cat("is '", norm, "', not backward, forward or ortho"));
  return (norm == "backward") == inverse ? "n" : "none";
}

Value transform(const Value& pairs, int dim, bool inverse, const std::string& norm) {
  pairs.graph()->guard(pairs.dim(dim), Relation::ne, 0, "a Fourier transform of no elements");
  return pairs.graph()->call("fft", {pairs}, {{"dim", dim}, {"inverse", inverse}, {"norm", norm}});
}

// Returns the first n/2 + 1 of n elements; the others are their conjugates in reverse.
Value half(const Value& pairs, int dim) {
  return slice(pairs, dim, 0, floordiv(pairs.dim(dim), 2) + 1);
}
// Returns all n elements from such a half.
Value whole(Value pairs, int dim, const Dim& n) {
  const Dim known = floordiv(n, 2) + 1;
  pairs = resized(pairs, dim, known);
  const Value rest =
      pairs.graph()->call("flip", {slice(pairs, dim, 1, n - known + 1)}, {{"dims", Dims{dim}}});
  const Complex x = parts_of(rest);
  return pairs.graph()->call("concat", {pairs, pairs_of({x.re, -x.im})}, {{"dim", dim}});
}

// The dims of a transform and their sizes, in order; -1 means the size of the tensor.
struct Axes {
  std::vector<int> dims;
  Dims sizes;
};
Axes axes_of_call(Call& call, int rank) {
  Axes axes;
  const std::string_view kind = call.kind();
  const bool one = call.find("n") != nullptr;
  const std::string_view name = one ? "n" : "s";
  axes.sizes = call.sizes(name);
  const bool two = kind.ends_with('2');
  if (call.has("dim") || one) {
    Dims given = call.integers("dim");
    if (given.empty()) given = {Dim(-1)};
    for (const Dim& dim : given) axes.dims.push_back(normalized_axis(call, "dim", dim, rank));
  } else {
    const int count = two ? 2 : axes.sizes.empty() ? rank : static_cast<int>(axes.sizes.size());
    if (count > rank) call.refuse(name, str_cat("has ", count, " sizes for rank ", rank));
    for (int d = rank - count; d < rank; ++d) axes.dims.push_back(d);
  }
  if (axes.dims.empty()) call.refuse("dim", "is empty");
  for (size_t i = 0; i < axes.dims.size(); ++i)
    if (std::find(axes.dims.begin(), axes.dims.begin() + static_cast<std::ptrdiff_t>(i),
                  axes.dims[i]) != axes.dims.begin() + static_cast<std::ptrdiff_t>(i))
      call.refuse("dim", "names a dim twice");
  axes.sizes.resize(axes.sizes.empty() ? axes.dims.size() : axes.sizes.size(), Dim(-1));
  if (axes.sizes.size() != axes.dims.size())
    call.refuse(name, str_cat("has ", static_cast<int64_t>(axes.sizes.size()), " sizes for ",
                              static_cast<int64_t>(axes.dims.size()), " dims"));
  return axes;
}

Value resized_along(Call& call, Value x, const Axes& axes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (axes.sizes[i] == Dim(-1)) continue;
    if (axes.sizes[i].is_constant() && axes.sizes[i].constant() < 1)
      call.refuse("n", str_cat("is ", axes.sizes[i], ", but must be positive"));
    x = resized(x, axes.dims[i], axes.sizes[i]);
  }
  return x;
}

void give_complex(Call& call, const Value& pairs) {
  call.returns(std::vector<Item>{Item(call.as_complex(call.make_tensor(pairs)))});
}

// fft, ifft, fft2, ifft2, fftn, ifftn
template <bool inverse>
void complex_to_complex(Call& call) {
  Value x = pairs_argument(call);
  const Axes axes = axes_of_call(call, x.rank() - 1);
  x = resized_along(call, x, axes, axes.dims.size());
  for (const int dim : axes.dims) x = transform(x, dim, inverse, factor(call, inverse));
  give_complex(call, x);
}

// rfft, rfft2, rfftn; ihfft, ihfft2, ihfftn with `inverse`
template <bool inverse>
void real_to_complex(Call& call) {
  need_real(call);
  Value x = pairs_argument(call);
  const Axes axes = axes_of_call(call, x.rank() - 1);
  x = resized_along(call, x, axes, axes.dims.size());
  for (size_t i = axes.dims.size(); i-- > 0;) {
    x = transform(x, axes.dims[i], inverse, factor(call, inverse));
    if (i + 1 == axes.dims.size()) x = half(x, axes.dims[i]);
  }
  give_complex(call, x);
}

// irfft, irfft2, irfftn; hfft, hfft2, hfftn without `inverse`
template <bool inverse>
void complex_to_real(Call& call) {
  Value x = pairs_argument(call);
  const Axes axes = axes_of_call(call, x.rank() - 1);
  const int last = axes.dims.back();
  const Dim n = axes.sizes.back() == Dim(-1) ? (x.dim(last) - 1) * 2 : axes.sizes.back();
  if (n.is_constant() && n.constant() < 1)
    call.refuse("n", str_cat("is ", n, ", but must be positive"));
  x = resized_along(call, x, axes, axes.dims.size() - 1);
  for (size_t i = 0; i + 1 < axes.dims.size(); ++i)
    x = transform(x, axes.dims[i], inverse, factor(call, inverse));
  x = transform(whole(x, last, n), last, inverse, factor(call, inverse));
  call.returns(part_of(x, 0));
}

// ---- Lower-level ops: the call gives their dims, and `normalization` is the number of
// fft_norm_mode: none, by sqrt(n), by n. ----

std::string numbered_factor(Call& call) {
  constexpr const char* kFactors[] = {"none", "sqrt", "n"};
  const int64_t number = call.number("normalization");
  if (number < 0 || number > 2) call.refuse("normalization", str_cat("is ", number));
  return kFactors[number];
}

std::vector<int> given_dims(Call& call, int rank) {
  std::vector<int> dims;
  for (const Dim& dim : call.integers("dim"))
    dims.push_back(normalized_axis(call, "dim", dim, rank));
  return dims;
}

void fft_c2c(Call& call) {
  Value x = pairs_argument(call);
  const std::string norm = numbered_factor(call);
  const bool inverse = !call.flag("forward");
  for (const int dim : given_dims(call, x.rank() - 1)) x = transform(x, dim, inverse, norm);
  give_complex(call, x);
}

void fft_r2c(Call& call) {
  need_real(call);
  Value x = pairs_argument(call);
  const std::string norm = numbered_factor(call);
  const std::vector<int> dims = given_dims(call, x.rank() - 1);
  if (dims.empty()) call.refuse("dim", "is empty");
  x = transform(x, dims.back(), false, norm);
  if (call.flag("onesided")) x = half(x, dims.back());
  for (size_t i = 0; i + 1 < dims.size(); ++i) x = transform(x, dims[i], false, norm);
  give_complex(call, x);
}

void fft_c2r(Call& call) {
  Value x = pairs_argument(call);
  const std::string norm = numbered_factor(call);
  const std::vector<int> dims = given_dims(call, x.rank() - 1);
  if (dims.empty()) call.refuse("dim", "is empty");
  for (size_t i = 0; i + 1 < dims.size(); ++i) x = transform(x, dims[i], true, norm);
  x = whole(x, dims.back(), call.size("last_dim_size"));
  call.returns(part_of(transform(x, dims.back(), true, norm), 0));
}

// Returns k / (n d) in the order of the transform: 0 .. (n-1)/2, -(n/2) .. -1.
template <bool half_only>
void frequencies(Call& call) {
  Graph& g = call.graph();
  const Dim n = call.size("n");
  const DType dtype = call.dtype("dtype", f32);
  const auto range = [&](const Dim& start, const Dim& end) {
    return g.call("arange", {}, {{"start", start}, {"end", end}});
  };
  Value k;
  if (half_only)
    k = range(0, floordiv(n, 2) + 1);
  else
    k = g.call("concat", {range(0, floordiv(n - 1, 2) + 1), range(-floordiv(n, 2), 0)},
               {{"dim", 0}});
  const Value size = g.call("dims", {}, {{"values", Dims{n}}});
  const Value step = scalar(call, "d", 1.0).as(g, f64);
  call.returns(convert::cast(convert::cast(k, f64) / (convert::cast(size, f64) * step), dtype));
}

// ---- Windows ----

enum class Curve { hann, hamming, blackman, bartlett, kaiser };

// a - b cos t + c cos 2 t with t = 2 pi k / n if periodic, otherwise / (n - 1). bartlett: 1 - |x|;
// kaiser: I0(beta sqrt(1 - x^2)) / I0(beta); both with x = 2 k / n - 1. A window of one sample is
// 1.
template <Curve curve>
void fft_window(Call& call) {
  Graph& g = call.graph();
  const Dim n = call.size("window_length");
  const DType dtype = call.dtype("dtype", f32);
  const auto real = [&](double value) { return g.scalar(value, f64); };
  const Value one = g.call("full", {}, {{"shape", Dims{n}}, {"value", 1.0}, {"dtype", dtype}});
  if (n == Dim(1)) return call.returns(one);
  const Value k = convert::cast(g.call("arange", {}, {{"end", n}}), f64);
  const auto as_number = [&](const Dim& dim) {
    return reshaped(convert::cast(g.call("dims", {}, {{"values", Dims{dim}}}), f64), Shape{});
  };
  const Value size = as_number(call.flag("periodic", true) ? n : n - 1);
  Value w;
  if (curve == Curve::bartlett || curve == Curve::kaiser) {
    const Value x = k * real(2) / size - real(1);
    w = real(1) - (curve == Curve::bartlett ? g.call("abs", {x}) : x * x);
    if (curve == Curve::kaiser) {
      const Value beta = scalar(call, "beta", 12).as(g, f64);
      const Value root = g.call("sqrt", {g.call("maximum", {w, real(0)})});
      w = g.call("bessel_i0", {beta * root}) / g.call("bessel_i0", {beta});
    }
  } else {
    const bool black = curve == Curve::blackman, ham = curve == Curve::hamming;
    const Real a = black ? 0.42 : ham ? scalar(call, "alpha", 0.54) : 0.5;
    const Real b = ham ? scalar(call, "beta", 0.46) : 0.5;
    const Value t = k * real(2 * std::numbers::pi) / size;
    w = a - b.as(g, f64) * g.call("cos", {t});
    if (black) w = w + real(0.08) * g.call("cos", {t + t});
  }
  w = convert::cast(w, dtype);
  if (!n.is_constant()) w = g.call("where", {g.call("eq", {as_number(n), real(1)}), one, w});
  call.returns(w);
}

// ---- Short-time transforms ----

Value window_of(Call& call, DType dtype, int64_t size, int64_t length) {
  Graph& g = call.graph();
  Value window;
  if (call.has("window")) {
    if (call.is_complex(call.ref("window"))) call.refuse("window", "is complex");
    window = convert::cast(call.tensor("window"), dtype);
  } else {
    window = g.call("full", {}, {{"shape", Dims{length}}, {"value", 1.0}, {"dtype", dtype}});
  }
  if (window.rank() != 1 || !(window.dim(0) == Dim(length)))
    call.refuse("window", str_cat("is ", window.shape(), ", but must be [", length, "]"));
  const int64_t before = (size - length) / 2, after = size - length - before;
  return g.call("concat", {zeros(g, dtype, {before}), window, zeros(g, dtype, {after})},
                {{"dim", 0}});
}

struct Frames {
  int64_t size, hop, length;
};
Frames frames_of(Call& call) {
  Frames f;
  f.size = call.number("n_fft");
  f.hop = call.number("hop_length", f.size / 4);
  f.length = call.number("win_length", f.size);
  if (f.size < 1 || f.hop < 1) call.refuse("hop_length", "must be positive, as n_fft must");
  if (f.length < 1 || f.length > f.size) call.refuse("win_length", "must be from 1 to n_fft");
  return f;
}

// Returns the signal positions of the elements of the frames: i64[count, size].
Value places(Graph& g, const Dim& count, const Frames& f) {
  const Value first = g.call("arange", {}, {{"end", count}}) * g.scalar(f.hop, i64);
  const Value within = g.call("arange", {}, {{"end", f.size}});
  return reshaped(first, {count, 1}) + reshaped(within, {1, f.size});
}

// [batch?, time] -> [batch?, frequency, frame]
void stft(Call& call) {
  Graph& g = call.graph();
  const Frames f = frames_of(call);
  if (call.flag("align_to_window", false)) call.refuse("align_to_window", "is true");
  const bool complex_input = is_complex_argument(call);
  Complex x = complex_operands(call, {"self"})[0];
  const bool batched = x.re.rank() == 2;
  if (x.re.rank() < 1 || x.re.rank() > 2) call.refuse("self", "must be [time] or [batch, time]");
  const auto padded = [&](const Value& v) {
    if (!v || !call.flag("center", false)) return v;
    const std::string mode = call.string("pad_mode", "reflect");
    const Value y =
        g.call("pad", {reshaped(v, {batched ? v.dim(0) : Dim(1), 1, v.dim(v.rank() - 1)})},
               {{"pads", Dims{f.size / 2, f.size / 2}}, {"mode", mode}});
    Shape shape = v.shape();
    shape.back() = y.dim(2);
    return reshaped(y, shape);
  };
  x = {padded(x.re), padded(x.im)};
  const int axis = x.re.rank() - 1;
  const Dim time = x.re.dim(axis);
  const Dim count = floordiv(time - f.size, f.hop) + 1;
  const Value index = reshaped(places(g, count, f), {count * f.size});
  const Value window = window_of(call, x.re.dtype(), f.size, f.length);
  const auto cut = [&](const Value& v) {
    if (!v) return v;
    Shape shape = v.shape();
    shape.back() = count;
    shape.emplace_back(f.size);
    return reshaped(g.call("index_select", {v, index}, {{"dim", axis}}), shape) * window;
  };
  Value y = transform(pairs_of({cut(x.re), cut(x.im)}), axis + 1, false,
                      call.flag("normalized", false) ? "sqrt" : "none");
  const bool onesided = call.flag("onesided", !complex_input);
  if (onesided && complex_input) call.refuse("onesided", "is true for a complex tensor");
  if (onesided) y = half(y, axis + 1);
  Dims order = batched ? Dims{0, 2, 1, 3} : Dims{1, 0, 2};
  y = permute(y, order);
  if (call.flag("return_complex", complex_input)) return give_complex(call, y);
  call.returns(y);
}

// Inverse of stft: adds overlapping frames, and divides by the sum of the squared windows.
void istft(Call& call) {
  Graph& g = call.graph();
  const Frames f = frames_of(call);
  if (!is_complex_argument(call)) call.refuse("self", "must be complex");
  Value x = call.read(call.ref("self"));
  const bool batched = x.rank() == 4;
  if (x.rank() < 3 || x.rank() > 4)
    call.refuse("self", "must be [frequency, frame] or with a batch");
  if (!batched) x = reshaped(x, {1, x.dim(0), x.dim(1), 2});
  x = permute(x, {0, 2, 1, 3});  // [batch, frame, frequency, 2]
  const Dim batch = x.dim(0), count = x.dim(1);
  const bool onesided = call.flag("onesided", !(x.dim(2) == Dim(f.size)));
  const bool returns_complex = call.flag("return_complex", false);
  if (onesided && returns_complex) call.refuse("return_complex", "is true with onesided");
  if (!(x.dim(2) == Dim(onesided ? f.size / 2 + 1 : f.size)))
    call.refuse("self", str_cat("has ", x.dim(2), " frequencies, which do not fit n_fft ", f.size));
  // Real signals follow from the first half, as in PyTorch.
  if (!returns_complex) x = whole(onesided ? x : half(x, 2), 2, f.size);
  x = transform(x, 2, true, call.flag("normalized", false) ? "sqrt" : "n");
  const Value window = window_of(call, x.dtype(), f.size, f.length);
  const Dim total = (count - 1) * f.hop + f.size;
  const Value index = reshaped(places(g, count, f), {count * f.size});
  const auto added = [&](const Value& frames, const Dim& rows) {  // [rows, frame, size]
    const Value none = zeros(g, x.dtype(), {rows, total});
    return g.call("index_reduce", {none, index, reshaped(frames, {rows, count * f.size})},
                  {{"dim", 1}, {"reduce", "add"}});
  };
  const Value weight =
      added(expanded(reshaped(window * window, {1, 1, f.size}), {1, count, f.size}), 1);
  const bool center = call.flag("center", true);
  const Dim start = center ? f.size / 2 : 0;
  Dim end = center ? total - f.size / 2 : total;
  if (call.has("length")) end = start + call.size("length");
  const auto trimmed = [&](const Value& v) {
    return slice(resized(v, 1, max(total, end)), 1, start, end);
  };
  const auto signal = [&](int k) {
    const Value y = trimmed(added(part_of(x, k) * window, batch));
    const Value by = trimmed(weight);
    // Positions after the last frame are 0.
    const Value one = g.scalar(1.0, by.dtype()), zero = g.scalar(0.0, by.dtype());
    const Value z = y / g.call("where", {g.call("eq", {by, zero}), one, by});
    return batched ? z : reshaped(z, {z.dim(1)});
  };
  if (returns_complex) return return_complex(call, {signal(0), signal(1)});
  call.returns(signal(0));
}

constexpr Row kRows[] = {
    {"aten::fft_fft", complex_to_complex<false>, OnComplex::itself},
    {"aten::fft_fft2", complex_to_complex<false>, OnComplex::itself},
    {"aten::fft_fftn", complex_to_complex<false>, OnComplex::itself},
    {"aten::fft_ifft", complex_to_complex<true>, OnComplex::itself},
    {"aten::fft_ifft2", complex_to_complex<true>, OnComplex::itself},
    {"aten::fft_ifftn", complex_to_complex<true>, OnComplex::itself},
    {"aten::fft_rfft", real_to_complex<false>, OnComplex::itself},
    {"aten::fft_rfft2", real_to_complex<false>, OnComplex::itself},
    {"aten::fft_rfftn", real_to_complex<false>, OnComplex::itself},
    {"aten::fft_ihfft", real_to_complex<true>, OnComplex::itself},
    {"aten::fft_ihfft2", real_to_complex<true>, OnComplex::itself},
    {"aten::fft_ihfftn", real_to_complex<true>, OnComplex::itself},
    {"aten::fft_irfft", complex_to_real<true>, OnComplex::itself},
    {"aten::fft_irfft2", complex_to_real<true>, OnComplex::itself},
    {"aten::fft_irfftn", complex_to_real<true>, OnComplex::itself},
    {"aten::fft_hfft", complex_to_real<false>, OnComplex::itself},
    {"aten::fft_hfft2", complex_to_real<false>, OnComplex::itself},
    {"aten::fft_hfftn", complex_to_real<false>, OnComplex::itself},
    {"aten::_fft_c2c", fft_c2c, OnComplex::itself},
    {"aten::_fft_r2c", fft_r2c, OnComplex::itself},
    {"aten::_fft_c2r", fft_c2r, OnComplex::itself},
    {"aten::fft_fftfreq", frequencies<false>},
    {"aten::fft_rfftfreq", frequencies<true>},
    {"aten::hann_window", fft_window<Curve::hann>},
    {"aten::hamming_window", fft_window<Curve::hamming>},
    {"aten::blackman_window", fft_window<Curve::blackman>},
    {"aten::kaiser_window", fft_window<Curve::kaiser>},
    {"aten::bartlett_window", fft_window<Curve::bartlett>},
    {"aten::stft", stft, OnComplex::itself},
    {"aten::istft", istft, OnComplex::itself},
};

}  // namespace

std::span<const Row> fft() { return kRows; }

}  // namespace hg::convert::rows
