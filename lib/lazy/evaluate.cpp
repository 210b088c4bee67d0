// SPDX-License-Identifier: Apache-2.0
// Evaluates expressions. The form of an expression is the key of a session, which runs on the
// arrays of the leaves.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "hg/promotion.h"
#include "lib/device/backend.h"
#include "lib/graph/border.h"
#include "lib/graph/draws.h"
#include "lib/graph/split_mix.h"
#include "lib/lazy/context.h"
#include "lib/lazy/node.h"

namespace hg {
namespace {

using Kind = LazyNode::Kind;

// The form of an expression, and the device that it runs on.
CacheKey key_of(std::span<const Var> vars, std::span<LazyNode* const> nodes, const Gpu& gpu) {
  CacheKey key;
  key.push_back(gpu ? reinterpret_cast<uintptr_t>(&backend_of(gpu)) : 0);
  const auto add_place = [&](const Var& var) {
    key.push_back(var ? uint64_t(LazyNode::of(var).place) << 16 | uint64_t(LazyNode::output(var))
                      : ~uint64_t{0});
  };
  for (const LazyNode* node : nodes) {
    key.push_back(static_cast<uint64_t>(node->kind) | uint64_t(node->inputs.size()) << 8 |
                  uint64_t{node->has_seeds} << 7);
    switch (node->kind) {
      case Kind::number:
        key.push_back(static_cast<uint64_t>(node->number.kind));
        continue;
      case Kind::constant:
        key.push_back(reinterpret_cast<uintptr_t>(node->array.tensor().data));
        [[fallthrough]];
      case Kind::leaf:
        key.push_back(static_cast<uint64_t>(node->types[0].dtype) | node->types[0].shape.size()
                                                                        << 8);
        for (const Dim& dim : node->types[0].shape) {
          key.push_back(uint64_t{dim.is_constant()});
          if (dim.is_constant())
            key.push_back(static_cast<uint64_t>(dim.constant()));
          else
            add_words(key, std::string_view(str_cat(dim)));
        }
        if (node->kind == Kind::constant) add_words(key, node->array.strides());
        continue;
      case Kind::op:
        key.push_back(reinterpret_cast<uintptr_t>(node->op));
        for (const uint64_t word : node->attr_words) key.push_back(word);
        break;
      default:
        key.push_back(uint64_t(node->ys) << 32 | uint64_t(node->xs));
    }
    for (const Var& input : node->inputs) add_place(input);
  }
  for (const Var& var : vars) add_place(var);
  return key;
}

std::vector<uint64_t> numbers_of(std::span<LazyNode* const> nodes) {
  std::vector<uint64_t> bits;
  for (const LazyNode* node : nodes)
    if (node->kind == Kind::number)
      bits.push_back(node->number.kind == f64 ? std::bit_cast<uint64_t>(node->number.real)
                                              : static_cast<uint64_t>(node->number.whole));
  return bits;
}

// The graph of an expression. Leaves are inputs, and so are the numbers that the plan reads. In the
// graph of a model, only leaves with a name are inputs.
class Builder {
 public:
  Builder(Graph& graph, std::span<LazyNode* const> nodes, LazyContext::Plan& plan,
          bool is_model = false)
      : graph_(graph),
        nodes_(nodes),
        plan_(plan),
        is_model_(is_model),
        values_(nodes.size()),
        reads_(nodes.size()) {
    size_t number = 0;
    for (const LazyNode* node : nodes)
      if (node->kind == Kind::number) reads_[node->place] = plan.is_read[number++];
  }

  Status build(std::span<const Var> vars, std::span<const std::string_view> names = {}) {
    for (const LazyNode* node : nodes_) {
      if (node->kind != Kind::number) {
        HG_TRY_ASSIGN(values_[node->place], values_of(*node));
      }
      HG_TRY(graph_.take_status());
    }
    for (size_t i = 0; i < vars.size(); ++i) {
      HG_TRY_ASSIGN(const Value value, value_of(vars[i]));
      graph_.output(std::string(names.empty() ? "" : names[i]), value);
    }
    return graph_.status();
  }

