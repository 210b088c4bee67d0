// SPDX-License-Identifier: Apache-2.0
// Reductions over any dims: sum mean prod amax amin all any argmax argmin max min var std norm.
//
// One driver supports any strides, by rows or by columns, and splits the work. Elements stored in
// another type than the reducers (reducers.h) read are converted block by block; elements of a
// pointwise program are computed block by block. Long reductions are split into chunks of fixed
// length, so results do not depend on the threads.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/lines.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/reduce/reduce_simd.h"
#include "kernels/reduce/reducers.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

using namespace reducers;

constexpr int64_t kChunk = 16384;    // elements of one partial state
constexpr int64_t kRowPart = 16384;  // elements of a part of the rows under some columns
constexpr int64_t kMostParts = 16;
constexpr int64_t kBlock = 512;  // elements that are converted together
constexpr int kWidth = 16;       // states to which neighboring elements are added
constexpr int64_t kWidest = 8;   // bytes of an element as reducers read it
constexpr int64_t kLargestState = 24;

bool is_as_stored(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i64;
}

Status prepare_over(PrepareContext& c, const Sizes& dims, double parameter = 0) {
  const Tensor& x = c.in(0);
  ReducePlan plan;
  plan.parameter = parameter;
  plan.table = &reduce_table();
  plan.dtype = x.dtype;
  for (int d = 0; d < x.rank(); ++d) plan.reduced[d] = dims.empty();
  for (int64_t d : dims)
    if (x.rank() > 0) plan.reduced[d] = true;
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
    if (plan.reduced[d])
      append(plan.shape, plan.strides, x.shape[d], x.strides[d]);
    else
      append(plan.kept_shape, plan.kept_strides, x.shape[d], x.strides[d]);
  }
  plan.outputs = plan.kept_shape.count();
  plan.count = plan.shape.count();
  plan.run = is_as_stored(x.dtype) && (plan.shape.rank() == 0 || plan.strides.back() == 1)
                 ? std::numeric_limits<int64_t>::max()
                 : kBlock;
  const int kept = plan.kept_shape.rank() - 1, last = plan.shape.rank() - 1;
  plan.by_column = kept >= 0 && last >= 0 && plan.kept_strides[kept] == 1 &&
                   plan.kept_shape[kept] >= 8 && plan.strides[last] != 1;
  if (!plan.by_column) plan.chunks = std::max<int64_t>(1, (plan.count + kChunk - 1) / kChunk);
  if (plan.chunks > 1) c.set_workspace(plan.outputs * plan.chunks * kLargestState);
  c.make_state(plan);
  return {};
}
Status prepare(PrepareContext& c) { return prepare_over(c, c.attrs().axes("dim", c.in(0).rank())); }
// Sums of long columns: parts of the rows are summed separately, by the threads that are likely to
// have written them.
Status prepare_sum(PrepareContext& c) {
  HG_TRY(prepare(c));
  ReducePlan& plan = *c.state<ReducePlan>();
  if (!plan.by_column || plan.shape.rank() != 1 || c.in(0).dtype != f32) return {};
  const int64_t inner = plan.kept_shape[plan.kept_shape.rank() - 1];
  plan.row_parts = std::clamp<int64_t>(plan.count * inner / kRowPart, 1,
                                       std::clamp<int64_t>(plan.count, 1, kMostParts));
  if (plan.row_parts > 1)
    c.set_workspace(plan.outputs * plan.row_parts * static_cast<int64_t>(sizeof(double)));
  return {};
}
Status prepare_one_dim(PrepareContext& c) {
  Sizes dims;
  if (c.attrs().has("dim")) dims.push_back(c.attrs().axis("dim", c.in(0).rank()));
  return prepare_over(c, dims);
}
Status prepare_var(PrepareContext& c) {
  return prepare_over(c, c.attrs().axes("dim", c.in(0).rank()), c.attrs().real("correction"));
}
Status prepare_std(PrepareContext& c) {
  HG_TRY(prepare_var(c));
  c.state<ReducePlan>()->takes_root = true;
  return {};
}
Status prepare_norm(PrepareContext& c) {
  return prepare_over(c, c.attrs().axes("dim", c.in(0).rank()), c.attrs().real("ord"));
}

