// SPDX-License-Identifier: Apache-2.0
// The result of an integer layer is u8 if another integer layer reads it, possibly after ops that
// only move elements. It is widened for all other readers. Results of other ops are floats, which
// are rounded to u8 before the first layer that reads them.
#include "lib/quantize/integers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hg/ops.h"
#include "lib/graph/element.h"
#include "lib/graph/rewrite.h"
#include "lib/graph/same_bits.h"

namespace hg {
namespace {

AttrReader attrs_of(const Node& node) { return AttrReader(node.op, node.attrs); }

bool is_concatenation(const Node& node) { return node.op->def.traits & kConcatenation; }

// Whether the result has the elements of the first input, or of all joined inputs, and zeros. Its
// levels are then moved the same way.
bool moves_elements(const Node& node) {
  const std::string_view op = node.op->name();
  if (op == "pad")
    return attrs_of(node).string("mode") != "constant" || attrs_of(node).real("value") == 0;
  return (node.op->def.view != nullptr && op != "view_dtype") || is_concatenation(node) ||
         op == "max_pool" || op == "index_select" || op == "contiguous";
}
size_t moved_inputs(const Node& node) { return is_concatenation(node) ? node.inputs.size() : 1; }

TensorData list_of(const std::vector<double>& numbers, double divisor, TensorData data) {
  for (size_t i = 0; i < numbers.size(); ++i)
    data.tensor.as<float>()[i] = static_cast<float>(numbers[i] / divisor);
  return data;
}

}  // namespace

// -- Analysis -------------------------------------------------------------------------------------

Integers::Integers(Graph& graph, const std::function<bool(const IntegerLayer&)>& may_change)
    : graph_(graph),
      nodes_(graph.nodes()),
      node_of_(at(graph.value_count()), -1),
      readers_(node_of_.size()),
      is_outside_(node_of_.size()),
      is_changed_(changed_states(graph)) {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    for (const ValueId id : nodes_[n].outputs) node_of_[at(id)] = static_cast<int32_t>(n);
    for (size_t i = 0; i < nodes_[n].inputs.size(); ++i)
      if (const ValueId id = nodes_[n].inputs[i]; id != kNoValue)
        readers_[at(id)].push_back({n, i});
  }
  for (const auto& [name, id] : graph.outputs()) is_outside_[at(id)] = true;
  for (const auto& [target, source] : graph.assignments()) is_outside_[at(source)] = true;
  for (const Node& node : nodes_) find_layer(node);
  std::erase_if(layers_, [&](const IntegerLayer& layer) { return !may_change(layer); });
  for (size_t i = 0; i < layers_.size(); ++i) layer_of_[layers_[i].node.outputs[0]] = i;
}

const Tensor* Integers::fixed(ValueId id) const {
  const int32_t state = id == kNoValue ? -1 : graph_.value_info(id).state;
  if (state < 0 || is_changed_[static_cast<size_t>(state)]) return nullptr;
  return &graph_.states()[static_cast<size_t>(state)].data.tensor;
}
const Node* Integers::producer(ValueId id) const {
  return node_of_[at(id)] < 0 ? nullptr : &nodes_[static_cast<size_t>(node_of_[at(id)])];
}
const Node* Integers::sole_reader(ValueId id) const {
  const std::vector<Reader>& readers = readers_[at(id)];
  if (is_outside_[at(id)] || readers.size() != 1 || readers[0].input != 0) return nullptr;
  return &nodes_[readers[0].node];
}

void Integers::find_layer(const Node& node) {
  const std::string_view op = node.op->name();
  if (op != "conv" && op != "linear") return;
  const AttrReader attrs = attrs_of(node);
  if (node.inputs[3] != kNoValue || attrs.string("activation") != "none") return;
  if (op == "conv" && (attrs.flag("transposed") || attrs.flag("exact"))) return;
  IntegerLayer layer;
  layer.node = node;
  layer.x = node.inputs[0];
  layer.y = node.outputs[0];
  layer.name = graph_.value_info(layer.y).name;
  const TensorType& type = graph_.value_info(layer.x).type;
  if (type.dtype != f32 || type.rank() < 2 || graph_.value_info(layer.x).state >= 0) return;
  if (!take_weight(layer)) return;
  const Tensor* const bias = fixed(node.inputs[2]);
  if (node.inputs[2] != kNoValue && bias == nullptr) return;
  take_norm(layer);
  take_clamp(layer);
  layers_.push_back(std::move(layer));
}

