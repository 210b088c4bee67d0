// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and eigenvectors of general matrices. Shifted QR steps reduce the Hessenberg form to
// a triangle (Golub, Van Loan, Matrix Computations, 7.5); real matrices use Francis's double steps,
// which keep conjugate pairs exact. Eigenvectors solve systems with the triangle. The order is
// LAPACK's.
#include <algorithm>
#include <limits>

#include "kernels/linalg/hessenberg.h"
#include "kernels/linalg/loops.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr int kSteps = 300;       // for one eigenvalue or pair; two or three are usual
constexpr int kExceptional = 10;  // every so many steps, the shift is a different one

Complex root(const Complex& a) {
  const double re = std::sqrt((abs(a) + std::fabs(a.re)) / 2);
  if (re == 0) return {};
  const double im = std::fabs(a.im) / (2 * re);
  return a.re >= 0 ? Complex{re, std::copysign(im, a.im)} : Complex{im, std::copysign(re, a.im)};
}
// Scaled so that no square overflows or underflows f64.
Complex quotient(const Complex& a, const Complex& b) {
  const double scale = 1 / std::max(std::fabs(b.re), std::fabs(b.im));
  const Complex small = scale * b;
  return (scale / square(small)) * (a * conj(small));
}

// -- QR steps -------------------------------------------------------------------------------------

// The first row of the block that ends at `last` and has no zero on its subdiagonal.
template <class T>
int64_t block_begin(const Square<T>& h, const Range& r, int64_t last, double norm) {
  for (int64_t k = last; k > r.first; --k) {
    double beside = size(h(k - 1, k - 1)) + size(h(k, k));
    if (beside == 0) beside = norm;
    if (size(h(k, k - 1)) > kEpsilon * beside) continue;
    h(k, k - 1) = T{};
    return k;
  }
  return r.first;
}
template <class T>
double largest_of(const Square<T>& h) {
  double most = 0;
  for (int64_t i = 0; i < h.n * h.n; ++i) most = std::max(most, size(h.x[i]));
  return most;
}

// Applies 1 - (1, q, r) (x, y, w)^T to three rows, or to two with r = w = 0.
struct Reflection {
  double q, r, x, y, w, head;  // `head`: the new first element of the vector
  // The reflection of a vector to a multiple of the first axis.
  Reflection(double a, double b, double c) {
    const double length = std::copysign(std::sqrt(a * a + b * b + c * c), a);
    head = -length;
    x = (a + length) / length;
    y = b / length;
    w = c / length;
    q = b / (a + length);
    r = c / (a + length);
  }
};

// Francis's step on rows begin .. end of h. The shifts are the eigenvalues of the last two rows.
void double_step(const Square<double>& h, const Square<double>& z, int64_t begin, int64_t end,
                 bool exceptional) {
  double last = h(end, end), other = h(end - 1, end - 1);
  double across = h(end, end - 1) * h(end - 1, end);
  if (exceptional) {
    const double s = std::fabs(h(end, end - 1)) + std::fabs(h(end - 1, end - 2));
    last = other = last + 0.75 * s;
    across = -0.4375 * s * s;
  } else {
    const double p = (other - last) / 2, q = p * p + across;
    if (q >= 0) {  // two real shifts: the one closer to the last element, twice
      last = other = last + p + std::copysign(std::sqrt(q), -p);
      across = 0;
    }
  }
  // The step starts where two subdiagonal elements are small.
  int64_t m = end - 2;
  double a, b, c;  // of the first column of (h - shift 1)(h - shift 2) from row m on, scaled
  for (;; --m) {
    const double d = h(m, m), x = last - d, y = other - d;
    a = (x * y - across) / h(m + 1, m) + h(m, m + 1);
    b = h(m + 1, m + 1) - d - x - y;
    c = h(m + 2, m + 1);
    const double s = std::fabs(a) + std::fabs(b) + std::fabs(c);
    a /= s, b /= s, c /= s;
    if (m == begin) break;
    const double left = std::fabs(h(m, m - 1)) * (std::fabs(b) + std::fabs(c));
    const double beside = std::fabs(h(m - 1, m - 1)) + std::fabs(d) + std::fabs(h(m + 1, m + 1));
    if (left <= kEpsilon * std::fabs(a) * beside) break;
  }
  for (int64_t k = m; k < end; ++k) {
    const bool three = k + 1 < end;
    double scale = 1;
    if (k > m) {
      a = h(k, k - 1), b = h(k + 1, k - 1), c = three ? h(k + 2, k - 1) : 0;
      scale = std::fabs(a) + std::fabs(b) + std::fabs(c);
      if (scale == 0) continue;
      a /= scale, b /= scale, c /= scale;
    }
    const Reflection f(a, b, three ? c : 0);
    if (k > m) {
      h(k, k - 1) = scale * f.head;
      h(k + 1, k - 1) = 0;
      if (three) h(k + 2, k - 1) = 0;
    } else if (k > begin) {
      h(k, k - 1) *= 1 - f.x;  // the other elements of the column count as 0
    }
    for (int64_t j = k; j < h.n; ++j) {
      const double dot = h(k, j) + f.q * h(k + 1, j) + (three ? f.r * h(k + 2, j) : 0);
      h(k, j) -= f.x * dot;
      h(k + 1, j) -= f.y * dot;
      if (three) h(k + 2, j) -= f.w * dot;
    }
    const auto from_right = [&](const Square<double>& x, int64_t rows) {
      for (int64_t i = 0; i < rows; ++i) {
        const double dot = f.x * x(i, k) + f.y * x(i, k + 1) + (three ? f.w * x(i, k + 2) : 0);
        x(i, k) -= dot;
        x(i, k + 1) -= f.q * dot;
        if (three) x(i, k + 2) -= f.r * dot;
      }
    };
    from_right(h, std::min(end, k + 3) + 1);
    if (z.x != nullptr) from_right(z, z.n);
  }
}
// Reduces h to a triangle, except for blocks of two rows.
bool iterate(const Square<double>& h, const Square<double>& z, const Range& r) {
  const double norm = largest_of(h);
  int steps = 0;
  for (int64_t end = r.last; end > r.first;) {
    const int64_t begin = block_begin(h, r, end, norm);
    if (begin >= end - 1) {
      end = begin - 1;
      steps = 0;
      continue;
    }
    if (++steps > kSteps) return false;
    double_step(h, z, begin, end, steps % kExceptional == 0);
  }
  return true;
}

