// SPDX-License-Identifier: Apache-2.0
// A product of which one row is read, or as many rows as a symbol says, computes these rows alone.
// Language models, for example, need the logits of the last token only. The slice moves from the
// result to the operands, also through elementwise nodes between the product and the slice.
#include "lib/compile/passes.h"

namespace hg {
namespace {

using Replacement = std::optional<std::vector<Value>>;

constexpr int kMostNodes = 16;  // between the product and the slice

class Rows {
 public:
  explicit Rows(Graph& graph) : graph_(graph), uses_(use_counts(graph)) {}

  // The slice without the rows that it drops; empty if no product is left out.
  Value replace(const Node& found) {
    if (found.op->name() != "slice") return {};
    slice_ = found;  // adding nodes moves it
    const Value x = graph_.value(slice_.inputs[0]), y = graph_.value(slice_.outputs[0]);
    const AttrReader attrs(slice_.op, slice_.attrs);
    const int dim = *normalize_axis(attrs.integer("dim").constant(), x.rank());
    const bool is_few = y.dim(dim) == Dim(1) || !y.dim(dim).symbol().empty();
    if (!is_few || y.dim(dim) == x.dim(dim) || x.dim(dim) == Dim(1)) return {};
    size_ = x.dim(dim);
    from_end_ = x.rank() - dim;
    if (!is_product_of_rows(x.id())) return {};
    return row_of(x.id());
  }

 private:
  // Broadcasting aligns last dims: the same position from the end in every operand.
  Dim rows_of(ValueId id) const {
    const Shape& shape = graph_.value_info(id).type.shape;
    const auto rank = static_cast<int>(shape.size());
    return rank < from_end_ ? Dim(1) : shape[static_cast<size_t>(rank - from_end_)];
  }
  bool has_rows(ValueId id) const { return id != kNoValue && rows_of(id) == size_; }
  bool is_same_for_rows(ValueId id) const { return id == kNoValue || rows_of(id) == Dim(1); }
  // The producer if nothing else reads the value, and no earlier rewrite made it.
  const Node* producer_of(ValueId id) const {
    if (id == kNoValue || static_cast<size_t>(id) >= uses_.size()) return nullptr;
    const int32_t at = graph_.value_info(id).node;
    return at < 0 || uses_[static_cast<size_t>(id)] != 1 ? nullptr
                                                         : &graph_.nodes()[static_cast<size_t>(at)];
  }
  bool is_product(const Node& node) const {
    const std::string_view name = node.op->name();
    if (name != "linear" && name != "mixed_linear" && name != "quantized_linear") return false;
    // The residual comes with a later pass.
    const AttrReader attrs(node.op, node.attrs);
    const auto residual = static_cast<size_t>(node.op->signature.find_input("residual"));
    return from_end_ > 1 && attrs.string("activation") == "none" &&
           (node.inputs.size() <= residual || node.inputs[residual] == kNoValue);
  }
  // Whether the value is computed row by row from a product, for the slice alone.
  bool is_product_of_rows(ValueId id, int depth = 0) const {
    const Node* const node = producer_of(id);
    if (node == nullptr || depth > kMostNodes) return false;
    if (is_product(*node)) return has_rows(node->inputs[0]);
    if ((node->op->def.traits & (kElementwise | kRandom)) != kElementwise) return false;
    bool found = false;
    for (const ValueId input : node->inputs) {
      if (!has_rows(input) && !is_same_for_rows(input)) return false;
      found |= has_rows(input) && is_product_of_rows(input, depth + 1);
    }
    return found;
  }

  Value row_of(ValueId id, int depth = 0) {
    if (!is_product_of_rows(id, depth)) {
      NamedAttrs attrs = named_attrs(slice_);
      for (NamedAttr& attr : attrs)
        if (attr.name == "dim") attr.value = Dim(graph_.value(id).rank() - from_end_);
      graph_.set_origin(slice_.origin);
      return graph_.call("slice", {graph_.value(id)}, std::move(attrs));
    }
    const Node node = *producer_of(id);
    std::vector<Value> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (input == kNoValue)
        inputs.emplace_back();
      else if (is_product(node) ? i == 0 : has_rows(input))
        inputs.push_back(row_of(input, depth + 1));
      else
        inputs.push_back(graph_.value(input));
    }
    graph_.set_origin(node.origin);
    return graph_.call(node.op->name(), inputs, named_attrs(node));
  }

  Graph& graph_;
  const std::vector<int> uses_;  // before the pass
  Node slice_;
  Dim size_;          // of the dim that is sliced
  int from_end_ = 0;  // where it is: 1 is the last dim
};

}  // namespace

Status compute_read_rows(Graph& graph, const CompileContext&) {
  Rows rows(graph);
  HG_TRY(rewrite(graph, [&](const Node& node) -> Result<Replacement> {
    const Value row = rows.replace(node);
    return row ? Replacement({row}) : Replacement();
  }));
  remove_dead_nodes(graph);
  return {};
}

}  // namespace hg
