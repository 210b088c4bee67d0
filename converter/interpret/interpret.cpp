// SPDX-License-Identifier: Apache-2.0
// The interpreter's main loop: runs one node after another.
#include "converter/interpret/interpret.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "converter/aten/table.h"
#include "converter/containers/container_ops.h"
#include "converter/core/custom.h"
#include "converter/interpret/autocast.h"
#include "converter/interpret/custom_call.h"
#include "converter/interpret/interpreter.h"
#include "converter/memory/item_tree.h"
#include "converter/onnx/rows.h"
#include "converter/rows/view.h"
#include "converter/script/fold.h"
#include "lib/graph/access.h"
#include "lib/graph/assumptions.h"
#include "lib/graph/rewrite.h"

namespace hg::convert {
namespace {

// ONNX ops and Python ops have disjoint names.
bool is_of_onnx(std::string_view kind) {
  return !kind.starts_with("aten::") && !kind.starts_with("prim::");
}

const Builtin* find_onnx_row(std::string_view kind) {
  for (const auto table : onnx_builtins())
    for (const Builtin& row : table)
      if (row.kind == kind) return &row;
  return nullptr;
}

bool writes_in_place(const ScriptBlock& block) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [](const ScriptNode& node) {
    const std::string_view kind = node.kind;
    return (kind.ends_with('_') && !kind.ends_with("__")) || kind.starts_with("aten::__i") ||
           !node.outs.empty() ||
           std::any_of(node.blocks.begin(), node.blocks.end(), writes_in_place);
  });
}

// Adds guards for the broadcasts that infer assumes.
void guard_broadcast(Graph& graph, const Node& node) {
  if ((node.op->def.traits & kElementwise) == 0) return;
  const Shape& result = graph.value_info(node.outputs.at(0)).type.shape;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const Shape& shape = graph.value_info(id).type.shape;
    for (size_t k = 1; k <= std::min(shape.size(), result.size()); ++k) {
      const Dim &size = shape[shape.size() - k], &wide = result[result.size() - k];
      const Scalar fits = either(equal(size, wide), equal(size, 1));
      if (!fits.is_constant()) guard(graph, fits, "broadcasting");
    }
  }
}

// Adds guards for the sizes that the node's shape rule assumes; `equal_only` omits inequalities.
// Skips views, because the import also makes views on branches that are not taken.
void guard_assumptions(Graph& graph, const Node& node, bool equal_only) {
  if (node.op->def.view != nullptr) return;
  std::vector<Assumption> assumptions;
  GraphAccess::InferCall call = GraphAccess::infer_call(graph, node);
  call.assumptions = &assumptions;
  if (!GraphAccess::infer(call).ok()) return;
  const std::string reason(node.op->def.name);
  for (const Assumption& taken : assumptions) {
    const bool known =
        std::any_of(graph.guards().begin(), graph.guards().end(), [&](const Guard& other) {
          return other.relation == taken.relation &&
                 other.right - other.left == taken.right - taken.left;
        });
    if (!known && (taken.relation == Relation::eq || !equal_only))
      graph.guard(taken.left, taken.relation, taken.right, reason);
  }
}

// Adds the guards of unused nodes, so that wrong sizes fail a session whether or not a node is
// used.
void guard_unused(Graph& graph) {
  std::vector<int> uses = use_counts(graph);
  for (size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    if (std::any_of(node.outputs.begin(), node.outputs.end(),
                    [&](ValueId id) { return uses[id] > 0; }))
      continue;
    for (const ValueId id : node.inputs)
      if (id != kNoValue) --uses[id];
    graph.set_origin(node.origin);
    guard_broadcast(graph, node);
    guard_assumptions(graph, node, false);
  }
}

