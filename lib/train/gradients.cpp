// SPDX-License-Identifier: Apache-2.0
// Reverse accumulation: one walk in reverse node order. It is exact on graphs with reuse, because
// all gradients of a node's outputs are complete when the node is reached.
#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>

#include "hg/train.h"
#include "lib/graph/access.h"
#include "lib/table/holds.h"
#include "lib/train/control_gradients.h"
#include "lib/train/dependents.h"
#include "lib/train/filled.h"

namespace hg {
namespace {

class Backward {
 public:
  explicit Backward(Graph& graph) : graph_(graph) {}

  Status run(std::span<const Value> ys, std::span<const Value> wrt, std::span<const Value> seeds) {
    for (const Value& x : wrt) {
      HG_CHECK(x && x.graph() == &graph_, "gradients: a value belongs to another graph");
      HG_CHECK(has_gradient(x.dtype()), "gradients: '", x.name(), "' is ", x.dtype(),
               ", not a float");
      depends_.insert(x.id());
    }
    const size_t count = graph_.nodes().size();
    add_dependents(graph_, 0, count, depends_);
    HG_CHECK(seeds.empty() || seeds.size() == ys.size(), "gradients: there are ",
             int64_t(ys.size()), " values and ", int64_t(seeds.size()), " seeds");
    for (size_t i = 0; i < ys.size(); ++i) {
      HG_CHECK(ys[i] && ys[i].graph() == &graph_, "gradients: a value belongs to another graph");
      HG_CHECK(has_gradient(ys[i].dtype()), "gradients: '", ys[i].name(), "' is ", ys[i].dtype(),
               ", not a float");
      HG_CHECK(!is_complex(ys[i].dtype()) || (i < seeds.size() && seeds[i]),
               "gradients: the complex '", ys[i].name(), "' needs a seed");
      const Value seed = i < seeds.size() && seeds[i] ? seeds[i] : filled(graph_, 1, ys[i]);
      HG_TRY(graph_.take_status());
      HG_CHECK(seed.dtype() == ys[i].dtype() && seed.shape() == ys[i].shape(),
               "gradients: the seed of '", ys[i].name(), "' is ",
               TensorType{seed.dtype(), seed.shape()}, ", not ",
               TensorType{ys[i].dtype(), ys[i].shape()});
      add(ys[i].id(), seed);
    }
    HG_TRY(walk(0, count));
    if (missing_.empty()) return graph_.take_status();
    std::string names;
    for (const std::string& name : missing_) names += str_cat(names.empty() ? "" : ", ", name);
    return unsupported("these ops have no gradient: ", names);
  }

  Value gradient_of(const Value& x) {
    const Value sum = total(x.id());
    return sum ? sum : filled(graph_, 0, x);
  }

 private:
  void add(ValueId id, const Value& gradient) {
    Value& sum = grads_[id];
    if (!sum)
      sum = gradient;
    else if (is_complex(sum.dtype()))
      sum = graph_.call("view_as_complex",
                        {graph_.call("add", {graph_.call("view_as_real", {sum}),
                                             graph_.call("view_as_real", {gradient})})});
    else
      sum = graph_.call("add", {sum, gradient});
  }

  // The accumulated gradient of a value, or an empty Value.
  Value total(ValueId id) {
    if (const auto found = slices_.find(id); found != slices_.end()) {
      const std::vector<Slice> slices = std::move(found->second);
      slices_.erase(found);
      for (const Value& part : join(graph_.value(id), slices)) add(id, part);
    }
    const auto found = grads_.find(id);
    return found != grads_.end() ? found->second : Value();
  }

  // A slice of a value, with every element of [start, end), and its gradient.
  struct Slice {
    int dim = 0;
    Dim start, end;
    Value gradient;
  };

  // Returns false for other nodes, and for slices that skip elements.
  bool keep_slice(const Node& node, const Value& gradient) {
    if (node.op->name() != "slice") return false;
    const AttrReader attrs(node.op, node.attrs);
    if (!(attrs.integer("step") == Dim(1))) return false;
    const auto dim = static_cast<int>(attrs.integer("dim").constant());
    slices_[node.inputs[0]].push_back({dim < 0 ? dim + gradient.rank() : dim,
                                       attrs.integer("start"), attrs.integer("end"), gradient});
    return true;
  }