bool Integers::take_weight(IntegerLayer& layer) const {
  layer.weight = layer.node.inputs[1];
  if (const Node* const turn = producer(layer.weight)) {
    if (layer.node.op->name() != "linear" || turn->op->name() != "permute") return false;
    const std::span<const Dim> dims = attrs_of(*turn).integers("dims");
    if (dims.size() != 2 || !(dims[0] == Dim(1) || dims[0] == Dim(-1))) return false;
    layer.weight = turn->inputs[0];
    layer.by_column = true;
  }
  const Tensor* const weight = fixed(layer.weight);
  return weight != nullptr && weight->dtype == f32 && weight->count() > 0;
}

void Integers::take_norm(IntegerLayer& layer) const {
  const Node* const norm = sole_reader(layer.y);
  if (norm == nullptr || norm->op->name() != "batch_norm" || attrs_of(*norm).flag("training"))
    return;
  if (layer.node.op->name() == "linear" && graph_.value_info(layer.y).type.rank() != 2) return;
  if (is_read(norm->outputs[1]) || is_read(norm->outputs[2])) return;
  for (size_t i = 1; i < 5; ++i) {
    const Tensor* const list = fixed(norm->inputs[i]);
    if (list == nullptr && (i > 2 || norm->inputs[i] != kNoValue)) return;
    if (list != nullptr && !is_float(list->dtype)) return;
  }
  layer.norm = *norm;
  layer.y = norm->outputs[0];
}

void Integers::take_clamp(IntegerLayer& layer) const {
  const Node* const clamp = sole_reader(layer.y);
  if (clamp == nullptr) return;
  const std::string_view op = clamp->op->name();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  layer.low = -kInfinity;
  layer.high = kInfinity;
  if (op == "relu") {
    layer.low = 0;
  } else if (op == "hardtanh") {
    layer.low = attrs_of(*clamp).real("min_val");
    layer.high = attrs_of(*clamp).real("max_val");
  } else if (op == "clamp") {
    for (const size_t i : {size_t{1}, size_t{2}}) {
      if (clamp->inputs[i] == kNoValue) continue;
      const Tensor* const bound = fixed(clamp->inputs[i]);
      if (bound == nullptr || bound->count() != 1) return;
      (i == 1 ? layer.low : layer.high) = element(*bound, 0);
    }
  } else {
    return;
  }
  if (graph_.value_info(clamp->outputs[0]).type == graph_.value_info(layer.y).type &&
      layer.low <= layer.high)
    layer.clamped = clamp->outputs[0];
}

void Integers::leave(const std::vector<std::string>& reasons) {
  for (size_t i = 0; i < reasons.size(); ++i) layers_[i].stays = reasons[i];
}

std::vector<ValueId> Integers::wanted() const {
  std::set<ValueId> wanted;
  const auto want = [&](ValueId id) {
    if (id == kNoValue || graph_.value_info(id).state >= 0) return;
    if (graph_.value_info(id).type.dtype == f32) wanted.insert(id);
  };
  for (const IntegerLayer& layer : layers_) {
    want(layer.x);
    want(layer.y);
    want(layer.clamped);
  }
  for (const Node& node : nodes_) {
    if (!moves_elements(node)) continue;
    want(node.outputs[0]);
    for (size_t i = 0; i < moved_inputs(node); ++i) want(node.inputs[i]);
  }
  return {wanted.begin(), wanted.end()};
}

// -- Decisions ------------------------------------------------------------------------------------

// Whether the reader accepts the value in 8 bits.
bool Integers::takes_bytes(const Reader& reader) const {
  const Node& node = nodes_[reader.node];
  const auto layer = layer_of_.find(node.outputs[0]);
  if (layer != layer_of_.end()) return reader.input == 0 && layers_[layer->second].stays.empty();
  return in_bytes_[at(node.outputs[0])] && moves_elements(node) &&
         reader.input < moved_inputs(node);
}