// Numbers all random streams with one counter, so that nodes of different branches or loops draw
// different numbers.
void number_draws(Graph& graph, int64_t& next) {
  for (Node& node : GraphAccess::body(graph).nodes) {
    if ((node.op->def.traits & kRandom) != 0)
      if (const int at = node.op->signature.find_attribute("stream"); at >= 0)
        node.attrs[at] = Attr(next++);
    for (const auto& body : node.subgraphs) number_draws(*body, next);
  }
}

}  // namespace

Interpreter::Interpreter(const ScriptProgram& program, std::span<const InputSpec> inputs,
                         const Turned& turned, Graph& graph, Imported& result)
    : program_(program),
      inputs_(inputs),
      turned_(turned),
      top_(graph),
      tracks_memory_(writes_in_place(program.body)),
      report_(result),
      memory_(graph, program),
      identities_(memory_),
      values_(static_cast<size_t>(program.value_count)) {}

std::vector<Item> Interpreter::run_op(std::string_view kind,
                                      std::vector<std::pair<std::string, Item>> arguments,
                                      int results, const Origin& origin) {
  const size_t first = values_.count();
  if (!values_.has_room(arguments.size() + static_cast<size_t>(results)))
    throw Refusal{str_cat("the op stands for more than ", int64_t{Values::kSpare}, " values"), ""};
  ScriptNode node;
  node.kind = kind;
  node.origin = origin;
  for (auto& [name, item] : arguments) {
    node.argument_names.push_back(std::move(name));
    node.inputs.push_back(values_.add(std::move(item)));
  }
  for (int i = 0; i < results; ++i) {
    node.outputs.push_back(values_.add({}));
    node.output_types.emplace_back("Tensor");
  }
  dispatch(node);
  std::vector<Item> given = block_items(node.outputs);
  values_.drop(first);
  return given;
}

void Interpreter::run() {
  const ScriptNode whole{.kind = "forward",
                         .overload = "",
                         .argument_names = {},
                         .inputs = {},
                         .outs = {},
                         .outputs = {},
                         .output_types = {},
                         .blocks = {},
                         .attribute = "",
                         .numbers = "",
                         .constant = {},
                         .trouble = "",
                         .origin = {}};
  try {
    bind_inputs();
    run_block(program_.body);
    for (const ScriptId id : program_.body.outputs) {
      const Item& result = get(id);
      add_output("", result);
    }
    attributes_->finish(memory_, program_, report_.result());
    memory_.finish();
    if (top_.outputs().empty() && top_.assignments().empty() && report_.rejected() == 0)
      throw Refusal{"the model returns no tensor and changes no buffer", ""};
    guard_unused(top_);
    require_ok(top_.take_status());
  } catch (const Refusal& refusal) {
    report_.reject(whole, refusal);
  } catch (const Raised& raised) {
    report_.reject(whole, {str_cat("the model raises an exception: ", raised.text), ""});
  } catch (const Poisoned&) {
    if (report_.rejected() == 0)  // rejected ops are already recorded
      report_.reject(whole, {"a result comes from an op that failed without saying so", ""});
  }
}

void Interpreter::run_block(const ScriptBlock& block) {
  const GradientMode::Block mode(gradients_);
  run_nodes(block);
  for (const ScriptId id : block.outputs) settle_pieces(*this, get(id));
}

Item Interpreter::detached(const Item& item) {
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value))
    for (Item& element : (*list)->items) element = detached(element);
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value))
    for (Item& element : (*tuple)->items) element = detached(element);
  const auto* tensor = std::get_if<TensorRef>(&item.value);
  if (!tensor || (*tensor)->is_poisoned() || (*tensor)->known() ||
      !is_float(memory_.type(*tensor).dtype))
    return item;
  if ((*tensor)->is_number()) return Item(memory_.make_number(hg::detach(memory_.read(*tensor))));
  rows::View view = rows::detach_view();
  const TensorRef result =
      memory_.make_view(*tensor, std::move(view.forward), std::move(view.inverse), view.relayout);
  if ((*tensor)->is_complex()) memory_.set_complex(result);
  return Item(result);
}

