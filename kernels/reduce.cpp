// SPDX-License-Identifier: Apache-2.0
// Reductions over any dims: sum mean prod amax amin all any argmax argmin max min var norm.
//
// One driver walks any strides, row-wise or column-wise, and splits the work. Elements that the
// reducers (reducers.h) do not see as they are stored are converted block by block. Long reductions
// are cut into chunks of fixed length, so results do not depend on the threads.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/lines.h"
#include "kernels/reduce_simd.h"
#include "kernels/reducers.h"

namespace hg::kernels {
namespace {

using namespace reducers;

constexpr int64_t kChunk = 32768;    // elements of one partial state
constexpr int64_t kRowPart = 16384;  // elements of a part of the rows under some columns
constexpr int64_t kMostParts = 16;
constexpr int kTile = 64;        // results that are reduced side by side
constexpr int64_t kBlock = 512;  // elements that are converted together
constexpr int64_t kWidest = 8;   // bytes of an element as reducers see it
constexpr int64_t kLargestState = 24;

Status prepare_over(PrepareContext& c, const Sizes& dims, double parameter = 0) {
  const Tensor& x = c.in(0);
  ReducePlan plan;
  plan.parameter = parameter;
  plan.table = &reduce_table();
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
  if (!plan.by_column) plan.chunks = std::max<int64_t>(1, (plan.count + kChunk - 1) / kChunk);
  if (plan.chunks > 1) c.set_workspace(plan.outputs * plan.chunks * kLargestState);
  c.make_state(plan);
  return {};
}
Status prepare(PrepareContext& c) { return prepare_over(c, c.attrs().axes("dim", c.in(0).rank())); }
// Sums of long columns: parts of the rows are added for themselves, by the threads that are likely
// to have written them.
Status prepare_sum(PrepareContext& c) {
  HG_TRY(prepare(c));
  ReducePlan& plan = *static_cast<ReducePlan*>(c.state_.get());
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
Status prepare_norm(PrepareContext& c) {
  return prepare_over(c, c.attrs().axes("dim", c.in(0).rank()), c.attrs().real("ord"));
}

// Position of element `index` of a row-major shape.
int64_t offset_of(int64_t index, const Sizes& shape, const Sizes& strides) {
  int64_t offset = 0;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    offset += index % shape[d] * strides[d];
    index /= shape[d];
  }
  return offset;
}

// A reducer of one type, on arrays of states and elements.
struct Steps {
  int64_t state_bytes;
  void (*start)(void* states, int64_t n, double p);
  // Element k goes to the one state; its index is `index` + k.
  void (*row)(void* state, const void* x, int64_t n, int64_t index, double p);
  // Element k goes to state k; all have the same index.
  void (*columns)(void* states, const void* x, int64_t n, int64_t index, double p);
  void (*merge)(void* state, const void* later, double p);
  void (*end)(const RunContext& c, const ReducePlan& plan, int64_t first, const void* states,
              int64_t n);
};

template <class R, class X>
struct StepsOf {
  using State = typename R::State;
  static_assert(sizeof(State) <= kLargestState);