// Whether some reader accepts the value in 8 bits, and all others can use the value that the levels
// represent.
bool Integers::goes_in_bytes(ValueId id) const {
  constexpr uint32_t kOnlyThemselves = kRandom | kDataDependent | kControl | kAssertion;
  bool any = false;
  for (const Reader& reader : readers_[at(id)]) {
    if (takes_bytes(reader))
      any = true;
    else if (nodes_[reader.node].op->def.traits & kOnlyThemselves)
      return false;
  }
  return any && !is_outside_[at(id)];
}

// Whether all moved inputs are u8, so that no float with other readers is rounded on the way.
bool Integers::is_carried(const Node& node) const {
  for (size_t i = 0; i < moved_inputs(node); ++i)
    if (!in_bytes_[at(node.inputs[i])]) return false;
  return true;
}

// Finds the values that are produced as u8: starts with all candidates and removes those for which
// this is impossible.
void Integers::spread() {
  in_bytes_.assign(readers_.size(), false);
  const auto try_value = [&](ValueId id) {
    if (id != kNoValue && graph_.value_info(id).type.dtype == f32) in_bytes_[at(id)] = true;
  };
  for (const IntegerLayer& layer : layers_)
    if (layer.stays.empty()) {
      try_value(layer.y);
      if (!refused_.contains(layer.clamped)) try_value(layer.clamped);
    }
  for (const Node& node : nodes_)
    if (moves_elements(node)) try_value(node.outputs[0]);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < in_bytes_.size(); ++i) {
      if (!in_bytes_[i]) continue;
      const auto id = static_cast<ValueId>(i);
      const Node& node = *producer(id);
      in_bytes_[i] = goes_in_bytes(id) && (!moves_elements(node) || is_carried(node));
      changed |= !in_bytes_[i];
    }
  }
  for (IntegerLayer& layer : layers_) {
    layer.in_bytes = kNoValue;
    for (const ValueId id : {layer.y, layer.clamped})
      if (layer.stays.empty() && id != kNoValue && in_bytes_[at(id)]) {
        layer.in_bytes = id;
        layer.in_bytes_name = graph_.value_info(id).name;
      }
  }
}

void Integers::join_groups() {
  groups_ = DisjointSets(readers_.size());
  for (const Node& node : nodes_) {
    if (!moves_elements(node) || !in_bytes_[at(node.outputs[0])]) continue;
    for (size_t i = 0; i < moved_inputs(node); ++i) {
      const size_t one = groups_.root(at(node.outputs[0])),
                   other = groups_.root(at(node.inputs[i]));
      if (one != other) groups_.join(one, other);
    }
  }
}

void Integers::find_levels(const std::unordered_map<ValueId, Range>& ranges) {
  std::unordered_map<size_t, Range> joined;
  for (const auto& [id, range] : ranges) {
    Range& all = joined[groups_.root(at(id))];
    all.is_finite = all.is_finite && range.is_finite;
    if (range.count == 0) continue;
    all.low = all.count == 0 ? range.low : std::min(all.low, range.low);
    all.high = all.count == 0 ? range.high : std::max(all.high, range.high);
    all.count += range.count;
  }
  levels_.clear();
  for (const auto& [root, range] : joined) levels_[root] = levels_of(range.low, range.high);
  for (IntegerLayer& layer : layers_) {
    const Range& range = joined.at(groups_.root(at(layer.x)));
    if (!layer.stays.empty() || (range.is_finite && levels_of_value(layer.x).scale > 0)) continue;
    const std::string input = str_cat("its input '", graph_.value_info(layer.x).name, "' ");
    layer.stays = !range.is_finite   ? input + "has a NaN or an infinity in a sample"
                  : range.count == 0 ? input + "has no element in any sample"
                                     : str_cat(input, "goes from ", range.low, " to ", range.high,
                                               " in the samples");
  }
}

// A clamp is done by clamping levels if its bounds are at or beyond the outermost levels. Returns
// whether all are.
bool Integers::refuse_clamps() {
  bool all = true;
  for (const IntegerLayer& layer : layers_) {
    if (layer.in_bytes == kNoValue || layer.in_bytes != layer.clamped) continue;
    const Levels levels = levels_of_value(layer.clamped);
    if (levels.place(layer.low) <= 0 && levels.place(layer.high) >= 255) continue;
    refused_.insert(layer.clamped);
    all = false;
  }
  return all;
}

