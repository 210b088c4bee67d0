// SPDX-License-Identifier: Apache-2.0
// Chooses the sizes of symbols for the check, and seeded inputs of these sizes.
#include "converter/check/check_inputs.h"

#include <algorithm>
#include <optional>
#include <set>

#include "converter/check/number_rules.h"
#include "converter/core/failure.h"
#include "tools/command_line/words.h"

namespace hg::convert {
namespace {

// Returns two sizes for a symbol without requested sizes, by its position in the inputs. Each
// symbol gets different sizes, so that a confusion of two symbols is detected.
std::pair<int64_t, int64_t> default_sizes(std::span<const InputSpec> specs,
                                          const std::string& symbol, int index) {
  bool image = false, features = false, volume = false;
  int maps = 0;
  for (const auto& [name, type, rule] : specs) {
    for (int d = 0; d < type.rank(); ++d) {
      std::vector<std::string> used;
      type.shape[d].collect_symbols(used);
      if (std::find(used.begin(), used.end(), symbol) == used.end()) continue;
      volume = volume || (type.rank() > 4 && d >= type.rank() - 3 && is_float(type.dtype));
      if (type.rank() < 4 || d < type.rank() - 2 || !is_float(type.dtype)) continue;
      ++maps;
      // Images have one or three channels. Tensors with other channel counts come from an earlier
      // model, which has reduced their size.
      const Dim& channels = type.shape[type.rank() - 3];
      (channels == Dim(1) || channels == Dim(3) ? image : features) = true;
    }
  }
  if (is_batch(specs, symbol)) return {2 + index, 3 + index};
  if (volume) return {8 + 8 * index, 16 + 8 * index};
  constexpr int kMostMaps = 8;  // more are keys and values of earlier tokens
  if (maps > kMostMaps) return {5 + 2 * index, 8 + 2 * index};
  if (features && !image) return {32 + 16 * index, 48 + 16 * index};
  if (image) return {64 + 32 * index, 96 + 32 * index};
  return {5 + 2 * index, 8 + 2 * index};
}

}  // namespace

namespace {

// Fills the i-th input with fill(i, dtype, shape, range, seed).
template <class Fill>
Inputs filled_inputs(std::span<const InputSpec> specs, const Binding& sizes, const Job& job,
                     const Fill& fill) {
  Bindings bindings;
  for (const auto& [symbol, size] : sizes)
    if (Status status = bindings.bind(symbol, size); !status.ok())
      throw Failure{Exit::usage, std::string(status.message())};
  Inputs inputs;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto& [name, type, rule] = specs[i];
    Result<Sizes> shape = evaluate(type.shape, bindings);
    if (!shape.ok())
      throw Failure{Exit::usage,
                    str_cat("input '", name, "' cannot have the shape ", type.shape, " with ",
                            describe_sizes(sizes), ": ", shape.status().message())};
    std::optional<std::pair<double, double>> range;
    std::string given = name;  // the program's name, if the file has another
    if (i < job.inputs.size()) {
      range = job.inputs[i].range;
      if (!job.inputs[i].new_name.empty()) given = job.inputs[i].spec.name;
    }
    Result<TensorData> data = fill(i, type.dtype, *shape, range, job.seed + 977 * i);
    if (!data.ok())
      throw Failure{Exit::unsupported, str_cat("input '", name, "' of ", describe_sizes(sizes),
                                               ": ", data.status().message())};
    inputs.data.push_back(*std::move(data));
    inputs.reference.push_back({std::move(given), inputs.data.back().tensor});
  }
  return inputs;
}

}  // namespace

namespace {

// Numbers that single inputs share are drawn with one seed.
std::optional<TensorData> follow_rule(const InputSpec& spec, const Sizes& shape,
                                      const std::optional<std::pair<double, double>>& range,
                                      int64_t limit, uint64_t seed) {
  if (!spec.rule.numbers) return std::nullopt;
  return ruled_input(spec.rule, spec.type.dtype, shape, range, limit, seed);
}

}  // namespace

Inputs make_inputs(std::span<const InputSpec> specs, const Binding& sizes, const Job& job,
                   const Draw& draw) {
  return filled_inputs(
      specs, sizes, job,
      [&](size_t i, DType dtype, const Sizes& shape, const auto& range,
          uint64_t seed) -> Result<TensorData> {
        seed += 7919 * draw.turn;
        if (auto ruled = follow_rule(specs[i], shape, range, draw.limit_of(specs[i].rule.group),
                                     job.seed + draw.turn))
          return *std::move(ruled);
        return seeded_input(dtype, shape, range, draw, seed);
      });
}

bool is_integer_input(const InputSpec& spec) {
  return is_integer(spec.type.dtype) && spec.type.dtype != boolean;
}

