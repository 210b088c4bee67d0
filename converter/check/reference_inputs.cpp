// SPDX-License-Identifier: Apache-2.0
#include "converter/check/reference_inputs.h"

#include "converter/core/input_paths.h"
#include "converter/load/torchscript/torch_module.h"

namespace hg::convert {
namespace {

namespace jit = torch::jit;
using c10::IValue;

// Builds the arguments of forward from the flat list, by the rules of import_program.
class InputBinder {
 public:
  InputBinder(std::span<const ReferenceInput> inputs, const std::vector<ScriptInput>& declared)
      : inputs_(inputs), declared_(declared) {}

  std::vector<IValue> bind(const jit::Graph& graph, const std::vector<c10::Argument>& arguments) {
    std::vector<IValue> result;
    int64_t fixed = 0;
    const auto optional = [&](size_t i) {
      return i < arguments.size() && arguments[i].default_value().has_value();
    };
    const auto constant = [&](size_t i) {
      return i - 1 < declared_.size() && declared_[i - 1].is_constant;
    };
    const auto least = [&](size_t i) {
      return optional(i) || constant(i) ? 0 : needed(*graph.inputs()[i]->type());
    };
    for (size_t i = 1; i < graph.inputs().size(); ++i) fixed += least(i);
    for (size_t i = 1; i < graph.inputs().size(); ++i) {
      const c10::TypePtr& type = graph.inputs()[i]->type();
      fixed -= least(i);
      int64_t left = static_cast<int64_t>(inputs_.size() - next_);
      int64_t spare = std::max<int64_t>(left - fixed, 0);
      const bool may_be_left_out = optional(i) || type->kind() == c10::TypeKind::OptionalType;
      if (spare > 0 && may_be_left_out && i - 1 < declared_.size() &&
          is_for_another(declared_, i - 1, inputs_[next_].name))
        spare = 0;
      if (constant(i)) {
        result.push_back(constant_value(declared_[i - 1].default_value, type));
        continue;
      }
      if (optional(i) && spare == 0) {
        result.push_back(*arguments[i].default_value());
        continue;
      }
      result.push_back(value(arguments[i].name(), type, spare));
    }
    return result;
  }

 private:
  static IValue constant_value(const Item& item, const c10::TypePtr& type) {
    if (item.is_none()) return IValue();
    if (type->kind() == c10::TypeKind::OptionalType)
      return constant_value(item, type->containedType(0));
    if (const auto* flag = std::get_if<bool>(&item.value)) return IValue(*flag);
    if (const auto* real = std::get_if<double>(&item.value)) return IValue(*real);
    if (const auto* string = std::get_if<std::string>(&item.value)) return IValue(*string);
    if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
      c10::impl::GenericList elements(type->containedType(0));
      for (const Item& each : (*list)->items)
        elements.push_back(constant_value(each, type->containedType(0)));
      return elements;
    }
    if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
      std::vector<IValue> elements;
      for (size_t i = 0; i < (*tuple)->items.size(); ++i)
        elements.push_back(constant_value((*tuple)->items[i], type->containedType(i)));
      return tuple_value(std::move(elements), type);
    }
    return IValue(std::get<Dim>(item.value).constant());
  }

  static IValue tuple_value(std::vector<IValue> elements, const c10::TypePtr& type) {
    auto tuple = type->expect<c10::TupleType>();
    return tuple->name() ? c10::ivalue::Tuple::createNamed(std::move(elements), tuple)
                         : c10::ivalue::Tuple::create(std::move(elements));
  }

  static int64_t needed(const c10::Type& type) {
    switch (type.kind()) {
      case c10::TypeKind::OptionalType:
      case c10::TypeKind::ListType:
      case c10::TypeKind::DictType:
        return 0;
      case c10::TypeKind::TupleType: {
        int64_t sum = 0;
        for (const c10::TypePtr& element : type.containedTypes()) sum += needed(*element);
        return sum;
      }
      default:
        return 1;
    }
  }

