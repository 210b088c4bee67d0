// SPDX-License-Identifier: Apache-2.0
#include "converter/check/wrong_node.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "converter/check/compare.h"
#include "hg/tensor.h"
#include "lib/graph/checksum.h"

namespace hg::convert {
namespace {

// Returns the elements of one line, in the order of its indices; empty if an index is out of range
// or duplicate.
std::vector<double> taken(const Tensor& source, int64_t first, int64_t stride, int64_t size,
                          const std::vector<int64_t>& indices) {
  std::vector<double> result;
  std::vector<bool> seen(size, false);
  for (const int64_t index : indices) {
    if (index < 0 || index >= size || seen[index]) return {};
    seen[index] = true;
    result.push_back(number_at(source, first + index * stride));
  }
  return result;
}

bool are_equal(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Returns whether both results select elements of `source` with equal values along `dim`: at each
// position, or, unless `in_order`, in each line as a whole. `values`, if given, are the values at
// `indices`. The results may lack the dim. Returns false if `dim` does not fit.
bool selects_equally(const Tensor& source_view, int dim, const Tensor* values,
                     const Tensor& indices_view, const Tensor& other_indices, bool in_order) {
  TensorData owners[3];
  const Result<Tensor> source = row_major(source_view, owners[0]);
  const Result<Tensor> indices = row_major(indices_view, owners[1]);
  if (!source.ok() || !indices.ok() || indices->dtype != i64 || other_indices.dtype != i64 ||
      indices->shape != other_indices.shape)
    return false;
  const bool kept = indices->rank() == source->rank();
  if (!kept && indices->rank() + 1 != source->rank()) return false;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < source->rank(); ++d) {
    if (d == dim) continue;
    if (source->shape[d] != indices->shape[kept || d < dim ? d : d - 1]) return false;
    (d < dim ? outer : inner) *= source->shape[d];
  }
  const int64_t size = source->rank() == 0 ? 1 : source->shape[dim];
  const int64_t count = kept && source->rank() > 0 ? indices->shape[dim] : 1;
  Tensor held;
  if (values != nullptr) {
    const Result<Tensor> dense = row_major(*values, owners[2]);
    if (!dense.ok() || dense->shape != indices->shape) return false;
    held = *dense;
  }
  for (int64_t line = 0; line < outer * inner; ++line) {
    const int64_t first = line / inner * size * inner + line % inner;
    const int64_t start = line / inner * count * inner + line % inner;
    std::vector<int64_t> mine, others;
    for (int64_t k = 0; k < count; ++k) {
      mine.push_back(indices->as<const int64_t>()[start + k * inner]);
      others.push_back(other_indices.as<const int64_t>()[start + k * inner]);
    }
    std::vector<double> a = taken(*source, first, inner, size, mine);
    std::vector<double> b = taken(*source, first, inner, size, others);
    if (static_cast<int64_t>(a.size()) != count || static_cast<int64_t>(b.size()) != count)
      return false;
    for (int64_t k = 0; k < count && values != nullptr; ++k)
      if (!are_equal(a[k], number_at(held, start + k * inner))) return false;
    if (!in_order)
      for (std::vector<double>* line_values : {&a, &b})
        std::sort(line_values->begin(), line_values->end(),
                  [](double x, double y) { return x < y || (std::isnan(y) && !std::isnan(x)); });
    for (size_t k = 0; k < a.size(); ++k)
      if (!are_equal(a[k], b[k])) return false;
  }
  return true;
}

// The first result of a node, and the node's occurrence.
using Execution = std::pair<ScriptId, int64_t>;
ScriptId id_of(const ScriptNode& node) { return node.outputs.empty() ? -1 : node.outputs[0]; }

// Results of nodes that differ between two seeds.
std::set<Execution> varying_nodes(const Trial& trial) {
  std::map<Execution, uint64_t> first;
  std::set<Execution> varying;
  for (uint64_t seed : {trial.seed, trial.seed + 1}) {
    run_reference_nodes(trial.loaded, trial.inputs.reference, seed, [&](NodeRun& run) {
      uint64_t hash = 0;
      for (const TensorData& data : run.outputs) hash = hash * 31 + fingerprint(data);
      auto [entry, fresh] = first.try_emplace({id_of(*run.node), run.occurrence}, hash);
      if (!fresh && entry->second != hash) varying.insert(entry->first);
      return true;
    });
  }
  return varying;
}

// Walks along libtorch's nodes.
class NodeComparison {
 public:
  NodeComparison(const Trial& trial, const Session& kept) : trial_(trial), kept_(kept) {
    std::map<ScriptId, int64_t> seen;
    for (const Executed& executed : trial.trace) {
      const ScriptId id = id_of(*executed.node);
      converted_[{id, seen[id]++}] = &executed;
    }
    if (trial.varies) varying_ = varying_nodes(trial);
  }

