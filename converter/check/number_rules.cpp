// SPDX-License-Identifier: Apache-2.0
#include "converter/check/number_rules.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "converter/aten/table.h"
#include "lib/graph/element.h"
#include "lib/graph/split_mix.h"

namespace hg::convert {
namespace {

using Integers = std::vector<int64_t>;

// Finds the inputs of the program that nodes pass on unchanged.
class Sources {
 public:
  explicit Sources(const ScriptProgram& program) {
    for (size_t i = 0; i < program.inputs.size() && i + 1 < program.body.inputs.size(); ++i)
      inputs_[program.body.inputs[i + 1]] = i;
    add(program.body);
  }

  // Returns the program's input that has the value; nothing if it is another value.
  std::optional<size_t> input_of(ScriptId id) const {
    if (const auto input = inputs_.find(id); input != inputs_.end()) return input->second;
    const ScriptNode* const made = maker(id);
    if (made == nullptr) return std::nullopt;
    if (made->kind == "prim::If") {
      const auto place = std::find(made->outputs.begin(), made->outputs.end(), id);
      for (const ScriptBlock& block : made->blocks)
        if (const auto input = input_of(block.outputs.at(place - made->outputs.begin())))
          return input;
      return std::nullopt;
    }
    constexpr std::string_view kPassing[] = {"aten::Int",         "aten::IntImplicit",
                                             "aten::item",        "aten::to",
                                             "aten::select",      "aten::contiguous",
                                             "aten::detach",      "aten::clone",
                                             "prim::tolist",      "aten::cpu",
                                             "aten::ravel",       "aten::flatten",
                                             "aten::squeeze",     "aten::unsqueeze",
                                             "aten::view",        "aten::reshape",
                                             "prim::NumToTensor", "prim::unchecked_cast",
                                             "prim::TupleUnpack", "aten::_local_scalar_dense"};
    if (made->inputs.empty() ||
        std::find(std::begin(kPassing), std::end(kPassing), made->kind) == std::end(kPassing))
      return std::nullopt;
    return input_of(made->inputs[0]);
  }
  const ScriptNode* maker(ScriptId id) const {
    const auto made = makers_.find(id);
    return made == makers_.end() ? nullptr : made->second;
  }

 private:
  void add(const ScriptBlock& block) {
    for (const ScriptNode& node : block.nodes) {
      for (const ScriptId id : node.outputs) makers_[id] = &node;
      for (const ScriptBlock& inner : node.blocks) add(inner);
    }
  }

  std::map<ScriptId, size_t> inputs_;
  std::map<ScriptId, const ScriptNode*> makers_;
};

class Rules {
 public:
  Rules(std::span<InputSpec> specs, const ScriptProgram& program)
      : specs_(specs), program_(program), sources_(program) {}

  void add(const ScriptBlock& block) {
    for (const ScriptNode& node : block.nodes) {
      if (const Row* row = find_row(node.kind, node.overload))
        for (const NumbersOf& numbers : row->numbers)
          for (size_t i = 0; i < node.inputs.size() && i < node.argument_names.size(); ++i)
            if (!numbers.argument.empty() && node.argument_names[i] == numbers.argument)
              add(node, node.inputs[i], numbers.rule);
      for (const ScriptBlock& inner : node.blocks) add(inner);
    }
  }

 private:
  InputSpec* spec_of(size_t input) {
    const auto found = std::find_if(specs_.begin(), specs_.end(), [&](const InputSpec& spec) {
      return spec.name == program_.inputs[input].name;
    });
    const bool fits = found != specs_.end() && is_integer(found->type.dtype) &&
                      found->type.dtype != boolean && !found->rule.numbers;
    return fits ? &*found : nullptr;
  }