  static void start(void* states, int64_t n, double p) {
    std::fill_n(static_cast<State*>(states), n, R::start(p));
  }
  static void row(void* state, const void* elements, int64_t n, int64_t index, double p) {
    State s = *static_cast<State*>(state);
    const X* x = static_cast<const X*>(elements);
    int64_t i = 0;
    if constexpr (R::kLanes) {
      constexpr int kWidth = 16;
      if (n >= 2 * kWidth) {
        State lanes[kWidth];
        for (State& lane : lanes) lane = R::start(p);
        for (; i + kWidth <= n; i += kWidth)
          for (int k = 0; k < kWidth; ++k) R::add(lanes[k], x[i + k], index + i + k, p);
        for (const State& lane : lanes) R::merge(s, lane, p);
      }
    }
    for (; i < n; ++i) R::add(s, x[i], index + i, p);
    *static_cast<State*>(state) = s;
  }
  static void columns(void* states, const void* x, int64_t n, int64_t index, double p) {
    for (int64_t k = 0; k < n; ++k)
      R::add(static_cast<State*>(states)[k], static_cast<const X*>(x)[k], index, p);
  }
  static void merge(void* state, const void* later, double p) {
    R::merge(*static_cast<State*>(state), *static_cast<const State*>(later), p);
  }
  static void end(const RunContext& c, const ReducePlan& plan, int64_t first, const void* states,
                  int64_t n) {
    for (int64_t k = 0; k < n; ++k)
      R::end(c, plan, first + k, static_cast<const State*>(states)[k]);
  }
  static constexpr Steps kSteps = {sizeof(State), start, row, columns, merge, end};
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

// Elements `stride` apart as the reducers see them: where they lie, or at most kBlock of them
// converted into `room`.
struct Reader {
  const Tensor& x;
  int64_t element_bytes = size_of(x.dtype);
  bool as_stored = x.dtype == DType::f32 || x.dtype == DType::f64 || x.dtype == DType::i64;

  int64_t at_once(int64_t stride) const {
    return as_stored && stride == 1 ? std::numeric_limits<int64_t>::max() : kBlock;
  }
  const void* read(int64_t offset, int64_t stride, int64_t n, void* room) const {
    const std::byte* from = static_cast<const std::byte*>(x.data) + offset * element_bytes;
    if (as_stored && stride == 1) return from;
    for_type(x.dtype, [&](auto zero) {
      using T = decltype(zero);
      using X = std::conditional_t<std::is_integral_v<T>, int64_t, Wide<T>>;
      const T* in = reinterpret_cast<const T*>(from);
      X* out = static_cast<X*>(room);
      if (stride == 1)
        for (int64_t k = 0; k < n; ++k) out[k] = static_cast<X>(in[k]);
      else
        for (int64_t k = 0; k < n; ++k) out[k] = static_cast<X>(in[k * stride]);
    });
    return room;
  }
};

// Elements [begin, end) of the result whose first element is at `base`.
void reduce_row(const ReducePlan& plan, const Steps& steps, const Reader& reader, int64_t base,
                int64_t begin, int64_t end, void* state) {
  alignas(kWidest) std::byte room[kBlock * kWidest];
  const int last = plan.shape.rank() - 1;
  const int64_t inner = last < 0 ? 1 : plan.shape[last], stride = last < 0 ? 1 : plan.strides[last];
  steps.start(state, 1, plan.parameter);
  for (int64_t at = begin; at < end;) {
    const int64_t n = std::min({end - at, inner - at % inner, reader.at_once(stride)});
    const int64_t offset = base + offset_of(at, plan.shape, plan.strides);
    steps.row(state, reader.read(offset, stride, n, room), n, at, plan.parameter);
    at += n;
  }
}

void reduce_rows(const RunContext& c, const ReducePlan& plan, const Steps& steps,
                 const Reader& reader) {
  const int64_t grain = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, plan.count));
  c.parallel_for(plan.outputs, grain, [&](int64_t begin, int64_t end) {
    alignas(kWidest) std::byte state[kLargestState];
    for (int64_t o = begin; o < end; ++o) {
      reduce_row(plan, steps, reader, offset_of(o, plan.kept_shape, plan.kept_strides), 0,
                 plan.count, state);
      steps.end(c, plan, o, state, 1);
    }
  });
}

void reduce_chunks(const RunContext& c, const ReducePlan& plan, const Steps& steps,
                   const Reader& reader) {
  std::byte* partial = c.workspace<std::byte>();
  c.parallel_for(plan.outputs * plan.chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t base = offset_of(task / plan.chunks, plan.kept_shape, plan.kept_strides);
      const int64_t from = task % plan.chunks * kChunk;
      reduce_row(plan, steps, reader, base, from, std::min(plan.count, from + kChunk),
                 partial + task * steps.state_bytes);
    }
  });
  for (int64_t o = 0; o < plan.outputs; ++o) {
    std::byte* state = partial + o * plan.chunks * steps.state_bytes;
    for (int64_t k = 1; k < plan.chunks; ++k)
      steps.merge(state, state + k * steps.state_bytes, plan.parameter);
    steps.end(c, plan, o, state, 1);
  }
}