  // The observer; returns false at a wrong node.
  bool operator()(NodeRun& run) {
    const Execution execution{id_of(*run.node), run.occurrence};
    const auto found = converted_.find(execution);
    if (found == converted_.end() && take_integers(run)) return true;
    if (found == converted_.end() || varying_.count(execution) > 0) {
      // Containers and branches pass on tensors, which are known by identity.
      const std::string& kind = run.node->kind;
      if (!kind.starts_with("prim::") || kind == "prim::NumToTensor") forget(run);
      return true;
    }
    std::vector<Result<Tensor>> ours;
    std::optional<WrongNode> wrong;
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      const ValueId id = i < found->second->outputs.size() ? found->second->outputs[i] : kNoValue;
      ours.push_back(id == kNoValue || run.outputs[i].empty()
                         ? Result<Tensor>(not_found("no tensor"))
                         : kept_.value(trial_.model.graph().value_info(id).name));
      if (!ours[i].ok() || wrong) continue;  // removed by folding
      const Comparison comparison = compare(*ours[i], run.outputs[i].tensor);
      if (comparison.equal) continue;
      wrong = WrongNode{run.node->kind, run.node->origin, comparison.difference,
                        comparison.largest_error};
      if (run.reads_what_it_writes())
        wrong->difference +=
            "; it reads elements that it also writes, for others: libtorch's answer depends on the "
            "order in which it computes them, so clone what is read";
    }
    const auto is_far = [&](size_t i) {
      return ours[i].ok() && !is_rounding(*ours[i], run.outputs[i].tensor);
    };
    bool far = false;
    for (size_t i = 0; i < ours.size(); ++i) far = far || is_far(i);
    if (far && !wrong) suspicious_ = suspicious_ || disagrees(run, ours);
    if (wrong) {
      const std::string reason = open_reason(run, ours, *wrong);
      if (reason.empty()) {
        report_.wrong = std::move(wrong);
        return false;
      }
      note_open(reason, run);
      for (size_t i = 0; i < ours.size(); ++i)
        if (ours[i].ok()) run.replace(i, *ours[i]);
    }
    take_elements(run);
    for (size_t i = 0; i < ours.size(); ++i) {
      ours_.erase(run.identity(i));
      if (ours[i].ok()) ours_[run.identity(i)] = *ours[i];
    }
    return true;
  }

  NodeReport take() { return std::move(report_); }

 private:
  static constexpr size_t kMostReasons = 3;
  static constexpr const char* kLevels = "the order of rounding decides levels of";

  void note_open(const std::string& reason, const NodeRun& run) {
    std::string text = str_cat(reason, " ", run.node->kind, describe_origin(run.node->origin));
    const auto known = std::find(report_.open.begin(), report_.open.end(), text);
    if (known == report_.open.end() && report_.open.size() < kMostReasons)
      report_.open.push_back(std::move(text));
  }

  void forget(const NodeRun& run) {
    for (size_t i = 0; i < run.outputs.size(); ++i) ours_.erase(run.identity(i));
  }

