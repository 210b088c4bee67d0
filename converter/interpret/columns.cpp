// SPDX-License-Identifier: Apache-2.0
#include "converter/interpret/columns.h"

#include <algorithm>
#include <numeric>

#include "converter/interpret/containers.h"
#include "converter/interpret/item_tree.h"
#include "converter/rows/view.h"
#include "converter/script/type_names.h"

namespace hg::convert {
namespace {

TensorRef cell_of(const Item& item) { return std::get<TensorRef>(item.value); }

// The dims that all elements share, in order.
std::vector<int> shared_dims(const std::vector<int>& open, int rank) {
  std::vector<int> shared;
  for (int d = 0; d < rank; ++d)
    if (std::find(open.begin(), open.end(), d) == open.end()) shared.push_back(d);
  return shared;
}

// Where the dims of an element are in its column: the open ones, then the others.
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

// The number of numbers of each element: i64[length].
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

// Where each element starts.
Value begins_of(const Value& counts) {
  Graph& g = *counts.graph();
  return g.call("sub", {g.call("cumsum", {counts}, {{"dim", 0}}), counts});
}

Value steps(Graph& g, const Dim& count) { return g.call("arange", {}, {{"end", count}}); }

// The sizes that graphs around and before know.
std::set<std::string> known_symbols(Memory& memory) {
  std::set<std::string> known = memory.symbols_outside();
  std::vector<std::string> symbols;
  const Graph& g = memory.graph();
  for (ValueId id = 0; id < g.value_count(); ++id)
    for (const Dim& dim : g.value_info(id).type.shape) dim.collect_symbols(symbols);
  known.insert(symbols.begin(), symbols.end());
  return known;
}

bool is_known(const std::set<std::string>& known, const Dim& dim) {
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  return std::all_of(symbols.begin(), symbols.end(),
                     [&](const std::string& symbol) { return known.contains(symbol); });
}

// The leaves of a pattern, in the order of collect().
void flatten(const Pattern& pattern, std::vector<Pattern>& leaves) {
  if (pattern.kind == Pattern::Kind::leaf) return leaves.push_back(pattern);
  if (pattern.kind == Pattern::Kind::other)
    throw Refusal{
        str_cat("a list whose length data or sizes decide holds ", describe(pattern.item)),
        "append tensors or numbers"};
  if (pattern.kind != Pattern::Kind::grown) {
    for (const Pattern& part : pattern.parts) flatten(part, leaves);
    return;
  }
  std::vector<Pattern> inner;  // a list in a list: its columns are leaves
  flatten(pattern.parts[0], inner);
  for (const Pattern& leaf : inner) {
    Pattern& all = leaves.emplace_back(leaf);
    all.is_column = true;
    all.open = {0};
    all.type.shape = {0};
    if (leaf.open.empty())
      all.type.shape.insert(all.type.shape.end(), leaf.type.shape.begin(), leaf.type.shape.end());
    for (const int d : shared_dims(leaf.open, leaf.type.rank()))
      if (!leaf.open.empty()) all.type.shape.push_back(leaf.type.shape[d]);
    if (leaf.open.empty()) continue;
    Pattern& sizes = leaves.emplace_back();
    sizes.kind = Pattern::Kind::leaf;
    sizes.type = {i64, {0, static_cast<int64_t>(leaf.open.size())}};
    sizes.is_column = true;
    sizes.open = {0};
  }
}

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

// The columns of a list of such elements, which have no values yet.
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

// An item of the pattern, with leaves that have no values.
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

// A leaf of one element as rows of its column, and its open sizes.
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

// Columns of no elements.
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

// The rows of elements of one size, as those of elements that differ in size.
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

// The columns of a list that grows already, as those of elements of another pattern.
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
  // Which columns each new one is made of.
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