  // A tensor, or a list of numbers from inputs and constants.
  void add(const ScriptNode& node, ScriptId argument, DrawnNumbers numbers) {
    NumberRule rule{numbers, node.kind.substr(node.kind.find(':') + 2)};
    rule.group = groups_++;
    if (numbers == DrawnNumbers::parts)
      if (const auto whole = sources_.input_of(node.inputs[0]))
        rule.whole = program_.inputs[*whole].name;
    const ScriptNode* const list = sources_.maker(argument);
    if (numbers == DrawnNumbers::distinct) {  // max_unpool1d() unsqueezes for max_unpool2d()
      rule.image = node.kind.ends_with("3d") ? 3 : 2;
      for (const ScriptNode* made = list; made != nullptr && made->kind == "aten::unsqueeze";
           made = sources_.maker(made->inputs[0]))
        --rule.image;
    }
    if (list != nullptr && (list->kind == "aten::Int" || list->kind == "aten::item")) return;
    if (const auto input = sources_.input_of(argument)) {
      if (InputSpec* spec = spec_of(*input); spec && spec->type.rank() > 0) spec->rule = rule;
      return;
    }
    if (list == nullptr || list->kind != "prim::ListConstruct") return;
    std::vector<InputSpec*> parts;
    for (const ScriptId id : list->inputs) {
      const ScriptNode* maker = sources_.maker(id);
      if (maker != nullptr && maker->kind == "prim::Constant") {
        const auto* known = std::get_if<Dim>(&maker->constant.value);
        if (known == nullptr || numbers != DrawnNumbers::parts) return;
        rule.known += known->constant();
        continue;
      }
      const auto input = sources_.input_of(id);
      InputSpec* const spec = input ? spec_of(*input) : nullptr;
      if (spec == nullptr) return;
      if (std::find(parts.begin(), parts.end(), spec) == parts.end()) parts.push_back(spec);
    }
    rule.of = parts.size();
    for (InputSpec* const spec : parts) {
      if (rule.of > 1 && spec->type.rank() > 0) return;
      spec->rule = rule;
      ++rule.place;
    }
  }

  std::span<InputSpec> specs_;
  const ScriptProgram& program_;
  Sources sources_;
  size_t groups_ = 0;
};

int64_t below(uint64_t& state, int64_t end) {
  return end > 0 ? static_cast<int64_t>(split_mix(state) % static_cast<uint64_t>(end)) : 0;
}

Integers shuffled(int64_t count, uint64_t& state) {
  Integers order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = count; i > 1; --i) std::swap(order[i - 1], order[below(state, i)]);
  return order;
}

// Pivots of n rows as LAPACK numbers them, from 1. A pair of equal negative numbers exchanges two
// rows at once.
Integers pivots(int64_t n, bool pairs, uint64_t& state) {
  Integers all;
  for (int64_t k = 0; k < n;) {
    const bool pair = pairs && k + 1 < n && below(state, 3) == 0;
    const int64_t last = pair ? k + 1 : k, row = last + below(state, n - last) + 1;
    all.insert(all.end(), pair ? 2 : 1, pair ? -row : row);
    k += pair ? 2 : 1;
  }
  return all;
}

// `count` numbers from 0 to `most` in rising order; the first one is 0.
Integers rising(int64_t count, int64_t most, uint64_t& state) {
  Integers all(static_cast<size_t>(count));
  for (int64_t& each : all) each = below(state, most + 1);
  if (!all.empty()) all[0] = 0;
  std::sort(all.begin(), all.end());
  return all;
}

// One row of numbers; empty if there are none.
Integers row_of(const NumberRule& rule, int64_t count, int64_t limit, uint64_t& state) {
  switch (*rule.numbers) {
    case DrawnNumbers::pivots:
    case DrawnNumbers::paired_pivots:
      return pivots(count, rule.numbers == DrawnNumbers::paired_pivots, state);
    case DrawnNumbers::order:
    case DrawnNumbers::distinct:
      return shuffled(count, state);
    case DrawnNumbers::offsets:
      return rising(count, limit, state);
    case DrawnNumbers::parts: {
      const int64_t sum = limit - rule.known;
      if (sum < 0) return {};
      Integers cuts = rising(count, sum, state);  // the parts end where the next ones start
      for (int64_t i = 0; i + 1 < count; ++i) cuts[i] = cuts[i + 1] - cuts[i];
      if (count > 0) cuts.back() = sum - cuts.back();
      return cuts;
    }
    case DrawnNumbers::lengths: {
      Integers all;
      for (int64_t i = 0; i < count; ++i) all.push_back(1 + below(state, limit));
      std::sort(all.rbegin(), all.rend());
      return all;
    }
  }
  return {};
}

}  // namespace

