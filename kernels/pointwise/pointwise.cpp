// SPDX-License-Identifier: Apache-2.0
// The driver of elementwise kernels, and the ops that mix dtypes: cast, where, clamp.
#include "kernels/pointwise/pointwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/element.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kBlockSize = 512;  // elements of a gather buffer
constexpr int64_t kGrain = 16384;    // elements of one task

// Collapsed shape and strides. Operand k reads x[k]; the output is contiguous.
struct PointwisePlan {
  Block block = nullptr;
  PointwiseParams params;
  std::shared_ptr<const void> program;  // of the params
  int inputs = 0;                       // those that are given
  int source[kMaxOperands] = {};        // their numbers
  int rank = 0;
  int64_t count = 0;
  Sizes shape;
  Sizes strides[kMaxOperands];
  DType dtypes[kMaxOperands] = {};
  bool linear[kMaxOperands] = {};   // the elements follow each other in memory, in order
  bool widened[kMaxOperands] = {};  // 16-bit floats that the block reads as f32
  DType out_dtype = f32;
  bool narrowed = false;  // the block writes f32, the output holds 16-bit floats
  bool all_direct = false;
};

template <class From, class To>
void gather_row(const From* from, int64_t stride, To* to, int64_t n) {
  if constexpr (kIsHalf<From>)
    if (stride == 1) return half_table().widen(n, from, to);
  if (stride == 0) {
    const To value = static_cast<To>(from[0]);
    for (int64_t i = 0; i < n; ++i) to[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i * stride]);
  }
}

// n elements of operand k from element `at` on, in order, into `to`.
template <class From, class To>
void gather(const PointwisePlan& plan, int k, const From* from, int64_t at, int64_t n, To* to) {
  if (plan.rank == 0) return gather_row(from, 0, to, n);
  const Sizes& shape = plan.shape;
  const Sizes& strides = plan.strides[k];
  const int last = plan.rank - 1;
  int64_t index[kMaxRank] = {};
  int64_t rest = at;
  for (int d = last; d >= 0; --d) {
    index[d] = rest % shape[d];
    rest /= shape[d];
  }
  const From* row = from;
  for (int d = 0; d < last; ++d) row += index[d] * strides[d];
  int64_t column = index[last];
  while (n > 0) {
    const int64_t run = std::min(n, shape[last] - column);
    gather_row(row + column * strides[last], strides[last], to, run);
    to += run;
    n -= run;
    column = 0;
    for (int d = last - 1; d >= 0; --d) {
      row += strides[d];
      if (++index[d] < shape[d]) break;
      row -= shape[d] * strides[d];
      index[d] = 0;
    }
  }
}

void gather_any(const PointwisePlan& plan, int k, const void* from, int64_t at, int64_t n,
                void* to) {
  if (plan.widened[k]) {
    if (plan.dtypes[k] == f16)
      return gather(plan, k, static_cast<const Half*>(from), at, n, static_cast<float*>(to));
    return gather(plan, k, static_cast<const BFloat16*>(from), at, n, static_cast<float*>(to));
  }
  switch (size_of(plan.dtypes[k])) {
    case 8:
      return gather(plan, k, static_cast<const uint64_t*>(from), at, n, static_cast<uint64_t*>(to));
    case 4:
      return gather(plan, k, static_cast<const uint32_t*>(from), at, n, static_cast<uint32_t*>(to));
    case 2:
      return gather(plan, k, static_cast<const uint16_t*>(from), at, n, static_cast<uint16_t*>(to));
    default:
      return gather(plan, k, static_cast<const uint8_t*>(from), at, n, static_cast<uint8_t*>(to));
  }
}

// One value for all elements: its buffer is filled once for a whole range.
bool is_scalar(const PointwisePlan& plan, int k) {
  for (int64_t stride : plan.strides[k])
    if (stride != 0) return false;
  return true;
}

