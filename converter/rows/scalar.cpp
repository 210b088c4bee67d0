// SPDX-License-Identifier: Apache-2.0
#include "converter/rows/scalar.h"

#include "converter/memory/item_tree.h"
#include "converter/rows/node_call.h"

namespace hg::convert::rows {
namespace {

Real scalar_of_item(Call& call, std::string_view argument, const Item& item) {
  if (const auto known = scalar_of(item); known && known->is_constant()) return known->as_double();
  const auto* number = std::get_if<TensorRef>(&item.value);
  if (number != nullptr && (*number)->is_poisoned()) throw Poisoned();
  auto* node = dynamic_cast<NodeCall*>(&call);
  if (node == nullptr || !is_numeric(item))
    call.refuse(argument, str_cat("is ", describe(item), ", not a number"));
  return Real(number_value(node->memory(), item));
}

}  // namespace

Real scalar(Call& call, std::string_view argument) {
  const Item* item = call.find(argument);
  if (item == nullptr) call.refuse(argument, "is missing");
  return scalar_of_item(call, argument, *item);
}

Real scalar(Call& call, std::string_view argument, double fallback) {
  return call.has(argument) ? scalar(call, argument) : Real(fallback);
}

std::vector<Real> scalars(Call& call, std::string_view argument) {
  if (!call.has(argument)) return {};
  const Item& item = *call.find(argument);
  std::vector<Real> values;
  const auto add = [&](const Item& each) {
    values.push_back(scalar_of_item(call, argument, each));
  };
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value))
    for (const Item& each : (*list)->items) add(each);
  else if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value))
    for (const Item& each : (*tuple)->items) add(each);
  else
    add(item);
  return values;
}

}  // namespace hg::convert::rows
