// SPDX-License-Identifier: Apache-2.0
// Sequences and optionals. If their length is known at import, the graph does not contain them.
// Slices of a tensor along an axis of symbolic size stay one tensor, [length, ...]. Longer parts
// are represented like the result of split().
#include "converter/containers/columns.h"
#include "converter/containers/container_ops.h"
#include "converter/containers/containers.h"
#include "converter/onnx/contrib.h"
#include "converter/onnx/rows.h"

namespace hg::convert::onnx {
namespace {

// Returns the tensor that contains such slices; an invalid Value for other sequences.
Value slices_of(Node& n, int input) {
  const auto* list = std::get_if<std::shared_ptr<List>>(&n.item(input).value);
  if (list == nullptr || !(*list)->grown) return Value();
  return n.call().read(std::get<TensorRef>((*list)->grown->columns.at(0).all.value));
}
// Returns parts of a tensor, of which the last may be smaller; null for other sequences.
const Pieces* pieces_of(Node& n, int input) {
  const auto* list = std::get_if<std::shared_ptr<List>>(&n.item(input).value);
  return list != nullptr ? (*list)->pieces.get() : nullptr;
}
// Moves axis `from` of x to axis `to`.
Value moved(const Value& x, int from, int to) {
  Dims order = range(x.rank());
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, Dim(from));
  return permute(x, order);
}

size_t place(Node& n, int input, size_t size, bool may_be_end) {
  int64_t at = n.integer(input);
  const auto count = static_cast<int64_t>(size);
  if (at < 0) at += count;
  if (at < 0 || at > count || (at == count && !may_be_end))
    n.refuse(str_cat("position ", at, " is out of range for a sequence of ", count));
  return static_cast<size_t>(at);
}

void construct(Node& n) {
  std::vector<Item> items;
  for (int i = 0; i < n.input_count(); ++i) items.push_back(n.item(i));
  n.give_item(list_of(std::move(items)));
}
void empty(Node& n) { n.give_item(list_of({})); }
void at(Node& n) {
  if (pieces_of(n, 0) != nullptr) return (void)pieces::get_item(n.call());
  if (const Value all = slices_of(n, 0)) {
    Value index = reshape(cast(n.in(1), i64), {1});
    const Value size = size_value(n.graph(), all.dim(0));
    index = where(lt(index, constant_like(index, 0)), index + size, index);
    const Value row = n.op("index_select", {all, index}, {{"dim", 0}});
    return n.give(reshape(row, n.sizes_from(all, 1)));
  }
  const std::vector<Item> items = n.list(0);
  n.give_item(items[place(n, 1, items.size(), false)]);
}
void insert(Node& n) {
  std::vector<Item> items = n.list(0);
  const size_t where = n.has(2) ? place(n, 2, items.size(), true) : items.size();
  items.insert(items.begin() + static_cast<long>(where), n.item(1));
  n.give_item(list_of(std::move(items)));
}
void erase(Node& n) {
  std::vector<Item> items = n.list(0);
  if (items.empty()) n.refuse("the sequence is empty");
  const size_t where = n.has(1) ? place(n, 1, items.size(), false) : items.size() - 1;
  items.erase(items.begin() + static_cast<long>(where));
  n.give_item(list_of(std::move(items)));
}
void length(Node& n) {
  if (const Pieces* parts = pieces_of(n, 0))
    return n.give(Known{i64, 0, {Scalar::of(parts->count)}});
  if (const Value all = slices_of(n, 0)) return n.give(Known{i64, 0, {Scalar::of(all.dim(0))}});
  n.give(Known{i64, 0, {Scalar::of(Dim(static_cast<int64_t>(n.list(0).size())))}});
}
void concat_from_sequence(Node& n) {
  if (const Pieces* parts = pieces_of(n, 0)) {
    const Value whole = n.call().read(parts->base);
    if (n.flag("new_axis") || n.axis(n.integer("axis"), whole.rank()) != parts->dim)
      n.refuse("the length of the sequence is open",
               "concatenate along the axis that SplitToSequence splits, or give its size by --dim");
    return n.give(whole);
  }
  if (const Value all = slices_of(n, 0)) {
    const bool fresh = n.flag("new_axis");
    const int axis = n.axis(n.integer("axis"), fresh ? all.rank() : all.rank() - 1);
    const Value y = moved(all, 0, axis);
    if (fresh) return n.give(y);
    Shape shape = n.sizes_from(all, 1);
    if (shape.empty()) n.refuse("the elements of the sequence have no axes");
    shape[axis] = shape[axis] * all.dim(0);
    return n.give(reshape(y, std::move(shape)));
  }
  Values parts;
  for (const Item& item : n.list(0))
    parts.push_back(n.call().read(std::get<TensorRef>(item.value)));
  if (parts.empty()) n.refuse("the sequence is empty");
  const bool fresh = n.flag("new_axis");
  const int axis = n.axis(n.integer("axis"), parts[0].rank() + (fresh ? 1 : 0));
  if (fresh)
    for (Value& part : parts) {
      Shape shape = part.shape();
      shape.insert(shape.begin() + axis, Dim(1));
      part = reshape(part, std::move(shape));
    }
  n.give(concat(parts, axis));
}
void split_to_sequence(Node& n) {
  const Value x = n.in(0);
  const int axis = n.axis(n.integer("axis", 0), x.rank());
  const bool keep = n.flag("keepdims", true) || n.has(1);
  Dims sizes;
  const bool is_equal = !n.has(1) || n.type(1).rank() == 0;
  const int64_t each = n.has(1) && is_equal ? n.integer(1) : 1;
  if (is_equal && !x.dim(axis).is_constant() && each == 1) {
    Value all = moved(x, axis, 0);
    if (keep) {
      Shape shape = all.shape();
      shape.insert(shape.begin() + axis + 1, Dim(1));
      all = reshape(all, std::move(shape));
    }
    return n.give_item(list_of_parts(n.call().memory(), n.call().make_tensor(all)));
  }
  if (is_equal) {
    if (each < 1) n.refuse(str_cat("the parts have size ", each));
    if (!x.dim(axis).is_constant()) {
      auto list = std::make_shared<List>();
      list->pieces = std::make_shared<Pieces>(Pieces{
          n.call().make_tensor(x), axis, each, ceildiv(x.dim(axis), each), 0, 0, true, &n.graph()});
      return n.give_item(Item(std::move(list)));
    }
    for (int64_t left = x.dim(axis).constant(); left > 0; left -= each)
      sizes.emplace_back(std::min(left, each));
  } else {
    sizes = n.dims(1);
  }
  std::vector<Item> parts;
  Dim from = 0;
  for (const Dim& size : sizes) {
    Value part = slice(x, axis, from, from + size);
    from = from + size;
    if (!keep) {
      Shape shape = part.shape();
      shape.erase(shape.begin() + axis);
      part = reshape(part, std::move(shape));
    }
    parts.push_back(n.item_of(part));
  }
  n.give_item(list_of(std::move(parts)));
}

void has_element(Node& n) { n.give(Known{boolean, 0, {Scalar::of(n.has(0))}}); }
void element(Node& n) { n.give_item(n.item(0)); }
void optional(Node& n) { n.give_item(n.has(0) ? n.item(0) : Item()); }

constexpr Builtin kRows[] = {
    {"onnx::SequenceConstruct", row<construct>},
    {"onnx::SequenceEmpty", row<empty>},
    {"onnx::SequenceAt", row<at>},
    {"onnx::SequenceInsert", row<insert>},
    {"onnx::SequenceErase", row<erase>},
    {"onnx::SequenceLength", row<length>},
    {"onnx::ConcatFromSequence", row<concat_from_sequence>},
    {"onnx::SplitToSequence", row<split_to_sequence>},
    {"onnx::OptionalHasElement", row<has_element>},
    {"onnx::OptionalGetElement", row<element>},
    {"onnx::Optional", row<optional>},
};

}  // namespace

Rows sequence_rows() { return kRows; }

}  // namespace hg::convert::onnx

namespace hg::convert {

bool onnx_takes_parts(std::string_view kind) {
  return kind == "onnx::SequenceAt" || kind == "onnx::SequenceLength" ||
         kind == "onnx::ConcatFromSequence";
}

}  // namespace hg::convert
