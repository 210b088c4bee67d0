// SPDX-License-Identifier: Apache-2.0
#include "converter/memory/item_values.h"

#include <algorithm>
#include <cstdio>

#include "converter/core/grown.h"
#include "converter/memory/item_tree.h"

namespace hg::convert {

std::optional<Scalar> scalar_of(const Item& item) {
  if (const auto* b = std::get_if<bool>(&item.value)) return Scalar::of(*b);
  if (const auto* i = std::get_if<Dim>(&item.value)) return Scalar::of(*i);
  if (const auto* d = std::get_if<double>(&item.value)) return Scalar::of(*d);
  if (const auto* t = std::get_if<TensorRef>(&item.value)) {
    if ((*t)->is_poisoned()) throw Poisoned();
    if ((*t)->known() && (*t)->known()->elements.size() == 1) return (*t)->known()->elements[0];
  }
  return std::nullopt;
}

Item item_of(Memory& memory, const Scalar& scalar) {
  switch (scalar.kind) {
    case Scalar::Kind::boolean:
      if (scalar.top.is_constant()) return Item(scalar.top != Dim(0));
      return Item(memory.make_known({boolean, 0, {scalar}}, true));
    case Scalar::Kind::integer:
      return Item(scalar.top);
    case Scalar::Kind::real:
      return Item(scalar.number);
    case Scalar::Kind::ratio:
      break;
  }
  return Item(memory.make_known({f64, 0, {scalar}}, true));
}

Value number_value(Memory& memory, const Item& item) {
  if (const auto* tensor = std::get_if<TensorRef>(&item.value)) return memory.read(*tensor);
  const auto scalar = scalar_of(item);
  if (!scalar) throw Refusal{str_cat("a number is needed, not ", describe(item)), ""};
  const DType dtype = scalar->kind == Scalar::Kind::boolean   ? boolean
                      : scalar->kind == Scalar::Kind::integer ? i64
                                                              : f64;
  return memory.materialize({dtype, 0, {*scalar}});
}

std::optional<bool> equal(const Item& a, const Item& b) {
  const auto x = scalar_of(a), y = scalar_of(b);
  if (x && y) return compare("eq", *x, *y);
  if (a.is_tensor() || b.is_tensor()) return std::nullopt;
  const auto elements = [](const Item& item) -> const std::vector<Item>* {
    if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) return &(*list)->items;
    if (const auto* t = std::get_if<std::shared_ptr<Tuple>>(&item.value)) return &(*t)->items;
    return nullptr;
  };
  if (a.is_list() == b.is_list())
    if (const auto* p = elements(a), *q = elements(b); p && q) {
      if (p->size() != q->size()) return false;
      bool known = true;
      for (size_t i = 0; i < p->size(); ++i) {
        const auto same_element = equal((*p)[i], (*q)[i]);
        if (!same_element)
          known = false;
        else if (!*same_element)
          return false;
      }
      return known ? std::optional(true) : std::nullopt;
    }
  if (is_unknown_text(a) || is_unknown_text(b)) return std::nullopt;
  if (a.value.index() != b.value.index()) return false;
  if (a.is_none()) return true;
  if (const auto* s = std::get_if<std::string>(&a.value))
    return *s == std::get<std::string>(b.value);
  if (const auto* o = std::get_if<std::shared_ptr<Object>>(&a.value)) {
    const auto& other = std::get<std::shared_ptr<Object>>(b.value);
    return *o == other ||
           (!(*o)->member.empty() && (*o)->type == other->type && (*o)->member == other->member);
  }
  if (const auto* p = std::get_if<std::shared_ptr<Dict>>(&a.value)) {
    const auto& q = std::get<std::shared_ptr<Dict>>(b.value);
    if ((*p)->items.size() != q->items.size()) return false;
    for (const auto& entry : (*p)->items) {
      bool unsure = false;
      const auto at = std::find_if(q->items.begin(), q->items.end(), [&](const auto& other) {
        const auto same_key = equal(entry.first, other.first);
        unsure |= !same_key;
        return same_key.value_or(false);
      });
      if (unsure) return std::nullopt;
      if (at == q->items.end()) return false;
      const auto same_value = equal(entry.second, at->second);
      if (!same_value || !*same_value) return same_value;
    }
    return true;
  }
  return std::nullopt;
}

std::string describe(const Item& item) {
  const auto all = [](const std::vector<Item>& items, char open, char close) {
    std::string out(1, open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out.append(", ");
      out.append(items[i].is_string() ? str_cat("'", describe(items[i]), "'") : describe(items[i]));
    }
    out.push_back(close);
    return out;
  };
  if (item.is_none()) return "None";
  if (const auto* b = std::get_if<bool>(&item.value)) return *b ? "True" : "False";
  if (const auto* i = std::get_if<Dim>(&item.value)) return str_cat(*i);
  if (const auto* d = std::get_if<double>(&item.value)) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.17g", *d);
    return buffer;
  }
  if (const auto* s = std::get_if<std::string>(&item.value)) return *s;
  if (const auto* l = std::get_if<std::shared_ptr<List>>(&item.value))
    return (*l)->grown ? "a list of open length" : all((*l)->items, '[', ']');
  if (const auto* t = std::get_if<std::shared_ptr<Tuple>>(&item.value))
    return all((*t)->items, '(', ')');
  if (const auto* d = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    std::string out = "{";
    for (const auto& [key, value] : (*d)->items)
      out.append(out.size() > 1 ? ", " : "")
          .append(describe(key))
          .append(": ")
          .append(describe(value));
    return out + "}";
  }
  if (const auto* o = std::get_if<std::shared_ptr<Object>>(&item.value))
    return (*o)->member.empty() ? str_cat("a ", (*o)->type)
                                : str_cat((*o)->type, ".", (*o)->member);
  return "a tensor";
}

}  // namespace hg::convert
