// SPDX-License-Identifier: Apache-2.0
// Script objects and constants: reading and setting attributes, and type queries.
#include <algorithm>

#include "converter/core/grown.h"
#include "converter/core/type_names.h"
#include "converter/rows/complex_pairs.h"
#include "converter/script/script_ops.h"

namespace hg::convert {
namespace {

// Whether the item has the type with this TorchScript name.
bool is_of(const Item& item, std::string_view type) {
  if (type == "Any") return true;
  if (const auto inner = inside_of(type, "Optional")) return item.is_none() || is_of(item, *inner);
  if (const auto all = inside_of(type, "Union")) {
    const auto types = split_types(*all);
    return std::any_of(types.begin(), types.end(),
                       [&](const NamedType& each) { return is_of(item, each.type); });
  }
  if (item.is_none()) return type == "None" || type == "NoneType";
  if (const auto* tensor = std::get_if<TensorRef>(&item.value)) {
    if (!(*tensor)->is_number()) return type == "Tensor";
    const DType dtype = (*tensor)->number_dtype();
    return type == "number" || type == (is_float(dtype) ? "float" : dtype == i64 ? "int" : "bool");
  }
  if (item.is_bool()) return type == "bool";
  if (item.is_int()) return type == "int" || type == "number";
  if (item.is_real()) return type == "float" || type == "number";
  if (item.is_string()) return type == "str";
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
    const auto inner = inside_of(type, "List");
    if (inner && (*list)->grown) return is_of((*list)->grown->element, *inner);
    return type == "list" ||
           (inner && std::all_of((*list)->items.begin(), (*list)->items.end(),
                                 [&](const Item& each) { return is_of(each, *inner); }));
  }
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
    const auto inner = inside_of(type, "Tuple");
    if (!inner) return type == "tuple";
    const auto types = split_types(*inner);
    return types.size() == (*tuple)->items.size() &&
           std::equal(types.begin(), types.end(), (*tuple)->items.begin(),
                      [](const NamedType& each, const Item& one) { return is_of(one, each.type); });
  }
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    const auto inner = inside_of(type, "Dict");
    if (!inner) return false;
    const auto types = split_types(*inner);
    return types.size() == 2 &&
           std::all_of((*dict)->items.begin(), (*dict)->items.end(), [&](const auto& entry) {
             return is_of(entry.first, types[0].type) && is_of(entry.second, types[1].type);
           });
  }
  if (const auto* object = std::get_if<std::shared_ptr<Object>>(&item.value))
    return type == (*object)->type;
  return false;
}

bool isinstance_of(NodeCall& call) {
  const auto types = split_types(call.node().attribute);
  if (types.empty()) throw Refusal{"isinstance() without a type", ""};
  call.give(Item(std::any_of(types.begin(), types.end(),
                             [&](const NamedType& each) { return is_of(call.at(0), each.type); })));
  return true;
}

// Replaces tensors of the file by tensors of the import, also in containers.
void resolve(Memory& memory, Item& item) {
  if (const auto* tensor = std::get_if<ScriptTensorIndex>(&item.value)) {
    item = Item(memory.of_script(tensor->index));
  } else if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
    for (Item& element : (*list)->items) resolve(memory, element);
  } else if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
    for (Item& element : (*tuple)->items) resolve(memory, element);
  } else if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    for (auto& [key, value] : (*dict)->items) resolve(memory, value);
  }
}

void give_resolved(NodeCall& call, Item item) {
  resolve(call.memory(), item);
  call.give(std::move(item));
}

bool get_attribute(NodeCall& call) {
  const auto* object = std::get_if<std::shared_ptr<Object>>(&call.at(0).value);
  if (object == nullptr) {
    if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&call.at(0).value))
      for (size_t i = 0; i < (*tuple)->names.size(); ++i)
        if ((*tuple)->names[i] == call.node().attribute) {
          call.give((*tuple)->items[i]);
          return true;
        }
    throw Refusal{str_cat("the attribute '", call.node().attribute, "' of ", describe(call.at(0))),
                  ""};
  }
  for (const auto& [name, item] : (*object)->attributes) {
    if (name != call.node().attribute) continue;
    call.environment().note_attribute(**object, name, item, call.node().outputs.at(0));
    give_resolved(call, item);
    return true;
  }
  throw Refusal{str_cat("the module '", (*object)->path, "' (", (*object)->type,
                        ") has no attribute '", call.node().attribute, "'"),
                ""};
}

