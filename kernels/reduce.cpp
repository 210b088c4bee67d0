// SPDX-License-Identifier: Apache-2.0
// Reductions over any dims: sum mean prod amax amin all any argmax argmin max min var norm.
#include "kernels/reduce.h"

#include <cmath>
#include <limits>

#include "kernels/lines.h"

namespace hg::kernels {

ReducePlan plan_reduction(const PrepareContext& c, const Sizes& dims) {
  const Tensor& x = c.in(0);
  ReducePlan plan;
  bool reduced[kMaxRank] = {};
  for (int d = 0; d < x.rank(); ++d) reduced[d] = dims.empty();
  for (int64_t d : dims)
    if (x.rank() > 0) reduced[d] = true;
  const auto append = [](Sizes& shape, Sizes& strides, int64_t size, int64_t stride) {
    const int last = shape.rank() - 1;
    if (last >= 0 && strides[last] == stride * size) {
      shape[last] *= size;
      strides[last] = stride;
    } else {
      shape.push_back(size);
      strides.push_back(stride);
    }
  };
  for (int d = 0; d < x.rank(); ++d) {
    if (x.shape[d] == 1) continue;
    if (reduced[d])
      append(plan.shape, plan.strides, x.shape[d], x.strides[d]);
    else
      append(plan.kept_shape, plan.kept_strides, x.shape[d], x.strides[d]);
  }
  plan.outputs = plan.kept_shape.count();
  plan.count = plan.shape.count();
  const int kept = plan.kept_shape.rank() - 1, last = plan.shape.rank() - 1;
  plan.by_column = kept >= 0 && last >= 0 && plan.kept_strides[kept] == 1 &&
                   plan.kept_shape[kept] >= 8 && plan.strides[last] != 1;
  if (!plan.by_column)
    plan.chunks = std::max<int64_t>(1, (plan.count + kReduceChunk - 1) / kReduceChunk);
  return plan;
}

namespace {

template <class T>
constexpr bool kFloating = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                           std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <class T>
using Element = decltype(wide(T()));

// Sums and products: floats in double, integers and bool in i64 with wrap-around.
template <class T>
using Total = std::conditional_t<kFloating<T>, double, uint64_t>;

template <class T>
struct Sum {
  using State = Total<T>;
  static constexpr bool kLanes = true;
  static State start(const ReduceParams&) { return 0; }
  static void add(State& s, Element<T> x, int64_t, const ReduceParams&) {
    s += static_cast<State>(x);
  }
  static void merge(State& s, const State& other, const ReduceParams&) { s += other; }
};
template <class T>
struct Prod {
  using State = Total<T>;
  static constexpr bool kLanes = true;
  static State start(const ReduceParams&) { return 1; }
  static void add(State& s, Element<T> x, int64_t, const ReduceParams&) {
    s *= static_cast<State>(x);
  }
  static void merge(State& s, const State& other, const ReduceParams&) { s *= other; }
};
// The largest, NaN when there is one; reductions of nothing are refused by the shape rule.
template <class T>
struct Amax {
  using State = Element<T>;
  static constexpr bool kLanes = true;
  static State start(const ReduceParams&) {
    if constexpr (std::is_floating_point_v<State>)
      return -std::numeric_limits<State>::infinity();
    else
      return std::numeric_limits<State>::lowest();
  }
  static void add(State& s, State x, int64_t, const ReduceParams&) { s = s != s || s > x ? s : x; }
  static void merge(State& s, const State& other, const ReduceParams& p) { add(s, other, 0, p); }
};
template <class T>
struct Amin {
  using State = Element<T>;
  static constexpr bool kLanes = true;
  static State start(const ReduceParams&) {
    if constexpr (std::is_floating_point_v<State>)
      return std::numeric_limits<State>::infinity();
    else
      return std::numeric_limits<State>::max();
  }
  static void add(State& s, State x, int64_t, const ReduceParams&) { s = s != s || s < x ? s : x; }
  static void merge(State& s, const State& other, const ReduceParams& p) { add(s, other, 0, p); }
};
template <class T>
struct All {
  using State = uint8_t;
  static constexpr bool kLanes = true;
  static State start(const ReduceParams&) { return 1; }
  static void add(State& s, Element<T> x, int64_t, const ReduceParams&) {
    s = static_cast<uint8_t>(s & (x != Element<T>(0)));
  }
  static void merge(State& s, const State& other, const ReduceParams&) { s &= other; }
};
template <class T>
struct Any {
  using State = uint8_t;
  static constexpr bool kLanes = true;
  static State start(const ReduceParams&) { return 0; }
  static void add(State& s, Element<T> x, int64_t, const ReduceParams&) {
    s = static_cast<uint8_t>(s | (x != Element<T>(0)));
  }
  static void merge(State& s, const State& other, const ReduceParams&) { s |= other; }
};

// The first of the largest (smallest) elements, or the first NaN, and its index.
template <class T, bool largest>
struct Extreme {
  struct State {
    Element<T> value{};
    int64_t index = -1;  // none yet
  };
  static constexpr bool kLanes = false;
  static State start(const ReduceParams&) { return {}; }
  static void add(State& s, Element<T> x, int64_t i, const ReduceParams&) {
    const bool better = largest ? x > s.value : x < s.value;
    if (s.index < 0 || (s.value == s.value && (better || x != x))) s = {x, i};
  }
  static void merge(State& s, const State& other, const ReduceParams& p) {
    if (other.index >= 0) add(s, other.value, other.index, p);
  }
};
template <class T>
struct Largest : Extreme<T, true> {};
template <class T>
struct Smallest : Extreme<T, false> {};

// Mean and sum of squared distances from it: Welford; merged as by Chan, Golub and LeVeque, 1979.
template <class T>
struct Moments {
  struct State {
    double mean = 0, squares = 0, n = 0;
  };
  static constexpr bool kLanes = true;
  static State start(const ReduceParams&) { return {}; }
  static void add(State& s, Element<T> x, int64_t, const ReduceParams&) {
    s.n += 1;
    const double distance = static_cast<double>(x) - s.mean;
    s.mean += distance / s.n;
    s.squares += distance * (static_cast<double>(x) - s.mean);
  }
  static void merge(State& s, const State& other, const ReduceParams&) {
    if (other.n == 0) return;
    const double n = s.n + other.n, distance = other.mean - s.mean;
    s.mean += distance * other.n / n;
    s.squares += other.squares + distance * distance * s.n * other.n / n;
    s.n = n;
  }
};

// sum |x|^a for finite a, the number of elements that are not 0 for a = 0, the largest or
// smallest |x| for infinite a
template <class T>
struct NormSum {
  using State = double;
  static constexpr bool kLanes = true;
  static State start(const ReduceParams& p) {
    return p.a == -std::numeric_limits<double>::infinity() ? -p.a : 0;
  }
  static void add(State& s, Element<T> x, int64_t, const ReduceParams& p) {
    const double size = std::abs(static_cast<double>(x));
    if (p.a == 2)
      s += size * size;
    else if (p.a == 1)
      s += size;
    else if (p.a == 0)
      s += size != 0;
    else if (std::isinf(p.a))
      s = s != s || (p.a > 0 ? s > size : s < size) ? s : size;
    else
      s += std::pow(size, p.a);
  }
  static void merge(State& s, const State& other, const ReduceParams& p) {
    if (std::isinf(p.a))
      s = s != s || (p.a > 0 ? s > other : s < other) ? s : other;
    else
      s += other;
  }
};

template <class Y, class V>
void store(const RunContext& c, int output, int64_t index, V value) {
  c.out(output).as<Y>()[index] = narrowed<Y>(value);
}

constexpr int64_t kLargestState = 32;

Status prepare_with(PrepareContext& c, const Sizes& dims, ReduceParams params = {}) {
  ReducePlan plan = plan_reduction(c, dims);
  plan.params = params;
  if (plan.chunks > 1) c.set_workspace(plan.outputs * plan.chunks * kLargestState);
  c.make_state(plan);
  return {};
}
Status prepare(PrepareContext& c) { return prepare_with(c, c.attrs().axes("dim", c.in(0).rank())); }
Status prepare_one_dim(PrepareContext& c) {
  Sizes dims;
  if (c.attrs().has("dim")) dims.push_back(c.attrs().axis("dim", c.in(0).rank()));
  return prepare_with(c, dims);
}
Status prepare_var(PrepareContext& c) {
  return prepare_with(c, c.attrs().axes("dim", c.in(0).rank()),
                      {.a = c.attrs().real("correction")});
}
Status prepare_norm(PrepareContext& c) {
  return prepare_with(c, c.attrs().axes("dim", c.in(0).rank()), {.a = c.attrs().real("ord")});
}

// Integers and bool give i64.
template <template <class> class R>
void run_total(const RunContext& c) noexcept {
  const ReducePlan& plan = c.state<ReducePlan>();
  for_type(c.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using Y = std::conditional_t<kFloating<T>, T, int64_t>;
    Reduction<R<T>, T>::run(c, plan, [&](int64_t o, Total<T> s) { store<Y>(c, 0, o, s); });
  });
}
void run_mean(const RunContext& c) noexcept {
  const ReducePlan& plan = c.state<ReducePlan>();
  for_float_type(c.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Reduction<Sum<T>, T>::run(c, plan, [&](int64_t o, double s) {
      store<T>(c, 0, o, s / static_cast<double>(plan.count));
    });
  });
}
template <template <class> class R>
void run_same(const RunContext& c) noexcept {
  const ReducePlan& plan = c.state<ReducePlan>();
  for_type(c.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Reduction<R<T>, T>::run(c, plan, [&](int64_t o, auto s) { store<T>(c, 0, o, s); });
  });
}
template <template <class> class R>
void run_test(const RunContext& c) noexcept {
  const ReducePlan& plan = c.state<ReducePlan>();
  for_type(c.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Reduction<R<T>, T>::run(c, plan, [&](int64_t o, uint8_t s) { store<uint8_t>(c, 0, o, s); });
  });
}
template <template <class> class R>
void run_index(const RunContext& c) noexcept {
  const ReducePlan& plan = c.state<ReducePlan>();
  for_type(c.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Reduction<R<T>, T>::run(c, plan,
                            [&](int64_t o, const auto& s) { store<int64_t>(c, 0, o, s.index); });
  });
}
template <template <class> class R>
void run_value_and_index(const RunContext& c) noexcept {
  const ReducePlan& plan = c.state<ReducePlan>();
  for_type(c.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Reduction<R<T>, T>::run(c, plan, [&](int64_t o, const auto& s) {
      store<T>(c, 0, o, s.value);
      store<int64_t>(c, 1, o, s.index);
    });
  });
}
void run_var(const RunContext& c) noexcept {
  const ReducePlan& plan = c.state<ReducePlan>();
  const double divisor = std::max(0.0, static_cast<double>(plan.count) - plan.params.a);
  for_float_type(c.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Reduction<Moments<T>, T>::run(
        c, plan, [&](int64_t o, const auto& s) { store<T>(c, 0, o, s.squares / divisor); });
  });
}
void run_norm(const RunContext& c) noexcept {
  const ReducePlan& plan = c.state<ReducePlan>();
  const double p = plan.params.a;
  for_float_type(c.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Reduction<NormSum<T>, T>::run(c, plan, [&](int64_t o, double s) {
      if (p == 2)
        s = std::sqrt(s);
      else if (p != 0 && p != 1 && !std::isinf(p))
        s = std::pow(s, 1 / p);
      store<T>(c, 0, o, s);
    });
  });
}

constexpr KernelDef row(std::string_view op, Status (*prepare)(PrepareContext&),
                        void (*run)(const RunContext&) noexcept) {
  return {.op = op, .name = "reduce", .prepare = prepare, .run = run, .strided = kAllStrided};
}

constexpr KernelDef kKernels[] = {
    row("sum", prepare, run_total<Sum>),
    row("prod", prepare, run_total<Prod>),
    row("mean", prepare, run_mean),
    row("amax", prepare, run_same<Amax>),
    row("amin", prepare, run_same<Amin>),
    row("all", prepare, run_test<All>),
    row("any", prepare, run_test<Any>),
    row("argmax", prepare_one_dim, run_index<Largest>),
    row("argmin", prepare_one_dim, run_index<Smallest>),
    row("max", prepare_one_dim, run_value_and_index<Largest>),
    row("min", prepare_one_dim, run_value_and_index<Smallest>),
    row("var", prepare_var, run_var),
    row("norm", prepare_norm, run_norm),
};

}  // namespace

std::span<const KernelDef> reduce() { return kKernels; }

}  // namespace hg::kernels