  IValue value(const std::string& name, const c10::TypePtr& type, int64_t spare) {
    const std::string given = next_ < inputs_.size() ? inputs_[next_].name : "";
    if (type->kind() == c10::TypeKind::OptionalType)
      return spare > 0 || is_path_into(given, name) ? value(name, type->containedType(0), spare)
                                                    : IValue();
    if (given != name && is_path_into(given, name)) return by_path(name, type);
    switch (type->kind()) {
      case c10::TypeKind::TupleType: {
        std::vector<IValue> elements;
        for (const c10::TypePtr& element : type->containedTypes())
          elements.push_back(value("", element, spare));
        return tuple_value(std::move(elements), type);
      }
      case c10::TypeKind::ListType: {
        c10::impl::GenericList list(type->containedType(0));
        for (size_t end = next_ + static_cast<size_t>(spare); next_ < end;)
          list.push_back(value("", type->containedType(0), 0));
        return list;
      }
      case c10::TypeKind::DictType: {
        c10::impl::GenericDict dict(type->containedType(0), type->containedType(1));
        for (size_t end = next_ + static_cast<size_t>(spare); next_ < end;) {
          std::string key = inputs_[next_].name;
          dict.insert(key, value("", type->containedType(1), 0));
        }
        return dict;
      }
      default:
        break;
    }
    if (next_ >= inputs_.size()) throw ReferenceFailure{"", {}, "too few inputs"};
    at::Tensor tensor = to_torch(inputs_[next_++].tensor);
    switch (type->kind()) {
      case c10::TypeKind::IntType:
        return tensor.item().toLong();
      case c10::TypeKind::FloatType:
        return tensor.item().toDouble();
      case c10::TypeKind::BoolType:
        return tensor.item().toBool();
      default:
        return tensor;
    }
  }

  // See Interpreter::bind_by_path.
  IValue by_path(const std::string& name, const c10::TypePtr& type) {
    const auto child = [&](const auto& key) { return str_cat(name, ".", key); };
    const auto holds_more = [&](const std::string& path) {
      return next_ < inputs_.size() && is_path_into(inputs_[next_].name, path);
    };
    if (type->kind() == c10::TypeKind::TupleType) {
      const auto& schema = type->expect<c10::TupleType>()->schema();
      std::vector<IValue> elements;
      for (size_t k = 0; k < type->containedTypes().size(); ++k)
        elements.push_back(
            value(schema ? child(schema->arguments()[k].name()) : child(static_cast<int64_t>(k)),
                  type->containedTypes()[k], 0));
      return tuple_value(std::move(elements), type);
    }
    if (type->kind() == c10::TypeKind::ListType) {
      c10::impl::GenericList list(type->containedType(0));
      for (int64_t k = 0; holds_more(child(k)); ++k)
        list.push_back(value(child(k), type->containedType(0), 0));
      return list;
    }
    if (type->kind() != c10::TypeKind::DictType)
      throw ReferenceFailure{"", {}, str_cat("'", inputs_[next_].name, "' is no part of ", name)};
    const bool by_number = type->containedType(0)->kind() == c10::TypeKind::IntType;
    c10::impl::GenericDict dict(type->containedType(0), type->containedType(1));
    while (holds_more(name)) {
      const std::string key = key_in_path(inputs_[next_].name, name);
      const IValue element = value(child(key), type->containedType(1), 0);
      if (by_number)
        dict.insert(int64_t{std::stoll(key)}, element);
      else
        dict.insert(key, element);
    }
    return dict;
  }

  std::span<const ReferenceInput> inputs_;
  const std::vector<ScriptInput>& declared_;
  size_t next_ = 0;
};

}  // namespace

std::vector<IValue> reference_arguments(const jit::Graph& graph,
                                        const std::vector<c10::Argument>& arguments,
                                        std::span<const ReferenceInput> inputs,
                                        const std::vector<ScriptInput>& declared) {
  return InputBinder(inputs, declared).bind(graph, arguments);
}

}  // namespace hg::convert
