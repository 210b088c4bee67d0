// SPDX-License-Identifier: Apache-2.0
// The discrete Fourier transform along one dim, for several lines at once. Lengths with small prime
// factors use Stockham's self-sorting mixed-radix algorithm. Other lengths use Bluestein's, which
// turns the transform into a convolution of such a length (Van Loan, Computational Frameworks for
// the Fast Fourier Transform, 1.7 and 4.2). Real lines need half the work if their length is even,
// because neighbors become the parts of one complex number (4.1). Floats are transformed as floats,
// except by Bluestein's algorithm and on short lines, where doubles cost little.
#include <cmath>
#include <numbers>
#include <type_traits>
#include <vector>

#include "kernels/ceil_div.h"
#include "kernels/gemm/tiles.h"
#include "kernels/linalg/fft_simd.h"
#include "kernels/lines.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kLargestRadix = 13;
constexpr int64_t kShortest = 64;            // of the lines that are transformed as floats
constexpr int64_t kTogetherBytes = 1 << 19;  // of lines that are transformed at once

struct Pair {
  double re = 0, im = 0;
};

// e^(-2 pi i k/n)
Pair root(int64_t k, int64_t n) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

struct Transform {
  int64_t length = 0;  // of the mixed-radix transform
  std::vector<int64_t> radices;
  std::vector<Pair> roots;          // of unity, `length` of them
  std::vector<float> rounded = {};  // the same, for transforms of floats
};

std::vector<float> rounded(const std::vector<Pair>& numbers) {
  std::vector<float> floats;
  for (const Pair number : numbers)
    for (const double part : {number.re, number.im}) floats.push_back(static_cast<float>(part));
  return floats;
}

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

// Numbers in the precision of T.
template <class T>
const T* parts(const std::vector<Pair>& exact, const std::vector<float>& rounded) {
  if constexpr (std::is_same_v<T, float>)
    return rounded.data();
  else
    return &exact.data()->re;
}

// Transforms x[length] of `lines` lines. Returns where the result is: x, or the scratch memory
// `other` of the same size.
template <class T>
Complexes<T> run_transform(const Transform& t, int64_t lines, Complexes<T> x, Complexes<T> other) {
  FftPass<T> pass = {.rest = t.length,
                     .lines = lines,
                     .length = t.length,
                     .roots = parts<T>(t.roots, t.rounded),
                     .from = x,
                     .to = other};
  for (const int64_t radix : t.radices) {
    pass.radix = radix;
    pass.rest /= radix;
    fft_table<T>().pass(pass);
    pass.stride *= radix;
    std::swap(pass.from, pass.to);
  }
  return pass.from;
}

// Which side of a transform has no imaginary parts.
enum class Real : uint8_t { none, in, out };

struct Fft {
  Lines lines, from;  // of y, and of x: half as long if y is real
  Real real = Real::none;
  bool as_floats = false;  // are transformed so
  int64_t n = 0;           // complex numbers per line: half its elements if there are `turns`
  bool inverse = false;
  double scale = 1;
  std::vector<Pair> turns;           // e^(-2 pi i k / 2n), k = 0 .. n
  std::vector<float> rounded_turns;  // the same, for transforms of floats
  Transform transform;               // of length n, or of the convolution
  // Bluestein: e^(-pi i k^2/n), and the conjugate of its conjugate's transform, over the length.
  std::vector<Pair> chirp, filter;
  int64_t computed = 0;  // of the n numbers; the others are their conjugates
  int64_t together = 1;  // lines
  int64_t lanes = 1, slot_bytes = 0;

  bool in_halves() const { return !turns.empty(); }
  // Numbers that are read of each line.
  int64_t known() const { return real == Real::out ? from.length : n; }
  // Elements of a line in each of four arrays: one more than the transform's for the last of n + 1.
  int64_t room() const { return (transform.length + (in_halves() ? 1 : 0)) * together; }
};

bool is_smooth(int64_t n) {
  for (int64_t p = 2; p <= kLargestRadix; ++p)
    while (n > 1 && n % p == 0) n /= p;
  return n <= 1;
}

