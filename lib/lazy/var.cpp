// SPDX-License-Identifier: Apache-2.0
// Builds expressions: adds one node per call and does nothing else.
#include "hg/var.h"

#include <algorithm>

#include "lib/graph/access.h"
#include "lib/graph/border.h"
#include "lib/lazy/context.h"
#include "lib/lazy/node.h"

namespace hg {
namespace {

using Kind = LazyNode::Kind;

std::shared_ptr<LazyNode> leaf(Kind kind, Array array, const Lazy& lazy) {
  auto node = std::make_shared<LazyNode>();
  node->kind = kind;
  node->types = {TensorType{array.dtype(), to_shape(array.shape())}};
  node->array = std::move(array);
  node->context = LazyContext::of(lazy);
  node->registry = LazyContext::registry_of(lazy);
  return node;
}

// The registry of the first input that has its own; otherwise the built-in one.
const Registry* registry_of(std::span<const Var> inputs) {
  for (const Var& input : inputs)
    if (input && LazyNode::of(input).registry != nullptr) return LazyNode::of(input).registry;
  return nullptr;
}

std::shared_ptr<LazyNode> op_node(std::string_view op, std::span<const Var> inputs,
                                  std::span<const Argument> attrs) {
  auto node = std::make_shared<LazyNode>();
  node->kind = Kind::op;
  node->registry = registry_of(inputs);
  node->op = node->known_ops().find(op);
  if (node->op == nullptr) node->error = str_cat("the op '", op, "' is not registered");
  node->inputs.assign(inputs.begin(), inputs.end());
  for (const Argument& attr : attrs) {
    node->attrs.push_back({attr.name, attr.attr()});
    add_words(node->attr_words, attr.value);
  }
  return node;
}

// Completes the attributes of a node; on failure they stay empty.
Status add_attrs(LazyNode& node, const NamedAttrs& attrs) {
  HG_TRY_ASSIGN(std::vector<Attr> values, GraphAccess::normalize_attrs(*node.op, attrs));
  for (size_t i = 0; i < values.size(); ++i) {
    HG_TRY(GraphAccess::check_attr(*node.op, i, values[i]));
    const std::string_view name = node.op->signature.attributes[i].name;
    std::vector<int64_t> list;
    if (const Result<Argument> plain = Argument::of(name, values[i], list); plain.ok())
      add_words(node.attr_words, plain->value);
    else
      add_words(node.attr_words, std::string_view(str_cat(values[i])));
    node.attrs.push_back({name, std::move(values[i])});
  }
  return {};
}

std::shared_ptr<LazyNode> derivative(Kind kind, std::span<const Var> ys, std::span<const Var> xs,
                                     std::span<const Var> more) {
  auto node = std::make_shared<LazyNode>();
  node->kind = kind;
  node->ys = static_cast<int>(ys.size());
  node->xs = static_cast<int>(xs.size());
  node->outputs = kind == Kind::jacobian ? 1 : kind == Kind::jvp ? node->ys : node->xs;
  node->has_seeds = !more.empty();
  for (const std::span<const Var> part : {ys, xs, more})
    for (const Var& var : part) {
      if (!var) node->error = "an expression that a derivative needs is empty";
      node->inputs.push_back(var);
    }
  node->registry = registry_of(node->inputs);
  return node;
}

std::vector<Var> outputs_of(const std::shared_ptr<LazyNode>& node) {
  std::vector<Var> vars;
  for (int i = 0; i < node->outputs; ++i) vars.push_back(LazyNode::var(node, i));
  return vars;
}

// All outputs of an op.
std::vector<Var> all_of(const std::shared_ptr<LazyNode>& node) {
  if (node->op != nullptr && !node->op->signature.variadic_outputs)
    node->outputs = static_cast<int>(node->op->signature.outputs.size());
  else if (type_of(*node, 0).ok())
    node->outputs = static_cast<int>(node->types.size());
  return outputs_of(node);
}

}  // namespace

LazyNode::~LazyNode() {
  as_memory_allows([&] {
    std::vector<std::shared_ptr<LazyNode>> rest;
    const auto take = [&](LazyNode& node) {
      for (Var& input : node.inputs)
        if (input.node_ && input.node_.use_count() == 1) rest.push_back(std::move(input.node_));
      node.inputs.clear();
    };
    take(*this);
    while (!rest.empty()) {
      const std::shared_ptr<LazyNode> node = std::move(rest.back());
      rest.pop_back();
      take(*node);
    }
  });
}

namespace {

// Returns the wanted nodes that the vars depend on. Does not look behind unwanted nodes.
template <class Wanted>
std::vector<LazyNode*> walk(std::span<const Var> vars, const Wanted& wanted) {
  std::vector<LazyNode*> nodes;
  struct Open {
    LazyNode* node;
    size_t next;
  };
  std::vector<Open> open;
  const auto enter = [&](const Var& var) {
    if (!var) return;
    LazyNode& node = LazyNode::of(var);
    if (node.is_walked || !wanted(node)) return;
    node.is_walked = true;
    open.push_back({&node, 0});
  };
  for (const Var& var : vars) {
    enter(var);
    while (!open.empty()) {
      Open& top = open.back();
      if (top.next < top.node->inputs.size()) {
        enter(top.node->inputs[top.next++]);
        continue;
      }
      top.node->place = static_cast<int32_t>(nodes.size());
      nodes.push_back(top.node);
      open.pop_back();
    }
  }
  for (LazyNode* node : nodes) node->is_walked = false;
  return nodes;
}

}  // namespace

std::vector<LazyNode*> LazyNode::walk_from(std::span<const Var> vars) {
  return walk(vars, [](const LazyNode&) { return true; });
}

std::vector<LazyNode*> LazyNode::untyped_from(std::span<const Var> vars) {
  return walk(vars, [](const LazyNode& node) { return node.types.empty(); });
}

Var::Var(Array array, const Lazy& lazy) : node_(leaf(Kind::leaf, std::move(array), lazy)) {}

Var::Var(const Number& number) : node_(std::make_shared<LazyNode>()) {
  node_->kind = Kind::number;
  node_->number = number;
}

Var Var::constant(Array array, const Lazy& lazy) {
  return Var(leaf(Kind::constant, std::move(array), lazy));
}

Var Var::variable(std::string name, TensorType type, const Lazy& lazy) {
  Var var(leaf(Kind::leaf, {}, lazy));
  var.node_->types = {std::move(type)};
  var.node_->name = std::move(name);
  return var;
}

Var Var::one(std::string_view op, std::span<const Var> inputs, std::span<const Argument> attrs) {
  return Var(op_node(op, inputs, attrs));
}

void Var::call(std::string_view op, std::span<const Var> inputs, std::span<const Argument> attrs,
               std::span<Var> outputs) {
  const std::shared_ptr<LazyNode> node = op_node(op, inputs, attrs);
  node->outputs = static_cast<int>(outputs.size());
  for (int i = 0; i < node->outputs; ++i) outputs[i] = Var(node, i);
}

std::vector<Var> Var::any(std::string_view op, std::span<const Var> inputs,
                          std::span<const Argument> attrs) {
  return all_of(op_node(op, inputs, attrs));
}

std::vector<Var> Var::any(std::string_view op, std::span<const Var> inputs,
                          const NamedAttrs& attrs) {
  const std::shared_ptr<LazyNode> node = op_node(op, inputs, {});
  if (node->op != nullptr)
    if (const Status status = add_attrs(*node, attrs); !status.ok()) node->error = status.message();
  return all_of(node);
}

Status Var::set(Array array) {
  return or_no_memory([&]() -> Status {
    HG_CHECK(node_ && node_->kind == Kind::leaf, "only a leaf has an array that can be set");
    const TensorType& type = node_->types[0];
    bool fits = array && array.dtype() == type.dtype && array.shape().rank() == type.rank();
    for (int d = 0; fits && d < type.rank(); ++d)
      fits = !type.shape[d].is_constant() || type.shape[d].constant() == array.shape()[d];
    HG_CHECK(fits, "'", node_->name, "' is ", type, ", the array is ",
             TensorType{array.dtype(), to_shape(array.shape())});
    node_->array = std::move(array);
    return {};
  });
}

Status Var::set_name(std::string name) {
  return or_no_memory([&]() -> Status {
    HG_CHECK(node_ && node_->is_leaf(), "only a leaf has a name");
    node_->name = std::move(name);
    return {};
  });
}

std::vector<Var> vjp(std::span<const Var> ys, std::span<const Var> xs, std::span<const Var> seeds) {
  return outputs_of(derivative(Kind::gradient, ys, xs, seeds));
}
std::vector<Var> grad(const Var& y, std::span<const Var> xs) { return vjp({&y, 1}, xs, {}); }
Var grad(const Var& y, const Var& x) { return grad(y, std::span(&x, 1))[0]; }

std::vector<Var> jvp(std::span<const Var> ys, std::span<const Var> xs,
                     std::span<const Var> directions) {
  return outputs_of(derivative(Kind::jvp, ys, xs, directions));
}

Var jacobian(const Var& y, const Var& x) {
  return LazyNode::var(derivative(Kind::jacobian, {&y, 1}, {&x, 1}, {}));
}

std::vector<Var> hvp(const Var& y, std::span<const Var> xs, std::span<const Var> directions) {
  return outputs_of(derivative(Kind::hvp, {&y, 1}, xs, directions));
}

Result<Var> vmap(const std::function<Var(std::span<const Var>)>& f, std::span<const Var> batches) {
  return or_no_memory([&]() -> Result<Var> {
    HG_CHECK(!batches.empty(), "vmap: there are no batches");
    int64_t samples = -1;
    for (const Var& batch : batches) {
      HG_TRY_ASSIGN(const TensorType type, batch.type());
      HG_CHECK(type.rank() > 0, "vmap: a batch is ", type, ", without a dim that counts samples");
      HG_CHECK(is_constant(type.shape), "vmap: a batch is ", type, ", with an open size");
      const int64_t size = type.shape[0].constant();
      HG_CHECK(samples < 0 || samples == size, "vmap: the batches have ", samples, " and ", size,
               " samples");
      samples = size;
    }
    HG_CHECK(samples > 0, "vmap: there are no samples");
    const auto reshaped = [](const Var& x, std::vector<int64_t> shape) {
      const Argument attrs[] = {{"shape", Ints(shape)}};
      return Var::one("reshape", std::array{x}, attrs);
    };
    std::vector<Var> results;
    for (int64_t i = 0; i < samples; ++i) {
      std::vector<Var> sample;
      for (const Var& batch : batches) {
        const Sizes shape = batch.shape();
        const Argument cut[] = {
            {"dim", int64_t{0}}, {"start", i}, {"end", i + 1}, {"step", int64_t{1}}};
        sample.push_back(
            reshaped(Var::one("slice", std::array{batch}, cut), {shape.begin() + 1, shape.end()}));
      }
      const Var y = f(sample);
      HG_CHECK(y, "vmap: the function gives nothing");
      HG_TRY_ASSIGN(const TensorType type, y.type());
      HG_CHECK(is_constant(type.shape), "vmap: a result is ", type, ", with an open size");
      std::vector<int64_t> shape = {1};
      for (const Dim& dim : type.shape) shape.push_back(dim.constant());
      results.push_back(reshaped(y, std::move(shape)));
    }
    const Argument joined[] = {{"dim", int64_t{0}}};
    return Var::one("concat", results, joined);
  });
}

}  // namespace hg