  // Lists of so many tensors or numbers of one size, as lists of open length.
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

// What all items of a list have in common; none where it is empty or they have nothing.
std::optional<Pattern> common(const std::vector<Pattern>& parts) {
  if (parts.empty()) return std::nullopt;
  std::optional<Pattern> all = parts[0];
  for (size_t i = 1; all && i < parts.size(); ++i) all = joined(*all, parts[i], true);
  return all;
}

// Elements whose sizes only the body knows that appends them differ in those.
void open_unknown(Pattern& pattern, const std::set<std::string>& known) {
  for (Pattern& part : pattern.parts) open_unknown(part, known);
  for (int d = 0; d < pattern.type.rank(); ++d)
    if (!is_known(known, pattern.type.shape[d]) &&
        std::find(pattern.open.begin(), pattern.open.end(), d) == pattern.open.end())
      pattern.open.push_back(d);
}

// The sizes that the elements of a list have at present.
void note_sizes(Memory& memory, const Grown& grown, Pattern& pattern, size_t& next) {
  if (pattern.kind == Pattern::Kind::grown) {
    std::vector<Pattern> inner;
    flatten(pattern, inner);
    next += inner.size();
    return;
  }
  for (Pattern& part : pattern.parts) note_sizes(memory, grown, part, next);
  if (pattern.kind != Pattern::Kind::leaf) return;
  const Shape& all = memory.type(cell_of(grown.columns[next++].all)).shape;
  const std::vector<int> shared = shared_dims(pattern.open, pattern.type.rank());
  for (size_t d = 0; d < shared.size(); ++d) pattern.type.shape[shared[d]] = all[d + 1];
}

std::optional<Pattern> joined_leaves(const Pattern& a, const Pattern& b, bool in_list) {
  if (a.type.dtype != b.type.dtype || a.type.rank() != b.type.rank() ||
      a.is_number != b.is_number || a.is_complex != b.is_complex)
    return std::nullopt;
  Pattern result = a;
  const auto open = [&](int d) {
    if (std::find(result.open.begin(), result.open.end(), d) == result.open.end())
      result.open.push_back(d);
  };
  for (const int d : b.open) open(d);
  for (int d = 0; d < a.type.rank(); ++d) {
    if (a.type.shape[d] == b.type.shape[d]) continue;
    if (in_list) open(d);
    result.type.shape[d] = 0;
  }
  return result;
}

bool joins_parts(Pattern& a, const Pattern& b, bool in_list) {
  if (a.parts.size() != b.parts.size()) return false;
  for (size_t i = 0; i < a.parts.size(); ++i) {
    auto part = joined(a.parts[i], b.parts[i], in_list);
    if (!part) return false;
    a.parts[i] = *std::move(part);
  }
  return true;
}

// Two lists, of which one grows or that have other numbers of elements.
std::optional<Pattern> joined_lists(const Pattern& a, const Pattern& b, bool in_list) {
  const auto x = common(a.parts), y = common(b.parts);
  if ((!x && !a.parts.empty()) || (!y && !b.parts.empty()) || (!x && !y)) return std::nullopt;
  auto element = x && y ? joined(*x, *y, in_list) : x ? x : y;
  if (!element) return std::nullopt;
  Pattern result;
  result.kind = Pattern::Kind::grown;
  result.parts.push_back(*std::move(element));
  return result;
}

}  // namespace

Pattern pattern_of(Memory& memory, const Item& item) {
  Pattern pattern;
  const auto add = [&](const Item& part) { pattern.parts.push_back(pattern_of(memory, part)); };
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
    pattern.kind = Pattern::Kind::list;
    for (const Item& element : (*list)->items) add(element);
    if (!(*list)->grown) return pattern;
    pattern.kind = Pattern::Kind::grown;
    const Grown& grown = *(*list)->grown;
    Pattern& element = pattern.parts.emplace_back(grown.pattern);
    size_t next = 0;
    note_sizes(memory, grown, element, next);
    return pattern;
  }
  pattern.item = item;
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
    pattern.kind = Pattern::Kind::tuple;
    for (const Item& element : (*tuple)->items) add(element);
  } else if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    pattern.kind = Pattern::Kind::dict;
    for (const auto& [key, value] : (*dict)->items) add(value);
  } else if (const auto* tensor = std::get_if<TensorRef>(&item.value)) {
    pattern.kind = Pattern::Kind::leaf;
    pattern.type = memory.type(*tensor);
    pattern.is_number = (*tensor)->is_number();
    pattern.is_column = (*tensor)->is_column();
    pattern.is_complex = (*tensor)->is_complex();
  } else if (item.is_number()) {
    pattern.kind = Pattern::Kind::leaf;
    pattern.type.dtype = item.is_bool() ? boolean : item.is_int() ? i64 : f64;
    pattern.is_number = true;
  }
  return pattern;
}

