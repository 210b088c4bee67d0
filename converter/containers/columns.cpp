// SPDX-License-Identifier: Apache-2.0
#include "converter/containers/columns.h"

#include <algorithm>

#include "converter/containers/containers.h"
#include "converter/memory/item_tree.h"
#include "converter/rows/view.h"

namespace hg::convert {
namespace {

// Order of an element's dims in its column: open dims first, then the others.
std::vector<int> order_of(const std::vector<int>& open, int rank) {
  std::vector<int> order = open;
  for (const int d : shared_dims(open, rank)) order.push_back(d);
  return order;
}

Value permuted(const Value& x, const std::vector<int>& order) {
  if (std::is_sorted(order.begin(), order.end())) return x;
  return x.graph()->call("permute", {x}, {{"dims", std::vector<Dim>(order.begin(), order.end())}});
}

Dim product(const std::vector<Dim>& dims) {
  Dim result = 1;
  for (const Dim& dim : dims) result = result * dim;
  return result;
}

Value numbers(Graph& g, const std::vector<Dim>& dims) {
  return g.call("dims", {}, {{"values", dims}});
}

Value select_rows(const Value& x, const Value& indices) {
  return x.graph()->call("index_select", {x, indices}, {{"dim", 0}});
}

// Returns the number of elements in each list element: i64[length].
Value counts_of(const Value& sizes) {
  Value counts;
  for (int64_t j = 0; j < sizes.dim(1).constant(); ++j) {
    const Value column =
        reshape(sizes.graph()->call("slice", {sizes}, {{"dim", 1}, {"start", j}, {"end", j + 1}}),
                {sizes.dim(0)});
    counts = counts ? sizes.graph()->call("mul", {counts, column}) : column;
  }
  return counts;
}

// Returns the start of each element.
Value begins_of(const Value& counts) {
  Graph& g = *counts.graph();
  return g.call("sub", {g.call("cumsum", {counts}, {{"dim", 0}}), counts});
}

Value steps(Graph& g, const Dim& count) { return g.call("arange", {}, {{"end", count}}); }

TensorRef blank(Memory& memory, const Pattern& leaf) {
  TensorRef cell = leaf.is_number ? memory.make_number(Value()) : memory.make(Value());
  if (leaf.is_column) memory.set_column(cell);
  return cell;
}

Item element_of(Memory& memory, const Pattern& pattern);
Grown blank_list(Memory& memory, const Pattern& element);

std::vector<Item> elements_of_parts(Memory& memory, const Pattern& pattern) {
  std::vector<Item> items;
  for (const Pattern& part : pattern.parts) items.push_back(element_of(memory, part));
  return items;
}

// Returns columns without values for a list of such elements.
std::vector<Column> blank_columns(Memory& memory, const Pattern& element) {
  std::vector<Pattern> leaves;
  flatten(element, leaves);
  std::vector<Column> columns;
  for (const Pattern& leaf : leaves) {
    if (leaf.is_complex)
      throw Refusal{"a list whose length data or sizes decide holds a complex tensor",
                    "append the real and imaginary parts: torch.view_as_real(x)"};
    Column& column = columns.emplace_back();
    Pattern own = leaf;
    own.is_column = true;
    column.all = Item(blank(memory, own));
    column.open = leaf.open;
    if (!leaf.open.empty()) {
      own.is_number = false;
      column.sizes = Item(blank(memory, own));
    }
  }
  if (columns.empty())
    throw Refusal{"a list whose length data or sizes decide holds elements without tensors", ""};
  return columns;
}

// Returns an item of the pattern whose leaves have no values.
Item element_of(Memory& memory, const Pattern& pattern) {
  switch (pattern.kind) {
    case Pattern::Kind::leaf:
      return Item(blank(memory, pattern));
    case Pattern::Kind::list:
      return list_of(elements_of_parts(memory, pattern));
    case Pattern::Kind::grown: {
      auto list = std::make_shared<List>();
      list->grown = std::make_shared<const Grown>(blank_list(memory, pattern.parts[0]));
      return Item(std::move(list));
    }
    case Pattern::Kind::tuple: {
      auto tuple = std::make_shared<Tuple>();
      tuple->names = std::get<std::shared_ptr<Tuple>>(pattern.item.value)->names;
      tuple->items = elements_of_parts(memory, pattern);
      return Item(std::move(tuple));
    }
    case Pattern::Kind::dict: {
      auto dict = std::make_shared<Dict>(*std::get<std::shared_ptr<Dict>>(pattern.item.value));
      std::vector<Item> items = elements_of_parts(memory, pattern);
      for (size_t i = 0; i < items.size(); ++i) dict->items[i].second = std::move(items[i]);
      return Item(std::move(dict));
    }
    case Pattern::Kind::other:
      break;
  }
  return pattern.item;
}

Grown blank_list(Memory& memory, const Pattern& element) {
  return {element, element_of(memory, element), blank_columns(memory, element)};
}

Value value_of(Memory& memory, const Item& leaf) {
  return leaf.is_tensor() ? memory.read(cell_of(leaf)) : number_value(memory, leaf);
}

// Returns a leaf of one element as rows of its column, and its open sizes.
Columns as_rows(const Value& value, const std::vector<int>& open) {
  const Shape& shape = value.shape();
  if (open.empty()) {
    Shape row = shape;
    row.insert(row.begin(), Dim(1));
    return {reshape(value, row)};
  }
  std::vector<Dim> sizes;
  for (const int d : open) sizes.push_back(shape[d]);
  Shape row = {product(sizes)};
  for (const int d : shared_dims(open, value.rank())) row.push_back(shape[d]);
  return {rows::reshaped(permuted(value, order_of(open, value.rank())), row),
          reshape(numbers(*value.graph(), sizes), {Dim(1), static_cast<int64_t>(open.size())})};
}

// Returns empty columns.
Columns no_rows(Memory& memory, const Pattern& leaf, const std::set<std::string>& known) {
  Shape row = {0};
  const auto size = [&](const Dim& dim) { return is_known(known, dim) ? dim : Dim(0); };
  for (const int d : shared_dims(leaf.open, leaf.type.rank()))
    row.push_back(size(leaf.type.shape[d]));
  Columns columns = {rows::zeros(memory.graph(), leaf.type.dtype, row)};
  if (!leaf.open.empty())
    columns.push_back(
        rows::zeros(memory.graph(), i64, {0, static_cast<int64_t>(leaf.open.size())}));
  return columns;
}

// Converts rows of elements with equal sizes to the form for elements of different sizes.
Columns opened(const Value& all, const std::vector<int>& open) {
  const int rank = all.rank() - 1;
  std::vector<int> order = {0};
  for (const int d : order_of(open, rank)) order.push_back(d + 1);
  std::vector<Dim> sizes;
  for (const int d : open) sizes.push_back(all.dim(d + 1));
  Shape rows = {all.dim(0) * product(sizes)};
  for (const int d : shared_dims(open, rank)) rows.push_back(all.dim(d + 1));
  const Dim width = static_cast<int64_t>(open.size());
  return {
      rows::reshaped(permuted(all, order), rows),
      rows::expanded(reshape(numbers(*all.graph(), sizes), {Dim(1), width}), {all.dim(0), width})};
}

void set_values(Memory& memory, std::vector<Column>& columns, const Columns& values) {
  size_t next = 0;
  const auto set = [&](Item& item) {
    item = Item(memory.make_like(cell_of(item), values[next++]));
  };
  for (Column& column : columns) {
    set(column.all);
    if (!column.open.empty()) set(column.sizes);
  }
}

std::shared_ptr<const Grown> grown_of(Memory& memory, const Pattern& element, const Items& items) {
  Grown grown = blank_list(memory, element);
  std::vector<Columns> parts;
  for (const Item& item : items) {
    auto part = as_columns(memory, grown, fitted(memory, item, element));
    if (!part)
      throw Refusal{"the elements of a list whose length data or sizes decide differ in type",
                    "append tensors of one dtype and rank"};
    parts.push_back(*std::move(part));
  }
  if (parts.empty()) {
    std::vector<Pattern> leaves;
    flatten(element, leaves);
    const std::set<std::string> known = known_symbols(memory);
    Columns& none = parts.emplace_back();
    for (const Pattern& leaf : leaves)
      for (const Value& value : no_rows(memory, leaf, known)) none.push_back(value);
  }
  set_values(memory, grown.columns, concatenated(grown, parts));
  for (const Item& item : items) link_element(memory, grown, item);
  return std::make_shared<const Grown>(std::move(grown));
}

// Converts the columns of a grown list to those for another element pattern.
class Conversion {
 public:
  Conversion(Memory& memory, const Grown& from) : memory_(memory), from_(from) {}