void run_blocks(const PointwisePlan& plan, const PointwiseParams& params, const RunContext& c,
                int64_t begin, int64_t end, std::byte* y) {
  const void* x[kMaxOperands];
  const std::byte* base[kMaxOperands];
  for (int k = 0; k < plan.inputs; ++k) {
    base[k] = static_cast<const std::byte*>(c.in(plan.source[k]).data);
    x[k] = base[k] + begin * size_of(plan.dtypes[k]);
  }
  if (plan.all_direct) return plan.block(y, x, end - begin, params);
  alignas(64) std::byte buffers[kMaxOperands + 1][kBlockSize * 8];
  bool filled[kMaxOperands] = {};
  const int64_t y_size = size_of(plan.out_dtype);
  const int64_t inner = plan.rank > 0 ? plan.shape[plan.rank - 1] : 1;
  // Long rows: chunks end with the row, so that dense rows are read in place.
  const bool by_row = inner >= 128;
  int64_t index[kMaxRank] = {};  // of element `at`, where chunks end with the row
  int64_t rest = begin;
  for (int d = plan.rank - 1; by_row && d >= 0; --d) {
    index[d] = rest % plan.shape[d];
    rest /= plan.shape[d];
  }
  for (int64_t at = begin; at < end;) {
    int64_t n = std::min(kBlockSize, end - at);
    if (by_row) n = std::min(n, inner - index[plan.rank - 1]);
    for (int k = 0; k < plan.inputs; ++k) {
      if (plan.linear[k] && !plan.widened[k]) {
        x[k] = base[k] + at * size_of(plan.dtypes[k]);
      } else if (is_scalar(plan, k)) {
        if (!filled[k]) {
          gather_any(plan, k, base[k], at, std::min(kBlockSize, end - at), buffers[k]);
          // A first chunk cut short by its row may be followed by longer ones.
          filled[k] = true;
        }
        x[k] = buffers[k];
      } else if (by_row && !plan.widened[k] && plan.strides[k][plan.rank - 1] == 1) {
        int64_t offset = 0;
        for (int d = 0; d < plan.rank; ++d) offset += index[d] * plan.strides[k][d];
        x[k] = base[k] + offset * size_of(plan.dtypes[k]);
      } else {
        gather_any(plan, k, base[k], at, n, buffers[k]);
        x[k] = buffers[k];
      }
    }
    if (plan.narrowed) {
      float* wide = reinterpret_cast<float*>(buffers[kMaxOperands]);
      plan.block(wide, x, n, params);
      if (plan.out_dtype == f16)
        half_table().narrow(n, wide, reinterpret_cast<Half*>(y) + (at - begin));
      else
        half_table().narrow(n, wide, reinterpret_cast<BFloat16*>(y) + (at - begin));
    } else {
      plan.block(y + (at - begin) * y_size, x, n, params);
    }
    at += n;
    if (!by_row) continue;
    index[plan.rank - 1] += n;
    for (int d = plan.rank - 1; d > 0 && index[d] == plan.shape[d]; --d) {
      index[d] = 0;
      ++index[d - 1];
    }
  }
}

// Elements [begin, end) of the result, at y.
void run_range(const PointwisePlan& plan, const RunContext& c, int64_t begin, int64_t end,
               std::byte* y) {
  bool divided_by_zero = false;
  PointwiseParams params = plan.params;
  params.divided_by_zero = &divided_by_zero;
  run_blocks(plan, params, c, begin, end, y);
  if (divided_by_zero) c.fail("an integer is divided by zero");
}

}  // namespace