Result<AffineLayer> Integers::affine_of(const IntegerLayer& layer) const {
  AffineLayer affine;
  affine.weight = fixed(layer.weight);
  affine.by_column = layer.by_column;
  affine.as_columns = layer.node.op->name() == "linear";
  const auto out = static_cast<size_t>(affine.weight->shape[layer.by_column ? 1 : 0]);
  const auto number = [&](ValueId id, size_t i, double fallback) {
    return id == kNoValue ? fallback : element(*fixed(id), static_cast<int64_t>(i));
  };
  for (size_t o = 0; o < out; ++o) {
    double factor = 1, offset = number(layer.node.inputs[2], o, 0);
    if (layer.norm.op != nullptr) {  // as in fold_batch_norm (lib/compile)
      const std::vector<ValueId>& in = layer.norm.inputs;
      factor =
          number(in[1], o, 1) / std::sqrt(number(in[4], o, 1) + attrs_of(layer.norm).real("eps"));
      offset = (offset - number(in[3], o, 0)) * factor + number(in[2], o, 0);
    }
    affine.factor.push_back(factor);
    affine.offset.push_back(offset);
  }
  return affine;
}

// Returns whether every layer has levels.
Result<bool> Integers::make_sums() {
  bool all = true;
  for (IntegerLayer& layer : layers_) {
    if (!layer.stays.empty()) continue;
    HG_TRY_ASSIGN(const AffineLayer affine, affine_of(layer));
    HG_TRY_ASSIGN(layer.sum, integer_sum(affine, levels_of_value(layer.x)));
    layer.stays = layer.sum.refused;
    all = all && layer.stays.empty();
  }
  return all;
}

// -- Rewriting ------------------------------------------------------------------------------------

Status Integers::apply(const std::unordered_map<ValueId, Range>& ranges) {
  for (bool is_settled = false; !is_settled;) {
    const auto staying = [&] {
      return std::count_if(layers_.begin(), layers_.end(),
                           [](const IntegerLayer& layer) { return !layer.stays.empty(); });
    };
    const auto before = staying();
    spread();
    join_groups();
    find_levels(ranges);
    is_settled = staying() == before && refuse_clamps();
    if (!is_settled) continue;
    HG_TRY_ASSIGN(is_settled, make_sums());
  }
  HG_TRY(rewrite(graph_, [&](const Node& node) { return visit(node); }));
  remove_dead_nodes(graph_);
  return graph_.verify();
}

std::vector<CalibratedLayer> Integers::report() {
  std::vector<CalibratedLayer> all;
  for (const IntegerLayer& layer : layers_) {
    CalibratedLayer one;
    one.name = layer.name;
    one.module_path = layer.node.origin.module;
    one.stays = layer.stays;
    if (layer.stays.empty()) {
      one.low = levels_of_value(layer.x).least();
      one.high = levels_of_value(layer.x).most();
    }
    if (layer.in_bytes != kNoValue) {
      one.rounded = layer.in_bytes_name;
      one.rounded_low = levels_of_value(layer.in_bytes).least();
      one.rounded_high = levels_of_value(layer.in_bytes).most();
    }
    all.push_back(std::move(one));
  }
  return all;
}

Result<std::optional<std::vector<Value>>> Integers::visit(const Node& node) {
  using Values = std::vector<Value>;
  const ValueId id = node.outputs[0];
  const auto now = [&](size_t i) { return graph_.value(node.inputs[i]); };
  if (const auto found = layer_of_.find(id); found != layer_of_.end()) {
    IntegerLayer& layer = layers_[found->second];
    if (!layer.stays.empty()) return widened(node);
    HG_TRY_ASSIGN(const Value y, integer_layer(layer, now(0)));
    return std::optional(Values{y});
  }
  for (const IntegerLayer& layer : layers_) {
    if (!layer.stays.empty()) continue;
    // The statistics are unused, so any value of the right type can replace them.
    if (layer.norm.op != nullptr && layer.norm.outputs[0] == id)
      return std::optional(Values{now(0), now(3), now(4)});
    if (layer.in_bytes == id) return std::optional(Values{now(0)});
  }
  if (in_bytes_[at(id)]) return std::optional(Values{carried(node)});
  return widened(node);
}

