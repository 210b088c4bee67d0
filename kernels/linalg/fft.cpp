// SPDX-License-Identifier: Apache-2.0
// The discrete Fourier transform along one dim, line by line, in double: Stockham's mixed radix
// algorithm, which sorts as it goes, for lengths of small primes; Bluestein's for others, which
// turns the transform into a convolution of a length that is a power of two (Van Loan,
// Computational Frameworks for the Fast Fourier Transform, 1.7 and 4.2).
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/gemm/tiles.h"
#include "kernels/lines.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kLargestRadix = 13;

// Pairs of doubles: std::complex multiplies by way of a library function that looks for NaN.
struct Pair {
  double re = 0, im = 0;
};
Pair operator+(Pair a, Pair b) { return {a.re + b.re, a.im + b.im}; }
Pair operator-(Pair a, Pair b) { return {a.re - b.re, a.im - b.im}; }
Pair operator*(Pair a, Pair b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

// e^(-2 pi i k/n)
Pair root(int64_t k, int64_t n) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

struct Transform {
  int64_t length = 0;  // of the mixed radix transform
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

// One pass: `count` transforms of length radix * rest become radix-sized steps of length rest.
// from[(p + rest * j) * stride + q] -> to[(radix * p + k) * stride + q]
void pass(const Transform& t, int64_t radix, int64_t rest, int64_t stride, const Pair* from,
          Pair* to) {
  const int64_t turn = t.length / radix;  // roots of unity of order radix lie so far apart
  for (int64_t p = 0; p < rest; ++p) {
    for (int64_t q = 0; q < stride; ++q) {
      const Pair* x = from + p * stride + q;
      Pair* y = to + radix * p * stride + q;
      const int64_t step = rest * stride;
      if (radix == 2) {
        const Pair a = x[0], b = x[step];
        y[0] = a + b;
        y[stride] = (a - b) * t.roots[p * stride];
        continue;
      }
      if (radix == 4) {
        const Pair a = x[0] + x[2 * step], b = x[0] - x[2 * step];
        const Pair c = x[step] + x[3 * step], d = x[step] - x[3 * step];
        const Pair e = {d.im, -d.re};  // -i d
        y[0] = a + c;
        y[stride] = (b + e) * t.roots[p * stride];
        y[2 * stride] = (a - c) * t.roots[2 * p * stride];
        y[3 * stride] = (b - e) * t.roots[3 * p * stride];
        continue;
      }
      for (int64_t k = 0; k < radix; ++k) {
        Pair sum = x[0];
        for (int64_t j = 1; j < radix; ++j) sum = sum + x[j * step] * t.roots[j * k % radix * turn];
        y[k * stride] = sum * t.roots[k * p * stride];
      }
    }
  }
}

// x[length] becomes its transform; `other` is as long.
void run_transform(const Transform& t, Pair* x, Pair* other) {
  Pair *from = x, *to = other;
  int64_t rest = t.length, stride = 1;
  for (const int64_t radix : t.radices) {
    rest /= radix;
    pass(t, radix, rest, stride, from, to);
    stride *= radix;
    std::swap(from, to);
  }
  if (from != x) std::copy_n(from, t.length, x);
}

struct Fft {
  Lines lines;
  int64_t n = 0;
  bool inverse = false;
  double scale = 1;
  Transform transform;      // of length n, or of the convolution
  std::vector<Pair> chirp;  // Bluestein: e^(-pi i k^2/n), and the transform of its conjugate
  std::vector<Pair> filter;
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
  std::vector<Pair> other(length);
  run_transform(s.transform, s.filter.data(), other.data());
}

void run_chirp(const Fft& s, Pair* x, Pair* other) {
  const int64_t length = s.transform.length;
  for (int64_t k = 0; k < s.n; ++k) x[k] = x[k] * s.chirp[k];
  std::fill(x + s.n, x + length, Pair());
  run_transform(s.transform, x, other);
  // The inverse transform is the transform of the conjugates, conjugated, over the length.
  for (int64_t k = 0; k < length; ++k) {
    const Pair y = x[k] * s.filter[k];
    x[k] = {y.re, -y.im};
  }
  run_transform(s.transform, x, other);
  const double part = 1.0 / static_cast<double>(length);
  for (int64_t k = 0; k < s.n; ++k) x[k] = Pair{x[k].re * part, -x[k].im * part} * s.chirp[k];
}

Status prepare(PrepareContext& c) {
  Fft s;
  const Tensor& x = c.in(0);
  const int axis = c.attrs().axis("dim", x.rank());
  Sizes pairs;  // the shape without the dim of the parts
  for (int d = 0; d + 1 < x.rank(); ++d) pairs.push_back(x.shape[d]);
  s.lines = lines_of(pairs, axis);
  s.n = s.lines.length;
  s.inverse = c.attrs().flag("inverse");
  const std::string& norm = c.attrs().string("norm");
  const double n = static_cast<double>(s.n);
  s.scale = norm == "n" ? 1 / n : norm == "sqrt" ? 1 / std::sqrt(n) : 1;
  if (x.count() > 0 && is_smooth(s.n))
    s.transform = transform_of(s.n);
  else if (x.count() > 0)
    prepare_chirp(s);
  s.lanes = tile_lanes(c, s.lines.count);
  s.slot_bytes = 2 * s.transform.length * static_cast<int64_t>(sizeof(Pair));
  c.set_workspace(tile_workspace(s.lanes, s.slot_bytes));
  c.make_state(std::move(s));
  return {};
}

template <class T>
void run_lines(const RunContext& c) {
  const Fft& s = c.state<Fft>();
  if (c.in(0).count() == 0) return;
  const T* x = c.in(0).as<T>();
  T* y = c.out(0).as<T>();
  // The inverse transform is that of exchanged parts, exchanged.
  const int re = s.inverse ? 1 : 0, im = 1 - re;
  for_tiles(c, s.lines.count, s.lanes, s.slot_bytes, [&](int64_t line, float* slot) {
    Pair* at = reinterpret_cast<Pair*>(slot);
    Pair* other = at + s.transform.length;
    const int64_t start = 2 * s.lines.start(line), step = 2 * s.lines.stride;
    for (int64_t i = 0; i < s.n; ++i)
      at[i] = {static_cast<double>(x[start + i * step + re]),
               static_cast<double>(x[start + i * step + im])};
    if (s.chirp.empty())
      run_transform(s.transform, at, other);
    else
      run_chirp(s, at, other);
    for (int64_t i = 0; i < s.n; ++i) {
      y[start + i * step + re] = static_cast<T>(at[i].re * s.scale);
      y[start + i * step + im] = static_cast<T>(at[i].im * s.scale);
    }
  });
}

void run(const RunContext& c) noexcept {
  if (c.in(0).dtype == f64)
    run_lines<double>(c);
  else
    run_lines<float>(c);
}

constexpr KernelDef kKernels[] = {
    {.op = "fft", .name = "line", .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> fft() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
