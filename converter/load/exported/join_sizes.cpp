// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <map>

#include "converter/core/failure.h"
#include "converter/load/exported/leaves.h"
#include "converter/load/exported/size_expression.h"

namespace hg::convert {
namespace {

Dim replaced(const Dim& dim, const std::string& symbol, const Dim& by) {
  std::string text;
  const std::string all = str_cat(dim);
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  for (size_t at = 0; at < all.size();) {
    size_t end = at;
    while (end < all.size() && is_word(all[end])) ++end;
    const std::string word = all.substr(at, end - at);
    text += word == symbol ? str_cat("(", by, ")") : word;
    if (end == at) text += all[end++];
    at = end;
  }
  const Result<Dim> parsed = Dim::parse(text);
  return parsed.ok() ? *parsed : dim;
}

class Sizes {
 public:
  explicit Sizes(ScriptProgram& program) : program_(program) {}

  // Replaces a symbol, so that a == b. Does nothing if no symbol is a sum of the others.
  void equate(const Dim& a, const Dim& b) {
    const Dim difference = now(a) - now(b);
    std::vector<std::string> symbols;
    difference.collect_symbols(symbols);
    // Later inputs, such as masks, get the symbols of earlier ones.
    for (const bool single : {true, false})
      for (auto symbol = symbols.rbegin(); symbol != symbols.rend(); ++symbol)
        for (const Dim& sum : {Dim(*symbol) - difference, Dim(*symbol) + difference})
          if (is_sum_without(sum, *symbol) && (!single || !sum.symbol().empty()))
            return replace(*symbol, sum);
  }
  Dim now(Dim dim) const {
    for (const auto& [symbol, by] : replaced_) dim = replaced(dim, symbol, by);
    return dim;
  }

 private:
  static bool is_sum_without(const Dim& sum, const std::string& symbol) {
    std::vector<std::string> symbols;
    sum.collect_symbols(symbols);
    const std::string text = str_cat(sum);
    return !symbols.empty() && text.find_first_of("-(*") == text.npos &&
           std::find(symbols.begin(), symbols.end(), symbol) == symbols.end();
  }
  // Keeps the symbol if its range says more than those of the sum.
  void replace(const std::string& symbol, const Dim& by) {
    const auto range_of = [&](std::string_view name) {
      return std::find_if(program_.ranges.begin(), program_.ranges.end(),
                          [&](const SymbolRange& range) { return range.symbol == name; });
    };
    if (const auto range = range_of(symbol); range != program_.ranges.end()) {
      if (const auto other = range_of(by.symbol()); other != program_.ranges.end()) {
        other->smallest = std::max(other->smallest, range->smallest);
        other->largest = std::min(other->largest, range->largest);
      } else if (range->largest < INT64_MAX || range->smallest > least(by)) {
        return;
      }
    }
    replaced_.emplace_back(symbol, by);
    for (ScriptInput& input : program_.inputs)
      for (Dim& dim : input.known->shape) dim = replaced(dim, symbol, by);
    std::erase_if(program_.ranges,
                  [&](const SymbolRange& range) { return range.symbol == symbol; });
  }

  // PyTorch states for every open size that it is at least 2, but does not enforce it.
  static int64_t least(const Dim& sum) {
    constexpr int64_t kSmallestOpen = 2;
    std::vector<std::string> symbols;
    sum.collect_symbols(symbols);
    Bindings sizes;
    for (const std::string& symbol : symbols) (void)sizes.bind(symbol, kSmallestOpen).ok();
    const Result<int64_t> value = sum.evaluate(sizes);
    return value.ok() ? *value : 0;
  }

  ScriptProgram& program_;
  std::vector<std::pair<std::string, Dim>> replaced_;
};

// Reads "a == b", or "a <= b" as b - a >= 0. Other guards are left alone.
struct Comparison {
  std::optional<Dim> equal, at_most;  // a - b
};
Comparison comparison(const std::string& guard) {
  for (const std::string_view relation : {" == ", " <= ", " >= "}) {
    const size_t at = guard.find(relation);
    if (at == guard.npos || guard.find(relation, at + 1) != guard.npos) continue;
    try {
      const Dim left = parse_size_expression(std::string_view(guard).substr(0, at)),
                right = parse_size_expression(std::string_view(guard).substr(at + relation.size()));
      if (relation == " == ") return {left - right, {}};
      return {{}, relation == " <= " ? left - right : right - left};
    } catch (const Refusal&) {
      return {};
    }
  }
  return {};
}

}  // namespace

void join_sizes(ScriptProgram& program, const std::vector<Leaf>& cache,
                const std::vector<std::string>& guards) {
  Sizes sizes(program);
  std::vector<Dim> at_most;
  for (const std::string& guard : guards) {
    const Comparison found = comparison(guard);
    if (found.equal) sizes.equate(*found.equal, 0);
    if (!found.at_most) continue;
    for (const Dim& other : at_most)
      if (sizes.now(other) + sizes.now(*found.at_most) == Dim(0)) sizes.equate(other, 0);
    at_most.push_back(*found.at_most);
  }
  // Keys and values have the batch in their first dim.
  const Shape* first = nullptr;
  std::map<std::string, Dim> layers;  // lengths
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Shape& shape = program.inputs[i].known->shape;
    const std::string& suffix = cache[i].suffix;
    const size_t grows = static_cast<size_t>(cache[i].grows);
    if (suffix.empty() || grows == 0 || shape.size() <= std::max(grows, size_t{2})) continue;
    if (first) sizes.equate((*first)[0], shape[0]);
    if (!first) first = &shape;
    if (!cache[i].is_past) continue;
    const std::string layer = suffix.substr(0, suffix.rfind('.'));
    const auto [same, is_new] = layers.emplace(layer, shape[grows]);
    if (!is_new) sizes.equate(same->second, shape[grows]);
  }
  // So have ids, masks and positions.
  const ScriptInput *ids = nullptr, *positions = nullptr;
  for (size_t i = 0; first && i < program.inputs.size(); ++i) {
    const TensorType& type = *program.inputs[i].known;
    if (program.inputs[i].name == "input_ids" && type.rank() == 2) ids = &program.inputs[i];
    if (program.inputs[i].name == "position_ids" && type.rank() == 2)
      positions = &program.inputs[i];
    if (cache[i].suffix.empty() && !is_float(type.dtype) && type.rank() == 2)
      sizes.equate((*first)[0], type.shape[0]);
  }
  if (ids && positions) sizes.equate(ids->known->shape[1], positions->known->shape[1]);
}

}  // namespace hg::convert
