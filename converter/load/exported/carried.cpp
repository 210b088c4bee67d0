// SPDX-License-Identifier: Apache-2.0
// Finds what a language model of any form carries from one run to the next.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "converter/core/failure.h"
#include "converter/load/exported/graph.h"
#include "converter/load/exported/leaves.h"
#include "converter/load/exported/size_expression.h"
#include "converter/load/exported/weights.h"
#include "converter/rows/rows.h"
#include "lib/graph/past_names.h"

namespace hg::convert {
namespace {

using Json = nlohmann::json;
using Path = std::vector<std::string>;

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

std::string joined(const Path& parts, const char* between) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : between) + part;
  return all;
}

struct Typed {
  std::string name;
  TensorType type;
};

// A tensor among the arguments or results; nullopt for a number or an unknown type.
std::optional<Typed> value_of(const Json& graph, const Json& argument) {
  const auto& [kind, value] = kind_of(argument);
  if (kind != "as_tensor") return std::nullopt;
  Typed made{value.at("name").get<std::string>(), {}};
  const Json& meta = graph.at("tensor_values").at(made.name);
  try {
    made.type.dtype = dtype_of_torch(torch_dtype_of_schema(meta.at("dtype").get<int64_t>()));
    for (const Json& size : meta.at("sizes"))
      made.type.shape.push_back(
          size.contains("as_int")
              ? Dim(size.at("as_int").get<int64_t>())
              : parse_size_expression(size.at("as_expr").at("expr_str").get<std::string>()));
  } catch (const Refusal&) {
    return std::nullopt;
  }
  return made;
}

constexpr int kState = -1;
// The dim in which the output is longer than the input; kState for equal types; nullopt if a run
// cannot continue from the output.
std::optional<int> growth(const TensorType& in, const TensorType& out) {
  if (!is_float(in.dtype) || in.dtype != out.dtype || in.rank() != out.rank() || in.rank() < 2)
    return std::nullopt;
  int grows = kState;
  for (int d = 0; d < in.rank(); ++d) {
    const Dim &before = in.shape[static_cast<size_t>(d)],
              &after = out.shape[static_cast<size_t>(d)];
    if (before == after) continue;
    if (grows != kState || before.symbol().empty()) return std::nullopt;
    grows = d;
  }
  return grows;
}

class Carried {
 public:
  Carried(const Json& module, Leaves& leaves) : graph_(module.at("graph")), leaves_(leaves) {
    const Json& signature = module.at("signature");
    for (const Json& spec : signature.at("input_specs")) {
      const auto& [kind, value] = kind_of(spec);
      if (kind == "user_input")
        inputs_.push_back(value_of(graph_, value.at("arg")));
      else if (kind == "constant_input")
        inputs_.emplace_back();
    }
    const Json &specs = signature.at("output_specs"), &outputs = graph_.at("outputs");
    for (size_t i = 0; i < std::min(specs.size(), outputs.size()); ++i)
      if (kind_of(specs[i]).first == "user_output")
        outputs_.push_back(value_of(graph_, outputs[i]));
  }

  bool run() {
    if (inputs_.size() != leaves_.inputs.size() || outputs_.size() != leaves_.outputs.size())
      return false;
    const bool reads_ids = std::any_of(inputs_.begin(), inputs_.end(), [](const auto& input) {
      return input && (input->type.dtype == i64 || input->type.dtype == i32) &&
             input->type.rank() == 2;
    });
    if (!reads_ids) return false;
    // Keys of a dict that are a generator's names already; options may name the inputs.
    for (const Leaf& leaf : leaves_.outputs)
      if (!leaf.path.empty() && present_suffix(leaf.path.back())) return false;
    pair_appended();
    if (pairs_.empty()) pair_structures();
    if (pairs_.empty()) return false;
    pair_states();
    return set_suffixes();
  }

 private:
  struct Pair {
    size_t input, output;
    int grows;
  };