 private:
  Result<std::vector<Value>> values_of(const LazyNode& node) {
    if (node.kind == Kind::leaf && (!is_model_ || !node.name.empty())) {
      plan_.inputs.push_back({node.place, {}});
      return std::vector{graph_.input(is_model_ ? node.name : str_cat("leaf_", int64_t{node.place}),
                                      node.types[0].dtype, node.types[0].shape)};
    }
    if (node.is_leaf()) {
      HG_TRY(node.array.to_host());
      HG_TRY_ASSIGN(TensorData data, TensorData::copy_of(node.array));
      return std::vector{graph_.constant(std::move(data))};
    }
    std::vector<Value> inputs;
    for (const Var& input : node.inputs) {
      Value value;
      if (input && LazyNode::of(input).kind != Kind::number) {
        HG_TRY_ASSIGN(value, value_of(input));
      }
      inputs.push_back(value);
    }
    return lower_node(graph_, node, inputs,
                      [this](Graph&, const LazyNode& number, DType dtype, NumberRange range) {
                        return number_of(number, dtype, range);
                      });
  }

  // An expression that is only a number becomes an f32 tensor.
  Result<Value> value_of(const Var& var) {
    const LazyNode& node = LazyNode::of(var);
    if (node.kind == Kind::number) return number_of(node, f32, NumberRange::any);
    const auto output = static_cast<size_t>(LazyNode::output(var));
    const std::vector<Value>& made = values_[node.place];
    HG_CHECK(output < made.size(), "an op gives ", int64_t(made.size()), " results, not ",
             int64_t(output + 1));
    return made[output];
  }

  Result<Value> number_of(const LazyNode& number, DType dtype, NumberRange range) {
    if (!reads_[number.place]) return constant_number(graph_, number, dtype, range);
    const std::string name =
        str_cat("number_", int64_t{number.place}, "_", dtype, "_", static_cast<int>(range));
    for (const auto& [known, value] : numbers_)
      if (known == name) return value;
    plan_.inputs.push_back({number.place, dtype, range});
    return numbers_.emplace_back(name, graph_.input(name, dtype, {})).second;
  }

