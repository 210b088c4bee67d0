// SPDX-License-Identifier: Apache-2.0
// Reductions over any dims: sum mean prod amax amin all any argmax argmin max min var std norm.
//
// One driver supports any strides, by rows or by columns, and splits the work. Elements whose
// type no reducer (reducers.h) reads are converted block by block; elements of a pointwise program
// are computed block by block. Long reductions are split into chunks of fixed length, so results do
// not depend on the threads.
#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/lines.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/reduce/elements.h"
#include "kernels/reduce/reduce_simd.h"
#include "kernels/reduce/reducers.h"
#include "kernels/reduce/steps.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

using namespace reducers;

constexpr int64_t kChunk = 16384;    // elements of one partial state
constexpr int64_t kRowPart = 16384;  // elements of a part of the rows under some columns
constexpr int64_t kMostParts = 16;

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

// Whether rows are runs of elements in memory.
template <class Elements>
bool has_dense_runs(const ReducePlan& plan, const Steps& steps) {
  return Elements::kInPlace && is_as_stored(plan.dtype) && steps.is_wide(plan.count) &&
         plan.shape.rank() == 1 && plan.strides[0] == 1 && plan.count <= plan.run;
}

template <class Elements>
void reduce_rows(const RunContext& c, const ReducePlan& plan, const Steps& steps) {
  const int64_t grain = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, plan.count));
  c.parallel_for(plan.outputs, grain, [&](int64_t begin, int64_t end) {
    alignas(kWidest) std::byte states[kMostJoined * kLargestState];
    Elements elements(c, plan);
    bool is_joined = has_dense_runs<Elements>(plan, steps);
    for (int64_t o = begin, n; o < end; o += n) {
      n = std::min(kMostJoined, end - o);
      const auto offset = [&](int64_t r) {
        return offset_of(o + r, plan.kept_shape, plan.kept_strides);
      };
      if (is_joined) {
        const void* rows[kMostJoined];
        for (int64_t r = 0; r < n; ++r)
          rows[r] = elements.read(offset(r), 1, plan.count, end * plan.count);
        is_joined = steps.join(rows, n, plan, states);
      }
      for (int64_t r = 0; r < n && !is_joined; ++r)
        reduce_row(plan, steps, elements, offset(r), 0, plan.count, end * plan.count,
                   states + r * steps.state_bytes);
      steps.end(c, plan, o, states, n);
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