// `adds`: the states are sums of f32.
void reduce_columns(const RunContext& c, const ReducePlan& plan, const Steps& steps,
                    const Reader& reader, bool adds) {
  const int64_t inner = plan.kept_shape[plan.kept_shape.rank() - 1];
  const int64_t tiles = (inner + kTile - 1) / kTile;
  const int64_t grain = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, plan.count * kTile));
  c.parallel_for(plan.outputs / inner * tiles, grain, [&](int64_t begin, int64_t end) {
    alignas(64) std::byte states[kTile * kLargestState];
    alignas(64) std::byte room[kTile * kWidest];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task / tiles * inner + task % tiles * kTile;
      const int64_t width = std::min<int64_t>(kTile, inner - task % tiles * kTile);
      const int64_t base = offset_of(first, plan.kept_shape, plan.kept_strides);
      steps.start(states, width, plan.parameter);
      if (adds && plan.shape.rank() == 1) {
        plan.table->add_rows(reinterpret_cast<double*>(states),
                             static_cast<const float*>(reader.x.data) + base, plan.count,
                             plan.strides[0], width);
        steps.end(c, plan, first, states, width);
        continue;
      }
      for (int64_t i = 0; i < plan.count; ++i) {
        const int64_t offset = base + offset_of(i, plan.shape, plan.strides);
        steps.columns(states, reader.read(offset, 1, width, room), width, i, plan.parameter);
      }
      steps.end(c, plan, first, states, width);
    }
  });
}

// Sums of f32 by parts of the rows; [outer][parts][inner] in the workspace.
void sum_parts(const RunContext& c, const ReducePlan& plan, const Steps& steps) {
  const int64_t inner = plan.kept_shape[plan.kept_shape.rank() - 1], parts = plan.row_parts;
  const float* x = c.in(0).as<float>();
  double* const partial = c.workspace<double>();
  c.parallel_for(plan.outputs / inner * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t part = task % parts, first = part * plan.count / parts;
      const int64_t rows = (part + 1) * plan.count / parts - first;
      const float* from = x + offset_of(task / parts * inner, plan.kept_shape, plan.kept_strides) +
                          first * plan.strides[0];
      double* const to = partial + task * inner;
      std::fill_n(to, inner, 0.0);
      for (int64_t k = 0; k < inner; k += kTile)
        plan.table->add_rows(to + k, from + k, rows, plan.strides[0],
                             std::min<int64_t>(kTile, inner - k));
    }
  });
  for (int64_t outer = 0; outer < plan.outputs / inner; ++outer) {
    double* const sums = partial + outer * parts * inner;
    for (int64_t part = 1; part < parts; ++part)
      for (int64_t k = 0; k < inner; ++k) sums[k] += sums[part * inner + k];
    steps.end(c, plan, outer * inner, sums, inner);
  }
}

template <template <class> class R>
void run(const RunContext& c) noexcept {
  const ReducePlan& plan = c.state<ReducePlan>();
  const Steps& steps = steps_for<R>(c.in(0).dtype);
  const Reader reader{c.in(0)};
  if (plan.row_parts > 1)
    sum_parts(c, plan, steps);
  else if (plan.by_column)
    reduce_columns(c, plan, steps, reader,
                   std::is_base_of_v<Sum<float>, R<float>> && c.in(0).dtype == f32);
  else if (plan.chunks > 1)
    reduce_chunks(c, plan, steps, reader);
  else
    reduce_rows(c, plan, steps, reader);
}

constexpr KernelDef row(std::string_view op, Status (*prepare)(PrepareContext&),
                        void (*run)(const RunContext&) noexcept) {
  return {.op = op, .name = "reduce", .prepare = prepare, .run = run, .strided = kAllStrided};
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
    row("norm", prepare_norm, run<Norm>),
};

}  // namespace

std::span<const KernelDef> reduce() { return kKernels; }

}  // namespace hg::kernels
