// SPDX-License-Identifier: Apache-2.0
// The cases that each device kernel must compute correctly before it is used.
#include <algorithm>

#include "lib/graph/access.h"
#include "lib/graph/element.h"
#include "lib/run/self_test.h"
#include "lib/run/self_test_case.h"

namespace hg {
namespace {

using Ints = std::vector<Dim>;

// An optimizer step with all optional inputs. fill_case() sets the second input to true and the
// seventh to 4: `go` and the step number.
void build_step(CaseInputs& in, std::string_view op, int states, NamedAttrs attrs) {
  const Value x = in.x({3, 37}), go = in.add({}, boolean);
  std::vector<Value> inputs = {x};
  for (int i = 0; i < states; ++i) inputs.push_back(in.x({3, 37}));
  const Value sum = in.x({3, 37});
  Value gradient, lr;
  if (states == 1) gradient = in.x({3, 37}), lr = in.x({2});
  const Value step = in.add({}, i64);
  if (states != 1) gradient = in.x({3, 37}), lr = in.x({2});
  inputs.insert(inputs.end(), {sum, gradient, lr, step, in.x({}), go});
  attrs.insert(attrs.end(), {{"group", 1}, {"weight_decay", 0.1}, {"clip_value", 0.2}});
  in.graph.calls(op, inputs, attrs);
}

// Two channels of y per channel of x, in strips that are not full.
void build_depthwise(CaseInputs& in) {
  in.graph.call("conv", {in.x({2, 5, 23, 13}), in.x({10, 1, 3, 5}), in.x({10})},
                {{"groups", 5}, {"stride", Ints{2, 1}}, {"padding", Ints{1, 2}}});
}

// A matmul of `batch` matrices, or a linear with all optional inputs.
void build_product(CaseInputs& in, int64_t batch, int64_t m, int64_t n, int64_t k) {
  if (batch > 0)
    in.graph.call("matmul", {in.x({batch, m, k}), in.x({batch, k, n})});
  else
    in.graph.call("linear", {in.x({m, k}), in.x({n, k}), in.x({n}), in.x({m, n})},
                  {{"activation", "relu"}});
}

// A product with a weight [n, k] of 8 or 4 bits with offsets, in groups of 32.
void build_levels(CaseInputs& in, std::string_view packing, int64_t m, int64_t n, int64_t k) {
  const int64_t groups = (k + 31) / 32;
  const Sizes levels = packing == "bytes"  ? Sizes{n, k}
                       : packing == "rows" ? Sizes{(n + 1) / 2, k}
                                           : Sizes{n, (k + 1) / 2};
  in.graph.call("quantized_linear",
                {in.x({m, k}), in.add(levels, i8), in.x({n, groups}), in.x({n, groups}), in.x({n}),
                 in.x({m, n})},
                {{"packing", std::string(packing)}, {"group", 32}, {"activation", "relu"}});
}

// `images` of 11x9, and 37 channels that become `outputs`.
void build_conv(CaseInputs& in, int64_t images, int64_t outputs, bool transposed) {
  const Sizes weight = transposed ? Sizes{37, outputs, 3, 2} : Sizes{outputs, 37, 3, 2};
  in.graph.call("conv", {in.x({images, 37, 11, 9}), in.x(weight), in.x({outputs})},
                {{"padding", Ints{1}}, {"stride", Ints{1, 2}}, {"transposed", transposed}});
}

// Two query heads per head of k and v, with every kind of mask.
void build_attention(CaseInputs& in) {
  in.graph.call("attention",
                {in.x({2, 4, 21, 12}), in.x({2, 2, 19, 12}), in.x({2, 2, 19, 13}), in.x({21, 19})},
                {{"causal", true}});
}

void build_weight_grad(CaseInputs& in, int64_t images, int64_t channels, int64_t outputs) {
  in.graph.call("conv_weight_grad",
                {in.x({images, channels, 23, 19}), in.x({images, outputs, 12, 18})},
                {{"kernel", Ints{3, 2}}, {"stride", Ints{2, 1}}, {"padding", Ints{1, 0}}});
}

constexpr Case kCases[] = {
    {"matmul",
     [](CaseInputs& in) {
       in.graph.call("matmul", {in.x({2, 51, 67}), in.x({67, 45})});
     }},
    {"linear", [](CaseInputs& in) { build_product(in, 0, 67, 69, 66); }},
    {"matmul=rows", [](CaseInputs& in) { build_product(in, 3, 5, 39, 67); }},
    {"matmul=tiles", [](CaseInputs& in) { build_product(in, 2, 51, 45, 67); }},
    {"matmul=tiles", [](CaseInputs& in) { build_product(in, 24, 66, 65, 35); }},
    {"matmul=tiles", [](CaseInputs& in) { build_product(in, 24, 130, 131, 11); }},
    {"matmul=cooperative", [](CaseInputs& in) { build_product(in, 2, 51, 85, 67); }},
    {"linear=cooperative", [](CaseInputs& in) { build_product(in, 0, 77, 69, 66); }},
    {"linear=rows", [](CaseInputs& in) { build_product(in, 0, 7, 39, 131); }},
    {"linear=tiles", [](CaseInputs& in) { build_product(in, 0, 67, 69, 66); }},
    {"linear=tiles", [](CaseInputs& in) { build_product(in, 0, 650, 580, 35); }},
    {"conv=tiles", [](CaseInputs& in) { build_conv(in, 1, 18, false); }},
    {"conv=tiles", [](CaseInputs& in) { build_conv(in, 1, 18, true); }},
    {"conv=tiles", [](CaseInputs& in) { build_conv(in, 96, 66, false); }},
    {"conv",
     [](CaseInputs& in) {
       in.graph.call("conv", {in.x({2, 19, 31, 13}), in.x({18, 19, 3, 3}), in.x({18})},
                     {{"stride", Ints{2, 1}}, {"padding", Ints{1}}});
     }},
    {"conv=winograd",
     [](CaseInputs& in) {
       const Result<TensorData> w = TensorData::allocate(f32, {18, 19, 3, 3});
       if (!w.ok()) return;
       fill_case(w->tensor, 7);
       in.graph.call("conv", {in.x({2, 19, 13, 10}), in.graph.parameter("w", *w), in.x({18})},
                     {{"padding", Ints{1, 0}}, {"activation", "relu"}});
     }},
    {"conv=depthwise_lanes", build_depthwise},
    {"conv=depthwise", build_depthwise},
    {"attention=blocks",
     [](CaseInputs& in) {
       in.graph.call("attention",
                     {in.x({1, 2, 37, 64}), in.x({1, 2, 67, 64}), in.x({1, 2, 67, 33})});
     }},
    {"attention=blocks", build_attention},
    {"attention", build_attention},
    {"conv_weight_grad=tiles", [](CaseInputs& in) { build_weight_grad(in, 2, 5, 18); }},
    {"conv_weight_grad=tiles", [](CaseInputs& in) { build_weight_grad(in, 19, 45, 67); }},
    {"conv_weight_grad",
     [](CaseInputs& in) {
       in.graph.call("conv_weight_grad", {in.x({2, 5, 9, 21}), in.x({2, 18, 5, 11})},
                     {{"kernel", Ints{3, 3}}, {"stride", Ints{2}}, {"padding", Ints{1}}});
     }},
    {"pointwise_program",
     [](CaseInputs& in) {
       in.graph.call("pointwise_program", {in.x({3, 37}), in.x({37}), in.x({1})},
                     {{"program",
                       "mul x0 x1; leaky_relu s0 negative_slope=0.2; ge s1 x2; "
                       "where s2 s1 x0; clamp s3 - x2"}});
     }},
    {"kthvalue",
     [](CaseInputs& in) {
       in.graph.call("kthvalue", {in.x({3, 37})}, {{"k", 5}});
     }},
    {"topk",
     [](CaseInputs& in) {
       in.graph.call("topk", {in.x({7, 37})}, {{"k", 5}, {"dim", 0}});
     }},
    {"sgd_step",
     [](CaseInputs& in) {
       build_step(in, "sgd_step", 1, {{"momentum", 0.9}, {"nesterov", true}});
     }},
    {"adam_step",
     [](CaseInputs& in) {
       build_step(in, "adam_step", 3, {{"decoupled", true}});
     }},
    {"rmsprop_step",
     [](CaseInputs& in) {
       build_step(in, "rmsprop_step", 3, {{"momentum", 0.9}});
     }},
    {"concat",
     [](CaseInputs& in) {
       in.graph.call("concat", {in.x({3, 5}), in.x({3, 7})}, {{"dim", 1}});
     }},
    {"pad",
     [](CaseInputs& in) {
       in.graph.call("pad", {in.x({5, 7})}, {{"pads", Ints{1, 2, 0, 3}}});
     }},
    {"gather",
     [](CaseInputs& in) {
       in.graph.call("gather", {in.x({5, 7}), in.add({3, 7}, i64)}, {{"dim", 0}});
     }},
    {"index_select",
     [](CaseInputs& in) {
       in.graph.call("index_select", {in.x({5, 7}), in.add({9}, i64)}, {{"dim", 1}});
     }},
    {"embedding",
     [](CaseInputs& in) {
       in.graph.call("embedding", {in.x({5, 7}), in.add({2, 3}, i64)});
     }},
    {"quantized_linear", [](CaseInputs& in) { build_levels(in, "pairs", 9, 39, 67); }},
    {"quantized_linear", [](CaseInputs& in) { build_levels(in, "halves", 70, 67, 35); }},
    {"quantized_linear=rows", [](CaseInputs& in) { build_levels(in, "rows", 7, 39, 131); }},
    {"quantized_linear=rows", [](CaseInputs& in) { build_levels(in, "bytes", 1, 39, 131); }},
    {"quantized_linear=tiles", [](CaseInputs& in) { build_levels(in, "pairs", 9, 39, 67); }},
    {"quantized_linear=tiles", [](CaseInputs& in) { build_levels(in, "bytes", 650, 580, 35); }},
    {"quantized_matmul",
     [](CaseInputs& in) {
       in.graph.call("quantized_matmul", {in.x({7, 39}), in.add({39, 34}, i8), in.x({39, 5})},
                     {{"packing", "halves"}, {"group", 16}, {"width", 67}});
     }},
    {"quantized_embedding",
     [](CaseInputs& in) {
       in.graph.call("quantized_embedding",
                     {in.add({5, 34}, i8), in.x({5, 3}), in.add({2, 3}, i64), in.x({5, 3})},
                     {{"packing", "pairs"}, {"group", 32}, {"width", 67}});
     }},
    {"quantized_conv",
     [](CaseInputs& in) {
       in.graph.call("quantized_conv",
                     {in.x({2, 39, 5, 60}), in.add({67, 39}, i8), in.x({67, 3}), in.x({67, 3}),
                      in.x({67}), in.x({2, 67, 5, 60})},
                     {{"packing", "bytes"}, {"group", 16}, {"activation", "relu"}});
     }},
    {"quantized_scan",
     [](CaseInputs& in) {
       in.graph.calls("quantized_scan",
                      {in.x({4, 3, 28}), in.add({28, 7}, i8), in.x({28, 1}), in.x({28, 1}),
                       in.x({3, 7}), in.x({28}), in.x({3, 7})},
                      {{"cell", "lstm"}, {"packing", "bytes"}, {"group", 7}});
     }},
    {"matmul_integer",
     [](CaseInputs& in) {
       in.graph.call("matmul_integer",
                     {in.add({2, 9, 39}, i8), in.add({39, 67}, i8), in.add({9}, i8),
                      in.add({67}, i8), in.add({67}, i32), in.add({67}, f32), in.add({}, i8)});
     }},
    {"matmul_integer",
     [](CaseInputs& in) {
       in.graph.call("matmul_integer", {in.add({5, 37}, u8), in.add({37, 3}, u8)});
     }},
    {"conv_integer",
     [](CaseInputs& in) {
       in.graph.call("conv_integer",
                     {in.add({2, 6, 11, 9}, u8), in.add({10, 3, 3, 2}, i8), in.add({}, u8)},
                     {{"padding", Ints{1}}, {"stride", Ints{1, 2}}, {"groups", 2}});
     }},
    {"scatter=sequential",
     [](CaseInputs& in) {
       in.graph.call("scatter", {in.x({2, 7, 40}), in.add({2, 9, 33}, i64), in.x({2, 9, 33})},
                     {{"dim", 1}, {"reduce", "add"}});
     }},
    {"scatter",
     [](CaseInputs& in) {
       in.graph.call("scatter", {in.x({5, 7}), in.add({3, 7}, i64), in.x({3, 7})},
                     {{"dim", 0}, {"reduce", "add"}});
     }},
    {"where",
     [](CaseInputs& in) {
       in.graph.call("where", {in.add({3, 37}, boolean), in.x({3, 37}), in.x({37})});
     }},
    {"clamp",
     [](CaseInputs& in) {
       in.graph.call("clamp", {in.x({3, 37}), in.x({1}), in.x({37})});
     }},
    {"cast",
     [](CaseInputs& in) {
       in.graph.call("cast", {in.x({3, 37})}, {{"dtype", i64}});
     }},
    {"threshold",
     [](CaseInputs& in) {
       in.graph.call("threshold", {in.x({3, 37})}, {{"threshold", 0.4}, {"value", -1.5}});
     }},
    {"layer_norm",
     [](CaseInputs& in) {
       in.graph.call("layer_norm", {in.x({3, 37}), in.x({37}), in.x({37})},
                     {{"normalized_shape", Ints{37}}});
     }},
    {"rms_norm",
     [](CaseInputs& in) {
       in.graph.call("rms_norm", {in.x({3, 37}), in.x({37})}, {{"normalized_shape", Ints{37}}});
     }},
    {"group_norm",
     [](CaseInputs& in) {
       in.graph.call("group_norm", {in.x({2, 6, 7}), in.x({6}), in.x({6})}, {{"groups", 3}});
     }},
    {"max_pool",
     [](CaseInputs& in) {
       in.graph.call("max_pool", {in.x({1, 2, 7, 9})}, {{"kernel_size", Ints{3, 2}}});
     }},
    {"max_pool_with_indices",
     [](CaseInputs& in) {
       in.graph.call("max_pool_with_indices", {in.x({1, 2, 7, 9})}, {{"kernel_size", Ints{3, 2}}});
     }},
    {"avg_pool",
     [](CaseInputs& in) {
       in.graph.call("avg_pool", {in.x({1, 2, 7, 9})},
                     {{"kernel_size", Ints{3, 2}}, {"padding", Ints{1}}});
     }},
    {"avg_pool_grad",
     [](CaseInputs& in) {
       in.graph.call("avg_pool_grad", {in.x({1, 2, 3, 4})},
                     {{"input_size", Ints{6, 8}}, {"kernel_size", Ints{2, 2}}});
     }},
    {"adaptive_avg_pool",
     [](CaseInputs& in) {
       in.graph.call("adaptive_avg_pool", {in.x({1, 2, 7, 9})}, {{"output_size", Ints{3, 2}}});
     }},
    {"adaptive_avg_pool_grad",
     [](CaseInputs& in) {
       in.graph.call("adaptive_avg_pool_grad", {in.x({1, 2, 3, 2})}, {{"input_size", Ints{7, 9}}});
     }},
    {"adaptive_max_pool",
     [](CaseInputs& in) {
       in.graph.call("adaptive_max_pool", {in.x({1, 2, 7, 9})}, {{"output_size", Ints{3, 2}}});
     }},
    {"layer_norm_grad",
     [](CaseInputs& in) {
       in.graph.call("layer_norm_grad", {in.x({3, 37}), in.x({37}), in.x({3, 37})},
                     {{"normalized_shape", Ints{37}}});
     }},
    {"batch_norm",
     [](CaseInputs& in) {
       in.graph.call("batch_norm", {in.x({3, 5, 7}), in.x({5}), in.x({5}), in.x({5}), in.x({5})});
     }},
    {"batch_norm_grad",
     [](CaseInputs& in) {
       in.graph.call("batch_norm_grad", {in.x({3, 5, 7}), in.x({5}), in.x({3, 5, 7})});
     }},
    {"mixed_attention",
     [](CaseInputs& in) {
       const Sizes keys = {2, 2, 7, 12};
       in.graph.call("mixed_attention",
                     {in.add({2, 4, 9, 12}, f32), in.add(keys, f16), in.add(keys, f16)});
     }},
    {"mixed_linear",
     [](CaseInputs& in) {
       in.graph.call("mixed_linear",
                     {in.add({3, 37}, f32), in.add({13, 37}, f16), in.add({13}, f32)});
     }},
    {"attention_grad",
     [](CaseInputs& in) {
       in.graph.call("attention_grad",
                     {in.x({2, 4, 9, 12}), in.x({2, 4, 7, 12}), in.x({2, 4, 7, 13}), in.x({9, 7}),
                      in.x({2, 4, 9, 13})},
                     {{"causal", true}});
     }},
    {"max_pool_grad",
     [](CaseInputs& in) {
       in.graph.call("max_pool_grad", {in.x({1, 2, 6, 8}), in.x({1, 2, 3, 4})},
                     {{"kernel_size", Ints{2, 2}}});
     }},
    {"roll",
     [](CaseInputs& in) {
       in.graph.call("roll", {in.x({5, 7})}, {{"shifts", Ints{2, -3}}, {"dims", Ints{0, 1}}});
     }},
    {"interpolate",
     [](CaseInputs& in) {
       in.graph.call("interpolate", {in.x({1, 2, 5, 7})},
                     {{"size", Ints{9, 4}}, {"mode", "bilinear"}});
     }},
    {"grid_sample",
     [](CaseInputs& in) {
       in.graph.call("grid_sample", {in.x({1, 2, 5, 7}), in.x({1, 3, 4, 2})});
     }},
    {"im2col",
     [](CaseInputs& in) {
       in.graph.call("im2col", {in.x({1, 2, 5, 7})}, {{"kernel_size", Ints{3, 2}}});
     }},
    {"col2im",
     [](CaseInputs& in) {
       in.graph.call("col2im", {in.x({1, 12, 18})},
                     {{"output_size", Ints{5, 7}}, {"kernel_size", Ints{3, 2}}});
     }},
    {"index",
     [](CaseInputs& in) {
       in.graph.call("index", {in.x({5, 7}), in.add({9}, i64)});
     }},
    {"index_put",
     [](CaseInputs& in) {
       in.graph.call("index_put", {in.x({5, 7}), in.x({3, 7}), in.add({3}, i64)},
                     {{"accumulate", true}});
     }},
    {"index_reduce",
     [](CaseInputs& in) {
       in.graph.call("index_reduce", {in.x({5, 7}), in.add({9}, i64), in.x({9, 7})},
                     {{"dim", 0}, {"reduce", "add"}});
     }},
    {"masked_scatter",
     [](CaseInputs& in) {
       in.graph.call("masked_scatter", {in.x({3, 37}), in.add({3, 37}, boolean), in.x({111})});
     }},
    {"searchsorted",
     [](CaseInputs& in) {
       in.graph.call("searchsorted", {in.add({5}, f32), in.x({3, 7})});
     }},
    {"cdist",
     [](CaseInputs& in) {
       in.graph.call("cdist", {in.x({2, 9, 5}), in.x({2, 7, 5})});
     }},
    {"slice_scatter",
     [](CaseInputs& in) {
       in.graph.call("slice_scatter", {in.x({5, 7}), in.x({2, 7})},
                     {{"dim", 0}, {"start", 1}, {"end", 5}, {"step", 2}});
     }},
    {"diagonal_scatter",
     [](CaseInputs& in) {
       in.graph.call("diagonal_scatter", {in.x({5, 7}), in.x({5})});
     }},
    {"rope",
     [](CaseInputs& in) {
       in.graph.call("rope", {in.x({2, 3, 5, 8}), in.x({5, 8}), in.x({5, 8})});
     }},
    {"linear_scan",
     [](CaseInputs& in) {
       in.graph.call("linear_scan", {in.x({3, 37}), in.x({3, 37})}, {{"dim", 1}});
     }},
    {"det",
     [](CaseInputs& in) {
       in.graph.call("det", {in.x({2, 5, 5})});
     }},
    {"det_grad",
     [](CaseInputs& in) {
       in.graph.call("det_grad", {in.x({2, 5, 5})});
     }},
    {"matrix_exp",
     [](CaseInputs& in) {
       in.graph.call("matrix_exp", {in.x({2, 5, 5})});
     }},
    {"fft",
     [](CaseInputs& in) {
       in.graph.call("fft", {in.x({3, 9, 2})}, {{"dim", 1}});
     }},
    {"solve_triangular",
     [](CaseInputs& in) {
       in.graph.call("solve_triangular", {in.x({2, 5, 5}), in.x({2, 5, 3})}, {{"upper", true}});
     }},
    {"all",
     [](CaseInputs& in) {
       in.graph.call("all", {in.add({3, 37}, boolean)}, {{"dim", Ints{0}}});
     }},
    {"any",
     [](CaseInputs& in) {
       in.graph.call("any", {in.add({3, 37}, boolean)}, {{"dim", Ints{0}}});
     }},
};

std::vector<void (*)(CaseInputs&)> cases_of(std::string_view name) {
  std::vector<void (*)(CaseInputs&)> rows;
  for (const std::span<const Case> cases : {std::span<const Case>(kCases), rare_cases()})
    for (const Case& row : cases)
      if (row.op == name) rows.push_back(row.build);
  return rows;
}

// The op with its required number of inputs, one of which is broadcast.
void build_plainly(CaseInputs& in, const Op& op, DType dtype) {
  std::vector<Value> xs;
  NamedAttrs attrs;
  for (const Signature::Input& input : op.signature.inputs)
    if (!input.optional) xs.push_back(in.add(xs.empty() ? Sizes{3, 37} : Sizes{37}, dtype));
  if (op.signature.find_attribute("dim") >= 0) attrs = {{"dim", 1}};
  in.graph.call(op.name(), xs, attrs);
}

}  // namespace

void fill_case(const Tensor& tensor, int64_t seed) {
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const int64_t at = (i * 7 + seed * 5) % 31;
    const int64_t whole = tensor.dtype == i64   ? at % 5
                          : tensor.dtype == i32 ? at
                          : tensor.dtype == i8  ? at * 37 % 256 - 128
                          : tensor.dtype == u8  ? at * 37 % 256
                                                : at % 2 == 0;
    set_element(tensor, i,
                is_float(tensor.dtype) ? 0.1 + 0.8 * static_cast<double>(at) / 31
                                       : static_cast<double>(whole));
  }
}

bool has_self_test_cases(std::string_view kernel) { return !cases_of(kernel).empty(); }

std::vector<Graph> self_test_cases(const Op& op, DType real, const Registry& registry,
                                   std::string_view kernel) {
  std::vector<void (*)(CaseInputs&)> rows = cases_of(str_cat(op.name(), "=", kernel));
  if (rows.empty()) rows = cases_of(op.name());
  std::vector<Graph> graphs;
  for (const DType dtype : {real, i32, boolean}) {
    for (size_t i = 0; i < std::max<size_t>(1, rows.size()); ++i) {
      Graph graph(registry);
      CaseInputs in{graph, dtype};
      if (rows.empty())
        build_plainly(in, op, dtype);
      else
        rows[i](in);
      if (!graph.status().ok() || graph.nodes().empty()) continue;
      int k = 0;
      for (const ValueId id : graph.nodes().back().outputs)
        graph.output(str_cat("y", k++), Value(&graph, id));
      graphs.push_back(std::move(graph));
    }
    if (!graphs.empty()) break;
  }
  return graphs;
}

}  // namespace hg