std::vector<Draw> draws(std::span<const InputSpec> specs, const Binding& sizes) {
  std::vector<Draw> all;
  if (std::none_of(specs.begin(), specs.end(), is_integer_input)) {
    for (const Filling filling : kFillings) all.push_back({filling});
    return all;
  }
  constexpr size_t kMostLimits = 4, kTurns = 3;
  std::set<int64_t, std::greater<>> limits;
  const Bindings bindings = bindings_of(sizes);
  for (const InputSpec& spec : specs)
    for (const Dim& dim : spec.type.shape)
      if (const Result<int64_t> size = dim.evaluate(bindings); size.ok() && *size > 1)
        limits.insert(*size);
  while (limits.size() > kMostLimits) limits.erase(limits.begin());
  if (limits.empty()) limits.insert(4);
  for (auto& by_group : limits_of_rules(specs, bindings))
    all.push_back({Filling::usual, *limits.begin(), 0, std::move(by_group)});
  for (const Filling filling : kFillings) all.push_back({filling});
  for (uint64_t turn = 0; turn < kTurns; ++turn)
    for (const int64_t limit : limits)
      for (const Filling filling : {Filling::lengths, Filling::counts})
        all.push_back({filling, limit, turn});
  return all;
}

Inputs make_inputs(std::span<const InputSpec> specs, const Binding& sizes, const Job& job,
                   std::span<const Recipe* const> chosen, uint64_t seed, const Draw* integers) {
  return filled_inputs(
      specs, sizes, job,
      [&](size_t i, DType dtype, const Sizes& shape, const auto& range,
          uint64_t own) -> Result<TensorData> {
        const NumberRule& rule = specs[i].rule;
        const int64_t limit = integers != nullptr ? integers->limit_of(rule.group) : rule.limit;
        if (auto ruled = follow_rule(specs[i], shape, range, limit, job.seed + seed))
          return *std::move(ruled);
        if (integers != nullptr && is_integer_input(specs[i]))
          return seeded_input(dtype, shape, range, *integers, own + seed);
        if (chosen[i] == nullptr) return seeded_input(dtype, shape, range, Draw(), own + seed);
        return seeded_input(dtype, shape, range, *chosen[i], own + seed);
      });
}

bool is_batch(std::span<const InputSpec> specs, const std::string& symbol) {
  for (const InputSpec& spec : specs)
    for (int d = 1; d < spec.type.rank(); ++d) {
      std::vector<std::string> used;
      spec.type.shape[d].collect_symbols(used);
      if (std::find(used.begin(), used.end(), symbol) != used.end()) return false;
    }
  return true;
}

std::string describe_sizes(const Binding& sizes) {
  std::string out;
  for (const auto& [symbol, size] : sizes)
    out += str_cat(out.empty() ? "" : ", ", symbol, "=", size);
  return out.empty() ? "the given sizes" : out;
}

Bindings bindings_of(const Binding& sizes) {
  Bindings bindings;
  for (const auto& [symbol, size] : sizes) (void)bindings.bind(symbol, size);
  return bindings;
}

std::vector<InputSpec> input_specs(const Graph& graph) {
  std::vector<InputSpec> specs;
  for (ValueId id : graph.inputs())
    specs.push_back({graph.value_info(id).name, graph.value_info(id).type});
  return specs;
}

std::vector<Binding> check_sizes(std::span<const InputSpec> specs, const Job& job) {
  std::vector<std::string> symbols;
  for (const InputSpec& spec : specs)
    for (const Dim& dim : spec.type.shape) dim.collect_symbols(symbols);
  size_t cases = symbols.empty() ? 1 : 2;
  for (const SizeOption& option : job.check_sizes) {
    if (std::find(symbols.begin(), symbols.end(), option.symbol) == symbols.end()) {
      std::string close = tools::closest_name(option.symbol, symbols);
      throw Failure{Exit::usage,
                    str_cat("--check-size ", option.symbol, ": no --input has a size ",
                            option.symbol, close.empty() ? "" : ", did you mean " + close + "?")};
    }
    if (option.sizes.empty())
      throw Failure{Exit::usage, str_cat("--check-size ", option.symbol, ": no sizes are given")};
    cases = std::max(cases, option.sizes.size());
  }
  // If every symbol has requested sizes, uses only these.
  if (!symbols.empty() && job.check_sizes.size() == symbols.size()) {
    cases = 1;
    for (const SizeOption& option : job.check_sizes) cases = std::max(cases, option.sizes.size());
  }
  std::vector<Binding> result(cases);
  for (size_t s = 0; s < symbols.size(); ++s) {
    auto [first, second] = default_sizes(specs, symbols[s], static_cast<int>(s));
    std::vector<int64_t> sizes = {first, second};
    for (const SizeOption& option : job.check_sizes)
      if (option.symbol == symbols[s]) sizes = option.sizes;
    for (size_t k = 0; k < cases; ++k)
      result[k].emplace_back(symbols[s], sizes[std::min(k, sizes.size() - 1)]);
  }
  return result;
}

}  // namespace hg::convert