// Rotates rows and columns k, k + 1 of t and columns of z by u = [x -conj(y); y conj(x)], which is
// unitary: t becomes u^H t u.
void turn(const Square<Complex>& t, const Square<Complex>& z, int64_t k, const Complex& x,
          const Complex& y, int64_t first_column, int64_t rows) {
  for (int64_t j = first_column; j < t.n; ++j) {
    const Complex a = t(k, j), b = t(k + 1, j);
    t(k, j) = conj(x) * a + conj(y) * b;
    t(k + 1, j) = x * b - y * a;
  }
  const auto from_right = [&](const Square<Complex>& m, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const Complex a = m(i, k), b = m(i, k + 1);
      m(i, k) = x * a + y * b;
      m(i, k + 1) = conj(x) * b - conj(y) * a;
    }
  };
  from_right(t, rows);
  if (z.x != nullptr) from_right(z, z.n);
}

// The eigenvalues of [a b; c d], starting with that of a.
struct Two {
  Complex first, second;
  Two(double a, double b, double c, double d) {
    const double p = (a - d) / 2, q = p * p + b * c;
    if (q < 0) {
      first = {d + p, std::sqrt(-q)};
      second = conj(first);
      return;
    }
    const double s = p + std::copysign(std::sqrt(q), p);
    first = {d + s, 0};
    second = {s == 0 ? d : d - b * c / s, 0};
  }
};
void split_blocks(const Square<double>& h, const Range& r, Complex* values) {
  for (int64_t k = 0; k < h.n; ++k) {
    if (k < r.first || k >= r.last || h(k + 1, k) == 0) {
      values[k] = {h(k, k), 0};
      continue;
    }
    const Two two(h(k, k), h(k, k + 1), h(k + 1, k), h(k + 1, k + 1));
    values[k] = two.first;
    values[k + 1] = two.second;
    ++k;
  }
}
// Triangularizes the blocks of two rows of h and z into t and z.
void to_triangle(const Square<double>& h, const Square<Complex>& t, const Square<Complex>& z,
                 const Complex* values) {
  const int64_t n = h.n;
  for (int64_t k = 0; k + 1 < n; ++k) {
    if (h(k + 1, k) == 0) continue;
    Complex x = values[k] - Complex{h(k + 1, k + 1), 0}, y = {h(k + 1, k), 0};  // its eigenvector
    const double length = std::hypot(abs(x), y.re);
    x = (1 / length) * x;
    y = (1 / length) * y;
    turn(t, z, k, x, y, k, k + 2);
    t(k + 1, k) = {};
    ++k;
  }
  for (int64_t k = 0; k < n; ++k) t(k, k) = values[k];
}

