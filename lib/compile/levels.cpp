// SPDX-License-Identifier: Apache-2.0
#include "lib/compile/levels.h"

#include <algorithm>

#include "lib/graph/element.h"

namespace hg {
namespace {

// Whether levels and their differences have exact values in the dtype.
bool holds_levels(DType dtype) { return size_of(dtype) > 1 && dtype != f64; }

}  // namespace

Sizes WeightLevels::blocks() const {
  Sizes out(shape.rank(), 1);
  for (const Numbers* each : {&zeros, &scales, &offsets})
    for (int d = 0; each->id != kNoValue && d < out.rank(); ++d)
      if (each->blocks[d] != 1) out[d] = each->blocks[d];
  return out;
}

// The value without `detach`, which only gradients see.
ValueId LevelReader::attached(ValueId id) const {
  while (id != kNoValue && graph_.value_info(id).node >= 0) {
    const Node& node = graph_.nodes()[static_cast<size_t>(graph_.value_info(id).node)];
    if (node.op->name() != "detach") break;
    id = node.inputs[0];
  }
  return id;
}
const Node* LevelReader::producer(ValueId id) const {
  id = attached(id);
  const int32_t at = id == kNoValue ? -1 : graph_.value_info(id).node;
  return at < 0 ? nullptr : &graph_.nodes()[static_cast<size_t>(at)];
}
const Node* LevelReader::producer(ValueId id, std::string_view op) const {
  const Node* node = producer(id);
  return node != nullptr && node->op->name() == op ? node : nullptr;
}
const Tensor* LevelReader::constant(ValueId id) const {
  const TensorData* data = fixed_data(graph_, context_, attached(id));
  return data == nullptr ? nullptr : &data->tensor;
}
int64_t LevelReader::integer(const Node& node, std::string_view name) const {
  const Dim value = AttrReader(node.op, node.attrs).integer(name);
  return value.is_constant() ? value.constant() : -1;
}

// The sizes without the last `ones`, which must be 1.
std::optional<Sizes> LevelReader::sizes(ValueId id, int ones) const {
  const TensorType& type = graph_.value_info(id).type;
  if (!is_constant(type.shape) || type.rank() < ones) return {};
  const int rank = type.rank() - ones;
  Sizes out;
  for (int d = 0; d < type.rank(); ++d) {
    const int64_t size = type.shape[static_cast<size_t>(d)].constant();
    if (d >= rank && size != 1) return {};
    if (d < rank) out.push_back(size);
  }
  return out;
}

bool LevelReader::is_fixed(ValueId id) const {
  if (id == kNoValue || constant(id) != nullptr) return id != kNoValue;
  const Node* node = producer(id);
  constexpr std::string_view kOps[] = {"cast", "reshape", "mul", "add", "sub", "neg"};
  return node != nullptr && std::ranges::find(kOps, node->op->name()) != std::end(kOps) &&
         std::ranges::all_of(node->inputs, [this](ValueId input) { return is_fixed(input); });
}

// Sets the blocks of fixed numbers that broadcast to the product: its sizes, or 1. Returns whether
// they are such numbers; true if none are given.
bool LevelReader::factor(WeightLevels::Numbers& numbers, const Sizes& product, int ones) const {
  if (numbers.id == kNoValue) return true;
  const TensorType& type = graph_.value_info(numbers.id).type;
  if (type.dtype == f64 || !is_constant(type.shape) || !is_fixed(numbers.id)) return false;
  const int missing = product.rank() + ones - type.rank();
  if (missing < 0) return false;
  numbers.blocks = {};
  for (int d = 0; d < product.rank() + ones; ++d) {
    const int64_t size = d < missing ? 1 : type.shape[static_cast<size_t>(d - missing)].constant();
    if (size != 1 && (d >= product.rank() || size != product[d])) return false;
    if (d < product.rank()) numbers.blocks.push_back(size);
  }
  return true;
}

bool LevelReader::is_four(ValueId id) const {
  const Tensor* four = constant(id);
  return four != nullptr && four->dtype == i8 && four->count() == 1 &&
         *four->as<const int8_t>() == 4;
}

// Whether all numbers are known to be 0.
bool LevelReader::is_zero(ValueId id) const {
  const Node* node = producer(id);
  while (node != nullptr && (node->op->name() == "cast" || node->op->name() == "reshape")) {
    id = node->inputs[0];
    node = producer(id);
  }
  const Tensor* all = constant(id);
  if (all == nullptr || !all->is_contiguous()) return false;
  for (int64_t i = 0; i < all->count(); ++i)
    if (element(*all, i) != 0) return false;
  return true;
}

// Bytes, or for 4 bits [slice](concat({(x << 4) >> 4, x >> 4})): of this shape.
bool LevelReader::integers_of(ValueId from, const Sizes& shape, WeightLevels& q) const {
  if (const Tensor* levels = constant(from)) {
    q.levels = attached(from);
    q.is_unsigned = levels->dtype == u8;
    return (levels->dtype == i8 || levels->dtype == u8) && sizes(from, q.ones) == shape;
  }
  const Node* slice = producer(from, "slice");
  if (slice != nullptr) from = slice->inputs[0];
  const Node* concat = producer(from, "concat");
  if (concat == nullptr || concat->inputs.size() != 2) return false;
  const int64_t dim = integer(*concat, "dim");
  const Node *low = producer(concat->inputs[0], "bitwise_right_shift"),
             *high = producer(concat->inputs[1], "bitwise_right_shift");
  if (low == nullptr || high == nullptr || dim < 0 || dim > 1) return false;
  const Node* moved = producer(low->inputs[0], "bitwise_left_shift");
  if (moved == nullptr || !is_four(moved->inputs[1]) || !is_four(low->inputs[1]) ||
      !is_four(high->inputs[1]) || moved->inputs[0] != high->inputs[0])
    return false;
  const Tensor* bytes = constant(high->inputs[0]);
  if (bytes == nullptr || bytes->dtype != i8) return false;
  Sizes packed = shape;
  const int d = static_cast<int>(dim);
  packed[d] = (packed[d] + 1) / 2;
  if (sizes(high->inputs[0], q.ones) != packed) return false;
  if (slice != nullptr && (integer(*slice, "dim") != dim || integer(*slice, "start") != 0 ||
                           integer(*slice, "step") != 1 || integer(*slice, "end") != shape[d]))
    return false;
  if ((slice != nullptr) != (shape[d] % 2 != 0)) return false;
  q.levels = attached(high->inputs[0]);
  q.packed = d;
  return true;
}

bool LevelReader::levels_of(ValueId id, const Sizes& shape, WeightLevels& q) const {
  const Node* cast = producer(id, "cast");
  return cast != nullptr && holds_levels(graph_.value_info(id).type.dtype) &&
         integers_of(cast->inputs[0], shape, q);
}
// The same in blocks: reshape(cast(levels)) or cast(reshape(levels)).
bool LevelReader::apart_levels_of(ValueId id, const Sizes& shape, WeightLevels& q) const {
  if (const Node* reshape = producer(id, "reshape")) return levels_of(reshape->inputs[0], shape, q);
  const Node* cast = producer(id, "cast");
  const Node* reshape = cast ? producer(cast->inputs[0], "reshape") : nullptr;
  return reshape != nullptr && holds_levels(graph_.value_info(id).type.dtype) &&
         integers_of(reshape->inputs[0], shape, q);
}

// The levels in levels - zeros, computed in floats or in integers; or the value itself.
ValueId LevelReader::centred(ValueId id, WeightLevels& q) const {
  const Node* cast = producer(id, "cast");
  const Node* sub = producer(cast ? cast->inputs[0] : id, "sub");
  if (sub == nullptr || !holds_levels(graph_.value_info(sub->outputs[0]).type.dtype)) return id;
  if (!is_zero(sub->inputs[1])) q.zeros.id = sub->inputs[1];
  return sub->inputs[0];
}

// The product in product + offsets, or in the product alone. Both have fixed numbers; offsets have
// the shape of the scales. `levels` are those before they are scaled.
const Node* LevelReader::product_of(ValueId id, ValueId& levels, WeightLevels& q) const {
  const Node* mul = producer(id, "mul");
  if (const Node* add = producer(id, "add")) {
    mul = producer(add->inputs[0], "mul");
    q.offsets.id = add->inputs[1];
  }
  if (mul == nullptr) return nullptr;
  const auto shape = [this](ValueId value) { return graph_.value_info(value).type.shape; };
  const size_t at = shape(mul->inputs[0]) == shape(mul->outputs[0]) ? 0 : 1;
  q.scales.id = mul->inputs[1 - at];
  levels = centred(mul->inputs[at], q);
  return mul;
}

// reshape((levels[.., blocks, group, ..] - zeros) * scales + offsets) of whole blocks.
std::optional<WeightLevels> LevelReader::in_blocks(const Node& reshape, WeightLevels q) const {
  ValueId levels = kNoValue;
  const Node* mul = product_of(reshape.inputs[0], levels, q);
  if (mul == nullptr || reshape.inputs[0] == mul->inputs[0]) return {};
  const std::optional<Sizes> cut = sizes(reshape.inputs[0], q.ones);
  if (!cut || sizes(levels, q.ones) != cut) return {};
  for (WeightLevels::Numbers* const each : {&q.scales, &q.zeros, &q.offsets})
    if (!factor(*each, *cut, q.ones)) return {};
  if (cut->rank() == 2) return in_rows_of_blocks(levels, *cut, q);
  if (cut->rank() != 3) return {};
  // [rows, blocks, group] or [blocks, group, columns]
  const auto all = [&](int dim, int64_t size) {
    for (const WeightLevels::Numbers* each : {&q.scales, &q.zeros, &q.offsets})
      if (each->id != kNoValue && each->blocks[dim] != size) return false;
    return true;
  };
  const int at = (*cut)[0] == q.shape[0] && all(2, 1) ? 1 : 0;
  q.split = at;
  q.group = (*cut)[at + 1];
  if (q.group < 1 || (*cut)[at] * q.group != q.shape[at] || !all(at + 1, 1) ||
      (*cut)[at == 0 ? 2 : 0] != q.shape[1 - at] || !apart_levels_of(levels, q.shape, q))
    return {};
  if ((*cut)[at] != 1 && all(at, 1)) q.split = -1;  // all blocks share their numbers
  for (WeightLevels::Numbers* const each : {&q.scales, &q.zeros, &q.offsets})
    if (each->id != kNoValue) each->blocks.erase(at + 1);
  return q;
}

// The same with blocks [rows * blocks, group].
std::optional<WeightLevels> LevelReader::in_rows_of_blocks(ValueId levels, const Sizes& cut,
                                                           WeightLevels q) const {
  q.split = 1;
  q.group = cut[1];
  if (q.group < 1 || q.shape[1] % q.group != 0 || cut[0] * q.group != q.shape.count() ||
      !apart_levels_of(levels, q.shape, q))
    return {};
  for (WeightLevels::Numbers* const each : {&q.scales, &q.zeros, &q.offsets}) {
    if (each->id == kNoValue) continue;
    if (each->blocks[1] != 1) return {};
    if (each->blocks[0] != 1 || cut[0] == 1) each->blocks = {q.shape[0], q.shape[1] / q.group};
  }
  return q;
}

// One number per block of the dim `split`, whose last block is cut:
// slice(reshape(expand(from, [.., blocks, group, ..])))
struct LevelReader::Spread {
  ValueId from = kNoValue;
  int split = 0;
  int64_t group = 1;
  Sizes shape;  // of `from`
};
std::optional<LevelReader::Spread> LevelReader::spread(ValueId id, const Sizes& shape,
                                                       int ones) const {
  const Node* slice = producer(id, "slice");
  const Node* whole = slice ? producer(slice->inputs[0], "reshape") : nullptr;
  const Node* expand = whole ? producer(whole->inputs[0], "expand") : nullptr;
  if (expand == nullptr || !is_fixed(expand->inputs[0])) return {};
  const int64_t dim = integer(*slice, "dim");
  if (dim < 0 || dim > 1 || integer(*slice, "start") != 0 || integer(*slice, "step") != 1)
    return {};
  const int at = static_cast<int>(dim);
  const std::optional<Sizes> from = sizes(expand->inputs[0], ones),
                             wide = sizes(expand->outputs[0], ones),
                             all = sizes(whole->outputs[0], ones),
                             cut = sizes(slice->outputs[0], ones);
  if (!from || !wide || !all || !cut || from->rank() != 3 || wide->rank() != 3 ||
      all->rank() != 2 || cut->rank() != 2)
    return {};
  const auto spans = [](int64_t numbers, int64_t size) { return numbers == size || numbers == 1; };
  const int64_t group = (*wide)[at + 1];
  const int other = at == 0 ? 2 : 0;
  const bool fits = group >= 1 && (*from)[at + 1] == 1 && (*from)[at] == (*wide)[at] &&
                    (*from)[other] == (*wide)[other] && (*all)[at] == (*wide)[at] * group &&
                    (*all)[1 - at] == (*wide)[other] && (*cut)[at] == shape[at] &&
                    spans((*cut)[1 - at], shape[1 - at]) &&
                    (*wide)[at] == (shape[at] + group - 1) / group;
  return fits ? std::optional(Spread{expand->inputs[0], at, group, *from}) : std::nullopt;
}

std::optional<WeightLevels> LevelReader::weight(ValueId id) const {
  const TensorType& type = graph_.value_info(id).type;
  if (!is_float(type.dtype) || type.dtype == f64) return {};
  if (const Node* cast = producer(id, "cast")) {
    // Widened in f32, for a model of 16 bits.
    if (graph_.value_info(cast->inputs[0]).type.dtype != f32 || type.dtype == f32) return {};
    std::optional<WeightLevels> wide = weight(cast->inputs[0]);
    if (wide) wide->dtype = type.dtype;
    return wide;
  }
  WeightLevels q;
  q.dtype = type.dtype;
  q.ones = std::max(0, type.rank() - 2);
  const std::optional<Sizes> shape = sizes(id, q.ones);
  if (!shape || shape->rank() != 2) return {};
  q.shape = *shape;
  if (const Node* reshape = producer(id, "reshape")) return in_blocks(*reshape, q);
  ValueId levels = kNoValue;
  const Node* mul = product_of(id, levels, q);
  if (mul == nullptr || sizes(mul->outputs[0], q.ones) != shape || !levels_of(levels, *shape, q))
    return {};
  if (factor(q.scales, *shape, q.ones))
    return factor(q.zeros, *shape, q.ones) && factor(q.offsets, *shape, q.ones) ? std::optional(q)
                                                                                : std::nullopt;
  const std::optional<Spread> scales = spread(q.scales.id, *shape, q.ones);
  if (!scales) return {};
  for (WeightLevels::Numbers* const each : {&q.scales, &q.zeros, &q.offsets}) {
    if (each->id == kNoValue) continue;
    const std::optional<Spread> numbers = spread(each->id, *shape, q.ones);
    if (!numbers || numbers->split != scales->split || numbers->group != scales->group) return {};
    each->id = numbers->from;
    each->blocks = numbers->shape;
    each->blocks.erase(numbers->split + 1);
  }
  q.split = scales->split;
  q.group = scales->group;
  return q;
}

bool LevelReader::turns(const Node& permute) const {
  const std::span<const Dim> dims = AttrReader(permute.op, permute.attrs).integers("dims");
  return dims[0] == Dim(1) || dims[0] == Dim(-1);
}

std::optional<WeightLevels> LevelReader::unscaled(ValueId id, bool& turned) const {
  const Node* cast = producer(id, "cast");
  WeightLevels q;
  q.dtype = graph_.value_info(id).type.dtype;
  if (cast == nullptr || !is_float(q.dtype) || q.dtype == f64) return {};
  ValueId from = cast->inputs[0];
  if (graph_.value_info(from).type.rank() != 2) return {};
  while (const Node* permute = producer(from, "permute")) {
    if (turns(*permute)) turned = !turned;
    from = permute->inputs[0];
  }
  const std::optional<Sizes> shape = sizes(from, 0);
  if (!shape || !integers_of(from, *shape, q)) return {};
  q.shape = *shape;
  return q;
}

}  // namespace hg