// Position of element `index` of a row-major shape.
int64_t offset_of(int64_t index, const Sizes& shape, const Sizes& strides) {
  int64_t offset = 0;
  for (int d = shape.rank() - 1; d > 0; --d) {
    offset += index % shape[d] * strides[d];
    index /= shape[d];
  }
  return shape.rank() > 0 ? offset + index * strides[0] : offset;
}

// Elements [first, first + n) of a result, in its dtype.
template <class V>
[[gnu::noinline]] void store_results(const Tensor& y, int64_t first, const V* values, int64_t n) {
  for_type(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t k = 0; k < n; ++k) y.as<T>()[first + k] = narrowed<T>(values[k]);
  });
}

// A reducer for one type, on arrays of states and elements. A run of elements is added to kWidth
// states in turn, if it is long enough; the states are then merged.
struct Steps {
  int64_t state_bytes, element_bytes;
  bool adds;  // the states are sums of f32
  bool (*is_wide)(int64_t n);
  void (*start)(void* states, int64_t n, const ReducePlan& plan);
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
  static void row(void* state, const void* elements, int64_t n, int64_t index,
                  const ReducePlan& plan) {
    State s = *static_cast<State*>(state);
    const X* x = static_cast<const X*>(elements);
    if (!is_wide(n)) {
      for (int64_t i = 0; i < n; ++i) R::add(s, x[i], index + i, plan.parameter);
      *static_cast<State*>(state) = s;
    } else if constexpr (kAdds) {
      *static_cast<State*>(state) = s + plan.table->add_run(x, n);
    } else if constexpr (std::is_base_of_v<Bound<float, true>, R>) {
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

// An element as the reducers read it.
template <class T>
using Converted = std::conditional_t<std::is_integral_v<T>, int64_t, Wide<T>>;

// n elements as the reducers read them.
template <class T>
void convert(const T* from, int64_t stride, int64_t n, void* to) {
  using X = Converted<T>;
  X* out = static_cast<X*>(to);
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    if (stride == 1) return half_table().widen(n, from, out);
  }
  if (stride == 1)
    for (int64_t k = 0; k < n; ++k) out[k] = static_cast<X>(from[k]);
  else
    for (int64_t k = 0; k < n; ++k) out[k] = static_cast<X>(from[k * stride]);
}

// `count` rows of neighboring elements, `step` elements apart.
struct Rows {
  const void* x;
  int64_t count, step;
};

// The elements of a tensor: in place, or at most kBlock of them converted.
class StoredElements {
 public:
  static constexpr bool kInPlace = true;
  static constexpr int64_t kTile = 64;  // results that are computed together

  StoredElements(const RunContext& c, const ReducePlan& plan) : x_(c.in(0)), plan_(plan) {}

  // The number of elements that can be read together.
  int64_t at_once() const { return plan_.run; }
  // n elements from `offset` on; valid until the next call.
  const void* read(int64_t offset, int64_t stride, int64_t n, int64_t) {
    const std::byte* from = static_cast<const std::byte*>(x_.data) + offset * size_of(x_.dtype);
    if (is_as_stored(x_.dtype) && stride == 1) return from;
    for_type(x_.dtype, [&](auto zero) {
      convert(reinterpret_cast<const decltype(zero)*>(from), stride, n, room_);
    });
    return room_;
  }
  // Up to n rows of `width` elements from row i on; at most kBlock elements are converted.
  Rows rows(int64_t base, int64_t i, int64_t n, int64_t width) {
    const int64_t offset = base + offset_of(i, plan_.shape, plan_.strides);
    if (plan_.shape.rank() != 1) return {read(offset, 1, width, 0), 1, 0};
    const int64_t step = plan_.strides[0];
    if (is_as_stored(x_.dtype)) return {read(offset, 1, width, 0), n, step};
    const int64_t count = std::min(n, kBlock / width);
    for_type(x_.dtype, [&](auto zero) {
      using T = decltype(zero);
      auto* const room = reinterpret_cast<Converted<T>*>(room_);
      for (int64_t r = 0; r < count; ++r)
        convert(x_.as<const T>() + offset + r * step, 1, width, room + r * width);
    });
    return {room_, count, width};
  }

 private:
  const Tensor& x_;
  const ReducePlan& plan_;
  alignas(64) std::byte room_[kBlock * kWidest];
};

// Elements that are computed on demand.
class ComputedElements {
 public:
  static constexpr bool kInPlace = false;
  static constexpr int64_t kTile = 256;

  ComputedElements(const RunContext& c, const ReducePlan& plan) : c_(c), plan_(plan) {}

  int64_t at_once() const { return kPiece; }
  // Computes further elements before `end` ahead, if the number is the same.
  const std::byte* read(int64_t offset, int64_t, int64_t n, int64_t end) {
    if (offset < begin_ || offset + n > end_) {
      begin_ = offset;
      end_ = plan_.in_order ? std::min(end, offset + std::max<int64_t>(1, kPiece / n) * n)
                            : offset + n;
      compute();
    }
    return room_ + (offset - begin_) * element_bytes_;
  }
  Rows rows(int64_t base, int64_t i, int64_t n, int64_t width) {
    const bool together = plan_.shape.rank() == 1 && plan_.strides[0] == width;
    const int64_t count = together ? std::min(n, std::max<int64_t>(1, kPiece / width)) : 1;
    begin_ = base + offset_of(i, plan_.shape, plan_.strides);
    end_ = begin_ + count * width;
    compute();
    return {room_, count, width};
  }

 private:
  static constexpr int64_t kPiece = 1024;

  void compute() {
    const bool converts = !is_float(plan_.dtype) && plan_.dtype != DType::i64;
    compute_block(plan_.elements, c_, begin_, end_, converts ? stored_ : room_);
    if (converts)
      for_type(plan_.dtype, [&](auto zero) {
        convert(reinterpret_cast<const decltype(zero)*>(stored_), 1, end_ - begin_, room_);
      });
  }

  const RunContext& c_;
  const ReducePlan& plan_;
  // As the reducers read it.
  int64_t element_bytes_ = is_float(plan_.dtype) && plan_.dtype != DType::f64 ? 4 : 8;
  int64_t begin_ = 0, end_ = 0;  // the range that the buffer holds
  alignas(64) std::byte room_[kPiece * kWidest];
  alignas(64) std::byte stored_[kPiece * kWidest];
};

// A run that cannot be read at once, in parts of a multiple of kWidth elements.
template <class Elements>
void reduce_parts(const ReducePlan& plan, const Steps& steps, Elements& elements, int64_t offset,
                  int64_t stride, int64_t n, int64_t index, int64_t limit, void* state) {
  alignas(64) std::byte lanes[kWidth * kLargestState];
  steps.start(lanes, kWidth, plan);
  for (int64_t i = 0; i < n;) {
    const int64_t part = std::min(n - i, elements.at_once());
    const void* x = elements.read(offset + i * stride, stride, part, limit);
    if (steps.is_wide(n))
      steps.widen(lanes, x, part, index + i, plan);
    else
      steps.row(state, x, part, index + i, plan);
    i += part;
  }
  if (steps.is_wide(n)) steps.fold(state, lanes, plan);
}

// Elements [begin, end) of the result whose first element is at `base`. Elements before `limit` may
// be computed ahead.
template <class Elements>
void reduce_row(const ReducePlan& plan, const Steps& steps, Elements& elements, int64_t base,
                int64_t begin, int64_t end, int64_t limit, void* state) {
  const int last = plan.shape.rank() - 1;
  const int64_t inner = last < 0 ? 1 : plan.shape[last], stride = last < 0 ? 1 : plan.strides[last];
  steps.start(state, 1, plan);
  if (begin >= end) return;  // also for a dim without elements
  if (last <= 0 && end - begin <= std::min(plan.run, elements.at_once())) {
    steps.row(state, elements.read(base + begin * stride, stride, end - begin, limit), end - begin,
              begin, plan);
    return;
  }
  int64_t left = last > 0 ? inner - begin % inner : end - begin;  // in the innermost dim
  for (int64_t at = begin; at < end;) {
    const int64_t n = std::min({end - at, left, plan.run});
    const int64_t offset = base + offset_of(at, plan.shape, plan.strides);
    if (n <= elements.at_once())
      steps.row(state, elements.read(offset, stride, n, limit), n, at, plan);
    else
      reduce_parts(plan, steps, elements, offset, stride, n, at, limit, state);
    at += n;
    left = left > n ? left - n : inner;
  }
}

template <class Elements>
void reduce_rows(const RunContext& c, const ReducePlan& plan, const Steps& steps) {
  const int64_t grain = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, plan.count));
  c.parallel_for(plan.outputs, grain, [&](int64_t begin, int64_t end) {
    alignas(kWidest) std::byte state[kLargestState];
    Elements elements(c, plan);
    for (int64_t o = begin; o < end; ++o) {
      reduce_row(plan, steps, elements, offset_of(o, plan.kept_shape, plan.kept_strides), 0,
                 plan.count, end * plan.count, state);
      steps.end(c, plan, o, state, 1);
    }
  });
}

