// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/sizes.h"

#include <algorithm>

#include "converter/check/check_inputs.h"
#include "converter/core/failure.h"
#include "converter/interpret/interpret.h"

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
