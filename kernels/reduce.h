// SPDX-License-Identifier: Apache-2.0
// How reductions are written: a reducer says how a state starts, takes an element and merges with
// another; one driver walks any strides, row-wise or column-wise, and splits the work. Long
// reductions are cut into chunks of fixed length, so results do not depend on the threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hg/kernel.h"

namespace hg::kernels {

inline constexpr int64_t kReduceChunk = 32768;  // elements of one partial state
inline constexpr int kReduceTile = 64;          // columns that are reduced side by side

struct ReduceParams {
  double a = 0;
  int64_t n = 0;
};

// Kept dims in the order of the output, reduced dims in the order of the input.
struct ReducePlan {
  Sizes kept_shape, kept_strides, shape, strides;
  int64_t outputs = 1, count = 1;  // results; elements of each
  int64_t chunks = 1;              // partial states of each result
  bool by_column = false;          // neighbouring results read neighbouring elements
  ReduceParams params;
};

// The plan of reducing `dims` (none: all) of input 0.
ReducePlan plan_reduction(const PrepareContext& c, const Sizes& dims);

// What the reducer sees of a stored element.
template <class T>
auto wide(T x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return static_cast<float>(x);
  else
    return x;
}

// Position of element `index` of a row-major shape.
inline int64_t offset_of(int64_t index, const Sizes& shape, const Sizes& strides) {
  int64_t offset = 0;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    offset += index % shape[d] * strides[d];
    index /= shape[d];
  }
  return offset;
}

// R: State; start(params); add(state, x, index, params); merge(state, later state, params);
// kLanes: whether elements may be taken in another order.
template <class R, class T>
struct Reduction {
  using State = typename R::State;

  // Elements [begin, end) of one result.
  static State run_row(const ReducePlan& plan, const T* base, int64_t begin, int64_t end) {
    const ReduceParams& p = plan.params;
    State state = R::start(p);
    if (plan.shape.empty()) {
      R::add(state, wide(base[0]), 0, p);
      return state;
    }
    const int last = plan.shape.rank() - 1;
    const int64_t inner = plan.shape[last], stride = plan.strides[last];
    for (int64_t at = begin; at < end;) {
      const int64_t n = std::min(end - at, inner - at % inner);
      const T* row = base + offset_of(at, plan.shape, plan.strides);
      int64_t i = 0;
      if constexpr (R::kLanes) {
        constexpr int kWidth = 16;
        if (stride == 1 && n >= 2 * kWidth) {
          State lanes[kWidth];
          for (State& lane : lanes) lane = R::start(p);
          for (; i + kWidth <= n; i += kWidth)
            for (int k = 0; k < kWidth; ++k) R::add(lanes[k], wide(row[i + k]), at + i + k, p);
          for (const State& lane : lanes) R::merge(state, lane, p);
        }
      }
      for (; i < n; ++i) R::add(state, wide(row[i * stride]), at + i, p);
      at += n;
    }
    return state;
  }

  template <class Finish>
  static void run(const RunContext& c, const ReducePlan& plan, const Finish& finish) {
    const T* x = static_cast<const T*>(c.in(0).data);
    const ReduceParams& p = plan.params;
    if (plan.by_column) return run_columns(c, plan, x, finish);
    if (plan.chunks == 1) {
      const int64_t grain = std::max<int64_t>(1, kReduceChunk / std::max<int64_t>(1, plan.count));
      c.parallel_for(plan.outputs, grain, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o)
          finish(o, run_row(plan, x + offset_of(o, plan.kept_shape, plan.kept_strides), 0,
                            plan.count));
      });
      return;
    }
    State* partial = c.workspace<State>();
    c.parallel_for(plan.outputs * plan.chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const T* base = x + offset_of(task / plan.chunks, plan.kept_shape, plan.kept_strides);
        const int64_t from = task % plan.chunks * kReduceChunk;
        partial[task] = run_row(plan, base, from, std::min(plan.count, from + kReduceChunk));
      }
    });
    for (int64_t o = 0; o < plan.outputs; ++o) {
      State state = partial[o * plan.chunks];
      for (int64_t k = 1; k < plan.chunks; ++k) R::merge(state, partial[o * plan.chunks + k], p);
      finish(o, state);
    }
  }

 private:
  template <class Finish>
  static void run_columns(const RunContext& c, const ReducePlan& plan, const T* x,
                          const Finish& finish) {
    const ReduceParams& p = plan.params;
    const int last = plan.kept_shape.rank() - 1;
    const int64_t inner = plan.kept_shape[last];
    const int64_t tiles = (inner + kReduceTile - 1) / kReduceTile;
    const int64_t grain =
        std::max<int64_t>(1, kReduceChunk / std::max<int64_t>(1, plan.count * kReduceTile));
    c.parallel_for(plan.outputs / inner * tiles, grain, [&](int64_t begin, int64_t end) {
      State states[kReduceTile];
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task / tiles * inner + task % tiles * kReduceTile;
        const int64_t width = std::min<int64_t>(kReduceTile, inner - task % tiles * kReduceTile);
        const T* base = x + offset_of(first, plan.kept_shape, plan.kept_strides);
        for (State& state : states) state = R::start(p);
        for (int64_t i = 0; i < plan.count; ++i) {
          const T* row = base + offset_of(i, plan.shape, plan.strides);
          for (int64_t k = 0; k < width; ++k) R::add(states[k], wide(row[k]), i, p);
        }
        for (int64_t k = 0; k < width; ++k) finish(first + k, states[k]);
      }
    });
  }
};

}  // namespace hg::kernels