  void convert(const Pattern& from, const Pattern& to) {
    using enum Pattern::Kind;
    if (from.kind == list && to.kind == grown) return convert_list(from, to);
    if (from.kind != to.kind || (from.kind != grown && from.parts.size() != to.parts.size()))
      refuse();
    if (from.kind != leaf && from.kind != grown) {
      for (size_t i = 0; i < from.parts.size(); ++i) convert(from.parts[i], to.parts[i]);
      return;
    }
    std::vector<Pattern> leaves, wanted;
    flatten(from, leaves);
    flatten(to, wanted);
    if (leaves.size() != wanted.size()) refuse();
    for (const Pattern& each : wanted) convert_column(each.open);
  }

  const Columns& values() const { return values_; }
  // The source columns of each new column.
  const std::vector<std::vector<TensorRef>>& sources() const { return sources_; }

 private:
  [[noreturn]] static void refuse() {
    throw Refusal{"the elements of a list whose length data or sizes decide change their structure",
                  "append elements of one structure"};
  }

  void convert_column(const std::vector<int>& open) {
    const Column& column = from_.columns.at(next_++);
    const Value all = memory_.read(cell_of(column.all));
    sources_.push_back({cell_of(column.all)});
    if (column.open == open) {
      values_.push_back(all);
      if (!open.empty()) values_.push_back(memory_.read(cell_of(column.sizes)));
    } else if (column.open.empty()) {
      for (const Value& value : opened(all, open)) values_.push_back(value);
    } else {
      throw Refusal{"the elements of a list differ in the sizes of several dims",
                    "append tensors that differ in one dim"};
    }
  }