bool changed(NodeCall& call) {
  call.returns(std::vector<Item>());
  return true;
}

bool set_attribute(NodeCall& call) {
  const auto* object = std::get_if<std::shared_ptr<Object>>(&call.at(0).value);
  if (object == nullptr) throw Refusal{"an attribute of something that is no object is set", ""};
  call.identities().check_change(call.at(0));
  auto& attributes = (*object)->attributes;
  const Item& value = call.at(1);
  for (auto& [name, item] : attributes) {
    if (name != call.node().attribute) continue;
    // The next run begins with the tensor that the buffer is bound to.
    const auto* old = std::get_if<ScriptTensorIndex>(&item.value);
    const bool is_read = old != nullptr && call.memory().is_taken(old->index);
    if (old && value.is_tensor()) {
      const TensorRef state = call.memory().of_script(old->index);
      const TensorRef& tensor = std::get<TensorRef>(value.value);
      if (state == tensor) return changed(call);
      if (call.memory().type(state) == call.memory().type(tensor)) {
        call.memory().rebind(old->index, tensor);
        return changed(call);
      }
      // If every run sets the attribute before reading it, no run sees the value from the previous
      // run.
      if (is_read)
        throw Refusal{str_cat("the buffer '", name, "' changes its type from ",
                              call.memory().type(state), " to ", call.memory().type(tensor)),
                      "give the buffer the shape that a run gives it"};
    }
    if (!(*object)->path.empty() || (*object)->type.find("torch") != std::string::npos)
      call.note(str_cat("the attribute '", name, "' that a run sets is not kept for the next run"));
    item = value;
    return changed(call);
  }
  attributes.emplace_back(call.node().attribute, value);
  return changed(call);
}

bool enum_value(NodeCall& call) {
  const auto* object = std::get_if<std::shared_ptr<Object>>(&call.at(0).value);
  if (object == nullptr || (*object)->member.empty()) return false;
  call.give((*object)->attributes.at(0).second);
  return true;
}

bool enum_name(NodeCall& call) {
  const auto* object = std::get_if<std::shared_ptr<Object>>(&call.at(0).value);
  if (object == nullptr || (*object)->member.empty()) return false;
  call.give(Item((*object)->member));
  return true;
}

bool create_object(NodeCall& call) {
  auto object = std::make_shared<Object>();
  if (!call.node().output_types.empty()) object->type = call.node().output_types[0];
  call.give(Item(std::move(object)));
  return true;
}

bool constant(NodeCall& call) {
  Item value = call.node().constant;
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&value.value))
    value = Item(std::make_shared<List>(**list));  // keeps the program's own list unchanged
  if (const auto* object = std::get_if<std::shared_ptr<Object>>(&value.value);
      object && (*object)->type == kComplexNumber) {
    call.give(complex_number(call, **object));
    return true;
  }
  give_resolved(call, value);
  return true;
}

bool uninitialized(NodeCall& call) {
  call.give(Item(std::make_shared<Object>(Object{std::string(kUndefined), "", {}})));
  return true;
}

constexpr Row kRows[] = {
    {.op = "prim::Constant", .script = {constant}},
    {.op = "prim::GetAttr", .script = {get_attribute}},
    {.op = "prim::SetAttr", .script = {set_attribute}, .passes_grown = true},
    {.op = "prim::CreateObject", .script = {create_object}},
    {.op = "prim::EnumValue", .script = {enum_value}},
    {.op = "prim::EnumName", .script = {enum_name}},
    {.op = "prim::isinstance", .script = {isinstance_of}, .passes_grown = true},
    {.op = "prim::Uninitialized", .script = {uninitialized}},
};

}  // namespace

std::span<const Row> object_rows() { return kRows; }

}  // namespace hg::convert