bool has_dense_rows(const ReducePlan& plan) {
  return plan.kept_shape.rank() == 1 && plan.kept_strides[0] == plan.count;
}
// Whether rows are few consecutive elements, so that the overhead per row would exceed the work of
// adding its elements. Rows with gaps or overlaps are read in place.
template <class Elements>
bool has_short_rows(const ReducePlan& plan, const Steps& steps) {
  constexpr int64_t kShort = 32, kNeighbors = 8;
  const int kept = plan.kept_shape.rank() - 1;
  return steps.rows != nullptr && plan.shape.rank() == 1 && plan.strides[0] == 1 &&
         plan.count > 0 && plan.count <= kShort && !steps.is_wide(plan.count) && kept >= 0 &&
         (has_dense_rows(plan) ||
          (Elements::kInPlace && is_as_stored(plan.dtype) && plan.kept_shape[kept] >= kNeighbors));
}

template <class Elements>
void reduce_short_rows(const RunContext& c, const ReducePlan& plan, const Steps& steps) {
  constexpr int64_t kTile = Elements::kTile;
  const int kept = plan.kept_shape.rank() - 1;
  const int64_t inner = plan.kept_shape[kept], step = plan.kept_strides[kept];
  c.parallel_for(plan.outputs, kChunk / plan.count, [&](int64_t begin, int64_t end) {
    alignas(64) std::byte states[kTile * kLargestState];
    Elements elements(c, plan);
    const int64_t most =
        has_dense_rows(plan)
            ? std::min({kTile, elements.at_once() / plan.count, plan.run / plan.count})
            : kTile;
    for (int64_t o = begin, rows; o < end; o += rows) {
      rows = std::min({most, end - o, inner - o % inner});
      const void* x = elements.read(offset_of(o, plan.kept_shape, plan.kept_strides), 1,
                                    rows * plan.count, end * plan.count);
      steps.rows(states, rows, x, step, plan.count, plan);
      steps.end(c, plan, o, states, rows);
    }
  });
}