// A node that reads floats, with its 8-bit inputs widened.
std::optional<std::vector<Value>> Integers::widened(const Node& now) {
  const Node& node = *producer(now.outputs[0]);
  std::vector<Value> inputs;
  bool changed = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    inputs.push_back(now.inputs[i] == kNoValue ? Value() : graph_.value(now.inputs[i]));
    if (id == kNoValue || !in_bytes_[at(id)]) continue;
    changed = true;
    Value& known = floats_[id];
    if (!known) {
      const Levels levels = levels_of_value(id);
      known = cast(inputs.back(), f32);
      if (levels.zero != 0) known = known - static_cast<double>(levels.zero);
      known = known * double{levels.scale};
    }
    inputs.back() = known;
  }
  if (!changed) return std::nullopt;
  return graph_.calls(node.op->name(), inputs, named_attrs(node));
}

Value Integers::zero(int level) {
  Value& known = zeros_[level];
  if (!known) known = graph_.scalar(int64_t{level}, u8);
  return known;
}

// The value `id` in 8 bits, converted from its current form.
Value Integers::as_bytes(ValueId id, const Value& now) {
  if (now.dtype() == u8) return now;
  Value& known = bytes_[id];
  if (known) return known;
  const Levels levels = levels_of_value(id);
  Value y = round(now * double{1 / levels.scale});
  if (levels.zero != 0) y = y + static_cast<double>(levels.zero);
  return known = cast(hardtanh(y, 0, 255), u8);
}

Value Integers::carried(const Node& now) {
  const Node& node = *producer(now.outputs[0]);
  std::vector<Value> inputs;
  for (size_t i = 0; i < now.inputs.size(); ++i) {
    const Value value = graph_.value(now.inputs[i]);
    inputs.push_back(i < moved_inputs(node) ? as_bytes(node.inputs[i], value) : value);
  }
  NamedAttrs attrs = named_attrs(node);
  for (NamedAttr& attr : attrs)
    if (node.op->name() == "pad" && attr.name == "value")
      attr.value = Attr(static_cast<double>(levels_of_value(node.outputs[0]).zero));
  return graph_.call(node.op->name(), inputs, attrs);
}

// The levels of its weight, shared with an earlier layer of the same weight.
Value Integers::weight_of(IntegerLayer& layer) {
  const Tensor& weight = layer.sum.weight.tensor;
  for (const IntegerLayer& other : layers_) {
    if (other.weight != layer.weight || other.made_weight == kNoValue) continue;
    if (have_same_bits(other.sum.weight.tensor, weight))
      return graph_.value(layer.made_weight = other.made_weight);
  }
  const std::string name = str_cat(graph_.value_info(layer.weight).name, "_levels");
  const Value made = graph_.constant(layer.sum.weight, name);
  layer.made_weight = made.id();
  return made;
}

Result<Value> Integers::integer_layer(IntegerLayer& layer, const Value& x) {
  const Levels levels = levels_of_value(layer.x);
  IntegerOptions options;
  const Value weight = weight_of(layer);
  options.x_zero = zero(levels.zero);
  options.bias = graph_.constant(layer.sum.bias);
  double divisor = 1;
  if (layer.in_bytes != kNoValue) {
    const Levels result = levels_of_value(layer.in_bytes);
    divisor = result.scale;
    options.zero = zero(result.zero);
  }
  HG_TRY_ASSIGN(TensorData scales, TensorData::allocate(f32, layer.sum.bias.tensor.shape));
  options.scale = graph_.constant(list_of(layer.sum.scales, divisor, std::move(scales)));
  const Value bytes = as_bytes(layer.x, x);
  if (layer.node.op->name() == "linear") return matmul_integer(bytes, weight, options);
  NamedAttrs attrs;
  for (const std::string_view name : {"stride", "padding", "dilation", "groups"})
    attrs.push_back({name, attrs_of(layer.node).raw(name)});
  return graph_.call(
      "conv_integer",
      {bytes, weight, options.x_zero, Value(), options.bias, options.scale, options.zero}, attrs);
}

}  // namespace hg
