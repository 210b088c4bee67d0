// SPDX-License-Identifier: Apache-2.0
#include "lib/run/self_test.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "hg/pointwise_program.h"
#include "lib/graph/access.h"
#include "lib/graph/element.h"
#include "lib/run/backend.h"
#include "lib/run/checksum.h"
#include "lib/run/program.h"

namespace hg {
namespace {

// Counted up when a shader or a case changes: verdicts of earlier ones no longer hold.
constexpr std::string_view kVersion = "self-test 8";

// Adds the inputs of a case to its graph.
struct Inputs {
  Graph& graph;
  DType real;
  int count = 0;
  Value add(const Sizes& shape, DType dtype) {
    std::vector<Dim> dims(shape.begin(), shape.end());
    return graph.input(text("x", count++), dtype, Shape(dims));
  }
  Value x(const Sizes& shape) { return add(shape, real); }
};

using Ints = std::vector<Dim>;

// An optimizer's step with all that it may be given. fill() makes the second input true and the
// seventh 4: `go` and the number of the step.
void build_step(Inputs& in, std::string_view op, int states, NamedAttrs attrs) {
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

// Two channels of y for each of x, in strips that do not fill.
void build_depthwise(Inputs& in) {
  in.graph.call("conv", {in.x({2, 5, 23, 13}), in.x({10, 1, 3, 5}), in.x({10})},
                {{"groups", 5}, {"stride", Ints{2, 1}}, {"padding", Ints{1, 2}}});
}

// Values that repeat after 31 elements: between 0.1 and 0.9, or small numbers that serve as
// indices.
void fill(const Tensor& tensor, int64_t seed) {
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const int64_t at = (i * 7 + seed * 5) % 31;
    const int64_t whole = tensor.dtype == i64 ? at % 5 : tensor.dtype == i32 ? at : at % 2 == 0;
    set_element(tensor, i,
                is_float(tensor.dtype) ? 0.1 + 0.8 * static_cast<double>(at) / 31
                                       : static_cast<double>(whole));
  }
}

// Odd sizes beyond a vector, so that the edges of tiles are seen; products large enough for the
// largest tiles.
struct Case {
  std::string_view op;  // or "op=kernel", where it is for that kernel alone
  void (*build)(Inputs& in);
};
constexpr Case kCases[] = {
    {"matmul",
     [](Inputs& in) {
       in.graph.call("matmul", {in.x({2, 51, 67}), in.x({67, 45})});
     }},
    {"linear",
     [](Inputs& in) {
       in.graph.call("linear", {in.x({67, 66}), in.x({69, 66}), in.x({69}), in.x({67, 69})},
                     {{"activation", "relu"}});
     }},
    {"conv",
     [](Inputs& in) {
       in.graph.call("conv", {in.x({2, 19, 31, 13}), in.x({18, 19, 3, 3}), in.x({18})},
                     {{"stride", Ints{2, 1}}, {"padding", Ints{1}}});
     }},
    {"conv=winograd",
     [](Inputs& in) {
       const Result<TensorData> w = TensorData::allocate(f32, {18, 19, 3, 3});
       if (!w.ok()) return;
       fill(w->tensor, 7);
       in.graph.call("conv", {in.x({2, 19, 13, 10}), in.graph.parameter("w", *w), in.x({18})},
                     {{"padding", Ints{1, 0}}, {"activation", "relu"}});
     }},
    {"conv=depthwise_lanes", build_depthwise},
    {"conv=depthwise", build_depthwise},
    {"attention",
     [](Inputs& in) {
       in.graph.call(
           "attention",
           {in.x({2, 4, 21, 12}), in.x({2, 2, 19, 12}), in.x({2, 2, 19, 13}), in.x({21, 19})},
           {{"causal", true}});
     }},
    {"conv_weight_grad",
     [](Inputs& in) {
       in.graph.call("conv_weight_grad", {in.x({2, 5, 9, 21}), in.x({2, 18, 5, 11})},
                     {{"kernel", Ints{3, 3}}, {"stride", Ints{2}}, {"padding", Ints{1}}});
     }},
    {"pointwise_program",
     [](Inputs& in) {
       in.graph.call("pointwise_program", {in.x({3, 37}), in.x({37}), in.x({1})},
                     {{"program",
                       "mul x0 x1; leaky_relu s0 negative_slope=0.2; ge s1 x2; "
                       "where s2 s1 x0; clamp s3 - x2"}});
     }},
    {"kthvalue",
     [](Inputs& in) {
       in.graph.call("kthvalue", {in.x({3, 37})}, {{"k", 5}});
     }},
    {"topk",
     [](Inputs& in) {
       in.graph.call("topk", {in.x({7, 37})}, {{"k", 5}, {"dim", 0}});
     }},
    {"sgd_step",
     [](Inputs& in) {
       build_step(in, "sgd_step", 1, {{"momentum", 0.9}, {"nesterov", true}});
     }},
    {"adam_step",
     [](Inputs& in) {
       build_step(in, "adam_step", 3, {{"decoupled", true}});
     }},
    {"rmsprop_step",
     [](Inputs& in) {
       build_step(in, "rmsprop_step", 3, {{"momentum", 0.9}});
     }},
    {"concat",
     [](Inputs& in) {
       in.graph.call("concat", {in.x({3, 5}), in.x({3, 7})}, {{"dim", 1}});
     }},
    {"pad",
     [](Inputs& in) {
       in.graph.call("pad", {in.x({5, 7})}, {{"pads", Ints{1, 2, 0, 3}}});
     }},
    {"gather",
     [](Inputs& in) {
       in.graph.call("gather", {in.x({5, 7}), in.add({3, 7}, i64)}, {{"dim", 0}});
     }},
    {"index_select",
     [](Inputs& in) {
       in.graph.call("index_select", {in.x({5, 7}), in.add({9}, i64)}, {{"dim", 1}});
     }},
    {"embedding",
     [](Inputs& in) {
       in.graph.call("embedding", {in.x({5, 7}), in.add({2, 3}, i64)});
     }},
    {"scatter=sequential",
     [](Inputs& in) {
       in.graph.call("scatter", {in.x({2, 7, 40}), in.add({2, 9, 33}, i64), in.x({2, 9, 33})},
                     {{"dim", 1}, {"reduce", "add"}});
     }},
    {"scatter",
     [](Inputs& in) {
       in.graph.call("scatter", {in.x({5, 7}), in.add({3, 7}, i64), in.x({3, 7})},
                     {{"dim", 0}, {"reduce", "add"}});
     }},
    {"where",
     [](Inputs& in) {
       in.graph.call("where", {in.add({3, 37}, boolean), in.x({3, 37}), in.x({37})});
     }},
    {"clamp",
     [](Inputs& in) {
       in.graph.call("clamp", {in.x({3, 37}), in.x({1}), in.x({37})});
     }},
    {"cast",
     [](Inputs& in) {
       in.graph.call("cast", {in.x({3, 37})}, {{"dtype", i64}});
     }},
    {"threshold",
     [](Inputs& in) {
       in.graph.call("threshold", {in.x({3, 37})}, {{"threshold", 0.4}, {"value", -1.5}});
     }},
    {"layer_norm",
     [](Inputs& in) {
       in.graph.call("layer_norm", {in.x({3, 37}), in.x({37}), in.x({37})},
                     {{"normalized_shape", Ints{37}}});
     }},
    {"rms_norm",
     [](Inputs& in) {
       in.graph.call("rms_norm", {in.x({3, 37}), in.x({37})}, {{"normalized_shape", Ints{37}}});
     }},
    {"group_norm",
     [](Inputs& in) {
       in.graph.call("group_norm", {in.x({2, 6, 7}), in.x({6}), in.x({6})}, {{"groups", 3}});
     }},
    {"max_pool",
     [](Inputs& in) {
       in.graph.call("max_pool", {in.x({1, 2, 7, 9})}, {{"kernel_size", Ints{3, 2}}});
     }},
    {"max_pool_with_indices",
     [](Inputs& in) {
       in.graph.call("max_pool_with_indices", {in.x({1, 2, 7, 9})}, {{"kernel_size", Ints{3, 2}}});
     }},
    {"avg_pool",
     [](Inputs& in) {
       in.graph.call("avg_pool", {in.x({1, 2, 7, 9})},
                     {{"kernel_size", Ints{3, 2}}, {"padding", Ints{1}}});
     }},
    {"avg_pool_grad",
     [](Inputs& in) {
       in.graph.call("avg_pool_grad", {in.x({1, 2, 3, 4})},
                     {{"input_size", Ints{6, 8}}, {"kernel_size", Ints{2, 2}}});
     }},
    {"adaptive_avg_pool",
     [](Inputs& in) {
       in.graph.call("adaptive_avg_pool", {in.x({1, 2, 7, 9})}, {{"output_size", Ints{3, 2}}});
     }},
    {"adaptive_avg_pool_grad",
     [](Inputs& in) {
       in.graph.call("adaptive_avg_pool_grad", {in.x({1, 2, 3, 2})}, {{"input_size", Ints{7, 9}}});
     }},
    {"adaptive_max_pool",
     [](Inputs& in) {
       in.graph.call("adaptive_max_pool", {in.x({1, 2, 7, 9})}, {{"output_size", Ints{3, 2}}});
     }},
};

const Case* case_named(std::string_view name) {
  return std::find_if(std::begin(kCases), std::end(kCases),
                      [&](const Case& c) { return c.op == name; });
}

// The op on as many inputs as it must have; one of them is broadcast.
void build_plainly(Inputs& in, const Op& op, DType dtype) {
  std::vector<Value> xs;
  NamedAttrs attrs;
  for (const Signature::Input& input : op.signature.inputs)
    if (!input.optional) xs.push_back(in.add(xs.empty() ? Sizes{3, 37} : Sizes{37}, dtype));
  if (op.signature.find_attribute("dim") >= 0) attrs = {{"dim", 1}};
  in.graph.call(op.name(), xs, attrs);
}

Result<std::vector<TensorData>> answers(Graph graph, const Options& options,
                                        const Registry& registry, double& ms) {
  HG_TRY_ASSIGN(const std::unique_ptr<Program> program,
                Program::create(std::move(graph), options, registry));
  HG_TRY_ASSIGN(const std::vector<TensorData> inputs, program->give_zeros(Bindings()));
  for (size_t i = 0; i < inputs.size(); ++i) fill(inputs[i].tensor, static_cast<int64_t>(i) + 1);
  HG_TRY(program->plan({}));
  const auto begin = std::chrono::steady_clock::now();
  HG_TRY(program->run());
  ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return program->copies_of_outputs();
}

bool agree(const std::vector<TensorData>& got, const std::vector<TensorData>& expected) {
  for (size_t k = 0; k < expected.size(); ++k) {
    const Tensor &a = got[k].tensor, &b = expected[k].tensor;
    if (!(a.shape == b.shape) || a.dtype != b.dtype) return false;
    const double tolerance = size_of(b.dtype) == 2 ? 2e-2 : 1e-4;
    for (int64_t i = 0; i < b.count(); ++i) {
      const double x = element(a, i), y = element(b, i);
      if (std::isnan(x) && std::isnan(y)) continue;
      if (x != y && !(std::abs(x - y) <= tolerance * (1 + std::abs(y)))) return false;
    }
  }
  return true;
}

// A kernel that does not take the case is not judged by it. Fails when the device does.
Result<DeviceTimes> judge(const KernelDef& kernel, const Op& op, DType real, const Options& given,
                          const Registry& registry) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  Options options;
  options.threads = 1;
  options.parallel_for = given.parallel_for;
  options.keep_all_values = true;  // no passes
  DeviceTimes times;
  const Graph graph = self_test_case(op, real, registry, kernel.name);
  if (graph.outputs().empty()) return times;
  const Result<std::vector<TensorData>> expected = answers(graph, options, registry, times.cpu_ms);
  if (!expected.ok()) return times;
  options.device = Device::vulkan;
  options.gpu = given.gpu;
  options.kernels = {text(kernel.op, "=", kernel.name)};
  Result<std::vector<TensorData>> got = answers(graph, options, registry, times.gpu_ms);
  if (!got.ok()) {
    const Code code = got.status().code();
    if (code == Code::device_lost || code == Code::out_of_memory) return got.status();
    if (code != Code::unsupported) times.gpu_ms = kWrong;
    return times;
  }
  if (backend_of(given.gpu).fails_self_test.count(options.kernels[0])) got->front() = {};
  if (!agree(*got, *expected)) times.gpu_ms = kWrong;
  return times;
}

}  // namespace