// A step on rows begin .. end. The shift is the eigenvalue of the last two rows that is closer to
// the last element (Wilkinson).
void single_step(const Square<Complex>& h, const Square<Complex>& z, int64_t begin, int64_t end,
                 bool exceptional) {
  const Complex d = h(end, end), c = h(end, end - 1);
  Complex shift = d;
  if (exceptional) {
    shift.re += 0.75 * size(c);
  } else {
    const Complex p = 0.5 * (h(end - 1, end - 1) - d), across = h(end - 1, end) * c;
    Complex s = root(p * p + across);
    if (p.re * s.re + p.im * s.im < 0) s = -s;
    s = p + s;
    if (size(s) != 0) shift = d - quotient(across, s);
  }
  for (int64_t k = begin; k < end; ++k) {
    Complex x = k == begin ? h(k, k) - shift : h(k, k - 1);
    Complex y = h(k + 1, k == begin ? k : k - 1);
    const double length = std::hypot(abs(x), abs(y));
    if (length == 0) continue;
    x = (1 / length) * x;
    y = (1 / length) * y;
    turn(h, z, k, x, y, std::max(k - 1, begin), std::min(k + 2, end) + 1);
    if (k > begin) h(k + 1, k - 1) = {};
  }
}
bool iterate(const Square<Complex>& h, const Square<Complex>& z, const Range& r) {
  const double norm = largest_of(h);
  int steps = 0;
  for (int64_t end = r.last; end > r.first;) {
    const int64_t begin = block_begin(h, r, end, norm);
    if (begin == end) {
      --end;
      steps = 0;
      continue;
    }
    if (++steps > kSteps) return false;
    single_step(h, z, begin, end, steps % kExceptional == 0);
  }
  return true;
}

// -- Eigenvectors ---------------------------------------------------------------------------------

// y: eigenvector k of the triangle t.
void substitute(const Square<Complex>& t, int64_t k, double least, Complex* y) {
  constexpr double kLarge = 1e100;
  y[k] = {1, 0};
  for (int64_t i = k - 1; i >= 0; --i) {
    Complex sum;
    for (int64_t j = i + 1; j <= k; ++j) sum = sum + t(i, j) * y[j];
    Complex gap = t(k, k) - t(i, i);
    if (size(gap) < least) gap = {least, 0};  // for equal eigenvalues
    y[i] = quotient(sum, gap);
    if (size(y[i]) < kLarge) continue;
    const double factor = 1 / size(y[i]);
    for (int64_t j = i; j <= k; ++j) y[j] = factor * y[j];
  }
}

// One matrix in a slot, with or without eigenvectors.
template <bool vectors>
struct Slot {
  Square<double> real, real_z;  // for a real matrix
  Square<Complex> t, z;         // its triangle with eigenvectors, or those of a complex matrix
  Complex *values, *y, *v;
  double* scale;
  int64_t doubles;
  Slot(const Matrices& s, double* memory) {
    const int64_t n = s.n, square = n * n;
    double* at = memory;
    const auto take = [&](bool is_needed, int64_t count) {
      double* const place = is_needed ? at : nullptr;
      if (is_needed) at += count;
      return place;
    };
    const auto complex = [](double* place) { return reinterpret_cast<Complex*>(place); };
    real = {take(!s.complex, square), n};
    real_z = {take(!s.complex && vectors, square), n};
    t = {complex(take(s.complex || vectors, 2 * square)), n};
    z = {complex(take(vectors, 2 * square)), n};
    values = complex(take(true, 2 * n));
    y = complex(take(true, 2 * n));
    v = complex(take(true, 2 * n));
    scale = take(true, n);
    doubles = at - memory;
  }
};
template <class T>
void set_identity(const Square<T>& z) {
  if (z.x == nullptr) return;
  std::fill_n(z.x, z.n * z.n, T{});
  for (int64_t i = 0; i < z.n; ++i) z(i, i) = T{1};
}