void Interpreter::run_node(const ScriptNode& node) {
  const int64_t sequence = report_.next_sequence();
  memory_.graph().set_origin(node.origin);
  const size_t before = memory_.graph().nodes().size();
  try {
    dispatch(node);
    // All results of a body may be unused. Then its nodes, which would fail for wrong sizes, are
    // removed.
    for (size_t n = before; memory_.depth() > 0 && n < memory_.graph().nodes().size(); ++n) {
      guard_broadcast(memory_.graph(), memory_.graph().nodes()[n]);
      guard_assumptions(memory_.graph(), memory_.graph().nodes()[n], true);
    }
    require_ok(memory_.graph().take_status());
  } catch (const Refusal& refusal) {
    (void)memory_.graph().take_status().ok();
    report_.reject(node, refusal);
    poison_outputs(node);
    return;
  } catch (const Poisoned&) {
    (void)memory_.graph().take_status().ok();
    list_missing(ScriptBlock{{}, {node}, {}});
    poison_outputs(node);
    return;
  }
  const bool kept = std::exchange(kept_control_, false);
  if (memory_.depth() > 0 || (node.kind.starts_with("prim::") && !kept)) return;
  Executed executed{sequence, &node, {}};
  for (const ScriptId id : node.outputs) {
    const auto* tensor = std::get_if<TensorRef>(&get(id).value);
    // Known numbers have no value in the graph unless something reads it.
    const bool has_value = tensor && !(*tensor)->is_poisoned() && !(*tensor)->known();
    executed.outputs.push_back(has_value ? memory_.read(*tensor).id() : kNoValue);
  }
  report_.ran(std::move(executed));
}

void Interpreter::poison_outputs(const ScriptNode& node) {
  // After a failed in-place op, its destination is also unknown.
  if (node.kind.starts_with("aten::") && node.kind.ends_with('_') && !node.inputs.empty())
    if (const auto* self = std::get_if<TensorRef>(&get(node.inputs[0]).value))
      memory_.poison(*self);
  for (const ScriptId id : node.outputs) set(id, Item(memory_.make_poison()));
}

// Lists the unsupported ops in blocks that cannot be run because an earlier op failed.
void Interpreter::list_missing(const ScriptBlock& block) {
  for (const ScriptNode& node : block.nodes) {
    for (const ScriptBlock& inner : node.blocks) list_missing(inner);
    if (node.kind.starts_with("prim::")) continue;
    if (const Row* row = row_named(node.kind); row && row->script[0]) continue;
    if (is_of_onnx(node.kind) && find_onnx_row(node.kind)) continue;
    if (find_row(node.kind, node.overload)) continue;
    const std::string_view kind = node.kind;
    if (kind.ends_with('_') && find_row(kind.substr(0, kind.size() - 1), node.overload)) continue;
    if (kind.ends_with("_copy") && find_row(kind.substr(0, kind.size() - 5), node.overload))
      continue;
    if (find_custom(top_.registry(), kind)) continue;
    report_.reject(node, {"the op is not supported", ""});
  }
}

void Interpreter::finish_call(const ScriptNode& node, NodeCall& call) {
  std::vector<Item>& results = call.results();
  if (results.size() > node.outputs.size()) results.resize(node.outputs.size());
  if (results.size() < node.outputs.size())
    throw Refusal{
        str_cat("the op gives ", static_cast<int64_t>(results.size()),
                " results where the script expects ", static_cast<int64_t>(node.outputs.size())),
        ""};
  // append() gives the list that it changes, and an attribute or element may be a list from
  // outside.
  const auto is_made = [&](const Item& result) {
    if (!result.is_list() && !result.is_dict() && !result.is_object()) return false;
    return node.kind != "prim::GetAttr" &&
           std::none_of(node.inputs.begin(), node.inputs.end(),
                        [&](ScriptId id) { return holds(get(id), identity_of(result)); });
  };
  for (size_t i = 0; i < results.size(); ++i) {
    if (is_made(results[i])) identities_.made(results[i]);
    set(node.outputs[i], std::move(results[i]));
  }
}

