// SPDX-License-Identifier: Apache-2.0
// Eigenvalues as the roots of the characteristic polynomial (Faddeev and Le Verrier; Durand and
// Kerner), in the order of the nearest diagonal elements, and eigenvectors by elimination. For
// small, nearly diagonal matrices with simple eigenvalues, which samples use.
#include <complex>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

using Number = std::complex<double>;

struct ComplexMatrix {
  int64_t n = 0;
  std::vector<Number> values;
  explicit ComplexMatrix(int64_t rows) : n(rows), values(static_cast<size_t>(rows * rows)) {}
  Number& at(int64_t i, int64_t j) { return values[i * n + j]; }
  const Number& at(int64_t i, int64_t j) const { return values[i * n + j]; }
};

// Coefficients of det(z - a), that of z^n first.
std::vector<Number> polynomial(const ComplexMatrix& a) {
  std::vector<Number> c = {1};
  ComplexMatrix m(a.n);
  for (int64_t k = 1; k <= a.n; ++k) {
    for (int64_t i = 0; i < a.n; ++i) m.at(i, i) += c.back();
    ComplexMatrix next(a.n);
    Number trace = 0;
    for (int64_t i = 0; i < a.n; ++i)
      for (int64_t j = 0; j < a.n; ++j) {
        for (int64_t p = 0; p < a.n; ++p) next.at(i, j) += a.at(i, p) * m.at(p, j);
        if (i == j) trace += next.at(i, i);
      }
    m = next;
    c.push_back(-trace / static_cast<double>(k));
  }
  return c;
}

std::vector<Number> roots(const std::vector<Number>& c) {
  const int64_t n = static_cast<int64_t>(c.size()) - 1;
  std::vector<Number> z;
  for (int64_t k = 0; k < n; ++k) z.push_back(std::pow(Number(0.4, 0.9), k) * 4.0);
  for (int step = 0; step < 500; ++step)
    for (int64_t k = 0; k < n; ++k) {
      Number y = 0, others = 1;
      for (const Number& each : c) y = y * z[k] + each;
      for (int64_t j = 0; j < n; ++j)
        if (j != k) others *= z[k] - z[j];
      z[k] -= y / others;
    }
  return z;
}

std::vector<Number> values_of(const ComplexMatrix& a, bool is_real) {
  std::vector<Number> z = roots(polynomial(a)), ordered;
  for (Number& each : z)
    if (is_real && std::fabs(each.imag()) < 1e-9) each = each.real();
  for (int64_t i = 0; i < a.n; ++i) {
    size_t best = 0;
    for (size_t k = 1; k < z.size(); ++k) {
      const double gain = std::abs(z[best] - a.at(i, i)) - std::abs(z[k] - a.at(i, i));
      if (gain > 1e-9 || (gain > -1e-9 && z[k].imag() > z[best].imag())) best = k;
    }
    ordered.push_back(z[best]);
    z.erase(z.begin() + static_cast<std::ptrdiff_t>(best));
  }
  return ordered;
}

// v with (a - value) v = 0, by elimination with the largest remaining pivot.
std::vector<Number> vector_of(ComplexMatrix a, const Number& value) {
  const int64_t n = a.n;
  std::vector<int64_t> order(n);
  for (int64_t i = 0; i < n; ++i) {
    order[i] = i;
    a.at(i, i) -= value;
  }
  for (int64_t k = 0; k + 1 < n; ++k) {
    int64_t row = k, column = k;
    for (int64_t i = k; i < n; ++i)
      for (int64_t j = k; j < n; ++j)
        if (std::abs(a.at(i, j)) > std::abs(a.at(row, column))) row = i, column = j;
    for (int64_t j = 0; j < n; ++j) std::swap(a.at(k, j), a.at(row, j));
    for (int64_t i = 0; i < n; ++i) std::swap(a.at(i, k), a.at(i, column));
    std::swap(order[k], order[column]);
    for (int64_t i = k + 1; i < n; ++i) {
      const Number f = a.at(i, k) / a.at(k, k);
      for (int64_t j = k; j < n; ++j) a.at(i, j) -= f * a.at(k, j);
    }
  }
  std::vector<Number> y(n), v(n);
  y[n - 1] = 1;
  for (int64_t i = n - 2; i >= 0; --i) {
    for (int64_t j = i + 1; j < n; ++j) y[i] -= a.at(i, j) * y[j];
    y[i] /= a.at(i, i);
  }
  double square = 0;
  Number largest = 0;
  for (int64_t i = 0; i < n; ++i) v[order[i]] = y[i];
  for (const Number& each : v) {
    square += std::norm(each);
    if (std::abs(each) > std::abs(largest) * (1 + 1e-10)) largest = each;
  }
  for (Number& each : v) each *= std::conj(largest) / (std::abs(largest) * std::sqrt(square));
  return v;
}

// Eigenvalues, and eigenvectors if the call has them.
void eigen(const Call& c) {
  const bool is_complex = c.attrs.flag("complex");
  const Array& x = c.in[0];
  const int64_t n = x.shape[x.shape.rank() - 1 - is_complex], parts = is_complex ? 2 : 1;
  for (int64_t index = 0; n > 0 && index < x.count() / (n * n * parts); ++index) {
    ComplexMatrix a(n);
    for (int64_t i = 0; i < n * n; ++i) {
      const int64_t at = (index * n * n + i) * parts;
      a.values[i] = {x.at(at), is_complex ? x.at(at + 1) : 0};
    }
    const std::vector<Number> values = values_of(a, !is_complex);
    for (int64_t j = 0; j < n; ++j) {
      c.out[0].at((index * n + j) * 2) = values[j].real();
      c.out[0].at((index * n + j) * 2 + 1) = values[j].imag();
      if (c.out.size() < 2) continue;
      const std::vector<Number> v = vector_of(a, values[j]);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = ((index * n + i) * n + j) * 2;
        c.out[1].at(at) = v[i].real();
        c.out[1].at(at + 1) = v[i].imag();
      }
    }
  }
}

// Matrix products for each coefficient, and steps toward each root.
double eigen_work(const Call& c) {
  const Array& x = c.in[0];
  const double n = static_cast<double>(x.shape[x.shape.rank() - 1 - c.attrs.flag("complex")]);
  return n == 0 ? 0 : static_cast<double>(x.count()) * (8 * n * n + 4000);
}

constexpr Row kRows[] = {
    {"eig", eigen, eigen_work},
    {"eigvals", eigen, eigen_work},
};

}  // namespace

std::span<const Row> eig() { return kRows; }

}  // namespace hg::reference::rows