  // Converts lists with a fixed number of tensors or numbers to lists of variable length.
  void convert_list(const Pattern& from, const Pattern& to) {
    std::vector<Pattern> wanted;
    flatten(to, wanted);
    if (wanted.size() != 1 || from.parts.empty()) refuse();
    std::vector<Value> parts;
    std::vector<TensorRef>& sources = sources_.emplace_back();
    for (const Pattern& part : from.parts) {
      if (part.kind != Pattern::Kind::leaf || !part.open.empty()) refuse();
      const TensorRef cell = cell_of(from_.columns.at(next_++).all);
      const Value all = memory_.read(cell);
      Shape shape = all.shape();
      shape.insert(shape.begin() + 1, Dim(1));
      parts.push_back(reshape(all, shape));
      sources.push_back(cell);
    }
    const Value both = rows::joined(parts, 1);
    for (const Value& value : opened(both, {0})) values_.push_back(value);
  }

  Memory& memory_;
  const Grown& from_;
  size_t next_ = 0;
  Columns values_;
  std::vector<std::vector<TensorRef>> sources_;
};

std::shared_ptr<const Grown> regrown(Memory& memory, const Grown& before, const Pattern& element) {
  Grown grown = blank_list(memory, element);
  Conversion conversion(memory, before);
  conversion.convert(before.pattern, element);
  set_values(memory, grown.columns, conversion.values());
  for (size_t i = 0; i < grown.columns.size(); ++i)
    for (const TensorRef& source : conversion.sources().at(i)) {
      if (before.views) memory.may_share(cell_of(grown.columns[i].all), source);
      memory.share_lists(source, cell_of(grown.columns[i].all));
    }
  return std::make_shared<const Grown>(std::move(grown));
}

// Returns the parts of a tensor as a grown list of copies.
Grown grown_of_pieces(Memory& memory, const Pieces& pieces, const Pattern& element) {
  Graph& g = memory.graph();
  Grown grown = blank_list(memory, element);
  const Value base = memory.read(pieces.base);
  const Value places = steps(g, pieces.count);
  const auto number = [&](const Dim& dim) { return numbers(g, {dim}); };
  const auto apply = [&](const char* op, const Value& a, const Value& b) {
    return g.call(op, {a, b});
  };
  const Value larger = number(pieces.larger);
  const Value start =
      apply("add", apply("mul", places, number(pieces.size)), apply("minimum", places, larger));
  const Value left = apply("maximum", apply("sub", number(base.dim(pieces.dim)), start), number(0));
  const Value wanted = apply("add", number(pieces.size), cast(apply("lt", places, larger), i64));
  set_values(memory, grown.columns,
             {permuted(base, order_of({pieces.dim}, base.rank())),
              reshape(apply("minimum", wanted, left), {pieces.count, 1})});
  memory.add_to_list(pieces.base, cell_of(grown.columns[0].all));
  return grown;
}

}  // namespace

Item fitted(Memory& memory, const Item& item, const Pattern& pattern) {
  using enum Pattern::Kind;
  if (pattern.kind == leaf || pattern.kind == other) return item;
  if (same_structure(item, element_of(memory, pattern))) return item;
  const auto fit = [&](std::vector<Item>& items) {
    for (size_t i = 0; i < items.size(); ++i)
      items[i] = fitted(memory, items[i], pattern.parts.at(i));
  };
  if (const auto* from = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
    auto copy = std::make_shared<Tuple>(**from);
    fit(copy->items);
    return Item(std::move(copy));
  }
  if (const auto* from = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    auto copy = std::make_shared<Dict>(**from);
    for (size_t i = 0; i < copy->items.size(); ++i)
      copy->items[i].second = fitted(memory, copy->items[i].second, pattern.parts.at(i));
    return Item(std::move(copy));
  }
  const auto* from = std::get_if<std::shared_ptr<List>>(&item.value);
  if (from == nullptr) return item;
  if (pattern.kind == list && ((*from)->grown || (*from)->items.size() != pattern.parts.size()))
    return item;  // does not fit
  auto copy = std::make_shared<List>();
  if (pattern.kind == list) {
    copy->items = (*from)->items;
    fit(copy->items);
  } else if ((*from)->grown) {
    copy->grown = regrown(memory, *(*from)->grown, pattern.parts[0]);
  } else if ((*from)->pieces) {
    const Grown grown =
        grown_of_pieces(memory, *(*from)->pieces, pattern_of(memory, item).parts[0]);
    copy->grown = regrown(memory, grown, pattern.parts[0]);
  } else {
    copy->grown = grown_of(memory, pattern.parts[0], (*from)->items);
  }
  return Item(std::move(copy));
}

void start_growing(Environment& environment, const Growing& growing) {
  Memory& memory = environment.memory();
  const Item fit = fitted(memory, Item(growing.list), grown_pattern(memory, growing));
  require_ok(memory.graph().take_status());
  for (const Item& item : growing.list->items) environment.identities().store(item);
  const List list = *std::get<std::shared_ptr<List>>(fit.value);
  *growing.list = list;
}

void grow(Environment& environment, const Growing& growing) {
  if (environment.identities().is_outer(growing.list.get())) throw growing;
  start_growing(environment, growing);
}

void Growths::grow(const Growing& growing) {
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& each) {
    return each.list == growing.list && each.list->grown == each.grown;
  });
  if (known == known_.end()) {
    const List before = *growing.list;
    start_growing(environment_, growing);
    known_.push_back({growing.list, before, growing.list->grown});
    return;
  }
  // Starts from the original list, because its elements may differ in more dims than known before.
  const Pattern pattern = grown_pattern(environment_.memory(), growing);
  *growing.list = known->before;
  start_growing(environment_, {growing.list, pattern, false});
  known->grown = growing.list->grown;
}

