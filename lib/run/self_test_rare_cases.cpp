// SPDX-License-Identifier: Apache-2.0
// Cases of ops that few devices compute. Numbers that must satisfy a rule (lengths, indices,
// regions, nodes of trees) are constants.
#include "hg/ops/operators.h"
#include "lib/graph/element.h"
#include "lib/run/self_test_case.h"

namespace hg {
namespace {

using Ints = std::vector<Dim>;

Value numbers(CaseInputs& in, DType dtype, const Sizes& shape, std::vector<double> values) {
  Result<TensorData> data = TensorData::allocate(dtype, shape);
  if (!data.ok()) return {};
  for (size_t i = 0; i < values.size(); ++i)
    set_element(data->tensor, static_cast<int64_t>(i), values[i]);
  return in.graph.constant(*data);
}
// [2, 5, 5], dominated by a diagonal of different numbers.
Value dominated(CaseInputs& in) {
  return in.x({2, 5, 5}) * 0.2 +
         numbers(in, in.real, {5, 5},
                 {2, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 6});
}
Value pivots(CaseInputs& in) { return numbers(in, i32, {2, 5}, {1, 3, 3, 5, 5, 2, 2, 4, 4, 5}); }
Value regions(CaseInputs& in) {
  return numbers(in, in.real, {3, 5}, {0, 0, 0, 3, 4, 1, 1, 2, 6, 4, 1, 2, 1, 5, 3});
}

void build_ctc(CaseInputs& in, bool gradient) {
  std::vector<Value> inputs;
  if (gradient) inputs.push_back(in.x({2}));
  // Negative, as logarithms of probabilities are.
  inputs.insert(inputs.end(), {in.x({6, 2, 4}) - 1.5, numbers(in, i64, {2, 3}, {0, 2, 2, 3, 3, 0}),
                               numbers(in, i64, {2}, {6, 5}), numbers(in, i64, {2}, {3, 2})});
  in.graph.call(gradient ? "ctc_loss_grad" : "ctc_loss", inputs, {{"blank", 1}});
}
void build_deformed(CaseInputs& in, bool gradient) {
  std::vector<Value> inputs;
  if (gradient) inputs.push_back(in.x({1, 12, 18}));
  inputs.insert(inputs.end(), {in.x({1, 2, 5, 7}), in.x({1, 12, 3, 6}), in.x({1, 6, 3, 6})});
  in.graph.calls(gradient ? "deform_im2col_grad" : "deform_im2col", inputs,
                 {{"kernel_size", Ints{3, 2}}});
}
// x[n, h, w, c] with one filter per channel, or x[n, c, h, w] to 9 channels at the end.
void build_channels_last(CaseInputs& in, std::string_view op, const Sizes& x, const Sizes& weight,
                         int64_t channels) {
  in.graph.call(op, {in.x(x), in.x(weight), in.x({channels})}, {{"padding", Ints{1}}});
}
// A scan over 4 steps of 3 samples with 7 hidden numbers, or its gradient.
Sizes gates(int64_t count) { return {4, 3, 7 * count}; }
Sizes recurrent(int64_t count) { return {7 * count, 7}; }

constexpr Case kRareCases[] = {
    {"solve",
     [](CaseInputs& in) {
       const Value a = dominated(in);
       in.graph.call("solve", {a, in.x({2, 5, 3})});
     }},
    {"slogdet", [](CaseInputs& in) { in.graph.calls("slogdet", {dominated(in)}); }},
    {"cholesky", [](CaseInputs& in) { in.graph.call("cholesky", {dominated(in)}); }},
    {"eig", [](CaseInputs& in) { in.graph.calls("eig", {dominated(in)}); }},
    {"eigvals", [](CaseInputs& in) { in.graph.call("eigvals", {dominated(in)}); }},
    {"eigh", [](CaseInputs& in) { in.graph.calls("eigh", {dominated(in)}); }},
    {"eigvalsh", [](CaseInputs& in) { in.graph.call("eigvalsh", {dominated(in)}); }},
    {"ldl_factor", [](CaseInputs& in) { in.graph.calls("ldl_factor", {dominated(in)}); }},
    {"ldl_solve",
     [](CaseInputs& in) {
       const Value ld = dominated(in);
       in.graph.call("ldl_solve", {ld, in.x({2, 5, 3}),
                                   numbers(in, i32, {2, 5}, {1, 2, 3, 4, 5, 1, 3, 3, 5, 5})});
     }},
    {"lu_rows",
     [](CaseInputs& in) {
       // Added to an input of zeros, so that the node is not folded.
       const Value zero = in.graph.call("mul", {in.add({2, 1}, i32), in.graph.scalar(0.0, i32)});
       in.graph.call("lu_rows", {in.graph.call("add", {pivots(in), zero})}, {{"n", 5}});
     }},
    {"fft_of_real",
     [](CaseInputs& in) {
       in.graph.call("fft_of_real", {in.x({3, 9, 1})}, {{"dim", 1}});
     }},
    {"fft_to_real",
     [](CaseInputs& in) {
       in.graph.call("fft_to_real", {in.x({3, 5, 2})}, {{"n", 9}, {"dim", 1}});
     }},
    {"polynomial",
     [](CaseInputs& in) {
       in.graph.call("polynomial", {in.x({3, 37}), in.graph.scalar(4.0, in.real)},
                     {{"kind", "legendre_p"}});
     }},
    {"ctc_loss", [](CaseInputs& in) { build_ctc(in, false); }},
    {"ctc_loss_grad", [](CaseInputs& in) { build_ctc(in, true); }},
    {"deform_im2col", [](CaseInputs& in) { build_deformed(in, false); }},
    {"deform_im2col_grad", [](CaseInputs& in) { build_deformed(in, true); }},
    {"roi_align",
     [](CaseInputs& in) {
       in.graph.call("roi_align", {in.x({2, 3, 5, 7}), regions(in)},
                     {{"output_size", Ints{3, 2}}, {"sampling_ratio", 2}});
     }},
    {"roi_align_grad",
     [](CaseInputs& in) {
       in.graph.call("roi_align_grad", {in.x({3, 3, 3, 2}), regions(in)},
                     {{"input_size", Ints{2, 3, 5, 7}}, {"output_size", Ints{3, 2}}});
     }},
    {"roi_pool",
     [](CaseInputs& in) {
       in.graph.calls("roi_pool", {in.x({2, 3, 5, 7}), regions(in)}, {{"output_size", Ints{3, 2}}});
     }},
    {"grid_sample_grad",
     [](CaseInputs& in) {
       in.graph.calls("grid_sample_grad",
                      {in.x({1, 2, 3, 4}), in.x({1, 2, 5, 7}), in.x({1, 3, 4, 2})});
     }},
    {"interpolate_grad",
     [](CaseInputs& in) {
       in.graph.call("interpolate_grad", {in.x({1, 2, 9, 4})},
                     {{"input_size", Ints{5, 7}}, {"mode", "bilinear"}});
     }},
    {"grouped_mm",
     [](CaseInputs& in) {
       in.graph.call("grouped_mm",
                     {in.x({13, 67}), in.x({4, 67, 41}), numbers(in, i64, {4}, {1, 3, 9, 13})});
     }},
    {"mixed_grouped_mm",
     [](CaseInputs& in) {
       in.graph.call("mixed_grouped_mm", {in.add({13, 67}, f32), in.add({4, 67, 41}, f16),
                                          numbers(in, i64, {4}, {1, 3, 9, 13})});
     }},
    {"index_select_reduce",
     [](CaseInputs& in) {
       in.graph.call("index_select_reduce",
                     {in.x({5, 7}), in.add({9}, i64), in.x({6, 7}), in.add({9}, i64)},
                     {{"reduce", "add"}});
     }},
    {"as_strided_scatter",
     [](CaseInputs& in) {
       in.graph.call("as_strided_scatter", {in.x({35}), in.x({3, 2})},
                     {{"size", Ints{3, 2}}, {"stride", Ints{7, 2}}, {"storage_offset", 1}});
     }},
    {"conv_channels_last",
     [](CaseInputs& in) {
       build_channels_last(in, "conv_channels_last", {2, 5, 6, 19}, {19, 1, 3, 3}, 19);
     }},
    {"conv_to_channels_last",
     [](CaseInputs& in) {
       build_channels_last(in, "conv_to_channels_last", {2, 3, 5, 6}, {9, 3, 3, 3}, 9);
     }},
    {"conv_dense_channels_last",
     [](CaseInputs& in) {
       build_channels_last(in, "conv_dense_channels_last", {2, 5, 6, 19}, {9, 19, 3, 3}, 9);
     }},
    {"conv_integer_channels_last",
     [](CaseInputs& in) {
       in.graph.call("conv_integer_channels_last",
                     {in.add({2, 11, 9, 6}, u8), in.add({10, 6, 3, 2}, i8), in.add({}, u8)},
                     {{"padding", Ints{1}}, {"stride", Ints{1, 2}}});
     }},
    {"conv_integer_to_channels_last",
     [](CaseInputs& in) {
       in.graph.call("conv_integer_to_channels_last",
                     {in.add({2, 3, 11, 9}, u8), in.add({10, 3, 3, 2}, i8), in.add({}, u8)},
                     {{"padding", Ints{1}}, {"stride", Ints{1, 2}}});
     }},
    {"pointwise_reduction",
     [](CaseInputs& in) {
       in.graph.call("pointwise_reduction", {in.x({5, 37}), in.x({5, 1}), in.x({})},
                     {{"program", "mul x0 x1; sigmoid s0; add s1 x2; sum s2 dim=-1"}});
     }},
    {"lstm_scan",
     [](CaseInputs& in) {
       in.graph.calls("lstm_scan",
                      {in.x(gates(4)), in.x({3, 7}), in.x({3, 7}), in.x(recurrent(4)), in.x({28})});
     }},
    {"lstm_scan_grad",
     [](CaseInputs& in) {
       in.graph.calls("lstm_scan_grad", {in.x(gates(4)), in.x({3, 7}), in.x(recurrent(4)),
                                         in.x(gates(1)), in.x({3, 7}), in.x({3, 7})});
     }},
    {"gru_scan",
     [](CaseInputs& in) {
       in.graph.calls("gru_scan", {in.x(gates(3)), in.x({3, 7}), in.x(recurrent(3)), in.x({21})});
     }},
    {"gru_scan_grad",
     [](CaseInputs& in) {
       in.graph.calls("gru_scan_grad", {in.x(gates(3)), in.x(gates(3)), in.x(gates(1)),
                                        in.x(recurrent(3)), in.x(gates(1)), in.x({3, 7})});
     }},
    {"rnn_scan",
     [](CaseInputs& in) {
       in.graph.calls("rnn_scan", {in.x(gates(1)), in.x({3, 7}), in.x(recurrent(1)), in.x({7})});
     }},
    {"rnn_scan_grad",
     [](CaseInputs& in) {
       in.graph.calls("rnn_scan_grad",
                      {in.x(gates(1)), in.x(recurrent(1)), in.x(gates(1)), in.x({3, 7})});
     }},
    // Two trees over [x0 < 0.5, x1 < 0.3], of a test and of two.
    {"tree_leaves",
     [](CaseInputs& in) {
       in.graph.call("tree_leaves",
                     {in.x({37, 2}),
                      numbers(in, i32, {8, 4}, {0, 0, 1, 2, -1, 0, 5, 0, -1, 0, 6, 0, 1,  0, 4, 5,
                                                0, 0, 6, 7, -1, 0, 7, 0, -1, 0, 8, 0, -1, 0, 9, 0}),
                      numbers(in, in.real, {8}, {0.5, 0, 0, 0.3, 0.5, 0, 0, 0}),
                      numbers(in, i32, {2}, {0, 3})});
     }},
};

}  // namespace

std::span<const Case> rare_cases() { return kRareCases; }

}  // namespace hg
