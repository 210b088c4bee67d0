// SPDX-License-Identifier: Apache-2.0
#include "converter/memory/identities.h"

#include <algorithm>
#include <utility>

#include "converter/memory/item_tree.h"

namespace hg::convert {

void Identities::made(const Item& item) {
  const auto mark = [&](std::shared_ptr<void> container) {
    if (depths_.emplace(container.get(), memory_.depth()).second)
      held_.push_back(std::move(container));
  };
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) mark(*list);
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) mark(*dict);
  if (const auto* object = std::get_if<std::shared_ptr<Object>>(&item.value)) mark(*object);
}

void Identities::freeze(const Item& container) {
  std::visit(
      [&](const auto& value) {
        if constexpr (requires { value.get(); }) {
          if (marks_.frozen.insert(value.get()).second) held_.push_back(value);
        }
      },
      container.value);
}

Item Identities::merged(const Item& a, const Item& b, Merge& merge) {
  const auto is_outer = [&](const Item& item) {
    return depth_of(identity_of(item)) <= memory_.depth();
  };
  const bool changes = a.is_list() || a.is_dict();
  if (changes && identity_of(a) == identity_of(b) && is_outer(a)) {
    std::vector<const Item*> inside;
    collect(a, inside);
    merge.next += inside.size();
    return a;
  }
  Item result;
  const auto* list = std::get_if<std::shared_ptr<List>>(&a.value);
  if (list && (*list)->grown) {
    result = rebuild(a, merge.leaves, merge.next);
  } else if (list) {
    const List& other = *std::get<std::shared_ptr<List>>(b.value);
    auto copy = std::make_shared<List>();
    for (size_t i = 0; i < (*list)->items.size(); ++i)
      copy->items.push_back(merged((*list)->items[i], other.items[i], merge));
    result = Item(std::move(copy));
  } else if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&a.value)) {
    const Tuple& other = *std::get<std::shared_ptr<Tuple>>(b.value);
    auto copy = std::make_shared<Tuple>();
    copy->names = (*tuple)->names;
    for (size_t i = 0; i < (*tuple)->items.size(); ++i)
      copy->items.push_back(merged((*tuple)->items[i], other.items[i], merge));
    return Item(std::move(copy));
  } else if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&a.value)) {
    const Dict& other = *std::get<std::shared_ptr<Dict>>(b.value);
    auto copy = std::make_shared<Dict>();
    for (size_t i = 0; i < (*dict)->items.size(); ++i) {
      const auto& [key, value] = (*dict)->items[i];
      copy->items.emplace_back(key, merged(value, other.items[i].second, merge));
    }
    result = Item(std::move(copy));
  } else {
    return merge.leaves[merge.next++];
  }
  made(result);
  marks_.merged_from[identity_of(result)] = {identity_of(a), identity_of(b)};
  if (is_outer(a) || is_outer(b))
    for (const Item* each : {&a, &b}) freeze(*each);
  for (const Item* each : {&a, &b})
    if (const auto [other, fresh] = merge.given.emplace(identity_of(*each), result); !fresh) {
      freeze(other->second);
      freeze(result);
    }
  return result;
}

int Identities::depth_of(const void* container) const {
  const auto found = depths_.find(container);
  return found == depths_.end() ? 0 : found->second;
}

int Identities::set_depth(const void* container, int depth) {
  return std::exchange(depths_[container], depth);
}

void Identities::Marks::add(const Marks& other) {
  frozen.insert(other.frozen.begin(), other.frozen.end());
  stored.insert(other.stored.begin(), other.stored.end());
  stale.insert(other.stale.begin(), other.stale.end());
  merged_from.insert(other.merged_from.begin(), other.merged_from.end());
}

void Identities::check_frozen(const Item& container) {
  const void* const identity = identity_of(container);
  if (marks_.stored.contains(identity))
    throw Refusal{
        "a list or dict is changed that is an element of a list whose length data or sizes "
        "decide",
        "put a copy into the list: append(list(x))"};
  if (marks_.frozen.contains(identity))
    throw Refusal{"a list or dict is changed, and data decides whether it is the same as another",
                  "make a new one"};
  if (marks_.merged_from.contains(identity)) make_stale(identity);
}

void Identities::store(const Item& element) {
  const auto each = [&](const std::vector<Item>& items) {
    for (const Item& item : items) store(item);
  };
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&element.value))
    return each((*tuple)->items);
  if (!element.is_list() && !element.is_dict()) return;
  freeze(element);
  marks_.stored.insert(identity_of(element));
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&element.value)) each((*list)->items);
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&element.value))
    for (const auto& [key, value] : (*dict)->items) store(value);
}

std::set<const void*> Identities::origins_of(const void* container,
                                             const std::vector<const void*>& known) const {
  std::set<const void*> origins;
  for (std::vector<const void*> next = {container}; !next.empty();) {
    const void* const at = next.back();
    next.pop_back();
    if (at == nullptr || !origins.insert(at).second ||
        std::find(known.begin(), known.end(), at) != known.end())
      continue;
    if (const auto found = marks_.merged_from.find(at); found != marks_.merged_from.end())
      next.insert(next.end(), found->second.begin(), found->second.end());
  }
  return origins;
}

void Identities::make_stale(const void* container) {
  const std::set<const void*> origins = origins_of(container);
  marks_.stale.insert(origins.begin(), origins.end());
  for (const auto& [other, from] : marks_.merged_from)
    for (const void* origin : origins_of(other))
      if (origins.contains(origin)) marks_.stale.insert(other);
  marks_.stale.erase(container);
}

void Identities::inherit(const Item& copy, const Item& known) {
  const void *const from = identity_of(known), *const to = identity_of(copy);
  if (marks_.frozen.contains(from)) freeze(copy);
  if (marks_.stored.contains(from)) marks_.stored.insert(to);
  if (const auto found = marks_.merged_from.find(from); found != marks_.merged_from.end())
    marks_.merged_from[to] = std::vector<const void*>(found->second);
}

void Identities::check_stale(const Item& item) const {
  if (marks_.stale.empty()) return;
  const auto each = [&](const std::vector<Item>& items) {
    for (const Item& inner : items) check_stale(inner);
  };
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) each((*list)->items);
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) each((*tuple)->items);
  if (marks_.stale.contains(identity_of(item)))
    throw Refusal{"a list or dict is used that may have been changed under another name",
                  "use a copy: list(x)"};
}

void Identities::check_change(const Item& container) {
  check_frozen(container);
  const void* const identity = identity_of(container);
  if (depth_of(identity) >= memory_.depth()) return;
  if (!container.is_object()) throw Changing{container};
  throw Refusal{
      "an attribute is changed where data or a symbolic size decide whether it happens",
      "write into a tensor that is there before, or give a size that counts the steps as a number"};
}

}  // namespace hg::convert
