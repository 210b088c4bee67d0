// SPDX-License-Identifier: Apache-2.0
// Random graphs, run without passes and with all of them. Every node of the first run is compared
// with the double loops of kernels/reference, every result of the second with the first. Both run
// twice, because states change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "kernels/reference/rounded.h"
#include "tests/support/elements.h"
#include "tests/support/random_case.h"
#include "tests/support/random_graph.h"

namespace hg::test {
namespace {

// The distance of 1 to the next number.
double step_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-52;
    case DType::f32:
      return 0x1p-23;
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return 0;
  }
}

bool is_near(double got, double expected, double tolerance) {
  return got == expected || (std::isnan(got) && std::isnan(expected)) ||
         std::abs(got - expected) <= tolerance;
}

double most_of(const std::vector<double>& values) {
  double most = 0;
  for (double x : values) most = std::max(most, std::isfinite(x) ? std::abs(x) : 0);
  return most;
}

// A graph in a session; if `strided`, its inputs have gaps.
struct Running {
  Session session;
  std::vector<TensorData> gaps;

  static Result<Running> create(const RandomGraph& random, const Model& model,
                                SessionOptions options, bool strided = false) {
    HG_TRY_ASSIGN(Session session, Session::create(model, std::move(options)));
    Running made{std::move(session), {}};
    for (const RandomInput& input : random.inputs) {
      Tensor tensor = input.data.tensor;
      if (strided && tensor.rank() > 0) {
        Sizes wide = tensor.shape;
        wide[wide.rank() - 1] *= 2;
        HG_TRY_ASSIGN(TensorData data, TensorData::allocate(tensor.dtype, wide));
        Tensor spread = data.tensor;
        spread.shape = tensor.shape;
        spread.strides[spread.rank() - 1] = 2;
        copy_elements(tensor, spread);
        made.gaps.push_back(std::move(data));
        tensor = spread;
      }
      const Status status = made.session.set_input(input.name, tensor);
      if (status.code() == Code::not_found) continue;  // nothing reads it
      HG_TRY(status);
    }
    return made;
  }
};

// The host's memory for each output, between guards. Every other output is not aligned.
class HostOutputs {
 public:
  Status bind(Session& session) {
    for (int i = 0; i < session.output_count(); ++i) {
      const TensorType& type = session.output_type(i);
      HG_TRY_ASSIGN(const Sizes shape, evaluate(type.shape, {}));
      const int64_t bytes = shape.count() * size_of(type.dtype);
      HG_TRY_ASSIGN(TensorData all, TensorData::allocate(u8, {bytes + 3 * kGuard}));
      std::fill_n(all.tensor.as<uint8_t>(), all.tensor.count(), kPattern);
      const int64_t begin = kGuard + i % 2 * 16;
      HG_TRY(session.set_output(
          i, view(static_cast<void*>(all.tensor.as<uint8_t>() + begin), type.dtype, shape)));
      memory_.push_back({std::move(all), begin, begin + bytes});
    }
    return {};
  }
  bool are_guards_whole() const {
    for (const auto& [all, begin, end] : memory_)
      for (int64_t i = 0; i < all.tensor.count(); ++i)
        if ((i < begin || i >= end) && all.tensor.as<uint8_t>()[i] != kPattern) return false;
    return true;
  }

 private:
  static constexpr int64_t kGuard = 128;
  static constexpr uint8_t kPattern = 0xa5;
  struct Memory {
    TensorData all;
    int64_t begin, end;
  };
  std::vector<Memory> memory_;
};

using Values = std::map<ValueId, std::vector<double>>;

// Computes each node from the values that the session reports as its inputs; `known` holds states.
std::string check_nodes(const Graph& graph, const Session& session, Values known) {
  const auto shape_of = [&](ValueId id) { return *evaluate(graph.value_info(id).type.shape, {}); };
  const auto array_of = [&](ValueId id) -> Result<reference::Array> {
    if (id == kNoValue) return reference::Array{f32, {}, {}, false};
    const ValueInfo& info = graph.value_info(id);
    reference::Array array{info.type.dtype, shape_of(id), {}, true};
    if (const auto found = known.find(id); found != known.end()) {
      array.values = found->second;
    } else {
      HG_TRY_ASSIGN(const Tensor value, session.value(info.name));
      array.values = read_all(value);
    }
    return array;
  };
  for (const Node& node : graph.nodes()) {
    std::vector<reference::Array> in, out;
    double most = 1;
    bool is_finite = true;  // for other inputs the loops do not define 0 * x
    int64_t read = 0;
    for (const ValueId id : node.inputs) {
      Result<reference::Array> array = array_of(id);
      if (!array.ok()) return str_cat(graph.value_info(id).name, ": ", array.status().message());
      most *= 1 + most_of(array->values);
      is_finite = is_finite && std::all_of(array->values.begin(), array->values.end(),
                                           [](double x) { return std::isfinite(x); });
      read = std::max(read, array->count());
      in.push_back(*std::move(array));
    }
    for (const ValueId id : node.outputs) {
      out.push_back({graph.value_info(id).type.dtype, shape_of(id), {}, true});
      out.back().values.assign(out.back().count(), 0.0);
    }
    const KernelAttrs attrs{AttrReader(node.op, node.attrs)};
    reference::find(node.op->name())->run({in, out, attrs});
    for (size_t k = 0; k < out.size(); ++k) {
      const Result<reference::Array> got = array_of(node.outputs[k]);
      const std::vector<double> expected = reference::rounded(out[k].values, out[k].dtype);
      if (!got.ok()) {  // the op expands into its input
        known[node.outputs[k]] = expected;
        continue;
      }
      const double each = 1 + static_cast<double>(read) / static_cast<double>(1 + got->count());
      for (size_t i = 0; i < expected.size(); ++i)
        if (is_finite && std::abs(expected[i]) < 0x1p53 &&  // where doubles hold every integer
            !is_near(got->values[i], expected[i],
                     64 * step_of(got->dtype) * (std::abs(expected[i]) + most * each)))
          return str_cat(node.op->name(), " '", graph.value_info(node.outputs[k]).name,
                         "': element ", int64_t(i), " is ", got->values[i], ", the loops give ",
                         expected[i]);
    }
  }
  return "";
}

