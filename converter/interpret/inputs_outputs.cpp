// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of the script, including containers of tensors.
#include <algorithm>
#include <map>

#include "converter/containers/columns.h"
#include "converter/core/input_paths.h"
#include "converter/core/scalar.h"
#include "converter/core/type_names.h"
#include "converter/interpret/interpreter.h"

namespace hg::convert {
namespace {

// Returns the minimum number of tensors in a type. Lists and dicts get the remaining tensors.
size_t fixed_tensors(const std::string& type) {
  if (const auto elements = inside_of(type, "Tuple")) {
    size_t total = 0;
    for (const NamedType& element : split_types(*elements)) total += fixed_tensors(element.type);
    return total;
  }
  if (inside_of(type, "Optional") || inside_of(type, "List") || inside_of(type, "Dict")) return 0;
  return 1;
}

// Returns a copy, because an import changes lists, dicts and attributes in place.
Item copy_of(const Item& item, std::map<const void*, Item>& known) {
  const auto make = [&](const auto& from, const auto& fill) {
    const auto found = known.find(from.get());
    if (found != known.end()) return found->second;
    auto copy = std::make_shared<typename std::decay_t<decltype(from)>::element_type>(*from);
    const Item result(copy);
    known.emplace(from.get(), result);
    fill(*copy);
    return result;
  };
  const auto each = [&](auto& all) {
    for (Item& one : all.items) one = copy_of(one, known);
  };
  const auto seconds = [&](auto& pairs) {
    for (auto& [key, value] : pairs) value = copy_of(value, known);
  };
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) return make(*list, each);
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value))
    return make(*tuple, each);
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value))
    return make(*dict, [&](Dict& copy) { seconds(copy.items); });
  if (const auto* object = std::get_if<std::shared_ptr<Object>>(&item.value))
    return make(*object, [&](Object& copy) { seconds(copy.attributes); });
  return item;
}

// Returns the elements of a list with a guard on its length, unless data decides the length or it
// differs between sizes of the inputs.
std::optional<std::vector<Item>> known_elements(Memory& memory, const Graph& graph,
                                                const List& list) {
  if (!list.grown) return list.items;
  const Dim length = length_of(memory, *list.grown);
  const std::vector<std::string> given = graph.symbols();
  std::vector<std::string> used;
  length.collect_symbols(used);
  for (const std::string& symbol : used)
    if (std::find(given.begin(), given.end(), symbol) == given.end()) return std::nullopt;
  const std::optional<int64_t> count = usual_value(length);
  if (!count) return std::nullopt;
  return as_elements(memory, *list.grown, *count);
}

}  // namespace

Item Interpreter::input_tensor(const std::string& name, size_t& next) {
  if (next >= inputs_.size())
    throw Refusal{str_cat("the input '", name, "' has no --input"),
                  str_cat("add --input '", name, ":f32[...]'")};
  const InputSpec& spec = inputs_[next++];
  if (name.find('.') != std::string::npos && spec.name != name)
    throw Refusal{
        str_cat("the input '", name, "' has no --input; '", spec.name, "' is in its place"),
        "name the inputs in the order in which the argument holds them"};
  Value value = top_.input(spec.name.empty() ? name : spec.name, spec.type.dtype, spec.type.shape);
  if (is_complex(spec.type.dtype)) value = top_.call("view_as_real", {value});
  require_ok(top_.take_status());
  const TensorRef tensor = memory_.make(value);
  if (is_complex(spec.type.dtype)) memory_.set_complex(tensor);
  memory_.set_row_major(tensor);
  return Item(tensor);
}

Item Interpreter::bind_input(const std::string& name, const std::string& type, size_t& next,
                             size_t spare) {
  const std::string given = next < inputs_.size() ? inputs_[next].name : "";
  if (const auto inner = inside_of(type, "Optional"))
    return spare > 0 || is_path_into(given, name) ? bind_input(name, *inner, next, spare) : Item();
  if (given != name && is_path_into(given, name)) return bind_by_path(name, type, next);
  if (const auto inner = inside_of(type, "Tuple")) {
    auto tuple = std::make_shared<Tuple>();
    int64_t k = 0;
    for (const NamedType& element : split_types(*inner)) {
      if (!element.name.empty()) tuple->names.push_back(element.name);
      tuple->items.push_back(bind_input(element.name.empty() ? str_cat(name, "_", k) : element.name,
                                        element.type, next, spare));
      ++k;
    }
    return Item(std::move(tuple));
  }
  if (const auto inner = inside_of(type, "List")) {
    auto list = std::make_shared<List>();
    for (const size_t end = next + spare; next < end;)
      list->items.push_back(bind_input(str_cat(name, "_", static_cast<int64_t>(list->items.size())),
                                       *inner, next, 0));
    return Item(std::move(list));
  }
  if (const auto inner = inside_of(type, "Dict")) {
    const std::vector<NamedType> types = split_types(*inner);
    auto dict = std::make_shared<Dict>();
    for (const size_t end = next + spare; next < end;) {
      const std::string key = inputs_[next].name;
      if (key.empty())
        throw Refusal{str_cat("an --input for the dict '", name, "' has no name"),
                      "give its key: --input 'key:f32[...]'"};
      dict->items.emplace_back(Item(key), bind_input(key, types.back().type, next, 0));
    }
    return Item(std::move(dict));
  }
  Item tensor = input_tensor(name, next);
  if (type == "int" || type == "float" || type == "bool") {
    const Value value = memory_.read(std::get<TensorRef>(tensor.value));
    if (value.rank() != 0)
      throw Refusal{str_cat("the input '", name, "' is a number, so its --input must have rank 0"),
                    ""};
    return Item(memory_.make_number(value));
  }
  if (type != "Tensor" && !type.starts_with("Tensor"))
    throw Refusal{str_cat("the input '", name, "' has the type ", type, ", which is not supported"),
                  "wrap the model in a module that takes tensors"};
  return tensor;
}