template <class Elements>
void reduce_chunks(const RunContext& c, const ReducePlan& plan, const Steps& steps) {
  std::byte* partial = c.workspace<std::byte>();
  c.parallel_for(plan.outputs * plan.chunks, 1, [&](int64_t begin, int64_t end) {
    Elements elements(c, plan);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t o = task / plan.chunks, from = task % plan.chunks * kChunk;
      const int64_t to = std::min(plan.count, from + kChunk);
      reduce_row(plan, steps, elements, offset_of(o, plan.kept_shape, plan.kept_strides), from, to,
                 o * plan.count + to, partial + task * steps.state_bytes);
    }
  });
  for (int64_t o = 0; o < plan.outputs; ++o) {
    std::byte* state = partial + o * plan.chunks * steps.state_bytes;
    for (int64_t k = 1; k < plan.chunks; ++k)
      steps.merge(state, state + k * steps.state_bytes, plan);
    steps.end(c, plan, o, state, 1);
  }
}

// Rows [first, end) for the `width` results whose first element is at `base`.
template <class Elements>
void add_rows(const ReducePlan& plan, const Steps& steps, Elements& elements, int64_t base,
              int64_t first, int64_t end, int64_t width, void* states) {
  for (int64_t i = first; i < end;) {
    const Rows rows = elements.rows(base, i, end - i, width);
    if (steps.adds) {
      plan.table->add_rows(static_cast<double*>(states), static_cast<const float*>(rows.x),
                           rows.count, rows.step, width);
    } else {
      const std::byte* x = static_cast<const std::byte*>(rows.x);
      for (int64_t k = 0; k < rows.count; ++k)
        steps.columns(states, x + k * rows.step * steps.element_bytes, width, i + k, plan);
    }
    i += rows.count;
  }
}