// The length from `least` on, of factors 2 and 3, whose passes move the fewest numbers.
int64_t chirp_length(int64_t least) {
  int64_t best = 0, fewest = 0;
  for (int64_t threes = 0, odd = 1; threes < 4; ++threes, odd *= 3) {
    int64_t length = odd, twos = 0;
    for (; length < least; length *= 2) ++twos;
    const int64_t moved = length * (threes + ceil_div(twos, 2));
    if (best != 0 && moved >= fewest) continue;
    best = length;
    fewest = moved;
  }
  return best;
}

// jk = (j^2 + k^2 - (k - j)^2) / 2 turns the transform into a convolution with e^(pi i k^2/n).
void prepare_chirp(Fft& s) {
  if (s.real == Real::in && !s.in_halves()) s.computed = s.n / 2 + 1;
  const int64_t length = chirp_length(s.n + s.computed - 1);
  s.transform = transform_of(length);
  s.filter.resize(length);
  int64_t square = 0;  // k^2 mod 2n
  for (int64_t k = 0; k < s.n; ++k) {
    const Pair w = root(square, 2 * s.n);
    s.chirp.push_back(w);
    if (k < s.computed) s.filter[k] = {w.re, -w.im};
    if (k > 0) s.filter[length - k] = {w.re, -w.im};
    square = (square + 2 * k + 1) % (2 * s.n);
  }
  std::vector<double> re(2 * length), im(2 * length);
  for (int64_t k = 0; k < length; ++k) {
    re[k] = s.filter[k].re;
    im[k] = s.filter[k].im;
  }
  const Complexes<double> y = run_transform<double>(s.transform, 1, {re.data(), im.data()},
                                                    {re.data() + length, im.data() + length});
  const double part = 1.0 / static_cast<double>(length);
  for (int64_t k = 0; k < length; ++k) s.filter[k] = {part * y.re[k], -part * y.im[k]};
}

// Returns where the result is: in one of the two.
Complexes<double> run_chirp(const Fft& s, int64_t lines, Complexes<double> x,
                            Complexes<double> other) {
  const int64_t length = s.transform.length;
  const auto multiply = [&](Complexes<double> numbers, int64_t count, double sign,
                            const std::vector<Pair>& factors) {
    fft_table<double>().multiply({.count = count,
                                  .lines = lines,
                                  .sign = sign,
                                  .factors = &factors.data()->re,
                                  .numbers = numbers});
  };
  multiply(x, s.n, 1, s.chirp);
  std::fill(x.re + s.n * lines, x.re + length * lines, 0);
  std::fill(x.im + s.n * lines, x.im + length * lines, 0);
  const Complexes<double> y = run_transform(s.transform, lines, x, other);
  // The inverse transform is the conjugate of the conjugate's transform, over the length.
  multiply(y, length, -1, s.filter);
  const Complexes<double> z = run_transform(s.transform, lines, y, y.re == x.re ? other : x);
  multiply(z, s.computed, -1, s.chirp);
  return z;
}