Growths::~Growths() {
  for (auto known = known_.rbegin(); known != known_.rend(); ++known)
    if (known->list->grown == known->grown) *known->list = known->before;
}

Item list_of_parts(Memory& memory, const TensorRef& parts) {
  Pattern element;
  element.kind = Pattern::Kind::leaf;
  element.type = memory.type(parts);
  element.type.shape.erase(element.type.shape.begin());
  Grown grown = blank_list(memory, element);
  grown.columns[0].all = Item(parts);
  grown.views = true;
  auto list = std::make_shared<List>();
  list->grown = std::make_shared<const Grown>(std::move(grown));
  return Item(std::move(list));
}

Dim length_of(Memory& memory, const Grown& grown) {
  const Column& column = grown.columns.at(0);
  return memory.type(cell_of(column.open.empty() ? column.all : column.sizes)).shape[0];
}

Columns read_columns(Memory& memory, const Grown& grown) {
  Columns values;
  for (const Column& column : grown.columns) {
    values.push_back(memory.read(cell_of(column.all)));
    if (!column.open.empty()) values.push_back(memory.read(cell_of(column.sizes)));
  }
  return values;
}

Columns taken(Memory& memory, const Grown& grown, const Value& indices) {
  Columns values;
  for (const Column& column : grown.columns) {
    const Value all = memory.read(cell_of(column.all));
    if (column.open.empty()) {
      values.push_back(select_rows(all, indices));
      continue;
    }
    Graph& g = memory.graph();
    const Value sizes = memory.read(cell_of(column.sizes));
    const Value counts = counts_of(sizes), kept = select_rows(counts, indices);
    const Value shift = g.call("sub", {select_rows(begins_of(counts), indices), begins_of(kept)});
    const Value rows = g.call("repeat_interleave", {kept});
    const Value at = g.call("add", {steps(g, rows.dim(0)), select_rows(shift, rows)});
    values.push_back(select_rows(all, at));
    values.push_back(select_rows(sizes, indices));
  }
  return values;
}

