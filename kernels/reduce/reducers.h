// SPDX-License-Identifier: Apache-2.0
// The reducers of reduce.cpp: how a state is initialized, adds an element, merges with another, and
// finishes. They read float, double or int64_t.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/lines.h"

namespace hg::kernels {

struct ReduceTable;

// The loops of a reduction: kept dims in the order of the output, reduced dims in the order of the
// input.
struct ReducePlan {
  Sizes kept_shape, kept_strides, shape, strides;
  DType dtype = DType::f32;        // of the elements
  bool reduced[kMaxRank] = {};     // dims of the input
  int64_t outputs = 1, count = 1;  // results; elements of each
  int64_t run = 1;                 // neighboring elements that are added together
  int64_t chunks = 1;              // partial states of each result
  bool by_column = false;          // neighboring results read neighboring elements
  int64_t row_parts = 1;           // of the rows that a sum of columns adds, each a task
  double parameter = 0;            // norm: the order; var and std: the correction
  bool takes_root = false;         // std: the variance may exceed the range of its dtype
  const ReduceTable* table = nullptr;
  const void* elements = nullptr;  // not stored in a tensor: compute_block() computes them

  bool in_order = true;  // elements of one result are consecutive

  // The elements come from a plan of elementwise ops, which computes 16-bit floats in f32. Their
  // order is that of the input or, if `walked`, has the reduced dims after the kept ones.
  void compute(const void* plan, bool walked) {
    elements = plan;
    in_order = walked;
    if (!walked) return;
    strides = contiguous_strides(shape);
    kept_strides = contiguous_strides(kept_shape);
    for (int64_t& stride : kept_strides) stride *= count;
  }
};

namespace reducers {

// Sums and products: floats in double, integers and bool in 64 bits with wraparound.
template <class X>
using Total = std::conditional_t<std::is_floating_point_v<X>, double, uint64_t>;

template <class X>
struct Sum {
  using State = Total<X>;
  static constexpr bool kLanes = true;
  static State start(double) { return 0; }
  static void add(State& s, X x, int64_t, double) { s += static_cast<State>(x); }
  static void merge(State& s, const State& other, double) { s += other; }
  static State result(const ReducePlan&, State s) { return s; }
};
template <class X>
struct Mean : Sum<X> {
  static double result(const ReducePlan& plan, Total<X> s) {
    return static_cast<double>(s) / static_cast<double>(plan.count);
  }
};
template <class X>
struct Prod {
  using State = Total<X>;
  static constexpr bool kLanes = true;
  static State start(double) { return 1; }
  static void add(State& s, X x, int64_t, double) { s *= static_cast<State>(x); }
  static void merge(State& s, const State& other, double) { s *= other; }
  static State result(const ReducePlan&, State s) { return s; }
};

// The largest (smallest) element; NaN if there is one. The shape rule rejects reductions of
// nothing.
template <class X, bool largest>
struct Bound {
  using State = X;
  static constexpr bool kLanes = true;
  static State start(double) {
    using Limits = std::numeric_limits<X>;
    if constexpr (Limits::has_infinity)
      return largest ? -Limits::infinity() : Limits::infinity();
    else
      return largest ? Limits::lowest() : Limits::max();
  }
  // The inner selection is one instruction. NaN, which stays, is rare.
  static void add(State& s, X x, int64_t, double) {
    const X further = largest ? (x > s ? x : s) : (x < s ? x : s);
    s = x != x ? x : further;
  }
  static void merge(State& s, const State& other, double p) { add(s, other, 0, p); }
  static State result(const ReducePlan&, State s) { return s; }
};
template <class X>
struct Amax : Bound<X, true> {};
template <class X>
struct Amin : Bound<X, false> {};

// Whether all (any) elements are nonzero.
template <class X, bool all>
struct Test {
  using State = uint8_t;
  static constexpr bool kLanes = true;
  static State start(double) { return all; }
  static void add(State& s, X x, int64_t, double p) { merge(s, x != X(0), p); }
  static void merge(State& s, const State& other, double) {
    s = static_cast<State>(all ? s & other : s | other);
  }
  static State result(const ReducePlan&, State s) { return s; }
};
template <class X>
struct All : Test<X, true> {};
template <class X>
struct Any : Test<X, false> {};

// The first of the largest (smallest) elements, or the first NaN, and its index.
template <class X, bool largest>
struct Extreme {
  struct State {
    X value{};
    int64_t index = -1;  // none yet
  };
  static constexpr bool kLanes = false;
  static State start(double) { return {}; }
  static void add(State& s, X x, int64_t i, double) {
    const bool better = largest ? x > s.value : x < s.value;
    if (s.index < 0 || (s.value == s.value && (better || x != x))) s = {x, i};
  }
  static void merge(State& s, const State& other, double p) {
    if (other.index >= 0) add(s, other.value, other.index, p);
  }
  // max and min return the value and the index; argmax and argmin only the index.
  static X value(const State& s) { return s.value; }
  static int64_t result(const ReducePlan&, const State& s) { return s.index; }
};
template <class X>
struct Largest : Extreme<X, true> {};
template <class X>
struct Smallest : Extreme<X, false> {};

// Mean and sum of squared distances from it: Welford's algorithm; merged as in Chan, Golub and
// LeVeque, 1979.
template <class X>
struct Var {
  struct State {
    double mean = 0, squares = 0, n = 0;
  };
  static constexpr bool kLanes = true;
  static State start(double) { return {}; }
  static void add(State& s, X x, int64_t, double) {
    s.n += 1;
    const double distance = static_cast<double>(x) - s.mean;
    s.mean += distance / s.n;
    s.squares += distance * (static_cast<double>(x) - s.mean);
  }
  static void merge(State& s, const State& other, double) {
    if (other.n == 0) return;
    const double n = s.n + other.n, distance = other.mean - s.mean;
    s.mean += distance * other.n / n;
    s.squares += other.squares + distance * distance * s.n * other.n / n;
    s.n = n;
  }
  static double result(const ReducePlan& plan, const State& s) {
    const double y = s.squares / std::max(0.0, static_cast<double>(plan.count) - plan.parameter);
    return plan.takes_root ? std::sqrt(y) : y;
  }
};

// sum |x|^p for finite p; the number of nonzero elements for p = 0; the largest or smallest |x| for
// infinite p
template <class X>
struct Norm {
  using State = double;
  static constexpr bool kLanes = true;
  static State start(double p) { return p == -std::numeric_limits<double>::infinity() ? -p : 0; }
  static void add(State& s, X x, int64_t, double p) {
    const double size = std::abs(static_cast<double>(x));
    if (p == 2)
      s += size * size;
    else if (p == 1)
      s += size;
    else if (p == 0)
      s += size != 0;
    else if (std::isinf(p))
      merge(s, size, p);
    else
      s += std::pow(size, p);
  }
  static void merge(State& s, const State& other, double p) {
    if (std::isinf(p))
      s = s != s || (p > 0 ? s > other : s < other) ? s : other;
    else
      s += other;
  }
  static double result(const ReducePlan& plan, State s) {
    const double p = plan.parameter;
    if (p == 2) return std::sqrt(s);
    return p != 0 && p != 1 && !std::isinf(p) ? std::pow(s, 1 / p) : s;
  }
};

}  // namespace reducers
}  // namespace hg::kernels
