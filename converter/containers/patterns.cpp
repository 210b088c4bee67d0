// SPDX-License-Identifier: Apache-2.0
#include "converter/containers/patterns.h"

#include <algorithm>

#include "converter/containers/columns.h"
#include "converter/core/type_names.h"
#include "converter/memory/item_tree.h"

namespace hg::convert {

std::vector<int> shared_dims(const std::vector<int>& open, int rank) {
  std::vector<int> shared;
  for (int d = 0; d < rank; ++d)
    if (std::find(open.begin(), open.end(), d) == open.end()) shared.push_back(d);
  return shared;
}

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
  std::vector<Pattern> inner;  // for a list in a list, its columns are leaves
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

namespace {

// Returns the pattern that all items of a list fit; nothing if the list is empty or there is no
// such pattern.
std::optional<Pattern> common(const std::vector<Pattern>& parts) {
  if (parts.empty()) return std::nullopt;
  std::optional<Pattern> all = parts[0];
  for (size_t i = 1; all && i < parts.size(); ++i) all = joined(*all, parts[i], true);
  return all;
}

// Opens the sizes that are only known in the body that appends the element.
void open_unknown(Pattern& pattern, const std::set<std::string>& known) {
  for (Pattern& part : pattern.parts) open_unknown(part, known);
  for (int d = 0; d < pattern.type.rank(); ++d)
    if (!is_known(known, pattern.type.shape[d]) &&
        std::find(pattern.open.begin(), pattern.open.end(), d) == pattern.open.end())
      pattern.open.push_back(d);
}

// Sets the sizes in the pattern to the current sizes of the list's elements.
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

// Joins two lists of which one is grown or whose lengths differ.
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
    if (const Pieces* pieces = (*list)->pieces.get()) {
      if (pieces->by_data)
        throw Refusal{"a list of the parts of a dim that data decides is passed on", ""};
      pattern.kind = Pattern::Kind::grown;
      add(Item(pieces->base));
      pattern.parts.back().open = {pieces->dim};
      return pattern;
    }
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
  // All elements of a list have one type, so the new element differs only in size from the others.
  auto result = joined_lists(before, wanted, growing.is_element);
  if (!result)
    throw Refusal{str_cat("a list whose length data or sizes decide holds ",
                          describe(Item(growing.list)), " and more that differs in type"),
                  "append elements of one dtype, rank and structure"};
  return *std::move(result);
}

}  // namespace hg::convert
