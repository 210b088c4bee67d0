// SPDX-License-Identifier: Apache-2.0
// Dicts of the script.
#include "converter/containers/container_ops.h"
#include "converter/containers/containers.h"

namespace hg::convert {
namespace {

bool parts_of_dict(NodeCall& call) {  // keys values items
  if (!first_is_dict(call)) return false;
  Items parts;
  for (const auto& [key, value] : call.dict_at(0)->items) {
    if (call.kind() == "aten::keys")
      parts.push_back(key);
    else if (call.kind() == "aten::values")
      parts.push_back(value);
    else {
      auto pair = std::make_shared<Tuple>();
      pair->items = {key, value};
      parts.emplace_back(std::move(pair));
    }
  }
  call.give(list_of(std::move(parts)));
  return true;
}

bool get_or(NodeCall& call) {  // dict.get(key, default) and dict.setdefault
  if (!first_is_dict(call)) return false;
  const auto dict = call.dict_at(0);
  const Item fallback = call.argument_count() > 2 ? call.at(2) : Item();
  const size_t i = find_key(*dict, call.at(1));
  if (i < dict->items.size()) {
    call.give(dict->items[i].second);
    return true;
  }
  if (call.kind() == "aten::setdefault") {
    call.identities().check_change(call.at(0));
    dict->items.emplace_back(call.at(1), fallback);
  }
  call.give(fallback);
  return true;
}

bool update(NodeCall& call) {
  if (!first_is_dict(call)) return false;
  const auto dict = call.dict_at(0);
  call.identities().check_change(call.at(0));
  const auto other = call.dict_at(1);
  for (const auto& [key, value] : std::vector(other->items)) put(*dict, key, value);
  call.returns(Items(call.node().outputs.size()));
  return true;
}

}  // namespace

namespace dicts {

bool empty(NodeCall& call) {
  if (call.argument_count() > 0) return false;
  call.give(Item(std::make_shared<Dict>()));
  return true;
}

}  // namespace dicts

namespace {

constexpr Row kRows[] = {
    {.op = "aten::keys", .script = {parts_of_dict}},
    {.op = "aten::values", .script = {parts_of_dict}},
    {.op = "aten::items", .script = {parts_of_dict}},
    {.op = "aten::get", .script = {get_or}},
    {.op = "aten::setdefault", .script = {get_or}},
    {.op = "aten::update", .script = {update}},
};

}  // namespace

std::span<const Row> dict_rows() { return kRows; }

}  // namespace hg::convert
