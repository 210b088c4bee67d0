// SPDX-License-Identifier: Apache-2.0
// Regions of torch.func.vmap, which an export without run_decompositions() keeps. The nodes between
// the ops that begin and end a region work on one element of the batch. They become the body of a
// loop over the batch.
#include "converter/core/failure.h"
#include "converter/load/exported/graph.h"
#include "converter/load/exported/weights.h"

namespace hg::convert {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFunctions = "torch._functorch.predispatch.";

bool is(const Json& node, std::string_view function) {
  const std::string& target = node.at("target").get_ref<const std::string&>();
  return target.starts_with(kFunctions) &&
         std::string_view(target).substr(kFunctions.size()) == function;
}

size_t end_of_vmap(const Json& nodes, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < nodes.size(); ++i) {
    depth += is(nodes[i], "_vmap_increment_nesting") ? 1 : 0;
    depth -= is(nodes[i], "_vmap_decrement_nesting") ? 1 : 0;
    if (depth == 0) return i;
  }
  throw Failure{Exit::unreadable, "a region of vmap has no end; save the program again"};
}

}  // namespace

bool ExportedGraph::begins_vmap(const Json& node) { return is(node, "_vmap_increment_nesting"); }

size_t ExportedGraph::read_vmap(const Json& graph, size_t begin, Scope& scope, ScriptBlock& block) {
  const Json& nodes = graph.at("nodes");
  const size_t end = end_of_vmap(nodes, begin);
  std::vector<const Json*> results;
  for (size_t i = begin + 1; i < end; ++i)
    if (begins_vmap(nodes[i]))
      i = end_of_vmap(nodes, i);
    else if (is(nodes[i], "_remove_batch_dim"))
      results.push_back(&nodes[i]);
  try {
    read_batch(graph, begin, end, results, scope, block);
  } catch (const Refusal& refusal) {
    for (const Json* node : results) leave_out(*node, refusal, scope, block);
  }
  return end;
}

void ExportedGraph::read_batch(const Json& graph, size_t begin, size_t end,
                               const std::vector<const Json*>& results, Scope& scope,
                               ScriptBlock& block) {
  const Json& nodes = graph.at("nodes");
  const auto given = [&](const Json& node, size_t i, Scope& from, ScriptBlock& in) {
    return argument(node.at("inputs").at(i).at("arg"), from, in);
  };
  const Json& size = nodes[begin].at("inputs").at(0).at("arg");
  const Json& randomness = nodes[begin].at("inputs").at(1).at("arg");
  if (randomness.value("as_string", "") == "same")
    throw Refusal{"vmap with randomness='same' is not supported", ""};
  if (size.contains("as_int") && size.at("as_int") == 0) {  // no elements to stack
    for (const Json* node : results) {
      const Json& output = node->at("outputs").at(0);
      const Json& known = graph.at("tensor_values").at(output.at("as_tensor").at("name"));
      const Value sizes = argument(Json{{"as_sym_ints", known.at("sizes")}}, scope, block);
      const Value dtype = argument(Json{{"as_scalar_type", known.at("dtype")}}, scope, block);
      bind(node->at("outputs"),
           emit({"aten::zeros", "", {"size", "dtype"}, {sizes, dtype}, {"Tensor"}}, block), scope,
           block);
    }
    return;
  }
  const auto round = [&](const Value& at, const std::vector<Value>&, ScriptBlock& body) {
    Scope inner = scope;
    std::vector<Value> made;
    for (size_t i = begin + 1; i < end; ++i) {
      const Json& node = nodes[i];
      if (begins_vmap(node)) {
        i = read_vmap(graph, i, inner, body);
      } else if (is(node, "_add_batch_dim")) {  // inputs: x, its dim, the level
        const Value x = given(node, 0, inner, body), dim = given(node, 1, inner, body);
        bind(node.at("outputs"), {selected(x, dim, at, body)}, inner, body);
      } else if (is(node, "_remove_batch_dim")) {  // inputs: x, level, size, the result's dim
        made.push_back(given(node, 0, inner, body));
      } else {
        read_node(node, inner, body);
      }
    }
    return made;
  };
  const std::vector<Value> lists = empty_lists(results.size(), block);
  rounds(argument(size, scope, block), {}, lists, round, block);
  for (size_t k = 0; k < results.size(); ++k) {
    const Value dim = given(*results[k], 3, scope, block);
    bind(results[k]->at("outputs"), {stacked(lists[k], dim, block)}, scope, block);
  }
}

}  // namespace hg::convert
