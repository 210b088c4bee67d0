// SPDX-License-Identifier: Apache-2.0
// The steps of a reduction for one type: a reducer (reducers.h) on arrays of states and elements.
// Only reduce.cpp includes this file; what it calls once is inlined, because its linkage is
// internal.
#pragma once

#include "kernels/lines.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/reduce/reduce_simd.h"
#include "kernels/reduce/reducers.h"

namespace hg::kernels {
namespace {

using namespace reducers;

constexpr int kWidth = 16;  // states to which neighboring elements are added
constexpr int64_t kLargestState = 24;
constexpr int64_t kMostJoined = 32;  // rows

// Elements [first, first + n) of a result, in its dtype.
template <class V>
[[gnu::noinline]] void store_results(const Tensor& y, int64_t first, const V* values, int64_t n) {
  for_type(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t k = 0; k < n; ++k) y.as<T>()[first + k] = narrowed<T>(values[k]);
  });
}

// The function that reduces dense rows of X to totals in double; null if a reducer has none.
template <class R, class X>
JoinRows<X> join_rows_of([[maybe_unused]] const ReducePlan& plan) {
  const ReduceTable& table = *plan.table;
  constexpr bool kIsFloat = std::is_same_v<X, float>;
  const auto chosen = [](JoinRows<float> floats, JoinRows<double> doubles) {
    if constexpr (kIsFloat)
      return floats;
    else
      return doubles;
  };
  if constexpr (std::is_base_of_v<Sum<X>, R>) return chosen(table.add, table.add_doubles);
  if constexpr (std::is_same_v<R, Prod<X>>) return chosen(table.multiply, table.multiply_doubles);
  if constexpr (std::is_same_v<R, Norm<X>>)
    if (plan.parameter == 2) return chosen(table.add_squares, table.add_double_squares);
  return nullptr;
}

// A reducer for one type, on arrays of states and elements. A run of elements is added to kWidth
// states in turn, if it is long enough; the states are then merged.
struct Steps {
  int64_t state_bytes, element_bytes;
  bool adds;  // the states are sums of f32
  bool (*is_wide)(int64_t n);
  void (*start)(void* states, int64_t n, const ReducePlan& plan);
  // Reduces dense rows of plan.count elements to one state each; false if only `row` does.
  bool (*join)(const void* const* rows, int64_t n, const ReducePlan& plan, void* states);
  // Adds a run to one state; the index of its first element is `index`.
  void (*row)(void* state, const void* x, int64_t n, int64_t index, const ReducePlan& plan);
  // Rows of n elements, `step` apart, each added to its own state; null except for floats.
  void (*rows)(void* states, int64_t count, const void* x, int64_t step, int64_t n,
               const ReducePlan& plan);
  // As row, in parts: element k is added to state k mod kWidth, and these states to the single
  // state.
  void (*widen)(void* states, const void* x, int64_t n, int64_t index, const ReducePlan& plan);
  void (*fold)(void* state, void* states, const ReducePlan& plan);
  // Adds element k to state k; all have the same index.
  void (*columns)(void* states, const void* x, int64_t n, int64_t index, const ReducePlan& plan);
  void (*merge)(void* state, const void* later, const ReducePlan& plan);
  void (*end)(const RunContext& c, const ReducePlan& plan, int64_t first, const void* states,
              int64_t n);
};

template <class R, class X>
struct StepsOf {
  using State = typename R::State;
  static_assert(sizeof(State) <= kLargestState);
  static constexpr bool kAdds = std::is_same_v<X, float> && std::is_base_of_v<Sum<X>, R>;