template <bool vectors>
int64_t doubles(const Matrices& s) {
  double none = 0;
  return Slot<vectors>(s, &none).doubles;
}
template <bool vectors>
void run(const RunContext& c, const Matrices& s, int64_t index, double* memory) {
  const Slot<vectors> slot(s, memory);
  const int64_t n = s.n, count = n * n * (s.complex ? 2 : 1);
  load_rows(c, s, index, memory);
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(memory[i])) return c.fail("a matrix is not finite");
  const int shift = rescale(memory, count);
  set_identity(slot.real_z);
  if (s.complex || vectors) set_identity(slot.z);
  Range range;
  bool converges;
  if (s.complex) {
    range = balance(slot.t, slot.scale);
    reduce(slot.t, slot.z, range, slot.v);
    converges = iterate(slot.t, slot.z, range);
    for (int64_t i = 0; i < n; ++i) slot.values[i] = slot.t(i, i);
  } else {
    range = balance(slot.real, slot.scale);
    reduce(slot.real, slot.real_z, range, &slot.v->re);
    converges = iterate(slot.real, slot.real_z, range);
    split_blocks(slot.real, range, slot.values);
  }
  if (!converges) return c.fail("eigenvalues do not converge");
  if (vectors) {
    if (!s.complex) {
      for (int64_t i = 0; i < n * n; ++i) {
        slot.t.x[i] = {slot.real.x[i], 0};
        slot.z.x[i] = {slot.real_z.x[i], 0};
      }
      to_triangle(slot.real, slot.t, slot.z, slot.values);
    }
    const double least =
        std::max(kEpsilon * largest_of(slot.t), std::numeric_limits<double>::min());
    for (int64_t k = 0; k < n; ++k) {
      if (!s.complex && slot.values[k].im < 0) {
        save_conjugate(c, s, index, k);
        continue;
      }
      substitute(slot.t, k, least, slot.y);
      for (int64_t i = 0; i < n; ++i) {
        slot.v[i] = {};
        for (int64_t j = 0; j <= k; ++j) slot.v[i] = slot.v[i] + slot.z(i, j) * slot.y[j];
      }
      undo_balance(range, n, slot.scale, slot.v);
      save_vector(c, s, index, k, slot.v, !s.complex && slot.values[k].im == 0);
    }
  }
  scale_back(&slot.values->re, 2 * n, shift);
  save_values(c, s, index, slot.values);
}

constexpr KernelDef kKernels[] = {
    {.op = "eig", .name = "qr", .prepare = prepare_task<kEigLoops>, .run = run_task<kEigLoops>},
    {.op = "eigvals",
     .name = "qr",
     .prepare = prepare_task<kEigvalsLoops>,
     .run = run_task<kEigvalsLoops>},
};

}  // namespace

void load_rows(const RunContext& c, const Matrices& s, int64_t index, double* to) {
  load(c.in(0), index, s.n * s.n * (s.complex ? 2 : 1), to);
}
void load_columns(const RunContext& c, const Matrices& s, int64_t index, double* to) {
  if (!s.complex) return load_transposed(c.in(0), index, s.n, s.n, to);
  load_rows(c, s, index, to);
  const Square<Complex> x = {reinterpret_cast<Complex*>(to), s.n};
  for (int64_t i = 0; i < s.n; ++i)
    for (int64_t j = 0; j < i; ++j) std::swap(x(i, j), x(j, i));
}
void save_values(const RunContext& c, const Matrices& s, int64_t index, const Complex* values) {
  save(c.out(0), index, 2 * s.n, &values->re);
}
void save_vector(const RunContext& c, const Matrices& s, int64_t index, int64_t j, Complex* v,
                 bool is_real) {
  const int64_t n = s.n;
  double most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, size(v[i]));
  double sum = 0, largest = 0;
  int64_t head = 0;
  for (int64_t i = 0; i < n; ++i) {
    v[i] = (1 / most) * v[i];
    if (is_real) v[i].im = 0;
    const double each = square(v[i]);
    sum += each;
    if (each <= largest * (1 + 1e-10)) continue;  // equal magnitudes: the first one counts
    largest = each;
    head = i;
  }
  const Complex turn = (1 / (std::sqrt(largest) * std::sqrt(sum))) * conj(v[head]);
  for (int64_t i = 0; i < n; ++i) {
    const Complex x = turn * v[i];
    const int64_t at = ((index * n + i) * n + j) * 2;
    put(c.out(1), at, x.re);
    put(c.out(1), at + 1, is_real || i == head ? 0 : x.im);
  }
}
void save_conjugate(const RunContext& c, const Matrices& s, int64_t index, int64_t j) {
  const auto copy = [&](auto* y) {
    for (int64_t i = 0; i < s.n; ++i) {
      auto* const pair = y + ((index * s.n + i) * s.n + j) * 2;
      pair[0] = pair[-2];
      pair[1] = -pair[-1];
    }
  };
  if (c.out(1).dtype == f64)
    copy(c.out(1).as<double>());
  else
    copy(c.out(1).as<float>());
}

constinit const MatrixTask kEigLoops = {
    .doubles = doubles<true>, .run = run<true>, .reads_complex = true};
constinit const MatrixTask kEigvalsLoops = {
    .doubles = doubles<false>, .run = run<false>, .reads_complex = true};

std::span<const KernelDef> eig() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
