// SPDX-License-Identifier: Apache-2.0
#include "converter/memory/item_tree.h"

#include <algorithm>

#include "converter/core/grown.h"

namespace hg::convert {

std::optional<bool> decided(const Item& item) {
  const auto scalar = scalar_of(item);
  const auto truth = scalar ? to_boolean(*scalar) : std::nullopt;
  if (!truth || !truth->top.is_constant()) return std::nullopt;
  return truth->top != Dim(0);
}

void collect(const Item& item, std::vector<const Item*>& leaves) {
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
    if ((*list)->grown)
      for (const Column& column : (*list)->grown->columns) {
        leaves.push_back(&column.all);
        if (!column.open.empty()) leaves.push_back(&column.sizes);
      }
    for (const Item& element : (*list)->items) collect(element, leaves);
  } else if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
    for (const Item& element : (*tuple)->items) collect(element, leaves);
  } else if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    for (const auto& [key, value] : (*dict)->items) collect(value, leaves);
  } else {
    leaves.push_back(&item);
  }
}

size_t count_leaves(const Item& item) {
  std::vector<const Item*> leaves;
  collect(item, leaves);
  return leaves.size();
}

Item rebuild(const Item& item, const std::vector<Item>& leaves, size_t& next) {
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
    auto copy = std::make_shared<List>();
    if ((*list)->grown) {
      Grown grown = *(*list)->grown;
      for (Column& column : grown.columns) {
        column.all = leaves[next++];
        if (!column.open.empty()) column.sizes = leaves[next++];
      }
      copy->grown = std::make_shared<const Grown>(std::move(grown));
    }
    for (const Item& element : (*list)->items)
      copy->items.push_back(rebuild(element, leaves, next));
    return Item(std::move(copy));
  }
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
    auto copy = std::make_shared<Tuple>();
    copy->names = (*tuple)->names;
    for (const Item& element : (*tuple)->items)
      copy->items.push_back(rebuild(element, leaves, next));
    return Item(std::move(copy));
  }
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    auto copy = std::make_shared<Dict>();
    for (const auto& [key, value] : (*dict)->items)
      copy->items.emplace_back(key, rebuild(value, leaves, next));
    return Item(std::move(copy));
  }
  return leaves[next++];
}

bool same_structure(const Item& a, const Item& b) {
  const auto both = [&](const std::vector<Item>& x, const std::vector<Item>& y) {
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), same_structure);
  };
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&a.value)) {
    if (!b.is_list()) return false;
    const List& other = *std::get<std::shared_ptr<List>>(b.value);
    if (!(*list)->grown || !other.grown)
      return !(*list)->grown && !other.grown && both((*list)->items, other.items);
    const auto &x = (*list)->grown->columns, &y = other.grown->columns;
    return (*list)->grown->views == other.grown->views &&
           same_structure((*list)->grown->element, other.grown->element) &&
           std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const Column& p, const Column& q) { return p.open == q.open; });
  }
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&a.value))
    return b.is_tuple() && both((*tuple)->items, std::get<std::shared_ptr<Tuple>>(b.value)->items);
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&a.value)) {
    if (!b.is_dict()) return false;
    const auto &x = (*dict)->items, &y = std::get<std::shared_ptr<Dict>>(b.value)->items;
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), [](auto& p, auto& q) {
             return equal(p.first, q.first).value_or(false) && same_structure(p.second, q.second);
           });
  }
  return !b.is_list() && !b.is_tuple() && !b.is_dict();
}

const void* identity_of(const Item& item) {
  return std::visit(
      [](const auto& value) -> const void* {
        if constexpr (requires { value.get(); })
          return value.get();
        else
          return nullptr;
      },
      item.value);
}

bool holds(const Item& item, const void* container) {
  if (identity_of(item) == container) return true;
  const auto any = [&](const std::vector<Item>& items) {
    return std::any_of(items.begin(), items.end(),
                       [&](const Item& each) { return holds(each, container); });
  };
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value))
    return any((*list)->items);
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value))
    return any((*tuple)->items);
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value))
    return std::any_of((*dict)->items.begin(), (*dict)->items.end(),
                       [&](const auto& entry) { return holds(entry.second, container); });
  return false;
}

Item snapshot(const Item& container) {
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&container.value))
    return Item(std::make_shared<Dict>(**dict));
  return Item(std::make_shared<List>(*std::get<std::shared_ptr<List>>(container.value)));
}

void restore(const Item& container, const Item& from) {
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&container.value))
    **dict = *std::get<std::shared_ptr<Dict>>(from.value);
  else
    *std::get<std::shared_ptr<List>>(container.value) =
        *std::get<std::shared_ptr<List>>(from.value);
}

bool is_numeric(const Item& item) {
  return item.is_number() || (item.is_tensor() && std::get<TensorRef>(item.value)->is_number());
}

TensorRef tensor_of(const Item& item) {
  const auto* tensor = std::get_if<TensorRef>(&item.value);
  return tensor != nullptr && !(*tensor)->is_number() && !(*tensor)->is_column() ? *tensor
                                                                                 : nullptr;
}

TensorRef column_of(const Item& item) {
  const auto* tensor = std::get_if<TensorRef>(&item.value);
  return tensor != nullptr && (*tensor)->is_column() ? *tensor : nullptr;
}

bool holds_list(const Item& item) {
  if (item.is_list()) return true;
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value))
    return std::any_of((*tuple)->items.begin(), (*tuple)->items.end(), holds_list);
  const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value);
  return dict != nullptr && std::any_of((*dict)->items.begin(), (*dict)->items.end(),
                                        [](const auto& entry) { return holds_list(entry.second); });
}

bool keeps(const Item& a, const Item& b) {
  if (a.is_tensor() && b.is_tensor())
    return std::get<TensorRef>(a.value) == std::get<TensorRef>(b.value);
  if (a.is_none() && b.is_none()) return true;
  return equal(a, b).value_or(false);
}

bool is_complex(const Item& item) {
  const auto* tensor = std::get_if<TensorRef>(&item.value);
  return tensor != nullptr && (*tensor)->is_complex();
}

namespace {

bool is_object_of(const Item& item, std::string_view type) {
  const auto* object = std::get_if<std::shared_ptr<Object>>(&item.value);
  return object != nullptr && (*object)->type == type;
}

}  // namespace

bool is_undefined(const Item& item) { return is_object_of(item, kUndefined); }
Item defined_like(const Item& item, const Item& other) {
  std::vector<const Item*> leaves;
  if (is_undefined(item)) {
    collect(other, leaves);
    size_t next = 0;
    return rebuild(other, std::vector<Item>(leaves.size(), item), next);
  }
  const auto* mine = std::get_if<std::shared_ptr<Tuple>>(&item.value);
  const auto* theirs = std::get_if<std::shared_ptr<Tuple>>(&other.value);
  if (!mine || !theirs || (*mine)->items.size() != (*theirs)->items.size()) return item;
  auto copy = std::make_shared<Tuple>(**mine);
  for (size_t i = 0; i < copy->items.size(); ++i)
    copy->items[i] = defined_like(copy->items[i], (*theirs)->items[i]);
  return Item(std::move(copy));
}

bool is_constant(const Item& item) {
  const Dim* size = std::get_if<Dim>(&item.value);
  const auto* object = std::get_if<std::shared_ptr<Object>>(&item.value);
  if (object != nullptr && !(*object)->member.empty()) return true;
  return item.is_none() || item.is_bool() || item.is_real() || item.is_string() ||
         (size != nullptr && size->is_constant());
}

bool is_unknown_text(const Item& item) { return is_object_of(item, kUnknownText); }

}  // namespace hg::convert
