// SPDX-License-Identifier: Apache-2.0
#include "converter/wrong_node.h"

#include <cstring>
#include <map>
#include <set>

#include "converter/compare.h"

namespace hg::convert {
namespace {

using Execution = std::pair<const ScriptNode*, int64_t>;  // a node and its occurrence

// Two results of argsort pick equal values of `source` along some dim.
bool differ_in_ties(const Tensor& source, const Tensor& got, const Tensor& want) {
  if (got.shape != source.shape || want.shape != source.shape || got.dtype != i64 ||
      want.dtype != i64 || !got.is_contiguous() || !source.is_contiguous())
    return false;
  int64_t bytes = size_of(source.dtype);
  const char* data = source.as<const char>();
  for (int d = 0; d < source.rank(); ++d) {
    int64_t stride = source.strides[d], size = source.shape[d];
    bool same = true;
    for (int64_t i = 0; i < source.count() && same; ++i) {
      int64_t a = got.as<const int64_t>()[i], b = want.as<const int64_t>()[i];
      int64_t line = i - i / stride % size * stride;
      same = a >= 0 && a < size && b >= 0 && b < size &&
             std::memcmp(data + (line + a * stride) * bytes, data + (line + b * stride) * bytes,
                         static_cast<size_t>(bytes)) == 0;
    }
    if (same) return true;
  }
  return false;
}

// Results of nodes that differ between two seeds.
std::set<Execution> varying_nodes(const Trial& trial) {
  std::map<Execution, uint64_t> first;
  std::set<Execution> varying;
  for (uint64_t seed : {trial.seed, trial.seed + 1}) {
    run_reference_nodes(
        trial.loaded, trial.inputs.reference, seed,
        [&](const ScriptNode& node, int64_t occurrence, std::span<const TensorData> outputs) {
          uint64_t hash = 0;
          for (const TensorData& data : outputs) hash = hash * 31 + fingerprint(data);
          auto [entry, fresh] = first.try_emplace({&node, occurrence}, hash);
          if (!fresh && entry->second != hash) varying.insert(entry->first);
          return true;
        });
  }
  return varying;
}

Result<Tensor> value_of(const Trial& trial, const Session& session, ValueId id) {
  return session.value(trial.model.graph().value_info(id).name);
}

std::optional<WrongNode> difference(const Trial& trial, const Session& session,
                                    const Executed& executed, std::span<const TensorData> outputs) {
  for (size_t i = 0; i < outputs.size() && i < executed.outputs.size(); ++i) {
    ValueId id = executed.outputs[i];
    if (id == kNoValue || outputs[i].empty()) continue;
    Result<Tensor> got = value_of(trial, session, id);
    if (!got.ok()) continue;  // folded away
    Comparison comparison = compare(*got, outputs[i].tensor);
    if (comparison.equal) continue;
    bool index = i > 0 && outputs[i].tensor.dtype == i64;
    return WrongNode{executed.node->kind, executed.node->origin,
                     (index ? "indices: " : "") + comparison.difference, comparison.largest_error};
  }
  return std::nullopt;
}

}  // namespace

uint64_t fingerprint(const TensorData& data) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  if (data.empty()) return 0;
  const auto* bytes = static_cast<const unsigned char*>(data.tensor.data);
  for (int64_t i = 0; i < data.tensor.bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001B3;
  return hash;
}

Result<Session> run_with_all_values(const Trial& trial) {
  Options options;
  options.keep_all_values = true;
  HG_TRY_ASSIGN(Session session, Session::create(trial.model, options));
  for (size_t i = 0; i < trial.inputs.data.size(); ++i)
    HG_TRY(session.set_input(static_cast<int>(i), trial.inputs.data[i].tensor));
  HG_TRY(session.run());
  return session;
}

std::optional<WrongNode> find_wrong_node(const Trial& trial, const Session& kept) {
  const Inputs& inputs = trial.inputs;
  std::map<Execution, const Executed*> converted;
  std::map<const ScriptNode*, int64_t> seen;
  for (const Executed& executed : trial.trace)
    converted[{executed.node, seen[executed.node]++}] = &executed;
  std::optional<WrongNode> wrong;
  try {
    std::map<ScriptId, Tensor> results;
    std::vector<TensorData> owners;  // of the memory of results
    const std::vector<ScriptId>& arguments = trial.loaded.program.body.inputs;
    for (size_t i = 0; i < inputs.data.size() && arguments.size() == inputs.data.size() + 1; ++i)
      results[arguments[i + 1]] = inputs.data[i].tensor;
    std::set<Execution> skip;
    if (trial.varies) skip = varying_nodes(trial);
    run_reference_nodes(
        trial.loaded, inputs.reference, trial.seed,
        [&](const ScriptNode& node, int64_t occurrence, std::span<const TensorData> outputs) {
          auto found = converted.find({&node, occurrence});
          if (found == converted.end() || skip.count({&node, occurrence}) > 0) return true;
          wrong = difference(trial, kept, *found->second, outputs);
          if (wrong && node.kind == "aten::argsort") {
            auto source = results.find(node.inputs.at(0));
            Result<Tensor> got = value_of(trial, kept, found->second->outputs.at(0));
            if (source != results.end() && got.ok() &&
                differ_in_ties(source->second, *got, outputs[0].tensor))
              wrong->difference = "ties: " + wrong->difference;
          }
          for (size_t i = 0; i < outputs.size(); ++i) results[node.outputs[i]] = outputs[i].tensor;
          for (const TensorData& data : outputs) owners.push_back(data);
          return !wrong;
        });
  } catch (const ReferenceFailure&) {
    // The node-by-node run lacks some construct: what was found until there counts.
  }
  return wrong;
}

bool is_tie(const WrongNode& wrong) {
  static const std::set<std::string> kKinds = {"aten::sort", "aten::topk", "aten::kthvalue",
                                               "aten::median", "aten::mode"};
  return wrong.difference.starts_with("ties: ") ||
         (wrong.difference.starts_with("indices: ") && kKinds.count(wrong.op) > 0);
}

std::string describe_origin(const Origin& origin) {
  std::string out;
  if (!origin.module.empty()) out += text(" in module '", origin.module, "'");
  if (!origin.source.empty()) out += text(" (", origin.source, ")");
  return out;
}

}  // namespace hg::convert