bool Interpreter::run_script_op(NodeCall& call) {
  const Row* row = call.row();
  return row != nullptr && std::any_of(row->script.begin(), row->script.end(),
                                       [&](ScriptOp run) { return run != nullptr && run(call); });
}

void Interpreter::write_back(const TensorRef& self, const Item& result) {
  if (!result.is_tensor()) throw Refusal{"an in-place op gives no tensor", ""};
  const TensorRef& tensor = std::get<TensorRef>(result.value);
  const TensorType type = memory_.type(self);
  if (tensor->is_complex() != self->is_complex())
    throw Refusal{self->is_complex() ? "real numbers are written in place into a complex tensor"
                                     : "complex numbers are written in place into a real tensor",
                  ""};
  if (tensor->known() && self->is_root() && tensor->known()->dtype == type.dtype &&
      memory_.type(tensor).shape == type.shape) {
    memory_.write(self, *tensor->known());
    return;
  }
  Value value = cast(memory_.read(tensor), type.dtype);
  if (!gradients_.is_on() && is_float(type.dtype)) value = hg::detach(value);
  // Two sizes may be equal although broadcasting could not prove it, such as sizes after a stride
  // and after a pool. They are equal whenever the script runs, because an in-place op cannot
  // enlarge its tensor.
  if (const Shape shape = value.shape(); shape != type.shape) {
    const auto differ = [](const Dim& a, const Dim& b) {
      const Scalar same = equal(a, b);
      return same.is_constant() && same.as_double() == 0;
    };
    if (shape.size() != type.shape.size() ||
        std::equal(shape.begin(), shape.end(), type.shape.begin(), std::not_fn(differ)) == false)
      throw Refusal{str_cat("the result of shape ", shape, " is written in place into a tensor",
                            " of shape ", type.shape),
                    ""};
    for (size_t d = 0; d < shape.size(); ++d)
      if (!(shape[d] == type.shape[d]))
        guard(memory_.graph(), equal(shape[d], type.shape[d]), "a write in place");
    value = rows::expanded(value, type.shape);
  }
  memory_.write(self, value);
}

Item Interpreter::copied(const Item& item) {
  if (const auto* tensor = std::get_if<TensorRef>(&item.value))
    return Item(memory_.make_like(*tensor, memory_.read(*tensor)));
  if (!item.is_list()) return item;
  auto list = std::make_shared<List>();
  for (const Item& element : std::get<std::shared_ptr<List>>(item.value)->items)
    list->items.push_back(copied(element));
  return Item(std::move(list));
}

bool Interpreter::run_row(const ScriptNode& node) {
  const Row* row = find_row(node.kind, node.overload);
  std::string kind = node.kind;
  bool in_place = false;
  if (row == nullptr && kind.starts_with("aten::__i") && kind.ends_with("__")) {
    kind = str_cat("aten::__", std::string_view(kind).substr(9));  // __iand__: in-place __and__
    in_place = true;
    row = find_row(kind, node.overload);
  } else if (row == nullptr && kind.ends_with('_') && !kind.ends_with("__")) {
    kind.pop_back();
    in_place = true;
    row = find_row(kind, node.overload);
  }
  bool copies = false;  // permute_copy is permute with a copy
  if (row == nullptr && !in_place && kind.ends_with("_copy")) {
    kind.resize(kind.size() - 5);
    copies = true;
    row = find_row(kind, node.overload);
  }
  const std::string& kept = *row_kinds_.insert(kind).first;  // the call refers to it
  NodeCall call(*this, node, kept, row_named(kept));
  const bool reshapes = in_place && row != nullptr && row->reshapes_in_place;
  const bool complex = is_complex_call(call);
  if (complex) {
    run_complex(call, row);
  } else if (in_place && !reshapes && run_known(call)) {
    // The same as a row.
  } else {
    if (row == nullptr) return false;
    row->run(call);
    require_ok(memory_.graph().take_status());
    if (!call.returned()) call.returns(std::vector<Item>());
    settle_layout(*row, call);
  }
  if (reshapes) {
    const TensorRef self = call.ref("self");
    memory_.become(self, std::get<TensorRef>(call.results().at(0).value));
    call.results()[0] = Item(self);
    finish_call(node, call);
    return true;
  }
  if (copies)
    for (Item& result : call.results()) result = copied(result);
  std::vector<int> targets = node.outs;
  if (in_place) targets = {0};
  std::erase_if(targets, [&](int target) { return !call.argument(target).is_tensor(); });
  if (call.results().size() < targets.size())
    throw Refusal{"the op gives fewer results than it writes in place", ""};
  for (size_t i = 0; i < targets.size(); ++i) {
    const Item target = call.argument(targets[i]);
    write_back(std::get<TensorRef>(target.value), call.results()[i]);
    call.results()[i] = target;
  }
  if (targets.empty() && !gradients_.is_on()) {
    for (Item& result : call.results()) result = detached(result);
  }
  finish_call(node, call);
  return true;
}