  // Outputs that are the concatenation of an input and new positions.
  void pair_appended() {
    std::map<std::string, std::string> first;  // by the name of a result
    for (const Json& node : graph_.at("nodes")) {
      const std::string target = node.at("target").get<std::string>();
      const bool joins = target == "torch.ops.aten.cat.default",
                 copies = target == "torch.ops.aten.clone.default" ||
                          target == "torch.ops.aten.contiguous.default";
      if ((!joins && !copies) || node.at("inputs").empty()) continue;
      const auto& [kind, argument] = kind_of(node.at("inputs")[0].at("arg"));
      const bool is_list = kind == "as_tensors" && argument.is_array() && !argument.empty();
      if (kind != "as_tensor" && !is_list) continue;
      const Json& of = is_list ? argument[0] : argument;
      first[kind_of(node.at("outputs")[0]).second.at("name")] = of.at("name").get<std::string>();
    }
    std::map<std::string, size_t> by_name;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i]) by_name.emplace(inputs_[i]->name, i);
    std::set<size_t> taken;
    for (size_t o = 0; o < outputs_.size(); ++o) {
      if (!outputs_[o]) continue;
      std::string name = outputs_[o]->name;
      for (auto at = first.find(name); at != first.end(); at = first.find(name)) name = at->second;
      const auto found = by_name.find(name);
      if (found == by_name.end()) continue;
      const std::optional<int> grows = growth(inputs_[found->second]->type, outputs_[o]->type);
      if (!grows || *grows == kState) continue;
      if (!taken.insert(found->second).second) return pairs_.clear();  // two continuations
      pairs_.push_back({found->second, o, *grows});
    }
  }

  // The largest structure that the arguments and the results have in common, if it is the only one.
  void pair_structures() {
    const std::map<Path, std::vector<size_t>> before = groups_of(leaves_.inputs),
                                              after = groups_of(leaves_.outputs);
    bool is_ambiguous = false;
    for (const auto& [prefix, in] : before)
      for (const auto& [other, out] : after) {
        const std::vector<Pair> found = pairs_of(in, prefix.size(), out, other.size());
        if (found.empty() || found.size() < pairs_.size()) continue;
        const bool same = std::equal(found.begin(), found.end(), pairs_.begin(), pairs_.end(),
                                     [](const Pair& a, const Pair& b) {
                                       return a.input == b.input && a.output == b.output;
                                     });
        is_ambiguous = found.size() == pairs_.size() && (is_ambiguous || !same);
        pairs_ = found;
      }
    if (is_ambiguous) pairs_.clear();
  }

  static std::map<Path, std::vector<size_t>> groups_of(const std::vector<Leaf>& leaves) {
    std::map<Path, std::vector<size_t>> groups;
    for (size_t i = 0; i < leaves.size(); ++i)
      for (size_t length = 0; length <= leaves[i].path.size(); ++length)
        groups[{leaves[i].path.begin(), leaves[i].path.begin() + static_cast<int64_t>(length)}]
            .push_back(i);
    return groups;
  }

  static Path below(const Leaf& leaf, size_t length) {
    return {leaf.path.begin() + static_cast<int64_t>(length), leaf.path.end()};
  }

  // The pairs of two structures; empty if they differ or if nothing grows.
  std::vector<Pair> pairs_of(const std::vector<size_t>& in, size_t in_prefix,
                             const std::vector<size_t>& out, size_t out_prefix) const {
    std::vector<Pair> pairs;
    bool any = false;
    for (size_t k = 0; k < in.size() && in.size() == out.size(); ++k) {
      const auto &input = inputs_[in[k]], &output = outputs_[out[k]];
      if (!input || !output ||
          below(leaves_.inputs[in[k]], in_prefix) != below(leaves_.outputs[out[k]], out_prefix))
        return {};
      const std::optional<int> grows = growth(input->type, output->type);
      if (!grows) return {};
      any = any || *grows != kState;
      pairs.push_back({in[k], out[k], *grows});
    }
    return any ? pairs : std::vector<Pair>();
  }

  // The length of the path that all tensors of the pairs have in common.
  size_t common(const std::vector<Leaf>& leaves, size_t Pair::*end) const {
    const Path& first = leaves[pairs_[0].*end].path;
    size_t length = first.empty() ? 0 : first.size() - 1;
    for (const Pair& pair : pairs_) {
      const Path& path = leaves[pair.*end].path;
      size_t same = 0;
      while (same < std::min(length, path.size()) && path[same] == first[same]) ++same;
      length = same;
    }
    return length;
  }

  // States beside the pairs, at the same place of both structures.
  void pair_states() {
    const size_t before = common(leaves_.inputs, &Pair::input),
                 after = common(leaves_.outputs, &Pair::output);
    const Path of = leaves_.inputs[pairs_[0].input].path;
    const auto is_paired = [&](size_t index, size_t Pair::*end) {
      return std::any_of(pairs_.begin(), pairs_.end(),
                         [&](const Pair& pair) { return pair.*end == index; });
    };
    std::vector<Pair> states;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Path& path = leaves_.inputs[i].path;
      if (!inputs_[i] || is_paired(i, &Pair::input) || path.size() <= before ||
          !std::equal(of.begin(), of.begin() + static_cast<int64_t>(before), path.begin()))
        continue;
      for (size_t o = 0; o < outputs_.size(); ++o)
        if (outputs_[o] && !is_paired(o, &Pair::output) && leaves_.outputs[o].path.size() > after &&
            below(leaves_.outputs[o], after) == below(leaves_.inputs[i], before) &&
            growth(inputs_[i]->type, outputs_[o]->type) == kState)
          states.push_back({i, o, kState});
    }
    pairs_.insert(pairs_.end(), states.begin(), states.end());
  }

  bool set_suffixes() {
    const size_t length = common(leaves_.inputs, &Pair::input);
    std::vector<Path> paths;
    for (const Pair& pair : pairs_) paths.push_back(below(leaves_.inputs[pair.input], length));
    const bool are_keys = std::all_of(paths.begin(), paths.end(), [](const Path& path) {
      return path.size() == 2 && is_number(path[0]) && (path[1] == "0" || path[1] == "1");
    });
    std::set<std::string> all;
    for (size_t k = 0; k < pairs_.size(); ++k) {
      if (are_keys) paths[k][1] = paths[k][1] == "0" ? "key" : "value";
      const std::string suffix = path_suffix(paths[k]);
      if (!all.insert(suffix).second) return false;
      Leaf &in = leaves_.inputs[pairs_[k].input], &out = leaves_.outputs[pairs_[k].output];
      in.suffix = out.suffix = suffix;
      in.is_past = out.is_past = pairs_[k].grows != kState;
      if (in.is_past) in.grows = out.grows = pairs_[k].grows;
    }
    return true;
  }

  const Json& graph_;
  Leaves& leaves_;
  std::vector<std::optional<Typed>> inputs_, outputs_;  // like the leaves
  std::vector<Pair> pairs_;
};

}  // namespace

std::string path_suffix(std::vector<std::string> path) {
  for (std::string& part : path) {
    if (part == "keys" || part == "key_cache") part = "key";
    if (part == "values" || part == "value_cache") part = "value";
    if (part == "self_attention_cache") part = "decoder";
    if (part == "cross_attention_cache") part = "encoder";
  }
  auto layer = std::find(path.begin(), path.end(), "layers");
  const bool is_named = layer != path.end() && layer + 1 != path.end() && is_number(layer[1]);
  if (is_named)
    layer = path.erase(layer);
  else
    layer = std::find_if(path.begin(), path.end(), is_number);
  if (layer == path.end()) return "." + joined(path, "_");
  const std::string number = *layer;
  const Path rest(layer + 1, path.end());
  path.erase(layer, path.end());
  if (!rest.empty()) path.push_back(joined(rest, "_"));
  return "." + number + (path.empty() ? "" : "." + joined(path, "."));
}

bool name_carried(const Json& graph_module, Leaves& leaves) {
  return Carried(graph_module, leaves).run();
}

}  // namespace hg::convert
