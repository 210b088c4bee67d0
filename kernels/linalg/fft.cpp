// SPDX-License-Identifier: Apache-2.0
// The discrete Fourier transform along one dim in double, for several lines at once. Lengths with
// small prime factors use Stockham's self-sorting mixed-radix algorithm. Other lengths use
// Bluestein's, which turns the transform into a convolution whose length is a power of two (Van
// Loan, Computational Frameworks for the Fast Fourier Transform, 1.7 and 4.2). Real lines of even
// length need half the work: neighbors become the parts of one complex number (4.1).
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/ceil_div.h"
#include "kernels/gemm/tiles.h"
#include "kernels/linalg/fft_simd.h"
#include "kernels/lines.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kLargestRadix = 13;
constexpr int64_t kMostTogether = 8;         // lines
constexpr int64_t kTogetherBytes = 1 << 19;  // of the elements of these lines

// Pairs of doubles: std::complex multiplies with a library function that checks for NaN.
struct Pair {
  double re = 0, im = 0;
};
Pair operator*(Pair a, Pair b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

// e^(-2 pi i k/n)
Pair root(int64_t k, int64_t n) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

struct Transform {
  int64_t length = 0;  // of the mixed-radix transform
  std::vector<int64_t> radices;
  std::vector<Pair> roots;  // of unity, `length` of them
};

Transform transform_of(int64_t n) {
  Transform t;
  t.length = n;
  for (const int64_t radix : {4, 2, 3, 5, 7, 11, 13})
    while (n % radix == 0 && n > 1) {
      t.radices.push_back(radix);
      n /= radix;
    }
  for (int64_t k = 0; k < t.length; ++k) t.roots.push_back(root(k, t.length));
  return t;
}

// Transforms x[length] of `lines` lines in place; `other` is scratch memory of the same size.
void run_transform(const Transform& t, int64_t lines, Complexes x, Complexes other) {
  FftPass pass = {.rest = t.length,
                  .lines = lines,
                  .length = t.length,
                  .roots = &t.roots.data()->re,
                  .from = x,
                  .to = other};
  for (const int64_t radix : t.radices) {
    pass.radix = radix;
    pass.rest /= radix;
    fft_table().pass(pass);
    pass.stride *= radix;
    std::swap(pass.from, pass.to);
  }
  if (pass.from.re == x.re) return;
  std::copy_n(other.re, t.length * lines, x.re);
  std::copy_n(other.im, t.length * lines, x.im);
}

struct Fft {
  Lines lines;
  bool real = false;  // lines have no imaginary parts
  int64_t n = 0;      // complex numbers per line: half its elements if there are `turns`
  bool inverse = false;
  double scale = 1;
  std::vector<Pair> turns;  // e^(-2 pi i k / 2n), k = 0 .. n
  Transform transform;      // of length n, or of the convolution
  std::vector<Pair> chirp;  // Bluestein: e^(-pi i k^2/n), and the transform of its conjugate
  std::vector<Pair> filter;
  int64_t together = 1;  // lines
  int64_t lanes = 1, slot_bytes = 0;
};

bool is_smooth(int64_t n) {
  for (int64_t p = 2; p <= kLargestRadix; ++p)
    while (n > 1 && n % p == 0) n /= p;
  return n <= 1;
}

// jk = (j^2 + k^2 - (k - j)^2) / 2 turns the transform into a convolution with e^(pi i k^2/n).
void prepare_chirp(Fft& s) {
  int64_t length = 1;
  while (length < 2 * s.n - 1) length *= 2;
  s.transform = transform_of(length);
  s.filter.resize(length);
  int64_t square = 0;  // k^2 mod 2n
  for (int64_t k = 0; k < s.n; ++k) {
    const Pair w = root(square, 2 * s.n);
    s.chirp.push_back(w);
    s.filter[k] = {w.re, -w.im};
    if (k > 0) s.filter[length - k] = {w.re, -w.im};
    square = (square + 2 * k + 1) % (2 * s.n);
  }
  std::vector<double> re(2 * length), im(2 * length);
  for (int64_t k = 0; k < length; ++k) {
    re[k] = s.filter[k].re;
    im[k] = s.filter[k].im;
  }
  run_transform(s.transform, 1, {re.data(), im.data()}, {re.data() + length, im.data() + length});
  for (int64_t k = 0; k < length; ++k) s.filter[k] = {re[k], im[k]};
}

void run_chirp(const Fft& s, int64_t lines, Complexes x, Complexes other) {
  const int64_t length = s.transform.length;
  // Element k of all lines times `factor`; a `sign` of -1 conjugates it.
  const auto multiply = [&](int64_t k, Pair factor, double sign) {
    for (int64_t i = k * lines; i < (k + 1) * lines; ++i) {
      const Pair y = Pair{x.re[i], sign * x.im[i]} * factor;
      x.re[i] = y.re;
      x.im[i] = y.im;
    }
  };
  for (int64_t k = 0; k < s.n; ++k) multiply(k, s.chirp[k], 1);
  std::fill(x.re + s.n * lines, x.re + length * lines, 0);
  std::fill(x.im + s.n * lines, x.im + length * lines, 0);
  run_transform(s.transform, lines, x, other);
  // The inverse transform conjugates, transforms, conjugates again, and divides by the length.
  for (int64_t k = 0; k < length; ++k) {
    multiply(k, s.filter[k], 1);
    for (int64_t i = k * lines; i < (k + 1) * lines; ++i) x.im[i] = -x.im[i];
  }
  run_transform(s.transform, lines, x, other);
  const double part = 1.0 / static_cast<double>(length);
  for (int64_t k = 0; k < s.n; ++k) multiply(k, {part * s.chirp[k].re, part * s.chirp[k].im}, -1);
}

template <bool kReal>
Status prepare(PrepareContext& c) {
  Fft s;
  const Tensor& x = c.in(0);
  const int axis = c.attrs().axis("dim", x.rank());
  Sizes numbers;  // the shape without the dim of real and imaginary parts
  for (int d = 0; d + 1 < x.rank(); ++d) numbers.push_back(x.shape[d]);
  s.lines = lines_of(numbers, axis);
  s.real = kReal;
  s.n = s.lines.length;
  if (kReal && s.n > 0 && s.n % 2 == 0) {
    s.n /= 2;
    for (int64_t k = 0; k <= s.n; ++k) s.turns.push_back(root(k, 2 * s.n));
  }
  s.inverse = c.attrs().flag("inverse");
  const std::string& norm = c.attrs().string("norm");
  const double n = static_cast<double>(s.lines.length);
  s.scale = norm == "n" ? 1 / n : norm == "sqrt" ? 1 / std::sqrt(n) : 1;
  if (x.count() > 0 && is_smooth(s.n))
    s.transform = transform_of(s.n);
  else if (x.count() > 0)
    prepare_chirp(s);
  // As many lines at once as fit the second-level cache and keep all threads busy.
  const int64_t room = kTogetherBytes / (4 * 8 * std::max<int64_t>(1, s.transform.length));
  const int64_t each = ceil_div(s.lines.count, std::max(1, c.threads()));
  s.together = std::max<int64_t>(1, std::min({room, each, kMostTogether}));
  s.lanes = tile_lanes(c, ceil_div(s.lines.count, s.together));
  s.slot_bytes = 4 * 8 * s.transform.length * s.together;
  c.set_workspace(tile_workspace(s.lanes, s.slot_bytes));
  c.make_state(std::move(s));
  return {};
}

// Calls f(i, l) for element i of line l: a few elements of one line, then of the next, so that
// accesses along and across the lines stay in the first-level cache.
template <class F>
void for_elements(int64_t n, int64_t lines, const F& f) {
  constexpr int64_t kBlock = 64;
  for (int64_t first = 0; first < n; first += kBlock)
    for (int64_t l = 0; l < lines; ++l)
      for (int64_t i = first, end = std::min(n, first + kBlock); i < end; ++i) f(i, l);
}

// Layout of `lines` lines in memory: the position of element i of line l, for reading and writing.
template <class T>
struct Elements {
  const T* x;
  T* y;
  int64_t stride, start[kMostTogether];

  const T* from(int64_t i, int64_t l, int64_t parts) const {
    return x + (start[l] + i * stride) * parts;
  }
  T* to(int64_t i, int64_t l) const { return y + 2 * (start[l] + i * stride); }
};

// The spectrum of 2n real numbers from that of n complex ones, whose parts are neighbors. The
// spectra of the even and the odd numbers are (z_k + z*_{n-k}) / 2 and (z_k - z*_{n-k}) / 2i.
template <class T>
void store_halves(const Fft& s, const Elements<T>& e, int64_t lines, Complexes z) {
  const int64_t n = s.n;
  const double scale = s.scale, half = scale / 2, sign = s.inverse ? -1 : 1;
  for_elements(n + 1, lines, [&](int64_t k, int64_t l) {
    const int64_t at = (k < n ? k : 0) * lines + l, mirrored = (k > 0 ? n - k : 0) * lines + l;
    const double a = z.re[at], b = z.im[at], c = z.re[mirrored], d = z.im[mirrored];
    const Pair odd = Pair{b + d, c - a} * s.turns[static_cast<size_t>(k)];
    const double re = half * (a + c + odd.re), im = sign * half * (b - d + odd.im);
    T* const to = e.to(k, l);
    to[0] = static_cast<T>(re);
    to[1] = static_cast<T>(im);
    if (k == 0 || k == n) return;
    T* const other = e.to(2 * n - k, l);
    other[0] = static_cast<T>(re);
    other[1] = static_cast<T>(-im);
  });
}

template <class T>
void run_lines(const RunContext& c) {
  const Fft& s = c.state<Fft>();
  if (c.in(0).count() == 0) return;
  const bool in_halves = !s.turns.empty();
  // The inverse transform exchanges real and imaginary parts, transforms, and exchanges them again.
  const int64_t re = s.inverse && !s.real ? 1 : 0, im = 1 - re;
  const auto body = [&](int64_t task, float* slot) {
    const int64_t first = task * s.together, lines = std::min(s.together, s.lines.count - first);
    const int64_t part = s.transform.length * s.together;
    auto* const room = reinterpret_cast<double*>(slot);
    const Complexes at = {room, room + part}, other = {room + 2 * part, room + 3 * part};
    Elements<T> e = {
        .x = c.in(0).as<T>(), .y = c.out(0).as<T>(), .stride = s.lines.stride, .start = {}};
    for (int64_t l = 0; l < lines; ++l) e.start[l] = s.lines.start(first + l);
    for_elements(s.n, lines, [&](int64_t i, int64_t l) {
      if (in_halves) {
        at.re[i * lines + l] = static_cast<double>(*e.from(2 * i, l, 1));
        at.im[i * lines + l] = static_cast<double>(*e.from(2 * i + 1, l, 1));
      } else if (s.real) {
        at.re[i * lines + l] = static_cast<double>(*e.from(i, l, 1));
        at.im[i * lines + l] = 0;
      } else {
        at.re[i * lines + l] = static_cast<double>(e.from(i, l, 2)[re]);
        at.im[i * lines + l] = static_cast<double>(e.from(i, l, 2)[im]);
      }
    });
    if (s.chirp.empty())
      run_transform(s.transform, lines, at, other);
    else
      run_chirp(s, lines, at, other);
    if (in_halves) return store_halves(s, e, lines, at);
    const double sign = s.inverse && s.real ? -1 : 1;
    for_elements(s.n, lines, [&](int64_t i, int64_t l) {
      T* const to = e.to(i, l);
      to[re] = static_cast<T>(at.re[i * lines + l] * s.scale);
      to[im] = static_cast<T>(at.im[i * lines + l] * s.scale * sign);
    });
  };
  for_tiles(c, ceil_div(s.lines.count, s.together), s.lanes, s.slot_bytes, body);
}

void run(const RunContext& c) noexcept {
  if (c.in(0).dtype == f64)
    run_lines<double>(c);
  else
    run_lines<float>(c);
}

constexpr KernelDef kKernels[] = {
    {.op = "fft", .name = "line", .prepare = prepare<false>, .run = run},
    {.op = "fft_of_real", .name = "line", .prepare = prepare<true>, .run = run},
};

}  // namespace

std::span<const KernelDef> fft() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
