// SPDX-License-Identifier: Apache-2.0
// How to write elementwise kernels: a block function works on contiguous runs. One driver
// broadcasts, gathers strided operands into small buffers, converts 16-bit floats, and splits the
// work. An op is a BlockTable: one block function per dtype in which it computes.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>

#include "hg/kernel.h"

// Clang vectorizes these loops itself, and warns about each loop that it does not.
#if defined(__clang__)
#define HG_INDEPENDENT_LOOP
#else
#define HG_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#endif

namespace hg::kernels {

constexpr int kMaxOperands = 16;  // inputs of one block function

// Attributes of the op, in the form that block functions read.
struct PointwiseParams {
  double a = 0, b = 0, c = 0;
  int64_t n = 0;
  const void* program = nullptr;  // data of a block function, which the plan keeps alive
  // The x that is one element, for all n; -1: none. Only set if the block reads such an x.
  bool reads_single = false;
  int single = -1;
  uint32_t same = 0;    // bit k: all elements of x[k] are equal; only the first is read
  bool copies = false;  // y is x[0], both f32
  // Where blocks of integer divisions report a zero divisor; the run then fails.
  bool* divided_by_zero = nullptr;
};

// y[i] = f(x[0][i], x[1][i], ...) for i < n. y may be one of the x.
using Block = void (*)(void* y, const void* const* x, int64_t n, const PointwiseParams& params);

struct BlockTable {
  // By the dtype of input `key`. f16 and bf16 use the f32 block if they have none.
  Block blocks[kDTypeCount] = {};
  int key = 0;
  void (*params)(const PrepareContext&, PointwiseParams&) = nullptr;
};

Status prepare_pointwise(PrepareContext& c, const BlockTable& table);
// The same with a given block.
Status prepare_block(PrepareContext& c, Block block, const PointwiseParams& params,
                     std::shared_ptr<const void> program = nullptr);
// The state of a kernel that run_pointwise runs.
struct ChosenBlock {
  Block block;
  const PointwiseParams& params;
};
ChosenBlock chosen_block(const PrepareContext& c);
// Computes elements [begin, end) of the result of such a kernel, whose state is `plan`, in order,
// to `y`.
void compute_block(const void* plan, const RunContext& c, int64_t begin, int64_t end, void* y);
void run_pointwise(const RunContext& c) noexcept;

template <const BlockTable& table>
Status prepare_table(PrepareContext& c) {
  return prepare_pointwise(c, table);
}

template <const BlockTable& table>
constexpr KernelDef pointwise_kernel(std::string_view op) {
  return {.op = op,
          .name = "pointwise",
          .prepare = &prepare_table<table>,
          .run = &run_pointwise,
          .strided = kAllStrided,
          .in_programs = true};
}

// Block functions from a functor F with F()(x...) or F()(x..., params). Bool is uint8_t here.
template <class Y, class F, class... X>
struct MakeBlock {
  static void run(void* y, const void* const* x, int64_t n, const PointwiseParams& params) {
    apply(static_cast<Y*>(y), x, n, params, std::index_sequence_for<X...>());
  }

 private:
  template <size_t... I>
  static void apply(Y* y, const void* const* x, int64_t n,
                    [[maybe_unused]] const PointwiseParams& p, std::index_sequence<I...>) {
    loop(y, n, p, static_cast<const X*>(x[I])...);
  }
  static void loop(Y* y, int64_t n, [[maybe_unused]] const PointwiseParams p, const X*... x) {
    if constexpr (std::is_invocable_v<F, X..., const PointwiseParams&>) {
      HG_INDEPENDENT_LOOP
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Y>(F()(x[i]..., p));
    } else {
      HG_INDEPENDENT_LOOP
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Y>(F()(x[i]...));
    }
  }
};

template <class F, class T>
inline constexpr Block unary_block = &MakeBlock<T, F, T>::run;
template <class F, class T>
inline constexpr Block binary_block = &MakeBlock<T, F, T, T>::run;

using ParamsFunction = void (*)(const PrepareContext&, PointwiseParams&);

// The result has the same dtype.
template <class F, ParamsFunction params = nullptr>
inline constexpr BlockTable float_unary = {
    .blocks = {unary_block<F, float>, unary_block<F, double>}, .params = params};
template <class F, ParamsFunction params = nullptr>
inline constexpr BlockTable number_unary = {
    .blocks = {unary_block<F, float>, unary_block<F, double>, nullptr, nullptr,
               unary_block<F, int64_t>, unary_block<F, int32_t>, unary_block<F, int16_t>,
               unary_block<F, int8_t>, unary_block<F, uint8_t>},
    .params = params};
template <class F, ParamsFunction params = nullptr>
inline constexpr BlockTable float_binary = {
    .blocks = {binary_block<F, float>, binary_block<F, double>}, .params = params};
// FBool is used for bool.
template <class F, class FBool>
inline constexpr BlockTable any_binary = {
    .blocks = {binary_block<F, float>, binary_block<F, double>, nullptr, nullptr,
               binary_block<F, int64_t>, binary_block<F, int32_t>, binary_block<F, int16_t>,
               binary_block<F, int8_t>, binary_block<F, uint8_t>, binary_block<FBool, uint8_t>}};
template <class F>
inline constexpr BlockTable number_binary = {
    .blocks = {binary_block<F, float>, binary_block<F, double>, nullptr, nullptr,
               binary_block<F, int64_t>, binary_block<F, int32_t>, binary_block<F, int16_t>,
               binary_block<F, int8_t>, binary_block<F, uint8_t>}};
template <class F>
inline constexpr BlockTable integer_binary = {
    .blocks = {nullptr, nullptr, nullptr, nullptr, binary_block<F, int64_t>,
               binary_block<F, int32_t>, binary_block<F, int16_t>, binary_block<F, int8_t>,
               binary_block<F, uint8_t>, binary_block<F, uint8_t>}};
// The result is bool.
template <class F>
inline constexpr BlockTable test_unary = {
    .blocks = {&MakeBlock<uint8_t, F, float>::run, &MakeBlock<uint8_t, F, double>::run, nullptr,
               nullptr, &MakeBlock<uint8_t, F, int64_t>::run, &MakeBlock<uint8_t, F, int32_t>::run,
               &MakeBlock<uint8_t, F, int16_t>::run, &MakeBlock<uint8_t, F, int8_t>::run,
               &MakeBlock<uint8_t, F, uint8_t>::run, &MakeBlock<uint8_t, F, uint8_t>::run}};
template <class F>
inline constexpr BlockTable test_binary = {
    .blocks = {
        &MakeBlock<uint8_t, F, float, float>::run, &MakeBlock<uint8_t, F, double, double>::run,
        nullptr, nullptr, &MakeBlock<uint8_t, F, int64_t, int64_t>::run,
        &MakeBlock<uint8_t, F, int32_t, int32_t>::run,
        &MakeBlock<uint8_t, F, int16_t, int16_t>::run, &MakeBlock<uint8_t, F, int8_t, int8_t>::run,
        &MakeBlock<uint8_t, F, uint8_t, uint8_t>::run,
        &MakeBlock<uint8_t, F, uint8_t, uint8_t>::run}};

// The unsigned type in which T's sums and products wrap around.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

}  // namespace hg::kernels