  Graph& graph_;
  std::span<LazyNode* const> nodes_;
  LazyContext::Plan& plan_;
  bool is_model_;
  std::vector<std::vector<Value>> values_;  // by place
  std::vector<bool> reads_;                 // by place
  std::vector<std::pair<std::string, Value>> numbers_;
};

// Sizes that depend on data are determined in each run.
std::pair<DType, Sizes> known_output(const TensorType& type) {
  const Result<Sizes> sizes = evaluate(type.shape, Bindings());
  return {type.dtype, sizes.ok() ? *sizes : Sizes({-1})};
}

// A registry with custom ops applies to all expressions built from them.
const Registry& registry_of(std::span<LazyNode* const> nodes) {
  const auto own = std::find_if(nodes.begin(), nodes.end(), [](const LazyNode* node) {
    return node->kind >= Kind::op && node->registry != nullptr;
  });
  return own != nodes.end() ? (*own)->known_ops() : Registry::built_in();
}

Result<LazyContext::Plan> make_plan(const LazyContext& context, const Gpu& gpu,
                                    std::span<const Var> vars, std::span<LazyNode* const> nodes,
                                    std::vector<bool> is_read) {
  LazyContext::Plan plan;
  plan.is_read = std::move(is_read);
  Graph graph(registry_of(nodes));
  HG_TRY(Builder(graph, nodes, plan).build(vars));
  HG_TRY_ASSIGN(const Model model, Model::from_graph(std::move(graph)));
  SessionOptions options = context.options;
  if (gpu) {
    options.device = Device::vulkan;
    options.gpu = gpu;
    options.device_outputs = true;
  }
  plan.gpu = gpu;
  HG_TRY_ASSIGN(plan.session, Session::create(model, std::move(options)));
  for (int i = 0; i < plan.session->output_count(); ++i)
    plan.outputs.push_back(known_output(plan.session->output_type(i)));
  for (const LazyNode* node : nodes)
    if (node->kind == Kind::constant) plan.constants.push_back(node->array);
  plan.nodes = static_cast<int64_t>(plan.session->compiled_graph().nodes().size());
  plan.draws = draws(plan.session->compiled_graph());
  return plan;
}

bool serves(const LazyContext::Plan& plan, std::span<const uint64_t> numbers) {
  for (size_t i = 0; i < numbers.size(); ++i)
    if (!plan.is_read[i] && plan.numbers[i] != numbers[i]) return false;
  return true;
}

Result<std::shared_ptr<LazyContext::Plan>> plan_of(LazyContext& context, const Gpu& gpu,
                                                   const CacheKey& key, std::span<const Var> vars,
                                                   std::span<LazyNode* const> nodes) {
  std::vector<uint64_t> numbers = numbers_of(nodes);
  std::vector<bool> is_read(numbers.size());
  const auto known = context.plans.find(key, [&](const LazyContext::Plan& plan) {
    if (plan.is_running) return false;
    if (serves(plan, numbers)) return true;
    for (size_t i = 0; i < numbers.size(); ++i)
      if (plan.is_read[i] || plan.numbers[i] != numbers[i]) is_read[i] = true;
    return false;
  });
  if (known != nullptr) return known;
  Result<LazyContext::Plan> made = make_plan(context, gpu, vars, nodes, is_read);
  // An op may need a number before it runs.
  if (!made.ok()) made = make_plan(context, gpu, vars, nodes, std::vector<bool>(numbers.size()));
  HG_TRY(made.status());
  made->numbers = std::move(numbers);
  return context.plans.add(key, *std::move(made));
}

// Copies an output to device memory of its own, because the next run overwrites the session's.
Result<Array> take_from_device(const Session& session, int output, const Gpu& gpu) {
  const Result<DeviceTensor> there = session.device_output(output);
  if (!there.ok()) {  // the CPU computed it
    HG_TRY_ASSIGN(const Tensor made, session.output(output));
    return Array::copy_of(made);
  }
  return Array::copy_of(*there, gpu);
}

Result<std::vector<Array>> run(LazyContext& context, LazyContext::Plan& plan,
                               std::span<LazyNode* const> nodes) {
  Session& session = *plan.session;
  struct alignas(16) Cell {
    std::array<std::byte, 16> bytes;
  };
  std::vector<Cell> cells(plan.inputs.size());
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const auto& [place, dtype, range] = plan.inputs[i];
    ConstTensor given;
    if (dtype) {
      const Number& number = nodes[place]->number;
      const Tensor cell = view(cells[i].bytes.data(), *dtype, {});
      HG_CHECK(write_number(number, cell, range), "the number ", number.real,
               " does not fit a tensor of ", *dtype);
      given = cell;
    } else {
      const Array& array = nodes[place]->array;
      if (plan.gpu && array.is_on_device() && array.is_contiguous() && array.count() > 0) {
        HG_TRY_ASSIGN(const DeviceTensor there, array.on_device(plan.gpu));
        HG_TRY(session.set_input(static_cast<int>(i), there));
        continue;
      }
      HG_TRY(array.to_host());
      given = array;
    }
    HG_TRY(session.set_input(static_cast<int>(i), given));
  }
  std::vector<Array> results;
  for (size_t k = 0; k < plan.outputs.size(); ++k) {
    const auto& [dtype, shape] = plan.outputs[k];
    const bool is_known = shape.empty() || shape[0] >= 0;
    if (plan.gpu) {
      results.emplace_back();
      continue;
    }
    HG_TRY_ASSIGN(Array made, Array::allocate(dtype, is_known ? shape : Sizes({0})));
    if (is_known) HG_TRY(session.set_output(static_cast<int>(k), made.tensor()));
    results.push_back(std::move(made));
  }
  if (plan.draws) session.seed(split_mix(context.random));
  plan.is_running = true;
  const Status status = session.run();
  plan.is_running = false;
  for (size_t k = 0; status.ok() && plan.gpu && k < plan.outputs.size(); ++k) {
    HG_TRY_ASSIGN(results[k], take_from_device(session, static_cast<int>(k), plan.gpu));
  }
  if (status.ok() && !plan.gpu)
    for (size_t k = 0; k < plan.outputs.size(); ++k)
      if (!plan.outputs[k].second.empty() && plan.outputs[k].second[0] < 0) {
        HG_TRY_ASSIGN(const Tensor made, session.output(static_cast<int>(k)));
        HG_TRY_ASSIGN(results[k], Array::copy_of(made));
      }
  session.forget_tensors();
  HG_TRY(status);
  ++context.runs;
  context.nodes += plan.nodes;
  return results;
}

// The context of the first leaf that has one. The other leaves adopt it.
std::shared_ptr<LazyContext> context_of(std::span<LazyNode* const> nodes) {
  std::shared_ptr<LazyContext> context;
  for (const LazyNode* node : nodes)
    if (node->context != nullptr && context == nullptr) context = node->context;
  if (context == nullptr)
    context = std::make_shared<LazyContext>(SessionOptions(), 256, UINT64_MAX);
  for (LazyNode* node : nodes)
    if (node->context == nullptr && node->kind != Kind::op) node->context = context;
  return context;
}

}  // namespace

