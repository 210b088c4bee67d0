// SPDX-License-Identifier: Apache-2.0
// Rows that are selected by index and then reduced by sorted indices are read where they are.
// Embedding bags are written this way. With indices in any order, two loops are faster.
#include <algorithm>
#include <limits>

#include "lib/compile/pattern.h"

namespace hg {
namespace {

// One value per row of x, in a shape that broadcasts to x, as a list; empty otherwise.
Value per_row(const Value& v, const Value& x) {
  if (v.rank() != x.rank() || !(v.dim(0) == x.dim(0))) return Value();
  for (int d = 1; d < v.rank(); ++d)
    if (!(v.dim(d) == Dim(1))) return Value();
  return v.graph()->call("reshape", {v}, {{"shape", {x.dim(0)}}});
}

bool is_first_dim(const AttrReader& attrs, int rank) {
  const Dim dim = attrs.integer("dim");
  return dim == Dim(0) || dim == Dim(-rank);
}

// Whether reducing with `fill` is the same as leaving the row out.
bool is_neutral(const Match& m, const Value& fill, const std::string& reduce) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (reduce == "add") return is_filled(m, fill.id(), 0);
  if (reduce == "amax") return is_filled(m, fill.id(), -kInfinity);
  return reduce == "amin" && is_filled(m, fill.id(), kInfinity);
}

// Whether the indices are probably sorted: constants that are, or running sums.
bool is_sorted(const Match& m, const Value& index) {
  const Graph& graph = m.graph();
  if (const TensorData* data = fixed_data(graph, m.context(), index.id())) {
    const int64_t* at = data->tensor.as<int64_t>();
    return std::is_sorted(at, at + data->tensor.count());
  }
  for (ValueId id = index.id();;) {
    const int32_t made_by = graph.value_info(id).node;
    if (made_by < 0) return false;
    const Node& node = graph.nodes()[static_cast<size_t>(made_by)];
    const std::string_view name = node.op->name();
    if (name == "cumsum") return true;
    if (name != "sub" && name != "slice") return false;
    id = node.inputs[0];
  }
}

Value reduce_selected(const Match& m) {
  const Value table = m.value("table"), picked = m.value("picked"), rows = m.value("rows");
  const bool is_select = m.node("picked").op->name() == "index_select";
  if (rows.rank() != 1 || !is_sorted(m, m.value("index")) ||
      !is_first_dim(m.attrs("y"), table.rank()) ||
      (is_select && !is_first_dim(m.attrs("picked"), table.rank())))
    return Value();
  const std::string reduce = m.attrs("y").string("reduce");  // adding nodes moves the attributes
  const bool include_self = m.attrs("y").flag("include_self");
  Value scale, kept;
  if (m.has("scale") && !(scale = per_row(m.value("scale"), picked))) return Value();
  if (m.has("kept") &&
      (!is_neutral(m, m.value("fill"), reduce) || !(kept = per_row(m.value("kept"), picked))))
    return Value();
  return m.graph().call("index_select_reduce",
                        {m.value("x"), m.value("index"), table, rows, scale, kept},
                        {{"reduce", reduce}, {"include_self", include_self}});
}

constexpr Rule kRules[] = {
    {"picked: index_select[picked](table, rows) | embedding[picked](table, rows)\n"
     "scaled: picked | mul(picked, scale)\n"
     "src: scaled | where(kept, scaled, fill)\n"
     "y: index_reduce[y](x, index, src)",
     reduce_selected},
};

}  // namespace

Status reduce_selected_rows(Graph& graph, const CompileContext& context) {
  return apply_rules(graph, context, kRules, true);
}

}  // namespace hg