// Binds a container whose elements are named by their paths: 'x.0', 'x.key', 'x.field.1'.
Item Interpreter::bind_by_path(const std::string& name, const std::string& type, size_t& next) {
  const auto child = [&](const auto& key) { return str_cat(name, ".", key); };
  const auto holds_more = [&](const std::string& path) {
    return next < inputs_.size() && is_path_into(inputs_[next].name, path);
  };
  if (const auto inner = inside_of(type, "Tuple")) {
    auto tuple = std::make_shared<Tuple>();
    int64_t k = 0;
    for (const NamedType& element : split_types(*inner)) {
      if (!element.name.empty()) tuple->names.push_back(element.name);
      tuple->items.push_back(
          bind_input(element.name.empty() ? child(k) : child(element.name), element.type, next, 0));
      ++k;
    }
    return Item(std::move(tuple));
  }
  if (const auto inner = inside_of(type, "List")) {
    auto list = std::make_shared<List>();
    for (int64_t k = 0; holds_more(child(k)); ++k)
      list->items.push_back(bind_input(child(k), *inner, next, 0));
    return Item(std::move(list));
  }
  if (const auto inner = inside_of(type, "Dict")) {
    const std::vector<NamedType> types = split_types(*inner);
    auto dict = std::make_shared<Dict>();
    while (holds_more(name)) {
      const std::string key = key_in_path(inputs_[next].name, name);
      const Item item = types.front().type == "int" ? Item(int64_t{std::stoll(key)}) : Item(key);
      dict->items.emplace_back(item, bind_input(child(key), types.back().type, next, 0));
    }
    return Item(std::move(dict));
  }
  throw Refusal{str_cat("the input '", name, "' is of type ", type, ", which '", inputs_[next].name,
                        "' is no part of"),
                ""};
}

void Interpreter::bind_inputs() {
  const auto needs = [](const ScriptInput& input) {
    return input.has_default ? 0 : fixed_tensors(input.type);
  };
  size_t fixed = 0, next = 0;
  for (const ScriptInput& input : program_.inputs) fixed += needs(input);
  std::map<const void*, Item> known;
  set(program_.body.inputs.at(0), copy_of(Item(program_.root), known));
  attributes_.emplace(known);
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    const ScriptInput& input = program_.inputs[i];
    fixed -= needs(input);
    const size_t left = inputs_.size() - std::min(next, inputs_.size());
    size_t spare = left > fixed ? left - fixed : 0;
    // A key of a dict may equal the name of another argument.
    const bool may_be_left_out = input.has_default || inside_of(input.type, "Optional").has_value();
    if (spare > 0 && may_be_left_out && is_for_another(program_.inputs, i, inputs_[next].name))
      spare = 0;
    Item item = input.is_constant || (input.has_default && spare == 0)
                    ? copy_of(input.default_value, known)
                    : bind_input(input.name, input.type, next, spare);
    if (const auto* tensor = std::get_if<ScriptTensorIndex>(&item.value))
      item = Item(memory_.of_script(tensor->index));
    identities_.made(item);
    set(program_.body.inputs.at(i + 1), std::move(item));
  }
  if (next < inputs_.size())
    throw Refusal{str_cat("there are ", static_cast<int64_t>(inputs_.size()),
                          " --input options, but the model takes ", static_cast<int64_t>(next)),
                  ""};
}

void Interpreter::add_output(const std::string& name, const Item& item) {
  const auto child = [&](size_t k) {
    return name.empty() ? std::string() : str_cat(name, "_", static_cast<int64_t>(k));
  };
  if (item.is_none()) return;
  identities_.check_stale(item);
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
    const auto elements = known_elements(memory_, top_, **list);
    if (!elements)
      throw Refusal{
          "the model returns a list whose length only data or a symbolic size decides, but a file "
          "has a fixed number of outputs",
          std::any_of(program_.body.nodes.begin(), program_.body.nodes.end(),
                      [](const ScriptNode& node) { return node.kind.starts_with("onnx::"); })
              ? "return one tensor, as from ConcatFromSequence"
              : "return torch.stack(list) or torch.cat(list), and torch.tensor(list) of numbers"};
    for (size_t k = 0; k < elements->size(); ++k) add_output(child(k), (*elements)[k]);
  } else if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
    for (size_t k = 0; k < (*tuple)->items.size(); ++k)
      add_output(k < (*tuple)->names.size() ? (*tuple)->names[k] : child(k), (*tuple)->items[k]);
  } else if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    for (const auto& [key, value] : (*dict)->items)
      add_output(name.empty() ? describe(key) : str_cat(name, "_", describe(key)), value);
  } else if (item.is_tensor() || item.is_number()) {
    Value value = item.is_tensor() ? memory_.read(std::get<TensorRef>(item.value))
                                   : number_value(memory_, item);
    if (const auto* tensor = std::get_if<TensorRef>(&item.value); tensor && (*tensor)->is_complex())
      value = top_.call("view_as_complex", {value});
    std::string unique = name;
    for (int k = 1; !name.empty(); ++k) {
      const auto& all = top_.outputs();
      if (std::none_of(all.begin(), all.end(), [&](const auto& o) { return o.first == unique; }))
        break;
      unique = str_cat(name, "_", k);
    }
    top_.output(unique, value);
  } else {
    throw Refusal{str_cat("the model returns ", describe(item), ", which is not a tensor"),
                  "return tensors only"};
  }
}

}  // namespace hg::convert