Result<std::vector<Array>> evaluate(std::span<const Var> vars, const Gpu& on) {
  return or_no_memory([&]() -> Result<std::vector<Array>> {
    for (const Var& var : vars) HG_CHECK(var, "an expression without a value was asked for one");
    const std::vector<LazyNode*> nodes = LazyNode::walk_from(vars);
    for (const LazyNode* node : nodes) {
      if (!node->error.empty()) return invalid_argument(node->error);
      HG_CHECK(node->array || (node->kind != Kind::leaf && node->kind != Kind::constant),
               "the leaf '", node->name, "' has no array");
    }
    const std::shared_ptr<LazyContext> context = context_of(nodes);
    Gpu gpu = on;
    for (const LazyNode* node : nodes)
      if (!gpu && node->array.is_on_device()) gpu = node->array.gpu();
    const CacheKey key = key_of(vars, nodes, gpu);
    HG_TRY_ASSIGN(const std::shared_ptr<LazyContext::Plan> plan,
                  plan_of(*context, gpu, key, vars, nodes));
    HG_TRY_ASSIGN(std::vector<Array> values, run(*context, *plan, nodes));
    HG_TRY_ASSIGN(const Memory memory, plan->session->memory());
    const auto bytes = static_cast<uint64_t>(memory.arena_bytes + memory.weights_bytes);
    if (bytes != std::exchange(plan->bytes, bytes)) context->plans.set_bytes(key, plan, bytes);
    return values;
  });
}

Result<Model> to_model(std::span<const std::pair<std::string, Var>> outputs) {
  return or_no_memory([&]() -> Result<Model> {
    std::vector<Var> vars;
    std::vector<std::string_view> names;
    for (const auto& [name, var] : outputs) {
      HG_CHECK(var, "the output '", name, "' is an expression without a value");
      vars.push_back(var);
      names.push_back(name);
    }
    const std::vector<LazyNode*> nodes = LazyNode::walk_from(vars);
    for (const LazyNode* node : nodes) {
      if (!node->error.empty()) return invalid_argument(node->error);
      HG_CHECK(!node->name.empty() || node->array || !node->is_leaf() || node->kind == Kind::number,
               "a leaf of the model has neither a name nor an array");
    }
    LazyContext::Plan plan;
    plan.is_read.resize(numbers_of(nodes).size());
    Graph graph(registry_of(nodes));
    HG_TRY(Builder(graph, nodes, plan, true).build(vars, names));
    return Model::from_graph(std::move(graph));
  });
}

Result<Array> Var::value() const {
  return or_no_memory([&]() -> Result<Array> {
    HG_TRY_ASSIGN(std::vector<Array> values, hg::evaluate(std::span(this, 1)));
    return std::move(values[0]);
  });
}

Result<Var> Var::evaluated() const {
  return or_no_memory([&]() -> Result<Var> {
    HG_TRY_ASSIGN(Array now, value());
    for (const LazyNode* node : LazyNode::walk_from(std::span(this, 1)))
      if (node->context != nullptr) return Var(std::move(now), LazyContext::handle(node->context));
    return Var(std::move(now));
  });
}

Lazy::Lazy(SessionOptions options, size_t most_plans, uint64_t most_bytes)
    : context_(std::make_shared<LazyContext>(std::move(options), most_plans, most_bytes)) {}

Lazy::Counters Lazy::counters() const {
  if (context_ == nullptr) return {};
  return {
      .runs = context_->runs, .plans = context_->plans.counters().added, .nodes = context_->nodes};
}

}  // namespace hg