  // Gradients of x: slices that cover it, such as those of a split, are concatenated. Others are
  // padded with zeros.
  std::vector<Value> join(const Value& x, std::vector<Slice> slices) {
    std::vector<Value> whole;
    while (!slices.empty()) {
      const int dim = slices[0].dim;
      std::vector<size_t> row;
      Dim at = 0, size = 0;
      for (bool grows = true; grows && !(at == x.dim(dim));) {
        grows = false;
        for (size_t i = 0; i < slices.size() && !grows; ++i) {
          const Slice& s = slices[i];
          const bool is_used = std::find(row.begin(), row.end(), i) != row.end();
          if (s.dim != dim || is_used || !(s.start == at) || s.end == at) continue;
          row.push_back(i);
          at = s.end;
          size = size + s.gradient.dim(dim);
          grows = true;
        }
      }
      if (!row.empty() && at == x.dim(dim) && size == x.dim(dim)) {
        std::vector<Value> parts;
        for (const size_t i : row) parts.push_back(slices[i].gradient);
        whole.push_back(parts.size() == 1 ? parts[0]
                                          : graph_.call("concat", parts, {{"dim", dim}}));
        std::sort(row.rbegin(), row.rend());
        for (const size_t i : row) slices.erase(slices.begin() + static_cast<int64_t>(i));
        continue;
      }
      const Slice s = slices[0];
      slices.erase(slices.begin());
      whole.push_back(graph_.call("slice_scatter", {filled(graph_, 0, x), s.gradient},
                                  {{"dim", s.dim}, {"start", s.start}, {"end", s.end}}));
    }
    return whole;
  }

  Status walk(size_t first, size_t last) {
    for (size_t i = last; i-- > first;) {
      const Node node = graph_.nodes()[i];  // a copy: the list grows while gradients are added
      std::vector<Value> douts(node.outputs.size());
      bool reached = false;
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        if (!depends_.count(node.outputs[k])) continue;
        graph_.set_origin(node.origin);
        douts[k] = total(node.outputs[k]);
        reached |= static_cast<bool>(douts[k]);
      }
      if (reached) HG_TRY(through(node, douts));
    }
    return {};
  }

  Status through(const Node& node, const std::vector<Value>& douts) {
    graph_.set_origin(node.origin);
    if (keep_slice(node, douts[0])) return {};
    const bool is_control = node.op->def.traits & kControl;
    if (node.op->def.grad != nullptr || is_control) {
      std::vector<bool> needs;
      for (const ValueId id : node.inputs) needs.push_back(depends_.count(id) > 0);
      const Result<std::vector<Value>> grads = is_control
                                                   ? control_gradients(graph_, node, douts, needs)
                                                   : GraphAccess::grad(graph_, node, douts, needs);
      if (!is_control && grads.status().code() == Code::unsupported) {
        miss(node, str_cat(node.op->name(), " ", grads.status().message()));
        return {};
      }
      HG_TRY(grads.status());
      bool any = false;
      for (size_t k = 0; k < grads->size(); ++k) {
        if (!needs[k] || !(*grads)[k]) continue;
        add(node.inputs[k], (*grads)[k]);
        any = true;
      }
      // If the rule sets no gradient, the expansion is differentiated.
      if (any || node.op->def.expand == nullptr) return {};
    }
    if (node.op->def.expand == nullptr) {
      miss(node, std::string(node.op->name()));
      return {};
    }
    const size_t first = graph_.nodes().size();
    HG_TRY_ASSIGN(const std::vector<Value> outputs, GraphAccess::expand(graph_, node));
    const size_t last = graph_.nodes().size();
    add_dependents(graph_, first, last, depends_);
    for (size_t k = 0; k < douts.size(); ++k)
      if (douts[k]) add(outputs[k].id(), douts[k]);
    return walk(first, last);
  }

  // Continues, so that the error lists all missing gradients.
  void miss(const Node& node, std::string name) {
    missing_.insert(std::move(name));
    for (const ValueId id : node.inputs)
      if (depends_.count(id) > 0) add(id, filled(graph_, 0, graph_.value(id)));
  }

  Graph& graph_;
  std::set<ValueId> depends_;  // wrt, and values that depend on it
  std::unordered_map<ValueId, Value> grads_;
  std::unordered_map<ValueId, std::vector<Slice>> slices_;  // not in grads_ yet
  std::set<std::string> missing_;
};

}  // namespace

std::vector<Value> grad(std::span<const Value> ys, std::span<const Value> wrt,
                        std::span<const Value> seeds) {
  if (ys.empty()) return {};
  Graph& graph = *ys[0].graph();
  if (!graph.status().ok()) return {};
  if constexpr (!kHoldsGradients) {
    graph.fail(unsupported("this build has no gradients: HG_TRAIN is off"));
    return {};
  }
  Backward backward(graph);
  const Status status = backward.run(ys, wrt, seeds);
  graph.set_origin({});
  if (!status.ok()) {
    graph.fail(status);
    return {};
  }
  std::vector<Value> result;
  for (const Value& x : wrt) result.push_back(backward.gradient_of(x));
  return result;
}

}  // namespace hg
