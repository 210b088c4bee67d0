// SPDX-License-Identifier: Apache-2.0
// Running reductions along one dim.
#include <cmath>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// f(so far, next) along each line; the first element is its own result.
template <double (*f)(double, double)>
void scan_with(const Call& c) {
  const Array& x = c.in[0];
  const int rank = x.shape.rank();
  const int axis = c.attrs.axis("dim", rank);
  int64_t stride = 1;
  for (int d = axis + 1; d < rank; ++d) stride *= x.shape[d];
  const int64_t length = rank > 0 ? x.shape[axis] : 1;
  for (int64_t i = 0; i < x.count(); ++i) {
    const bool first = i / stride % length == 0;
    c.out[0].at(i) = first ? x.at(i) : f(c.out[0].at(i - stride), x.at(i));
    if (c.out.size() > 1) {
      const bool taken = first || c.out[0].at(i) == x.at(i);
      c.out[1].at(i) = taken ? static_cast<double>(i / stride % length) : c.out[1].at(i - stride);
    }
  }
}

void linear_scan(const Call& c) {
  const Array &a = c.in[0], &b = c.in[1];
  const int rank = a.shape.rank(), axis = c.attrs.axis("dim", rank);
  int64_t stride = 1;
  for (int d = axis + 1; d < rank; ++d) stride *= a.shape[d];
  const int64_t length = rank > 0 ? a.shape[axis] : 1;
  for (int64_t i = 0; i < a.count(); ++i) {
    const bool starts = i / stride % length == 0 || a.at(i) == 0;
    c.out[0].at(i) = b.at(i) + (starts ? 0 : a.at(i) * c.out[0].at(i - stride));
  }
}

double larger(double a, double b) { return a > b ? a : b; }
double smaller(double a, double b) { return a < b ? a : b; }

constexpr Row kRows[] = {
    {"cumsum", scan_with<[](double a, double b) { return a + b; }>},
    {"cumprod", scan_with<[](double a, double b) { return a * b; }>},
    {"linear_scan", linear_scan},
    {"cummax", scan_with<larger>},
    {"cummin", scan_with<smaller>},
    {"logcumsumexp",
     scan_with<[](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }>},
};

}  // namespace

std::span<const Row> scan() { return kRows; }

}  // namespace hg::reference::rows