Item element_at(Memory& memory, const Grown& grown, const Value& index) {
  Graph& g = memory.graph();
  const Value one = reshape(index, {Dim(1)});
  std::vector<const Item*> blanks;
  collect(grown.element, blanks);
  std::vector<Item> leaves;
  for (size_t i = 0; i < grown.columns.size(); ++i) {
    const Column& column = grown.columns[i];
    const Value all = memory.read(cell_of(column.all));
    Value value;
    if (column.open.empty()) {
      value = reshape(select_rows(all, one), Shape(all.shape().begin() + 1, all.shape().end()));
    } else {
      const Value sizes = memory.read(cell_of(column.sizes)), mine = select_rows(sizes, one);
      const Value begin = select_rows(begins_of(counts_of(sizes)), one);
      Shape shape;
      for (int64_t j = 0; j < static_cast<int64_t>(column.open.size()); ++j) {
        const Value size =
            reshape(g.call("slice", {mine}, {{"dim", 1}, {"start", j}, {"end", j + 1}}), Shape());
        shape.push_back(*memory.size_of(memory.make_number(size)));
      }
      const Dim count = product({shape.begin(), shape.end()});
      shape.insert(shape.end(), all.shape().begin() + 1, all.shape().end());
      value = rows::reshaped(select_rows(all, g.call("add", {steps(g, count), begin})), shape);
      const std::vector<int> order = order_of(column.open, value.rank());
      std::vector<int> back(order.size());
      for (size_t d = 0; d < order.size(); ++d) back[static_cast<size_t>(order[d])] = int(d);
      value = permuted(value, back);
    }
    const TensorRef leaf = memory.make_like(cell_of(*blanks[i]), value);
    if (!leaf->is_number()) memory.add_to_list(leaf, cell_of(column.all));
    leaves.emplace_back(leaf);
  }
  size_t next = 0;
  return rebuild(grown.element, leaves, next);
}

