// SPDX-License-Identifier: Apache-2.0
// Simplifies views: merges chains, turns a permute that only moves dims of size 1 into a reshape,
// removes casts to the same type and parts that are joined again, and reduces stacks of which only
// the extremes are read.
#include "lib/compile/pattern.h"

namespace hg {
namespace {

Value reshape(const Value& x, const Shape& shape) {
  if (x.shape() == shape && x.graph()->value_info(x.id()).node >= 0) return x;
  return x.graph()->call("reshape", {x}, {{"shape", std::vector<Dim>(shape.begin(), shape.end())}});
}

Value to_shape_of_root(const Match& m) { return reshape(m.value("x"), m.root().shape()); }

Value keep_type(const Match& m) {
  const Value x = m.value("x");
  const bool is_computed = m.graph().value_info(x.id()).node >= 0;
  const Value y = m.root();
  return is_computed && x.shape() == y.shape() && x.dtype() == y.dtype() ? x : Value();
}

int from_front(const Dim& dim, int rank) {
  const auto d = static_cast<int>(dim.constant());
  return d < 0 ? d + rank : d;
}

std::vector<int> order_of(const Match& m, std::string_view node) {
  const int rank = m.root().rank();
  std::vector<int> order;
  for (const Dim& dim : m.attrs(node).integers("dims")) order.push_back(from_front(dim, rank));
  return order;
}

Value permute_of_ones(const Match& m) {
  const Value x = m.value("x");
  int last = -1;
  for (const int d : order_of(m, "p")) {
    if (x.dim(d) == Dim(1)) continue;
    if (d < last) return Value();
    last = d;
  }
  return reshape(x, m.root().shape());
}

Value merge_permutes(const Match& m) {
  const std::vector<int> inner = order_of(m, "inner"), outer = order_of(m, "outer");
  std::vector<Dim> dims;
  for (const int d : outer) dims.emplace_back(inner[d]);
  return m.graph().call("permute", {m.value("x")}, {{"dims", dims}});
}

// linear works on the last dim, so the other dims may have any shape.
Value linear_of_reshape(const Match& m) {
  const Value x = m.value("x"), flat = m.value("r"), y = m.root();
  if (x.rank() == 0 || x.rank() != y.rank() || flat.rank() == 0) return Value();
  if (!(x.dim(-1) == flat.dim(-1))) return Value();
  for (int i = 0; i + 1 < x.rank(); ++i)
    if (!(x.dim(i) == y.dim(i))) return Value();
  if (m.attrs("l").string("activation") != "none") return Value();
  return m.graph().call("linear", {x, m.value("w"), m.value("b")});
}

// Computes sums and functions of a reshaped product in the product's shape, so that they can join
// its epilogue.
Value add_before_reshape(const Match& m) {
  const Value product = m.value("product"), r = m.value("r");
  const Shape& shape = m.root().shape();
  if (!(r.shape() == shape) || !(m.value("shaped").shape() == shape)) return Value();
  const Value sum = m.graph().call("add", {product, reshape(r, product.shape())});
  return reshape(sum, m.root().shape());
}

// The extreme of a few stacked tensors, computed from the tensors.
Value extreme_of_stack(const Match& m) {
  constexpr size_t kMostParts = 8;  // that one program reads
  Graph& g = m.graph();
  const Value x = m.value("x");
  const int32_t producer = g.value_info(x.id()).node;
  if (producer < 0 || g.nodes()[producer].op->name() != "concat" || x.dtype() == boolean)
    return Value();
  const Node stack = g.nodes()[producer];  // a copy: adding nodes moves the original
  const std::span<const Dim> dims = m.attrs("r").integers("dim");
  const int dim = from_front(AttrReader(stack.op, stack.attrs).integer("dim"), x.rank());
  if (dims.size() != 1 || from_front(dims[0], x.rank()) != dim || stack.inputs.size() > kMostParts)
    return Value();
  const std::string_view op = m.node("r").op->name() == "amax" ? "maximum" : "minimum";
  Value y;
  for (const ValueId id : stack.inputs) {
    const Value part = g.value(id);
    if (!(part.dim(dim) == Dim(1))) return Value();
    const Value own = reshape(part, m.root().shape());
    y = y ? g.call(op, {y, own}) : own;
  }
  return y;
}

// Two neighboring parts of x, joined again: for example, the parts of complex numbers.
Value whole_of_parts(const Match& m) {
  const Value x = m.value("x"), low = m.value("low");
  const int d = from_front(m.attrs("joined").integer("dim"), x.rank());
  const auto starts_at = [&](std::string_view part, const Dim& start) {
    const AttrReader attrs = m.attrs(part);
    return from_front(attrs.integer("dim"), x.rank()) == d && attrs.integer("start") == start &&
           attrs.integer("step") == Dim(1);
  };
  if (!(m.root().shape() == x.shape()) || !starts_at("low", 0) || !starts_at("high", low.dim(d)))
    return Value();
  return reshape(x, x.shape());
}

constexpr Rule kRules[] = {
    {"y: concat[joined](slice[low](x), slice[high](x))", whole_of_parts},
    {"y: amax[r](x) | amin[r](x)", extreme_of_stack},
    {"y: reshape(reshape(x))", to_shape_of_root},
    {"y: permute[outer](permute[inner](x))", merge_permutes},
    {"y: permute[p](x)", permute_of_ones},
    {"y: reshape(x) | expand(x) | detach(x) | cast(x)", keep_type},
    {"flat: reshape[r](x)\n"
     "y: reshape(linear[l](flat, w, b)) | reshape(linear[l](flat, w))",
     linear_of_reshape},
    {"l: linear[product](x, w, b) | linear[product](x, w)\n"
     "y: add(reshape[shaped](l), r)",
     add_before_reshape},
};

}  // namespace

Status simplify_views(Graph& graph, const CompileContext& context) {
  return apply_rules(graph, context, kRules, true);
}

}  // namespace hg