Status prepare_block(PrepareContext& c, Block block, const PointwiseParams& params,
                     std::shared_ptr<const void> program) {
  PointwisePlan plan;
  plan.block = block;
  plan.params = params;
  plan.program = std::move(program);
  for (int i = 0; i < c.input_count(); ++i) {
    if (!c.has(i)) continue;
    if (plan.inputs == kMaxOperands) return c.fail("has more than ", kMaxOperands, " inputs");
    plan.source[plan.inputs++] = i;
  }
  const Tensor& out = c.out(0);
  plan.count = out.count();
  plan.out_dtype = out.dtype;
  plan.narrowed = out.dtype == f16 || out.dtype == bf16;
  // Broadcast strides, then merge neighbouring dims that every operand walks as one.
  Sizes wide[kMaxOperands];
  for (int k = 0; k < plan.inputs; ++k) {
    const Tensor& in = c.in(plan.source[k]);
    plan.dtypes[k] = in.dtype;
    plan.widened[k] = in.dtype == f16 || in.dtype == bf16;
    const int missing = out.rank() - in.rank();
    for (int d = 0; d < out.rank(); ++d) {
      const bool repeated = d < missing || in.shape[d - missing] == 1;
      wide[k].push_back(repeated ? 0 : in.strides[d - missing]);
    }
  }
  for (int d = 0; d < out.rank(); ++d) {
    if (out.shape[d] == 1) continue;
    const int last = plan.shape.rank() - 1;
    bool merge = last >= 0;
    for (int k = 0; merge && k < plan.inputs; ++k)
      merge = plan.strides[k][last] == wide[k][d] * out.shape[d];
    if (merge)
      plan.shape[last] *= out.shape[d];
    else
      plan.shape.push_back(out.shape[d]);
    for (int k = 0; k < plan.inputs; ++k) {
      if (merge)
        plan.strides[k][last] = wide[k][d];
      else
        plan.strides[k].push_back(wide[k][d]);
    }
  }
  plan.rank = plan.shape.rank();
  plan.all_direct = !plan.narrowed;
  const Sizes dense = contiguous_strides(plan.shape);
  for (int k = 0; k < plan.inputs; ++k) {
    plan.linear[k] = plan.strides[k] == dense;
    plan.all_direct = plan.all_direct && plan.linear[k] && !plan.widened[k];
  }
  c.make_state(plan);
  return {};
}

ChosenBlock chosen_block(const PrepareContext& c) {
  const auto& plan = *c.state<PointwisePlan>();
  return {plan.block, plan.params};
}

Status prepare_pointwise(PrepareContext& c, const BlockTable& table) {
  const DType dtype = c.in(table.key).dtype;
  Block block = table.blocks[static_cast<int>(dtype)];
  if (block == nullptr && (dtype == f16 || dtype == bf16)) block = table.blocks[0];
  if (block == nullptr) return c.fail("is not defined for ", dtype);
  PointwiseParams params;
  if (table.params != nullptr) table.params(c, params);
  return prepare_block(c, block, params);
}

void run_pointwise(const RunContext& c) noexcept {
  const PointwisePlan& plan = c.state<PointwisePlan>();
  std::byte* const y = static_cast<std::byte*>(c.out(0).data);
  c.parallel_for(plan.count, kGrain, [&](int64_t begin, int64_t end) {
    run_range(plan, c, begin, end, y + begin * size_of(plan.out_dtype));
  });
}

void compute_block(const void* plan, const RunContext& c, int64_t begin, int64_t end, void* y) {
  run_range(*static_cast<const PointwisePlan*>(plan), c, begin, end, static_cast<std::byte*>(y));
}