std::vector<Item> as_elements(Memory& memory, const Grown& grown, int64_t count) {
  Graph& g = memory.graph();
  g.guard(length_of(memory, grown), Relation::eq, count, str_cat("a list of ", count, " elements"));
  require_ok(g.take_status());
  std::vector<Item> elements;
  for (int64_t i = 0; i < count; ++i)
    elements.push_back(element_at(memory, grown, g.scalar(i, i64)));
  return elements;
}

std::optional<Columns> as_columns(Memory& memory, const Grown& grown, const Item& element) {
  if (!same_structure(element, grown.element)) return std::nullopt;
  std::vector<const Item*> leaves, blanks;
  collect(element, leaves);
  collect(grown.element, blanks);
  Columns values;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Column& column = grown.columns[i];
    if (!is_numeric(*leaves[i]) && !leaves[i]->is_tensor()) return std::nullopt;
    if (is_numeric(*leaves[i]) != cell_of(*blanks[i])->is_number() || is_complex(*leaves[i]))
      return std::nullopt;
    const Value value = value_of(memory, *leaves[i]);
    const auto& all = cell_of(column.all);
    if (all->has_value()) {
      const TensorType type = memory.type(all);
      const std::vector<int> shared = shared_dims(column.open, value.rank());
      if (value.dtype() != type.dtype || shared.size() + 1 != type.shape.size())
        return std::nullopt;
      for (size_t d = 0; d < shared.size(); ++d)
        if (!(value.dim(shared[d]) == type.shape[d + 1])) return std::nullopt;
    }
    for (const Value& row : as_rows(value, column.open)) values.push_back(row);
  }
  return values;
}

Columns concatenated(const Grown& grown, const std::vector<Columns>& parts) {
  Columns values;
  size_t at = 0;
  for (const Column& column : grown.columns)
    for (size_t k = 0; k < (column.open.empty() ? 1 : 2); ++k, ++at) {
      std::vector<Value> parts_of_column;
      for (const Columns& part : parts) parts_of_column.push_back(part[at]);
      values.push_back(rows::joined(parts_of_column, 0));
    }
  return values;
}

std::shared_ptr<List> list_like(Memory& memory, const Grown& grown, const Columns& columns) {
  Grown result = grown;
  result.views = false;
  for (Column& column : result.columns)
    for (Item* item : {&column.all, &column.sizes})
      if (item->is_tensor()) {
        const TensorRef cell = cell_of(*item);
        *item = Item(cell->is_number() ? memory.make_number(Value()) : memory.make(Value()));
        memory.set_column(cell_of(*item));
      }
  set_values(memory, result.columns, columns);
  for (size_t i = 0; i < result.columns.size(); ++i) {
    const TensorRef from = cell_of(grown.columns[i].all), to = cell_of(result.columns[i].all);
    if (from->is_number() || !from->has_value()) continue;
    if (grown.views)
      memory.may_share(to, from);
    else
      memory.share_lists(from, to);
  }
  auto list = std::make_shared<List>();
  list->grown = std::make_shared<const Grown>(std::move(result));
  return list;
}

void link_element(Memory& memory, const Grown& grown, const Item& element) {
  std::vector<const Item*> leaves;
  collect(element, leaves);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto* tensor = std::get_if<TensorRef>(&leaves[i]->value);
    if (!tensor || (*tensor)->is_number()) continue;
    const TensorRef to = cell_of(grown.columns[i].all);
    if ((*tensor)->is_column())
      memory.share_lists(*tensor, to);
    else
      memory.add_to_list(*tensor, to);
  }
}

}  // namespace hg::convert