void Interpreter::dispatch(const ScriptNode& node) {
  if (!node.trouble.empty()) throw Refusal{node.trouble, ""};
  // An op that only reads a list of parts leaves it as it is, so that its elements remain views.
  struct Parts {
    std::vector<std::pair<std::shared_ptr<List>, List>> lists;
    ~Parts() {
      for (auto& [list, before] : lists) *list = std::move(before);
    }
  } parts;
  if (only_reads_parts(node.kind))
    for (const ScriptId id : node.inputs)
      if (const auto* list = std::get_if<std::shared_ptr<List>>(&get(id).value);
          list && (*list)->pieces && (*list)->pieces->usual == 0)
        parts.lists.emplace_back(*list, **list);
  const Row* const named = row_named(node.kind);
  if (named != nullptr ? !named->takes_parts : !onnx_takes_parts(node.kind))
    for (const ScriptId id : node.inputs)
      settle_pieces(*this, get(id),
                    node.kind == "prim::ListUnpack" ? int64_t(node.outputs.size()) : 0);
  if (node.kind == "prim::If") return run_if(node);
  if (node.kind == "prim::Loop") return run_loop(node);
  for (const ScriptId id : node.inputs)
    if (const auto* tensor = std::get_if<TensorRef>(&get(id).value))
      if ((*tensor)->is_poisoned() && node.kind != "prim::ListConstruct" &&
          node.kind != "prim::TupleConstruct" && node.kind != "prim::DictConstruct")
        throw Poisoned();
  if (!identities_.marks().stale.empty())
    for (const ScriptId id : node.inputs) identities_.check_stale(get(id));
  NodeCall call(*this, node, node.kind, row_named(node.kind));
  if (const std::optional<Autocast> to = autocast_target(call)) {
    ScriptNode cast = node;  // the cast itself runs outside of the region
    cast.attribute.clear();
    const size_t first = values_.count();
    if (!values_.has_room(cast.inputs.size()))
      throw Refusal{"the op has too many arguments for a region of autocast", ""};
    for (size_t i = 0; i < cast.inputs.size(); ++i) {
      ScriptId& id = cast.inputs[i];
      const bool named = i < cast.argument_names.size();
      Item item =
          autocast(call, named ? std::string_view(cast.argument_names[i]) : "", get(id), *to);
      id = values_.add(std::move(item));
    }
    dispatch(cast);
    values_.drop(first);
    return;
  }
  // ONNX rows handle such lists themselves.
  if (!is_of_onnx(node.kind) && std::any_of(node.inputs.begin(), node.inputs.end(),
                                            [&](ScriptId id) { return has_grown(get(id)); })) {
    run_on_grown(call);
    return finish_call(node, call);
  }
  if (!(call.row() && call.row()->takes_nested) && !node.kind.starts_with("prim::"))
    for (const ScriptId id : node.inputs)
      if (const auto* tensor = std::get_if<TensorRef>(&get(id).value);
          tensor && (*tensor)->nested())
        throw Refusal{"the op is not supported for nested tensors",
                      "build nn.TransformerEncoder with enable_nested_tensor=False"};
  if (run_at_data_choice(node)) return;
  const bool complex = is_complex_call(call);
  if (complex && !passes_complex(node.kind)) {
    if (run_row(node)) return;
    throw Refusal{"the op is not supported for complex numbers", ""};
  }
  if (is_of_onnx(node.kind)) {
    if (const Builtin* row = find_onnx_row(node.kind)) {
      row->run(call);
      return finish_call(node, call);
    }
  }
  if (run_script_op(call)) return finish_call(node, call);
  if (!node.kind.starts_with("prim::")) {
    if (!complex && node.outs.empty() && run_known(call)) return finish_call(node, call);
    if (run_row(node)) return;
    if (const Op* op = find_custom(top_.registry(), node.kind)) {
      call_custom(call, *op);
      return finish_call(node, call);
    }
  }
  throw Refusal{"the op is not supported", ""};
}