  static bool is_wide(int64_t n) { return R::kLanes && n >= 2 * kWidth; }
  static void start(void* states, int64_t n, const ReducePlan& plan) {
    std::fill_n(static_cast<State*>(states), n, R::start(plan.parameter));
  }
  static bool join(const void* const* given, int64_t n, const ReducePlan& plan, void* states) {
    if constexpr (std::is_floating_point_v<X> && std::is_same_v<State, double>) {
      const JoinRows<X> rows = join_rows_of<R, X>(plan);
      if (rows == nullptr) return false;
      const X* x[kMostJoined];
      for (int64_t r = 0; r < n; ++r) x[r] = static_cast<const X*>(given[r]);
      rows(x, n, plan.count, static_cast<double*>(states));
      return true;
    }
    return false;
  }
  static void row(void* state, const void* elements, int64_t n, int64_t index,
                  const ReducePlan& plan) {
    State s = *static_cast<State*>(state);
    const X* x = static_cast<const X*>(elements);
    if (!is_wide(n)) {
      for (int64_t i = 0; i < n; ++i) R::add(s, x[i], index + i, plan.parameter);
      *static_cast<State*>(state) = s;
      return;
    }
    if constexpr (std::is_floating_point_v<X> && std::is_same_v<State, double>) {
      if (const JoinRows<X> rows = join_rows_of<R, X>(plan); rows != nullptr) {
        double joined;
        rows(&x, 1, n, &joined);
        R::merge(*static_cast<State*>(state), joined, plan.parameter);
        return;
      }
    }
    if constexpr (std::is_base_of_v<Bound<float, true>, R>) {
      R::merge(*static_cast<State*>(state), plan.table->largest(x, n), plan.parameter);
    } else if constexpr (std::is_base_of_v<Bound<float, false>, R>) {
      R::merge(*static_cast<State*>(state), plan.table->smallest(x, n), plan.parameter);
    } else if constexpr (std::is_base_of_v<Bound<double, true>, R>) {
      R::merge(*static_cast<State*>(state), plan.table->largest_double(x, n), plan.parameter);
    } else if constexpr (std::is_base_of_v<Bound<double, false>, R>) {
      R::merge(*static_cast<State*>(state), plan.table->smallest_double(x, n), plan.parameter);
    } else {
      State states[kWidth];
      start(states, kWidth, plan);
      widen(states, elements, n, index, plan);
      fold(state, states, plan);
    }
  }
  static void rows(void* states, int64_t count, const void* elements, int64_t step, int64_t n,
                   const ReducePlan& plan) {
    const X* x = static_cast<const X*>(elements);
    for (int64_t r = 0; r < count; ++r) {
      State s = R::start(plan.parameter);
      for (int64_t i = 0; i < n; ++i) R::add(s, x[r * step + i], i, plan.parameter);
      static_cast<State*>(states)[r] = s;
    }
  }
  [[gnu::noinline]] static void widen(void* states, const void* elements, int64_t n, int64_t index,
                                      const ReducePlan& plan) {
    const X* x = static_cast<const X*>(elements);
    if constexpr (kAdds) {
      plan.table->add_lanes(static_cast<double*>(states), x, n);
    } else {
      State lanes[kWidth];
      std::copy_n(static_cast<State*>(states), kWidth, lanes);
      int64_t i = 0;
      for (; i + kWidth <= n; i += kWidth)
        for (int k = 0; k < kWidth; ++k) R::add(lanes[k], x[i + k], index + i + k, plan.parameter);
      for (int k = 0; i + k < n; ++k) R::add(lanes[k], x[i + k], index + i + k, plan.parameter);
      std::copy_n(lanes, kWidth, static_cast<State*>(states));
    }
  }
  static void fold(void* state, void* states, const ReducePlan& plan) {
    State* lanes = static_cast<State*>(states);
    for (int half = kWidth / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) R::merge(lanes[k], lanes[k + half], plan.parameter);
    merge(state, lanes, plan);
  }
  static void columns(void* states, const void* x, int64_t n, int64_t index,
                      const ReducePlan& plan) {
    if constexpr (std::is_base_of_v<Bound<float, true>, R>) {
      plan.table->larger(static_cast<float*>(states), static_cast<const float*>(x), n);
    } else if constexpr (std::is_base_of_v<Bound<float, false>, R>) {
      plan.table->smaller(static_cast<float*>(states), static_cast<const float*>(x), n);
    } else {
      for (int64_t k = 0; k < n; ++k)
        R::add(static_cast<State*>(states)[k], static_cast<const X*>(x)[k], index, plan.parameter);
    }
  }
  static void merge(void* state, const void* later, const ReducePlan& plan) {
    R::merge(*static_cast<State*>(state), *static_cast<const State*>(later), plan.parameter);
  }
  static void end(const RunContext& c, const ReducePlan& plan, int64_t first, const void* given,
                  int64_t n) {
    const State* states = static_cast<const State*>(given);
    const auto put = [&](const Tensor& y, const auto& of) {
      constexpr int64_t kPart = 64;
      decltype(of(*states)) values[kPart];
      for (int64_t at = 0; at < n; at += kPart) {
        const int64_t count = std::min(kPart, n - at);
        for (int64_t k = 0; k < count; ++k) values[k] = of(states[at + k]);
        store_results(y, first + at, values, count);
      }
    };
    const int last = c.output_count() - 1;
    put(c.out(last), [&](const State& s) { return R::result(plan, s); });
    if constexpr (requires { R::value(*states); })  // max and min also return the value
      if (last == 1) put(c.out(0), [](const State& s) { return R::value(s); });
  }
  static constexpr Steps kSteps = {sizeof(State),
                                   sizeof(X),
                                   kAdds,
                                   is_wide,
                                   start,
                                   join,
                                   row,
                                   std::is_same_v<X, float> ? rows : nullptr,
                                   widen,
                                   fold,
                                   columns,
                                   merge,
                                   end};
};

template <template <class> class R>
const Steps& steps_for(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return StepsOf<R<double>, double>::kSteps;
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return StepsOf<R<float>, float>::kSteps;
    default:
      return StepsOf<R<int64_t>, int64_t>::kSteps;
  }
}

}  // namespace
}  // namespace hg::kernels