  // Replaces a value that we have only as integers by what these stand for, if they differ as
  // rounding may make them. Returns false for other values.
  bool take_integers(NodeRun& run) {
    const auto of = trial_.loaded.program.levels.find(id_of(*run.node));
    if (of == trial_.loaded.program.levels.end() || run.outputs[0].empty()) return false;
    const auto found = converted_.find({of->second.levels, run.occurrence});
    if (found == converted_.end()) return false;
    const Result<Tensor> integers =
        kept_.value(trial_.model.graph().value_info(found->second->outputs[0]).name);
    const Tensor& theirs = run.outputs[0].tensor;
    if (!integers.ok() || integers->shape != theirs.shape || theirs.dtype != f32) return false;
    TensorData owner;
    const Result<Tensor> dense = row_major(*integers, owner);
    Result<TensorData> real = TensorData::allocate(f32, theirs.shape);
    if (!dense.ok() || !real.ok()) return false;
    for (int64_t k = 0; k < theirs.count(); ++k)
      real->tensor.as<float>()[k] =
          static_cast<float>((number_at(*dense, k) - of->second.zero) * of->second.scale);
    owners_.push_back(*std::move(real));
    const std::vector<Result<Tensor>> ours = {owners_.back().tensor};
    if (!are_near_levels(run, ours, of->second.scale)) return false;
    if (!compare(*ours[0], theirs).equal) note_open(kLevels, run);
    run.replace(0, owners_.back().tensor);
    ours_[run.identity(0)] = owners_.back().tensor;
    return true;
  }

  // The tensors of a list have no named values in our graph. They are replaced by libtorch's
  // results for our inputs, so that differences appear in the nodes that read them.
  void take_elements(const NodeRun& run) {
    const std::vector<NodeRun::Argument> elements = run.elements();
    if (elements.empty()) return;
    const std::vector<Tensor> given = given_to(run.arguments());
    const auto again = run.outputs_of(given);
    for (size_t i = 0; i < elements.size(); ++i) {
      ours_.erase(elements[i].identity);
      if (!again || again->size() != elements.size() || (*again)[i].empty()) continue;
      owners_.push_back((*again)[i]);
      ours_[elements[i].identity] = owners_.back().tensor;
    }
  }

  // Returns our values for the node's arguments, where known.
  std::vector<Tensor> given_to(std::span<const NodeRun::Argument> arguments) const {
    std::vector<Tensor> given(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i)
      if (const auto known = ours_.find(arguments[i].identity);
          known != ours_.end() && !arguments[i].value.empty())
        given[i] = known->second;
    return given;
  }

  // Whether libtorch computes other results from our inputs, with a difference larger than that of
  // any summation order.
  bool disagrees(const NodeRun& run, std::span<const Result<Tensor>> ours) const {
    if (selects(run.node->kind)) return false;
    const auto again = run.outputs_of(given_to(run.arguments()));
    for (size_t i = 0; again && i < ours.size() && i < again->size(); ++i)
      if (ours[i].ok() && !is_rounding(*ours[i], (*again)[i].tensor)) return true;
    return false;
  }

  // Returns why both results of a node are right; empty if they are not.
  std::string open_reason(const NodeRun& run, std::span<const Result<Tensor>> ours,
                          WrongNode& wrong) const {
    if (trial_.loaded.original && are_near_levels(run, ours)) return kLevels;
    const std::vector<NodeRun::Argument> arguments = run.arguments();
    const std::vector<Tensor> given = given_to(arguments);
    bool close = true;
    for (size_t i = 0; i < arguments.size(); ++i)
      close =
          close && (given[i].data == nullptr || is_rounding(given[i], arguments[i].value.tensor));
    wrong.sure = suspicious_;
    if (!close) {
      wrong.sure = wrong.sure || disagrees(run, ours);
      return "";
    }
    const std::optional<std::vector<TensorData>> again = run.outputs_of(given);
    if (!again) return "";
    if (!given.empty() && selects(run.node->kind)) {
      const Tensor source = given[0].data != nullptr ? given[0] : arguments[0].value.tensor;
      if (is_selection(run, ours, source, *again))
        return "equal values, or an order that is open, in";
    }
    for (size_t i = 0; i < ours.size() && i < again->size(); ++i)
      if (ours[i].ok() && !compare(*ours[i], (*again)[i].tensor).equal) {
        // Inputs of which none is known here may have differed before.
        const auto is_known = [](const Tensor& tensor) { return tensor.data != nullptr; };
        wrong.sure = given.empty() || std::any_of(given.begin(), given.end(), is_known);
        return "";
      }
    return "the rounding of its inputs decides the result of";
  }

