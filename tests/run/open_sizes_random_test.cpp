// SPDX-License-Identifier: Apache-2.0
// Random graphs with one open size, and their gradients, at several sizes in one session, against
// the same graph with that size fixed and no passes. HG_VULKAN=DEVICE runs the former on a device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "hg/hg.h"
#include "hg/train.h"
#include "tests/support/elements.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"
#include "tests/support/random_graph.h"

namespace hg::test {
namespace {

int compared = 0, in_ranges = 0;

// A random graph built again with different sizes.
struct Built {
  Graph graph;
  std::vector<Value> inputs;
  std::vector<Tensor> data;    // of each input, at the sizes of the random graph
  std::vector<bool> is_built;  // by node: whether its op accepted the inputs
  std::vector<std::string> steady;
};

// Ops whose result can jump after a rounding, besides ops with results that are not floats.
bool jumps(const Op& op) {
  static const std::set<std::string_view> kJumps = {
      "floor",      "ceil",     "round",  "trunc",   "sign", "hardshrink",
      "softshrink", "copysign", "atan2",  "max",     "min",  "sort",
      "topk",       "median",   "cummax", "cumprod", "fmod", "remainder"};
  return kJumps.contains(op.name());
}

// Replaces each size `from` by `to`, in inputs and in attributes that contain shapes. With `only`,
// builds exactly those nodes.
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
  const std::vector<Value> slopes = grad(ys, xs);
  if (!g.take_status().ok()) return made;  // an op has no gradient
  for (size_t i = 0; i < slopes.size(); ++i) {
    made.steady.push_back(str_cat("dx", uint64_t{i}));
    g.output(made.steady.back(), slopes[i]);
  }
  return made;
}

// The data of an input, or numbers of the same range if its shape differs.
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

// Empty if the tensors have the same bits; otherwise the difference.
std::string differ_in_bits(const Tensor& got, const Tensor& right) {
  if (got.dtype != right.dtype || !(got.shape == right.shape))
    return str_cat("is ", got.dtype, got.shape, ", not ", right.dtype, right.shape);
  const TensorData a = *TensorData::copy_of(got), b = *TensorData::copy_of(right);
  const auto bytes = static_cast<size_t>(a.tensor.bytes());
  return bytes == 0 || std::memcmp(a.tensor.data, b.tensor.data, bytes) == 0 ? ""
                                                                             : "has other bits";
}

// One session at many sizes in turn, compared with a new session at each size.
std::string check_sequence(uint64_t seed, SessionOptions options) {
  std::mt19937_64 random(seed);
  const RandomGraph made = random_graph(seed);
  std::set<int64_t> sizes;
  for (const RandomInput& input : made.inputs)
    sizes.insert(input.data.tensor.shape.begin(), input.data.tensor.shape.end());
  if (sizes.empty()) return "";
  const int64_t usual = *std::next(sizes.begin(), static_cast<int64_t>(random() % sizes.size()));
  const Built open = build(made.graph, made.inputs, usual, "n", nullptr);
  if (open.steady.empty()) return "";
  const bool has_n = open.graph.symbols() == std::vector<std::string>{"n"};
  if (random() % 3 == 0 && has_n)
    options.ranges = {{"n", int64_t(random() % 3), 4 + int64_t(random() % 30)}};
  options.keep_all_values = random() % 4 == 0;
  options.profile = random() % 4 == 0;
  const Model model = *Model::from_graph(open.graph);
  Result<Session> session = Session::create(model, options);
  // The model does not accept the highest size of a range.
  if (!session.ok() && !options.ranges.empty()) return "";
  if (!session.ok()) return std::string(session.status().message());
  std::vector<TensorData> data, old, bound;
  for (int turn = 0; turn < 12; ++turn) {
    const int64_t n = random() % 4 == 0 ? usual : static_cast<int64_t>(random() % 33);
    Result<Session> fresh = Session::create(*Model::from_graph(open.graph),
                                            {.device = options.device,
                                             .threads = options.threads,
                                             .profile = options.profile,
                                             .keep_all_values = options.keep_all_values});
    if (!fresh.ok()) return std::string(fresh.status().message());
    Bindings bindings;
    if (!bindings.bind("n", n).ok()) return "n";
    old = std::exchange(data, {});  // the session uses them until new ones are set
    for (size_t i = 0; i < open.inputs.size(); ++i) {
      data.push_back(data_for(open.data[i], *evaluate(open.inputs[i].shape(), bindings), random));
      const std::string& name = open.inputs[i].name();
      if (const Status set = session->set_input(name, data.back().tensor); !set.ok())
        return std::string(set.message());
      if (const Status set = fresh->set_input(name, data.back().tensor); !set.ok())
        return std::string(set.message());
    }
    const Status right_status = fresh->run();
    Status status;
    bound.clear();
    if (right_status.ok() && random() % 4 == 0)
      for (int i = 0; i < session->output_count(); ++i) {
        const Tensor right = *fresh->output(i);
        bound.push_back(*TensorData::allocate(right.dtype, right.shape));
        if (const Status set = session->set_output(i, bound.back().tensor); !set.ok())
          return std::string(set.message());
      }
    if (random() % 4 == 0) {
      for (bool more = true; more && status.ok();) {
        const Result<std::optional<StepRow>> row = session->step();
        if (!row.ok()) status = Status(row.status().code(), std::string(row.status().message()));
        more = row.ok() && row->has_value();
      }
    } else {
      status = session->run();
    }
    if (status.ok() != right_status.ok() || status.message() != right_status.message())
      return str_cat("with n=", n, " it says '", status.message(), "', not '",
                     right_status.message(), "'");
    if (!status.ok()) continue;
    ++compared;
    in_ranges += session->report().find("planned for ") != std::string::npos;
    for (int i = 0; i < session->output_count(); ++i) {
      const std::string bad = differ_in_bits(*session->output(i), *fresh->output(i));
      if (!bad.empty())
        return str_cat("with n=", n, " in turn ", turn, ", ", session->output_name(i), " ", bad);
    }
    for (int i = 0; i < session->output_count() && !bound.empty(); ++i)
      (void)session->set_output(i, Tensor{nullptr, session->output_type(i).dtype, {}, {}});
    for (const ProfileRow& row : fresh->profile()) {
      const std::vector<ProfileRow> rows = session->profile();
      if (std::none_of(rows.begin(), rows.end(),
                       [&](const ProfileRow& other) {
                         return other.node == row.node && other.op == row.op &&
                                other.kernel == row.kernel && other.flops == row.flops &&
                                other.bytes == row.bytes;
                       }) &&
          row.op != "concat" && row.op != "contiguous")
        return str_cat("with n=", n, ", '", row.node, "' has no step by ", row.kernel);
    }
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
  if (prints_graphs()) std::printf("%s", open.graph.text().c_str());
  const double tolerance = 4096 * widest_step(open.graph);
  Result<Session> session = Session::create(*Model::from_graph(open.graph), options);
  if (!session.ok()) return std::string(session.status().message());
  std::vector<TensorData> data;
  for (const int64_t n : {usual, int64_t{1}, int64_t{4}, int64_t{19}}) {
    const Built fixed = build(made.graph, made.inputs, usual, n, &open.is_built);
    if (fixed.is_built != open.is_built) continue;  // some op does not accept this size
    Result<Session> plain =
        Session::create(*Model::from_graph(fixed.graph), {.threads = 1, .disabled_passes = {"*"}});
    if (!plain.ok()) return std::string(plain.status().message());
    std::vector<TensorData> old = std::exchange(data, {});  // kept until new ones are set
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
    // A guard may exclude a size that would work.
    if (!session->run().ok() || !plain->run().ok()) continue;
    ++compared;
    for (const std::string& name : open.steady) {
      const Result<Tensor> right = plain->output(name);
      if (!right.ok()) continue;  // a gradient that exists only with open sizes
      const std::string bad = differ(*session->output(name), *right, tolerance);
      if (!bad.empty()) return str_cat("with n=", n, ", ", name, " ", bad);
    }
  }
  return "";
}

TEST(OpenSizesRandom, GiveWhatFixedSizesGive) {
  SessionOptions options{.threads = 2};
  if (const std::string name = chosen("HG_VULKAN"); !name.empty()) {
    options.device = Device::vulkan;
    options.gpu = must(Gpu::open({.name = name}));
  }
  for_cases(200, [&](uint64_t seed) { EXPECT_EQ(check_graph(seed, options), ""); });
  std::printf("%d sizes compared\n", compared);
  if (case_count(200) >= 100) {
    EXPECT_GT(compared, case_count(200));
  }
}

TEST(OpenSizesRandom, GiveTheBitsOfANewSessionAtEachSizeOfASequence) {
  compared = in_ranges = 0;
  for_cases(200, [](uint64_t seed) {
    EXPECT_EQ(check_sequence(seed, {.threads = 1 + static_cast<int>(seed % 3)}), "");
  });
  std::printf("%d sizes compared, %d of them in ranges\n", compared, in_ranges);
  EXPECT_GT(in_ranges, compared / 4);
}

}  // namespace
}  // namespace hg::test