Values states_of(const Graph& graph, const Session* session) {
  Values values;
  for (const State& state : graph.states()) {
    Tensor tensor = state.data.tensor;
    if (session != nullptr && state.kind != State::Kind::constant)
      if (const Result<Tensor> now = session->value(state.name); now.ok()) tensor = *now;
    values[state.value] = read_all(tensor);
  }
  return values;
}

// The rounding step of the graph's narrowest float.
double widest_step(const Graph& graph) {
  double step = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id)
    step = std::max(step, step_of(graph.value_info(id).type.dtype));
  return step;
}

std::string compare_outputs(const RandomGraph& random, const Session& got, const Session& expected,
                            double tolerance, const char* how) {
  for (const auto& [name, id] : random.graph.outputs()) {
    if (random.unsteady.contains(name)) continue;
    const Result<Tensor> y = got.output(name), right = expected.output(name);
    if (!y.ok() || !right.ok()) return str_cat(how, ": output ", name, " is missing");
    if (y->dtype != right->dtype || !(y->shape == right->shape))
      return str_cat(how, ": output ", name, " is ", y->shape, ", not ", right->shape);
    const std::vector<double> a = read_all(*y), b = read_all(*right);
    for (size_t i = 0; i < a.size(); ++i)
      if (!is_near(a[i], b[i], tolerance * (1 + std::abs(b[i]))))
        return str_cat(how, ": output ", name, "[", int64_t(i), "] is ", a[i], ", expected ", b[i]);
  }
  return "";
}

struct Count {
  int ran = 0, refused = 0, nodes = 0;
  std::map<std::string, int> reasons;
};

std::string check_graph(uint64_t seed, Count& count) {
  const RandomGraph random = random_graph(seed);
  const Graph& graph = random.graph;
  if (prints_graphs()) std::printf("%s", graph.text().c_str());
  if (!graph.verify().ok()) return str_cat("verify: ", graph.verify().message());
  const Result<Model> model = Model::from_graph(graph);
  const auto make = [&](SessionOptions options, bool strided = false) {
    return Running::create(random, *model, std::move(options), strided);
  };
  Result<Running> plain = make({.threads = 1, .keep_all_values = true}),
                  full = make({.threads = 1}), threaded = make({.threads = 3}),
                  strided = make({.threads = 1}, true), bound = make({.threads = 1}),
                  shared = make({.threads = 1});
  HostOutputs host;
  if (bound.ok()) {
    if (const Status status = host.bind(bound->session); !status.ok())
      return std::string(status.message());
  }
  const double tolerance = 4096 * widest_step(graph);
  for (int run = 0; run < 2; ++run) {
    Values states = states_of(graph, run == 0 || !plain.ok() ? nullptr : &plain->session);
    for (Result<Running>* each : {&plain, &full, &threaded, &strided, &bound, &shared}) {
      const Status status = each->ok() ? (*each)->session.run() : each->status();
      if (status.ok()) continue;
      if (status.code() != Code::unsupported || each != &plain)
        return std::string(status.message());
      ++count.refused;
      const std::string_view why = status.message();
      ++count.reasons[std::string(why.substr(0, why.find(" '"))) +
                      std::string(why.substr(std::min(why.size(), why.rfind(':'))))];
      return "";
    }
    const std::string wrong = check_nodes(graph, plain->session, std::move(states));
    if (!wrong.empty()) return wrong;
    for (const auto& [other, how] : {std::pair(&full, "optimised"), {&strided, "strided"}})
      if (const std::string bad =
              compare_outputs(random, (*other)->session, plain->session, tolerance, how);
          !bad.empty())
        return bad;
    for (const auto& [other, how] :
         {std::pair(&threaded, "3 threads"), {&bound, "in the host's memory"}, {&shared, "shared"}})
      if (const std::string bad = compare_outputs(random, (*other)->session, full->session, 0, how);
          !bad.empty())
        return bad;
    if (!host.are_guards_whole()) return "bytes beside the host's memory were written";
  }
  ++count.ran;
  count.nodes += static_cast<int>(graph.nodes().size());
  return "";
}

TEST(RandomGraphs, GiveWhatTheLoopsGiveHoweverTheyAreRun) {
  Count count;
  for_cases(300, [&](uint64_t seed) { EXPECT_EQ(check_graph(seed, count), ""); });
  std::printf("%d graphs of %d nodes ran, %d were refused\n", count.ran, count.nodes,
              count.refused);
  for (const auto& [why, times] : count.reasons) std::printf("%6d %s\n", times, why.c_str());
  if (case_count(300) >= 100) {
    EXPECT_GT(count.ran, case_count(300) * 8 / 10);
  }
}

}  // namespace
}  // namespace hg::test