  // Whether few elements of quantized results differ, each by one level. A mean of a few integers
  // often lies between two levels.
  static bool are_near_levels(const NodeRun& run, std::span<const Result<Tensor>> ours,
                              double given_level = 0) {
    const bool mean = run.node->kind.find("avg_pool") != std::string::npos ||
                      run.node->kind == "aten::mean" ||
                      run.node->kind.find("bilinear") != std::string::npos;
    for (size_t i = 0; i < ours.size(); ++i) {
      const double level = given_level > 0 ? given_level : run.level(i);
      if (!ours[i].ok() || level == 0) return false;
      const Tensor& theirs = run.outputs[i].tensor;
      if (ours[i]->shape != theirs.shape) return false;
      TensorData owner;
      const Result<Tensor> mine = row_major(*ours[i], owner);
      if (!mine.ok()) return false;
      int64_t apart = 0;
      for (int64_t k = 0; k < theirs.count(); ++k) {
        const double by = std::abs(number_at(*mine, k) - number_at(theirs, k));
        if (!(by <= 1.01 * level)) return false;
        apart += by > 0.5 * level;
      }
      if (apart > 1 + theirs.count() / (mean ? 2 : 8)) return false;
    }
    return true;
  }

  static bool selects(const std::string& kind) {
    static const std::set<std::string> kKinds = {"aten::sort",     "aten::topk", "aten::argsort",
                                                 "aten::kthvalue", "aten::mode", "aten::median"};
    return kKinds.count(kind) > 0;
  }

  // Whether both sides selected values and indices, or indices alone, from one source along one
  // dim.
  static bool is_selection(const NodeRun& run, std::span<const Result<Tensor>> ours,
                           const Tensor& source, std::span<const TensorData> theirs) {
    const size_t at = run.outputs.size() == 1 ? 0 : 1;
    if (!ours[at].ok() || (at == 1 && !ours[0].ok())) return false;
    const bool in_order = run.node->kind != "aten::topk" || run.boolean("sorted").value_or(true);
    for (int dim = 0; dim < std::max(source.rank(), 1); ++dim)
      if (selects_equally(source, dim, at == 1 ? &*ours[0] : nullptr, *ours[at], theirs[at].tensor,
                          in_order))
        return true;
    return false;
  }

  const Trial& trial_;
  const Session& kept_;
  std::map<Execution, const Executed*> converted_;
  std::set<Execution> varying_;
  std::map<NodeRun::Identity, Tensor> ours_;
  std::vector<TensorData> owners_;
  NodeReport report_;
  bool suspicious_ = false;
};

}  // namespace

uint64_t fingerprint(const TensorData& data) {
  if (data.empty()) return 0;
  return checksum_of({data.tensor.as<const std::byte>(), static_cast<size_t>(data.tensor.bytes())});
}

Result<Session> run_with_all_values(const Trial& trial) {
  SessionOptions options;
  options.keep_all_values = true;
  HG_TRY_ASSIGN(Session session, Session::create(trial.model, options));
  for (size_t i = 0; i < trial.inputs.data.size(); ++i)
    HG_TRY(session.set_input(static_cast<int>(i), trial.inputs.data[i].tensor));
  HG_TRY(session.run());
  return session;
}

NodeReport compare_nodes(const Trial& trial, const Session& kept) {
  NodeComparison compare(trial, kept);
  std::vector<TensorData> outputs;
  try {
    outputs = run_reference_nodes(trial.loaded, trial.inputs.reference, trial.seed,
                                  [&](NodeRun& run) { return compare(run); });
  } catch (const ReferenceFailure&) {
    // The node-by-node run does not support some construct; the results up to there are used.
  }
  NodeReport report = compare.take();
  report.outputs = std::move(outputs);
  return report;
}

std::string describe_origin(const Origin& origin) {
  std::string out;
  if (!origin.module.empty()) out += str_cat(" in module '", origin.module, "'");
  if (!origin.source.empty()) out += str_cat(" (", origin.source, ")");
  return out;
}

}  // namespace hg::convert