template <Real kReal>
Status prepare(PrepareContext& c) {
  Fft s;
  const Tensor& x = c.in(0);
  const int axis = c.attrs().axis("dim", x.rank());
  Sizes numbers;  // the shape without the dim of real and imaginary parts
  for (int d = 0; d + 1 < x.rank(); ++d) numbers.push_back(x.shape[d]);
  s.from = lines_of(numbers, axis);
  numbers[axis] = c.out(0).shape[axis];
  s.lines = lines_of(numbers, axis);
  s.real = kReal;
  s.n = s.lines.length;
  if (kReal != Real::none && s.n > 0 && s.n % 2 == 0) {
    s.n /= 2;
    for (int64_t k = 0; k <= s.n; ++k) s.turns.push_back(root(k, 2 * s.n));
  }
  s.computed = s.n;
  s.inverse = c.attrs().flag("inverse");
  const std::string& norm = c.attrs().string("norm");
  const double n = static_cast<double>(s.lines.length);
  s.scale = norm == "n" ? 1 / n : norm == "sqrt" ? 1 / std::sqrt(n) : 1;
  const bool is_empty = c.out(0).count() == 0;
  if (!is_empty && is_smooth(s.n))
    s.transform = transform_of(s.n);
  else if (!is_empty)
    prepare_chirp(s);
  s.as_floats = x.dtype == f32 && s.chirp.empty() && s.lines.length >= kShortest;
  if (s.as_floats) {
    s.transform.rounded = rounded(s.transform.roots);
    s.rounded_turns = rounded(s.turns);
  }
  // As many lines at once as fit the second-level cache and keep all threads busy.
  const int64_t number = s.as_floats ? 4 : 8;
  const int64_t room = kTogetherBytes / (4 * number * std::max<int64_t>(1, s.transform.length));
  const int64_t each = ceil_div(s.lines.count, std::max(1, c.threads()));
  s.together = std::max<int64_t>(1, std::min({room, each, s.as_floats ? kMostFftLines : 8}));
  s.lanes = tile_lanes(c, ceil_div(s.lines.count, s.together));
  s.slot_bytes = 4 * number * s.room();
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

// `lines` lines in memory, from the first on, for reading and writing.
template <class T>
struct Elements {
  const Fft& s;
  const T* x;
  T* y;
  int64_t lines;
  int64_t start[kMostFftLines] = {}, from[kMostFftLines] = {};  // of lines of y and x

  // Reads s.known() numbers of each line.
  template <class A>
  void load(Complexes<A> to) const {
    const bool real = s.real == Real::in, halves = real && s.in_halves();
    const int64_t parts = real ? 1 : 2;
    const auto at = [&](int64_t i, int64_t l) { return x + (from[l] + i * s.from.stride) * parts; };
    // The inverse transform exchanges real and imaginary parts, transforms, and exchanges them
    // again.
    if (s.inverse && s.real == Real::none) std::swap(to.re, to.im);
    if constexpr (std::is_same_v<A, float>) {
      if (!real || (halves && s.from.stride == 1)) {
        FftCopy copy = {.count = s.known(), .lines = lines, .stride = s.from.stride, .numbers = to};
        for (int64_t l = 0; l < lines; ++l) copy.line[l] = const_cast<float*>(at(0, l));
        return fft_copy_table().load(copy);
      }
    }
    for_elements(s.known(), lines, [&](int64_t i, int64_t l) {
      const int64_t place = i * lines + l;
      to.re[place] = static_cast<A>(halves ? *at(2 * i, l) : at(i, l)[0]);
      to.im[place] = halves ? static_cast<A>(*at(2 * i + 1, l))
                     : real ? A{0}
                            : static_cast<A>(at(i, l)[1]);
    });
  }

  // Writes the numbers 0 .. n - 1 of each line, divided as the attributes say.
  template <class A>
  void store(int64_t n, Complexes<A> from) const {
    if (s.inverse && s.real == Real::none) std::swap(from.re, from.im);
    write(0, n, s.lines.stride, s.inverse && s.real == Real::in ? -s.scale : s.scale, from);
  }
  // Writes the conjugates of the numbers 1 .. n - 1 to the end of each line, from the last on.
  template <class A>
  void store_mirrored(int64_t n, Complexes<A> from) const {
    from.re += lines;
    from.im += lines;
    write(s.lines.length - 1, n - 1, -s.lines.stride, s.inverse ? s.scale : -s.scale, from);
  }
  // Writes the real parts of the numbers 0 .. n - 1 of each line. Parts were exchanged.
  template <class A>
  void store_real(Complexes<A> from) const {
    std::swap(from.re, from.im);
    const bool halves = s.in_halves();
    if constexpr (std::is_same_v<A, float>) {
      if (halves && s.lines.stride == 1) {
        FftCopy copy = {.count = s.n,
                        .lines = lines,
                        .scale_re = static_cast<float>(s.scale),
                        .scale_im = static_cast<float>(s.scale),
                        .numbers = from};
        for (int64_t l = 0; l < lines; ++l) copy.line[l] = y + start[l];
        return fft_copy_table().store(copy);
      }
    }
    const int64_t step = s.lines.stride;
    for_elements(s.n, lines, [&](int64_t i, int64_t l) {
      T* const to = y + start[l] + i * (halves ? 2 : 1) * step;
      to[0] = static_cast<T>(s.scale * from.re[i * lines + l]);
      if (halves) to[step] = static_cast<T>(s.scale * from.im[i * lines + l]);
    });
  }

 private:
  template <class A>
  void write(int64_t first, int64_t count, int64_t stride, double scale_im,
             Complexes<A> from) const {
    const auto at = [&](int64_t l) { return y + 2 * (start[l] + first * s.lines.stride); };
    if constexpr (std::is_same_v<A, float>) {
      FftCopy copy = {.count = count,
                      .lines = lines,
                      .stride = stride,
                      .scale_re = static_cast<float>(s.scale),
                      .scale_im = static_cast<float>(scale_im),
                      .numbers = from};
      for (int64_t l = 0; l < lines; ++l) copy.line[l] = at(l);
      return fft_copy_table().store(copy);
    }
    for_elements(count, lines, [&](int64_t i, int64_t l) {
      T* const to = at(l) + 2 * i * stride;
      to[0] = static_cast<T>(s.scale * from.re[i * lines + l]);
      to[1] = static_cast<T>(scale_im * from.im[i * lines + l]);
    });
  }
};

// Turns the first half of the spectrum of real lines, in x, into numbers whose transform has them
// as imaginary parts, or as both. Returns where the numbers are: in x or `other`.
template <class A>
Complexes<A> whole_spectrum(const Fft& s, int64_t lines, Complexes<A> x, Complexes<A> other) {
  const A sign = s.inverse ? 1 : -1;
  std::fill_n(x.im, lines, A{0});
  if (s.in_halves()) {
    std::fill_n(x.im + s.n * lines, lines, A{0});
    fft_table<A>().join({.n = s.n,
                         .lines = lines,
                         .sign = sign,
                         .turns = parts<A>(s.turns, s.rounded_turns),
                         .from = x,
                         .to = other});
    return other;
  }
  for (int64_t k = 1; k < s.known(); ++k)
    for (int64_t l = 0; l < lines; ++l) {
      const int64_t at = k * lines + l, mirrored = (s.n - k) * lines + l;
      x.im[at] *= sign;
      x.re[mirrored] = x.re[at];
      x.im[mirrored] = -x.im[at];
    }
  return {x.im, x.re};
}

// Transforms lines of T with numbers of A.
template <class T, class A>
void run_lines(const RunContext& c) {
  const Fft& s = c.state<Fft>();
  if (c.out(0).count() == 0) return;
  const auto body = [&](int64_t task, float* slot) {
    const int64_t first = task * s.together, lines = std::min(s.together, s.lines.count - first);
    auto* const room = reinterpret_cast<A*>(slot);
    Complexes<A> x = {room, room + s.room()}, other = {room + 2 * s.room(), room + 3 * s.room()};
    Elements<T> e = {.s = s, .x = c.in(0).as<T>(), .y = c.out(0).as<T>(), .lines = lines};
    for (int64_t l = 0; l < lines; ++l) {
      e.start[l] = s.lines.start(first + l);
      e.from[l] = s.from.start(first + l);
    }
    e.load(x);
    if (s.real == Real::out) {
      const Complexes<A> whole = whole_spectrum(s, lines, x, other);
      if (whole.re == other.re) other = x;
      x = whole;
    }
    Complexes<A> y;
    if constexpr (std::is_same_v<A, double>)
      y = s.chirp.empty() ? run_transform(s.transform, lines, x, other)
                          : run_chirp(s, lines, x, other);
    else
      y = run_transform(s.transform, lines, x, other);
    if (s.real == Real::out) return e.store_real(y);
    int64_t count = s.computed, mirrored = s.computed < s.n ? s.computed : 0;
    if (s.in_halves()) {
      const Complexes<A> whole = y.re == x.re ? other : x;
      fft_table<A>().halves({.n = s.n,
                             .lines = lines,
                             .turns = parts<A>(s.turns, s.rounded_turns),
                             .from = y,
                             .to = whole});
      y = whole;
      count = s.n + 1;
      mirrored = s.n;
    }
    e.store(count, y);
    if (mirrored > 0) e.store_mirrored(mirrored, y);
  };
  for_tiles(c, ceil_div(s.lines.count, s.together), s.lanes, s.slot_bytes, body);
}

void run(const RunContext& c) noexcept {
  if (c.in(0).dtype == f64)
    run_lines<double, double>(c);
  else if (c.state<Fft>().as_floats)
    run_lines<float, float>(c);
  else
    run_lines<float, double>(c);
}

constexpr KernelDef kKernels[] = {
    {.op = "fft", .name = "line", .prepare = prepare<Real::none>, .run = run},
    {.op = "fft_of_real", .name = "line", .prepare = prepare<Real::in>, .run = run},
    {.op = "fft_to_real", .name = "line", .prepare = prepare<Real::out>, .run = run},
};

}  // namespace

std::span<const KernelDef> fft() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