void note_types(Pattern& pattern, std::string_view type) {
  if (const auto inner = inside_of(type, "List");
      inner && (pattern.kind == Pattern::Kind::list || pattern.kind == Pattern::Kind::grown)) {
    for (Pattern& part : pattern.parts) note_types(part, *inner);
    const bool is_number = *inner == "int" || *inner == "float" || *inner == "bool";
    if (!pattern.parts.empty() || !is_number) return;
    pattern.kind = Pattern::Kind::grown;
    Pattern& leaf = pattern.parts.emplace_back();
    leaf.kind = Pattern::Kind::leaf;
    leaf.type.dtype = *inner == "int" ? i64 : *inner == "bool" ? boolean : f64;
    leaf.is_number = true;
  } else if (const auto parts = inside_of(type, "Tuple");
             parts && pattern.kind == Pattern::Kind::tuple) {
    const std::vector<NamedType> types = split_types(*parts);
    for (size_t i = 0; i < types.size() && i < pattern.parts.size(); ++i)
      note_types(pattern.parts[i], types[i].type);
  }
}

std::optional<Pattern> joined(const Pattern& a, const Pattern& b, bool in_list) {
  using enum Pattern::Kind;
  const auto is_list = [](const Pattern& p) { return p.kind == list || p.kind == grown; };
  if (is_list(a) && is_list(b)) {
    if (a.kind == b.kind && a.parts.size() == b.parts.size()) {
      Pattern result = a;
      if (joins_parts(result, b, in_list)) return result;
    }
    return joined_lists(a, b, in_list);
  }
  if (a.kind != b.kind) return std::nullopt;
  if (a.kind == leaf) return joined_leaves(a, b, in_list);
  if (a.kind == other) return keeps(a.item, b.item) ? std::optional(a) : std::nullopt;
  if (a.kind == dict) {
    const auto &x = std::get<std::shared_ptr<Dict>>(a.item.value)->items,
               &y = std::get<std::shared_ptr<Dict>>(b.item.value)->items;
    const bool same = std::equal(x.begin(), x.end(), y.begin(), y.end(), [](auto& p, auto& q) {
      return equal(p.first, q.first).value_or(false);
    });
    if (!same) return std::nullopt;
  }
  Pattern result = a;
  return joins_parts(result, b, in_list) ? std::optional(result) : std::nullopt;
}

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
    return item;  // which does not fit
  auto copy = std::make_shared<List>();
  if (pattern.kind == list) {
    copy->items = (*from)->items;
    fit(copy->items);
  } else if ((*from)->grown) {
    copy->grown = regrown(memory, *(*from)->grown, pattern.parts[0]);
  } else {
    copy->grown = grown_of(memory, pattern.parts[0], (*from)->items);
  }
  return Item(std::move(copy));
}

Pattern grown_pattern(Memory& memory, const Growing& growing) {
  const Pattern before = pattern_of(memory, Item(growing.list));
  Pattern wanted = growing.wanted;
  if (growing.is_element) {
    Pattern list;
    list.kind = Pattern::Kind::grown;
    open_unknown(wanted, known_symbols(memory));
    list.parts.push_back(std::move(wanted));
    wanted = std::move(list);
  }
  // A list is of elements of one type: what is appended differs in size from those before.
  auto result = joined_lists(before, wanted, growing.is_element);
  if (!result)
    throw Refusal{str_cat("a list whose length data or sizes decide holds ",
                          describe(Item(growing.list)), " and more that differs in type"),
                  "append elements of one dtype, rank and structure"};
  return *std::move(result);
}

void start_growing(Interpreter& interpreter, const Growing& growing) {
  Memory& memory = interpreter.memory();
  const Item fit = fitted(memory, Item(growing.list), grown_pattern(memory, growing));
  if (Status status = memory.graph().take_status(); !status.ok())
    throw Refusal{std::string(status.message()), ""};
  for (const Item& item : growing.list->items) interpreter.store(item);
  const List list = *std::get<std::shared_ptr<List>>(fit.value);
  *growing.list = list;
}

void Growths::grow(const Growing& growing) {
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& each) {
    return each.list == growing.list && each.list->grown == each.grown;
  });
  if (known == known_.end()) {
    const List before = *growing.list;
    start_growing(interpreter_, growing);
    known_.push_back({growing.list, before, growing.list->grown});
    return;
  }
  // From what it was at first: its elements may differ in more than was known.
  const Pattern pattern = grown_pattern(interpreter_.memory(), growing);
  *growing.list = known->before;
  start_growing(interpreter_, {growing.list, pattern, false});
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