void set_number_rules(std::span<InputSpec> specs, const ScriptProgram& program) {
  Rules(specs, program).add(program.body);
}

bool has_limit(const NumberRule& rule) {
  return rule.numbers == DrawnNumbers::parts || rule.numbers == DrawnNumbers::offsets ||
         rule.numbers == DrawnNumbers::lengths;
}

std::vector<std::map<size_t, int64_t>> limits_of_rules(std::span<const InputSpec> specs,
                                                       const Bindings& sizes) {
  constexpr size_t kMostLimits = 12, kMostDraws = 256;
  std::vector<std::map<size_t, int64_t>> draws(1);
  std::set<size_t> done;
  for (const InputSpec& ruled : specs) {
    if (!has_limit(ruled.rule) || !done.insert(ruled.rule.group).second) continue;
    const std::string& whole = ruled.rule.whole;
    std::set<int64_t, std::greater<>> limits;
    for (const InputSpec& spec : specs)
      if (whole.empty() || spec.name == whole)
        for (const Dim& dim : spec.type.shape)
          if (const auto size = dim.evaluate(sizes); size.ok() && *size > (whole.empty() ? 1 : 0))
            limits.insert(*size);
    while (limits.size() > kMostLimits) limits.erase(limits.begin());
    if (limits.empty()) limits.insert(1);
    std::vector<std::map<size_t, int64_t>> more;
    for (const auto& draw : draws)
      for (const int64_t limit : limits)
        if (more.size() < kMostDraws) (more.emplace_back(draw))[ruled.rule.group] = limit;
    draws = std::move(more);
  }
  return done.empty() ? std::vector<std::map<size_t, int64_t>>() : draws;
}

std::optional<TensorData> ruled_input(const NumberRule& rule, DType dtype, const Sizes& shape,
                                      const std::optional<std::pair<double, double>>& range,
                                      int64_t limit, uint64_t seed) {
  Result<TensorData> data = TensorData::allocate(dtype, shape);
  if (!data.ok()) return std::nullopt;
  const int64_t all = data->tensor.count();
  // The places of one image are distinct; other rules hold for each row of the last dim.
  int64_t count = shape.empty() ? 1 : shape.back();
  for (int d = 2; d <= std::min(rule.image, data->tensor.rank()); ++d)
    count *= shape[shape.size() - static_cast<size_t>(d)];
  constexpr int kTries = 20;
  for (uint64_t turn = 0; turn < kTries; ++turn) {
    bool fits = true;
    uint64_t state = seed * 0x2545F4914F6CDD1D + 3 + turn;
    for (int64_t first = 0; first < all && fits; first += count) {
      Integers row =
          row_of(rule, rule.of > 1 ? static_cast<int64_t>(rule.of) : count, limit, state);
      if (rule.of > 1 && !row.empty()) row = {row[rule.place]};
      fits = static_cast<int64_t>(row.size()) == count;
      for (int64_t i = 0; fits && i < count; ++i) {
        const auto value = static_cast<double>(row[i]);
        fits = !range || (value >= range->first && value <= range->second);
        set_element(data->tensor, first + i, value);
      }
    }
    if (fits) return *std::move(data);
  }
  return std::nullopt;
}

std::string describe(const NumberRule& rule) {
  if (!rule.numbers) return "";
  switch (*rule.numbers) {
    case DrawnNumbers::pivots:
    case DrawnNumbers::paired_pivots:
      return "pivots of a factorization";
    case DrawnNumbers::parts:
      return "sizes that sum up to that of a dim";
    case DrawnNumbers::offsets:
      return "rising offsets";
    case DrawnNumbers::order:
      return "an order of dims";
    case DrawnNumbers::distinct:
      return "distinct places";
    case DrawnNumbers::lengths:
      return "falling lengths";
  }
  return "";
}

}  // namespace hg::convert