template <class Elements>
void reduce_columns(const RunContext& c, const ReducePlan& plan, const Steps& steps) {
  constexpr int64_t kTile = Elements::kTile;
  const int64_t inner = plan.kept_shape[plan.kept_shape.rank() - 1];
  const int64_t tiles = (inner + kTile - 1) / kTile;
  const int64_t grain = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, plan.count * kTile));
  c.parallel_for(plan.outputs / inner * tiles, grain, [&](int64_t begin, int64_t end) {
    alignas(64) std::byte states[kTile * kLargestState];
    Elements elements(c, plan);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task / tiles * inner + task % tiles * kTile;
      const int64_t width = std::min<int64_t>(kTile, inner - task % tiles * kTile);
      steps.start(states, width, plan);
      add_rows(plan, steps, elements, offset_of(first, plan.kept_shape, plan.kept_strides), 0,
               plan.count, width, states);
      steps.end(c, plan, first, states, width);
    }
  });
}

// Sums of f32 by parts of the rows; the workspace holds [outer][parts][inner].
template <class Elements>
void sum_parts(const RunContext& c, const ReducePlan& plan, const Steps& steps) {
  const int64_t inner = plan.kept_shape[plan.kept_shape.rank() - 1], parts = plan.row_parts;
  double* const partial = c.workspace<double>();
  c.parallel_for(plan.outputs / inner * parts, 1, [&](int64_t begin, int64_t end) {
    Elements elements(c, plan);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t part = task % parts;
      const int64_t base = offset_of(task / parts * inner, plan.kept_shape, plan.kept_strides);
      double* const to = partial + task * inner;
      std::fill_n(to, inner, 0.0);
      for (int64_t k = 0; k < inner; k += Elements::kTile)
        add_rows(plan, steps, elements, base + k, part * plan.count / parts,
                 (part + 1) * plan.count / parts, std::min<int64_t>(Elements::kTile, inner - k),
                 to + k);
    }
  });
  for (int64_t outer = 0; outer < plan.outputs / inner; ++outer) {
    double* const sums = partial + outer * parts * inner;
    for (int64_t part = 1; part < parts; ++part)
      for (int64_t k = 0; k < inner; ++k) sums[k] += sums[part * inner + k];
    steps.end(c, plan, outer * inner, sums, inner);
  }
}

template <class Elements>
void reduce_elements(const RunContext& c, const ReducePlan& plan, const Steps& steps) {
  if (plan.row_parts > 1)
    sum_parts<Elements>(c, plan, steps);
  else if (plan.by_column)
    reduce_columns<Elements>(c, plan, steps);
  else if (plan.chunks > 1)
    reduce_chunks<Elements>(c, plan, steps);
  else if (has_short_rows<Elements>(plan, steps))
    reduce_short_rows<Elements>(c, plan, steps);
  else
    reduce_rows<Elements>(c, plan, steps);
}

template <template <class> class R>
void run(const RunContext& c) noexcept {
  const ReducePlan& plan = c.state<ReducePlan>();
  const Steps& steps = steps_for<R>(plan.dtype);
  if (plan.elements == nullptr)
    reduce_elements<StoredElements>(c, plan, steps);
  else
    reduce_elements<ComputedElements>(c, plan, steps);
}

constexpr KernelDef row(std::string_view op, Status (*prepare)(PrepareContext&),
                        void (*run)(const RunContext&) noexcept) {
  return {.op = op,
          .name = "reduce",
          .prepare = prepare,
          .run = run,
          .strided = kAllStrided,
          .in_programs = true};
}

constexpr KernelDef kKernels[] = {
    row("sum", prepare_sum, run<Sum>),
    row("prod", prepare, run<Prod>),
    row("mean", prepare_sum, run<Mean>),
    row("amax", prepare, run<Amax>),
    row("amin", prepare, run<Amin>),
    row("all", prepare, run<All>),
    row("any", prepare, run<Any>),
    row("argmax", prepare_one_dim, run<Largest>),
    row("argmin", prepare_one_dim, run<Smallest>),
    row("max", prepare_one_dim, run<Largest>),
    row("min", prepare_one_dim, run<Smallest>),
    row("var", prepare_var, run<Var>),
    row("std", prepare_std, run<Var>),
    row("norm", prepare_norm, run<Norm>),
};

}  // namespace

std::span<const KernelDef> reduce() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
