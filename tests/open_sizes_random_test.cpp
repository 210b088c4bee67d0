// SPDX-License-Identifier: Apache-2.0
// Random graphs with one open size, and their gradients, at several sizes in one session, against
// the same graph with that size fixed and no passes. A failing graph prints the command that
// repeats it alone.
//
//   open_sizes_random_test [--graphs=200] [--first=0] [--print] [--vulkan=DEVICE]
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "hg/hg.h"
#include "tests/elements.h"
#include "tests/random_graph.h"
#include "tests/random_options.h"

namespace hg::test {
namespace {

uint64_t first_graph = 0, graph_count = 200;
bool prints_graphs = false;
std::string vulkan_device;
int compared = 0;

// A random graph built again with other sizes.
struct Built {
  Graph graph;
  std::vector<Value> inputs;
  std::vector<Tensor> data;    // of each, at the sizes of the random graph
  std::vector<bool> is_built;  // by node: whether its op took the inputs
  std::vector<std::string> steady;
};

// Ops that make a jump of a rounding, beside those whose result is no float.
bool jumps(const Op& op) {
  static const std::set<std::string_view> kJumps = {
      "floor",      "ceil",     "round",  "trunc",   "sign", "hardshrink",
      "softshrink", "copysign", "atan2",  "max",     "min",  "sort",
      "topk",       "median",   "cummax", "cumprod", "fmod", "remainder"};
  return kJumps.contains(op.name());
}

// Each size `from` becomes `to`, in inputs and in the attributes that name shapes. With `only`,
// exactly those nodes are built.
Built build(const Graph& source, const std::vector<RandomInput>& given, int64_t from, const Dim& to,
            const std::vector<bool>* only) {
  Built made;
  Graph& g = made.graph;
  std::map<ValueId, Value> values;
  std::set<ValueId> unsteady;
  const auto size = [&](const Dim& dim) { return dim == Dim(from) ? to : dim; };
  const auto add_input = [&](ValueId id, std::string name, const Tensor& tensor) {
    Shape shape;
    for (const int64_t each : tensor.shape) shape.push_back(size(each));
    made.inputs.push_back(values[id] = g.input(std::move(name), tensor.dtype, shape));
    made.data.push_back(tensor);
  };
  for (const ValueId id : source.inputs())
    for (const RandomInput& input : given)
      if (input.name == source.value_info(id).name) add_input(id, input.name, input.data.tensor);
  for (const State& state : source.states())
    add_input(state.value, str_cat("state", int64_t{state.value}), state.data.tensor);
  for (size_t i = 0; i < source.nodes().size(); ++i) {
    const Node& node = source.nodes()[i];
    bool fits = only == nullptr || (*only)[i], is_unsteady = jumps(*node.op), has_floats = false;
    std::vector<Value> inputs;
    for (const ValueId id : node.inputs) {
      fits = fits && (id == kNoValue || values.contains(id));
      inputs.push_back(fits && id != kNoValue ? values.at(id) : Value());
      is_unsteady |= unsteady.contains(id);
      has_floats |= inputs.back() && is_float(inputs.back().dtype());
    }
    NamedAttrs attrs;
    for (size_t k = 0; k < node.attrs.size(); ++k) {
      const std::string_view name = node.op->signature.attributes[k].name;
      attrs.push_back({name, node.attrs[k]});
      if (auto* const dims = std::get_if<std::vector<Dim>>(&attrs.back().value.value))
        if (name == "shape" || name == "normalized_shape" || name == "size")
          std::transform(dims->begin(), dims->end(), dims->begin(), size);
    }
    std::vector<Value> outputs;
    if (fits) outputs = g.calls(node.op->name(), inputs, attrs);
    made.is_built.push_back(fits && g.take_status().ok());
    for (size_t k = 0; made.is_built.back() && k < outputs.size(); ++k) {
      values[node.outputs[k]] = outputs[k];
      if (is_unsteady || (has_floats && !is_float(outputs[k].dtype())))
        unsteady.insert(node.outputs[k]);
    }
  }
  std::vector<Value> ys, xs;
  for (const auto& [id, value] : values) {
    if (source.value_info(id).node < 0) {
      if (is_float(value.dtype())) xs.push_back(value);
      continue;
    }
    const std::string name = str_cat("y", int64_t{id});
    g.output(name, value);
    if (unsteady.contains(id)) continue;
    made.steady.push_back(name);
    if (is_float(value.dtype())) ys.push_back(sum(sin(value)));
  }
  const std::vector<Value> slopes = gradients(ys, xs);
  if (!g.take_status().ok()) return made;  // of an op without one
  for (size_t i = 0; i < slopes.size(); ++i) {
    made.steady.push_back(str_cat("dx", uint64_t{i}));
    g.output(made.steady.back(), slopes[i]);
  }
  return made;
}

// The data of an input, or numbers of its range where the shape is another one.
TensorData data_for(const Tensor& known, const Sizes& shape, std::mt19937_64& random) {
  if (shape == known.shape) return *TensorData::copy_of(known);
  const std::vector<double> all = read_all(known);
  const auto [least, most] = std::minmax_element(all.begin(), all.end());
  TensorData data = *TensorData::allocate(known.dtype, shape);
  for (int64_t i = 0; i < shape.count(); ++i) {
    const double part = static_cast<double>(random() >> 11) * 0x1p-53;
    const double x = all.empty() ? 0 : *least + (*most - *least) * part;
    write_element(data.tensor, i, is_float(known.dtype) ? x : std::round(x));
  }
  return data;
}

double step_of(DType dtype) {
  return dtype == f64 ? 0x1p-52 : dtype == f32 ? 0x1p-23 : dtype == f16 ? 0x1p-10 : 0x1p-7;
}
double widest_step(const Graph& graph) {
  double step = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (const DType dtype = graph.value_info(id).type.dtype; is_float(dtype))
      step = std::max(step, step_of(dtype));
  return step;
}

std::string differ(const Tensor& got, const Tensor& right, double tolerance) {
  if (got.dtype != right.dtype || !(got.shape == right.shape))
    return str_cat("is ", got.dtype, got.shape, ", not ", right.dtype, right.shape);
  const std::vector<double> a = read_all(got), b = read_all(right);
  double most = 0;
  for (const double x : b) most = std::max(most, std::isfinite(x) ? std::abs(x) : 0);
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      std::abs(a[i] - b[i]) <= tolerance * (1 + most);
    if (!same) return str_cat("at ", uint64_t{i}, " is ", a[i], ", not ", b[i]);
  }
  return "";
}

std::string check_graph(uint64_t seed, const SessionOptions& options) {
  std::mt19937_64 random(seed);
  const RandomGraph made = random_graph(seed);
  std::set<int64_t> sizes;
  for (const RandomInput& input : made.inputs)
    sizes.insert(input.data.tensor.shape.begin(), input.data.tensor.shape.end());
  if (sizes.empty()) return "";
  const int64_t usual = *std::next(sizes.begin(), static_cast<int64_t>(random() % sizes.size()));
  const Built open = build(made.graph, made.inputs, usual, "n", nullptr);
  if (open.steady.empty()) return "";
  if (prints_graphs) std::printf("%s", open.graph.text().c_str());
  const double tolerance = 4096 * widest_step(open.graph);
  Result<Session> session = Session::create(*Model::from_graph(open.graph), options);
  if (!session.ok()) return std::string(session.status().message());
  std::vector<TensorData> data;
  for (const int64_t n : {usual, int64_t{1}, int64_t{4}, int64_t{19}}) {
    const Built fixed = build(made.graph, made.inputs, usual, n, &open.is_built);
    if (fixed.is_built != open.is_built) continue;  // this size does not fit
    Result<Session> plain =
        Session::create(*Model::from_graph(fixed.graph), {.threads = 1, .disabled_passes = {"*"}});
    if (!plain.ok()) return std::string(plain.status().message());
    std::vector<TensorData> old = std::exchange(data, {});  // set until the new ones are
    Bindings bindings;
    if (!bindings.bind("n", n).ok()) return "n";
    for (size_t i = 0; i < open.inputs.size(); ++i) {
      data.push_back(data_for(open.data[i], *evaluate(open.inputs[i].shape(), bindings), random));
      const std::string& name = open.inputs[i].name();
      if (const Status set = session->set_input(name, data.back().tensor); !set.ok())
        return std::string(set.message());
      if (const Status set = plain->set_input(name, data.back().tensor); !set.ok())
        return std::string(set.message());
    }
    // A guard may leave out a size that would do.
    if (!session->run().ok() || !plain->run().ok()) continue;
    ++compared;
    for (const std::string& name : open.steady) {
      const Result<Tensor> right = plain->output(name);
      if (!right.ok()) continue;  // of a gradient that only open sizes have
      const std::string bad = differ(*session->output(name), *right, tolerance);
      if (!bad.empty()) return str_cat("with n=", n, ", ", name, " ", bad);
    }
  }
  return "";
}

TEST(OpenSizesRandom, GiveWhatFixedSizesGive) {
  SessionOptions options{.threads = 2};
  if (!vulkan_device.empty()) {
    options.device = Device::vulkan;
    Result<Gpu> gpu = Gpu::open({.name = vulkan_device});
    ASSERT_TRUE(gpu.ok()) << gpu.status().message();
    options.gpu = *std::move(gpu);
  }
  for (uint64_t seed = first_graph; seed < first_graph + graph_count; ++seed)
    EXPECT_EQ(check_graph(seed, options), "")
        << "repeat with: open_sizes_random_test --graphs=1 --first=" << seed;
  std::printf("%d sizes of %d graphs compared\n", compared, static_cast<int>(graph_count));
  if (graph_count >= 100) {
    EXPECT_GT(compared, static_cast<int>(graph_count));
  }
}

}  // namespace
}  // namespace hg::test

int main(int argc, char** argv) {
  return hg::test::run_with_options(argc, argv,
                                    [](const std::string& name, const std::string& value) {
                                      if (name == "graphs")
                                        hg::test::graph_count = std::stoull(value);
                                      if (name == "first")
                                        hg::test::first_graph = std::stoull(value);
                                      if (name == "print") hg::test::prints_graphs = true;
                                      if (name == "vulkan") hg::test::vulkan_device = value;
                                    });
}
