// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/sizes.h"

#include <algorithm>

#include "converter/check/check_inputs.h"
#include "converter/cli/inputs.h"
#include "converter/core/failure.h"
#include "converter/interpret/interpret.h"
#include "lib/graph/access.h"
#include "lib/graph/assumptions.h"

namespace hg::convert {

bool has_symbol(const Job& job, const std::string& symbol) {
  std::vector<std::string> symbols;
  for (const InputOption& input : job.inputs)
    for (const Dim& dim : input.spec.type.shape) dim.collect_symbols(symbols);
  return std::find(symbols.begin(), symbols.end(), symbol) != symbols.end();
}

void apply_dims(Job& job) {
  Bindings bindings;
  for (const SizeOption& option : job.dims) {
    if (!has_symbol(job, option.symbol))
      throw Failure{Exit::usage,
                    str_cat("--dim ", option.symbol, ": no --input has a size ", option.symbol)};
    if (Status status = bindings.bind(option.symbol, option.sizes.at(0)); !status.ok())
      throw Failure{Exit::usage, str_cat("--dim: ", status.message())};
  }
  for (InputOption& input : job.inputs)
    for (Dim& dim : input.spec.type.shape) dim = dim.substitute(bindings);
}

namespace {

// The symbols that a node of the graph requires to be a number.
Renamed required_numbers(const Graph& graph) {
  Renamed numbers;
  for (const Node& node : graph.nodes()) {
    std::vector<Assumption> assumptions;
    GraphAccess::InferCall call = GraphAccess::infer_call(graph, node);
    call.assumptions = &assumptions;
    if (!GraphAccess::infer(call).ok()) continue;
    for (const Assumption& taken : assumptions) {
      if (taken.relation != Relation::eq) continue;
      for (const auto& [one, other] :
           {std::pair(taken.left, taken.right), std::pair(taken.right, taken.left)})
        if (!one.symbol().empty() && other.is_constant()) numbers.emplace_back(one.symbol(), other);
    }
  }
  return numbers;
}

}  // namespace

bool solve_sizes(Job& job, const Imported& imported) {
  Renamed solved;
  for (const Renamed& all : {imported.equations, required_numbers(imported.graph)})
    for (const auto& [symbol, size] : all) {
      const auto is_known = [&, &name = symbol](const auto& each) { return each.first == name; };
      std::vector<std::string> inside;
      size.collect_symbols(inside);
      // One symbol per round, unless sizes are numbers: the others may contain it.
      const bool is_next = solved.empty() || inside.empty();
      if (is_next && std::find(inside.begin(), inside.end(), symbol) == inside.end() &&
          has_symbol(job, symbol) && std::none_of(solved.begin(), solved.end(), is_known))
        solved.emplace_back(symbol, size);
    }
  if (solved.empty()) return false;
  for (InputOption& input : job.inputs)
    for (Dim& dim : input.spec.type.shape)
      if (const Result<Dim> size = renamed_dim(dim, solved); size.ok()) dim = *size;
  return true;
}

std::vector<std::pair<std::string, int64_t>> asked_sizes(const Job& job) {
  std::vector<std::pair<std::string, int64_t>> asked;
  for (const SizeOption& option : job.check_sizes) {
    const auto size = std::find_if(option.sizes.begin(), option.sizes.end(),
                                   [](int64_t each) { return each != 1; });
    if (!option.sizes.empty())
      asked.emplace_back(option.symbol, size == option.sizes.end() ? 1 : *size);
  }
  return asked;
}

std::string fixed_sizes_hint(const ScriptProgram& program, const std::vector<InputSpec>& specs,
                             const Job& job, const Registry& registry) {
  const auto cases = check_sizes(specs, job);
  if (cases.empty() || cases[0].empty()) return "";
  std::vector<std::vector<std::pair<std::string, int64_t>>> trials;
  for (const auto& size : cases[0]) trials.push_back({size});
  if (cases[0].size() > 1) trials.push_back(cases[0]);
  for (const auto& sizes : trials) {
    Bindings bindings;
    std::string options;
    for (const auto& [symbol, size] : sizes) {
      if (!bindings.bind(symbol, size).ok()) return "";
      options += str_cat(" --dim ", symbol, "=", size);
    }
    std::vector<InputSpec> fixed = specs;
    for (InputSpec& spec : fixed)
      for (Dim& dim : spec.type.shape) dim = dim.substitute(bindings);
    if (import_program(program, fixed, registry).unsupported.empty())
      return str_cat("; with ", options.substr(1), " the model converts, for ",
                     sizes.size() > 1 ? "these sizes" : "this size",
                     " only. If it is a trace that recorded a number, compute the number from "
                     "x.size()");
  }
  return "";
}

}  // namespace hg::convert