namespace {

// Conversion of one element as torch does it on x86: floats are cut towards zero, what does not fit
// becomes the smallest integer, and integers wrap around.
template <class Y>
struct Cast {
  template <class X>
  Y operator()(X x) const {
    if constexpr (std::is_floating_point_v<X> && std::is_integral_v<Y>) {
      using Wide = std::conditional_t<sizeof(Y) == 8 || std::is_unsigned_v<Y>, int64_t, int32_t>;
      constexpr double kEnd = sizeof(Wide) == 8 ? 9223372036854775808.0 : 2147483648.0;
      const double value = static_cast<double>(x);
      const bool fits = value > (sizeof(Wide) == 8 ? -kEnd : -kEnd - 1) && value < kEnd;
      return static_cast<Y>(fits ? static_cast<Wide>(x) : std::numeric_limits<Wide>::min());
    } else {
      return static_cast<Y>(x);
    }
  }
};
struct IsTrue {
  template <class X>
  uint8_t operator()(X x) const {
    return x != X(0);
  }
};

template <class X, class Y>
constexpr Block cast_block = &MakeBlock<Y, Cast<Y>, X>::run;

// From X to each dtype; 16-bit floats are written by the driver from f32.
template <class X>
constexpr BlockTable cast_row = {
    .blocks = {cast_block<X, float>, cast_block<X, double>, cast_block<X, float>,
               cast_block<X, float>, cast_block<X, int64_t>, cast_block<X, int32_t>,
               cast_block<X, int16_t>, cast_block<X, int8_t>, cast_block<X, uint8_t>,
               &MakeBlock<uint8_t, IsTrue, X>::run}};

// Complex tensors are not cast.
constexpr const BlockTable* kCastRows[kDTypeCount] = {
    &cast_row<float>,   &cast_row<double>,  &cast_row<float>,   &cast_row<float>,
    &cast_row<int64_t>, &cast_row<int32_t>, &cast_row<int16_t>, &cast_row<int8_t>,
    &cast_row<uint8_t>, &cast_row<uint8_t>};

Status prepare_cast(PrepareContext& c) {
  const BlockTable& row = *kCastRows[static_cast<int>(c.in(0).dtype)];
  return prepare_block(c, row.blocks[static_cast<int>(c.out(0).dtype)], {});
}

struct Select {
  template <class T>
  T operator()(uint8_t condition, T a, T b) const {
    return condition != 0 ? a : b;
  }
};
template <class T>
constexpr Block where_block = &MakeBlock<T, Select, uint8_t, T, T>::run;
constexpr BlockTable kWhere = {
    .blocks = {where_block<float>, where_block<double>, nullptr, nullptr, where_block<int64_t>,
               where_block<int32_t>, where_block<int16_t>, where_block<int8_t>,
               where_block<uint8_t>, where_block<uint8_t>},
    .key = 1};

// a + w (b - a), from the nearer end: at::native::lerp
struct Lerp {
  template <class T>
  T operator()(T a, T b, T w) const {
    return std::abs(w) < T(0.5) ? a + w * (b - a) : b - (b - a) * (T(1) - w);
  }
};
constexpr BlockTable kLerp = {.blocks = {&MakeBlock<float, Lerp, float, float, float>::run,
                                         &MakeBlock<double, Lerp, double, double, double>::run}};

// min(max(x, low), high); NaN wherever one of them is NaN.
struct ClampLow {
  template <class T>
  T operator()(T x, T low) const {
    return x != x || x > low ? x : low;
  }
};
struct ClampHigh {
  template <class T>
  T operator()(T x, T high) const {
    return x != x || x < high ? x : high;
  }
};
struct Clamp {
  template <class T>
  T operator()(T x, T low, T high) const {
    return ClampHigh()(ClampLow()(x, low), high);
  }
};
template <class T>
constexpr Block clamp_block = &MakeBlock<T, Clamp, T, T, T>::run;
constexpr BlockTable kClamp = {.blocks = {clamp_block<float>, clamp_block<double>, nullptr, nullptr,
                                          clamp_block<int64_t>, clamp_block<int32_t>,
                                          clamp_block<int16_t>, clamp_block<int8_t>,
                                          clamp_block<uint8_t>}};

Status prepare_clamp(PrepareContext& c) {
  if (c.has(1) && c.has(2)) return prepare_pointwise(c, kClamp);
  return prepare_pointwise(c, c.has(1) ? number_binary<ClampLow> : number_binary<ClampHigh>);
}

void run_to_integer(const RunContext& c) noexcept {
  for_float(c.in(0).dtype, [&]<class T>() {
    constexpr double kEnd = 9223372036854775808.0;  // 2^63
    const T* x = c.in(0).as<const T>();
    int64_t* y = c.out(0).as<int64_t>();
    for (int64_t i = 0, n = c.out(0).count(); i < n; ++i) {
      const auto value = static_cast<double>(static_cast<Wide<T>>(x[i]));
      if (!(value >= -kEnd && value < kEnd)) return c.fail("a number is NaN or too large for i64");
      y[i] = static_cast<int64_t>(value);
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "to_integer", .name = "loop", .run = run_to_integer},
    {.op = "cast",
     .name = "pointwise",
     .prepare = &prepare_cast,
     .run = &run_pointwise,
     .strided = kAllStrided,
     .in_programs = true},
    {.op = "clamp",
     .name = "pointwise",
     .prepare = &prepare_clamp,
     .run = &run_pointwise,
     .strided = kAllStrided,
     .in_programs = true},
    pointwise_kernel<kWhere>("where"),
    pointwise_kernel<kLerp>("lerp"),
};

}  // namespace

std::span<const KernelDef> pointwise() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