namespace {

// Removes large constants that no result needs, such as levels that a row of an op has packed in
// another order, and then all nodes that no result needs.
void drop_unused_constants(Graph& graph) {
  constexpr int64_t kLarge = 4096;  // bytes
  const auto unused = [&] {
    const std::vector<int> uses = use_counts(graph);
    std::vector<bool> all;
    for (const State& state : graph.states())
      all.push_back(state.kind == State::Kind::constant && uses[state.value] == 0 &&
                    state.data.tensor.bytes() >= kLarge);
    return all;
  };
  const auto has_some = [](const std::vector<bool>& all) {
    return std::find(all.begin(), all.end(), true) != all.end();
  };
  if (!has_some(unused())) return;
  remove_dead_nodes(graph);
  forget(graph, unused());
}

Imported import_once(const ScriptProgram& program, std::span<const InputSpec> inputs,
                     const Registry& registry, const Interpreter::Turned& turned) {
  Imported result;
  Graph graph(registry);
  Interpreter(program, inputs, turned, graph, result).run();
  int64_t draws = 0;
  number_draws(graph, draws);
  drop_unused_constants(graph);
  result.graph = std::move(graph);
  return result;
}

bool has_all_ranks(const ScriptProgram& program, const Graph& graph) {
  for (size_t i = 0; i < std::min(program.output_ranks.size(), graph.outputs().size()); ++i)
    if (program.output_ranks[i] &&
        *program.output_ranks[i] != graph.value_info(graph.outputs()[i].second).type.rank())
      return false;
  return true;
}

}  // namespace

Imported import_program(const ScriptProgram& program, std::span<const InputSpec> inputs,
                        const Registry& registry) {
  constexpr size_t kMostTurns = 8;
  const auto is_right = [&](const Imported& each) {
    return each.unsupported.empty() && has_all_ranks(program, each.graph);
  };
  Imported likely = import_once(program, inputs, registry, {});
  std::map<std::string, bool> others;  // the other sides of its forks
  for (const Fork& fork : likely.forks)
    if (!fork.is_known && others.size() < kMostTurns) others.emplace(fork.key, !fork.taken);
  if (!is_right(likely) && !others.empty()) {
    std::vector<Interpreter::Turned> turns;
    for (const auto& each : others) turns.push_back({each});
    if (others.size() > 1) turns.push_back(others);
    for (const Interpreter::Turned& turned : turns)
      if (Imported other = import_once(program, inputs, registry, turned); is_right(other)) {
        likely = std::move(other);
        break;
      }
  }
  for (std::string& line : notes_of_forks(likely.forks)) likely.notes.push_back(std::move(line));
  return likely;
}

}  // namespace hg::convert