Graph self_test_case(const Op& op, DType real, const Registry& registry, std::string_view kernel) {
  const Case* row = case_named(text(op.name(), "=", kernel));
  if (row == std::end(kCases)) row = case_named(op.name());
  for (const DType dtype : {real, i32, boolean}) {
    Graph graph(registry);
    Inputs in{graph, dtype};
    if (row != std::end(kCases))
      row->build(in);
    else
      build_plainly(in, op, dtype);
    if (!graph.status().ok() || graph.nodes().empty()) continue;
    int k = 0;
    for (const ValueId id : graph.nodes().back().outputs)
      graph.output(text("y", k++), Value(&graph, id));
    return graph;
  }
  return Graph(registry);
}

Result<std::set<std::string>> distrusted_kernels(const Graph& graph, const Options& options,
                                                 const Registry& registry) {
  std::set<std::string> distrusted;
  if (!options.kernels.empty()) return distrusted;
  std::set<std::string> joined;  // kernels whose functions are parts of programs
  std::set<std::pair<const Op*, DType>> used = {{registry.find("contiguous"), f32}};
  for (const Node& node : graph.nodes()) {
    DType real = f32;
    for (const ValueId id : node.inputs)
      if (id != kNoValue && size_of(graph.value_info(id).type.dtype) == 2 &&
          is_float(graph.value_info(id).type.dtype))
        real = graph.value_info(id).type.dtype;
    used.insert({node.op, real});
    if (node.op->name() != "pointwise_program") continue;
    HG_TRY_ASSIGN(const PointwiseProgram program,
                  PointwiseProgram::parse(AttrReader(node.op, node.attrs).string("program"),
                                          static_cast<int>(node.inputs.size()), registry));
    for (const PointwiseProgram::Step& step : program.steps) {
      used.insert({step.op, real});
      joined.insert(text(step.op->name(), "=pointwise"));
    }
  }
  MeasuredTimes& measured = backend_of(options.gpu).measured;
  const DeviceInfo& info = options.gpu.info();
  for (const auto& [op, real] : used) {
    if (op == nullptr) continue;
    for (const KernelDef* kernel : registry.kernels(op->name(), Device::vulkan)) {
      const std::string name = text(kernel->op, "=", kernel->name);
      const std::string all =
          text(kVersion, ";", info.name, ";", info.driver, ";", name, ";", hg::name(real));
      const uint64_t key = checksum_of(std::as_bytes(std::span(all)));
      std::optional<DeviceTimes> verdict = measured.find(key);
      if (!verdict) {
        HG_TRY_ASSIGN(verdict, judge(*kernel, *op, real, options, registry));
        measured.note(key, *verdict);
      }
      if (std::isinf(verdict->gpu_ms))
        distrusted.insert(name);
      else if (verdict->gpu_ms > 0 && case_named(name) == std::end(kCases))
        break;  // those behind it are not needed
    }
  }
  for (const std::string& name : joined)
    if (distrusted.count(name) > 0) distrusted.insert("pointwise_program=pointwise");
  return distrusted;
}

}  // namespace hg
